"""The modules of aserve and their imports, read from source: for test_layout.py, and for measures.py."""

from __future__ import annotations

import ast
import functools
import pathlib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "aserve"


class Import(NamedTuple):
    """One import statement's target; `name` is dotted, and relative to aserve if `is_ours`."""

    name: str
    is_ours: bool
    is_inside: bool  # a function
    is_typing: bool  # below `if TYPE_CHECKING`
    line: int


def module_name(path: pathlib.Path) -> str:
    """Return a source file's dotted name below aserve: "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(name: str) -> str:
    """Return a module's room, at the top of the package."""
    return name.partition(".")[0]


@functools.cache
def tree_of(name: str) -> ast.Module:
    """Return a module's syntax; a rule is one test for all modules, as hundreds of cases took longer than the question."""
    return ast.parse(MODULES[name].read_text())


@functools.cache
def imports_of(name: str) -> list[Import]:
    """Return every import of a module, also within functions and for types."""
    path = MODULES[name]
    parts = ["aserve", *filter(None, name.split("."))]
    folder = parts if path.name == "__init__.py" else parts[:-1]
    found: list[Import] = []

    def visit(node: ast.AST, is_inside: bool, is_typing: bool) -> None:
        for target in targets_of(node, folder):
            is_ours = target.split(".")[0] == "aserve"
            shown = target[len("aserve") :].lstrip(".") if is_ours else target
            found.append(Import(shown, is_ours, is_inside, is_typing, node.lineno))
        is_inside |= isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        is_typing |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.iter_child_nodes(node):
            visit(child, is_inside, is_typing)

    visit(tree_of(name), False, False)
    return found


def targets_of(node: ast.AST, folder: list[str]) -> list[str]:
    """Return the absolute names of the modules imported by one statement."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = folder[: len(folder) - node.level + 1] if node.level else []
    base = ".".join([*above, *filter(None, [node.module])])
    # `from . import http1` imports a module, `from .config import Config` does not.
    return [f"{base}.{alias.name}" if is_ours_below(base, alias.name) else base for alias in node.names]


def is_ours_below(base: str, name: str) -> bool:
    """Whether aserve's package `base` has a module of this name."""
    below = f"{base}.{name}"[len("aserve.") :]
    return base.split(".")[0] == "aserve" and (below in MODULES or below in ("_cparsers", "_native"))


@functools.cache
def all_imports() -> list[tuple[str, Import]]:
    """Return every import of every module; not at import, where each process of pytest would read the package."""
    return [(name, found) for name in MODULES for found in imports_of(name)]
