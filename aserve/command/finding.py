"""Looks for apps in a folder, when none was named.

Owns:     find_apps; the text about what was found, and how to serve it.
Thread:   the main thread; it reads files, and imports nothing.
Not here: importing an app (lifecycle/loading.py).

It looks in the usual files of frameworks and tutorials. The result is a proposal: aserve runs no code that the user has not named.
"""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterator

from ..core.named_tuple import NamedTuple
from ..lifecycle.loading import DEFAULT_NAMES, FACTORY_NAMES

MODULES = ("wsgi", "app", "application", "main", "server", "run")
TESTS = ("test_", "conftest")  # a name `app` there is for tests
# Classes of apps that are no WSGI apps.
ASGI = ("FastAPI", "Starlette", "Quart", "Litestar", "Sanic", "BlackSheep")
MAX_FILE_BYTES = 1 << 20  # Guess: no module that makes an app is larger
MAX_FOLDERS = 100


class Found(NamedTuple):
    """One app: its file, its kind, and its spec for the command; "": aserve cannot serve it."""

    file: str
    what: str
    spec: str


def describe_found(folder: str, command: str) -> str:
    """Return lines about the apps found, and how to serve them; "" if there are none."""
    found = find_apps(folder)
    if not found:
        return ""
    width = max(len(one.file) for one in found)
    lines = [f"aserve: error: no APP was named; in {folder} there is:"]
    lines += [f"  {one.file:{width}}  {one.what}" for one in found]
    specs = [one.spec for one in found if one.spec]
    if specs:
        lines += ["To serve it:" if len(specs) == 1 else "To serve one of them:"]
        lines += [f"  {command} {shlex.quote(spec)}" for spec in dict.fromkeys(specs)]
        lines += ["With --reload while you work on it; with --check to see whether it can be imported."]
        lines += [f"To write its settings and a unit of systemd: {command} init"]
    return "\n".join([*lines, ""])


def find_apps(folder: str) -> list[Found]:
    """Return the apps that a folder seems to have, the likeliest first."""
    found = list(_find_django(folder))
    for name in MODULES:
        found += _find_in(folder, f"{name}.py", name)
    names = sorted(os.listdir(folder))[:MAX_FOLDERS]
    for package in filter(str.isidentifier, names):
        for module, file in ((package, "__init__.py"), (f"{package}.wsgi", "wsgi.py"), (f"{package}.app", "app.py")):
            found += _find_in(folder, os.path.join(package, file), module)
    if not found:  # perhaps a first app, in a file of any name
        for module in [name[:-3] for name in names if name.endswith(".py") and not name.startswith(TESTS)]:
            found += _find_in(folder, f"{module}.py", module) if module.isidentifier() else []
    by_spec: dict[str, Found] = {}
    for one in found:
        by_spec.setdefault(one.spec or one.file, one)
    return list(by_spec.values())


def _find_django(folder: str) -> Iterator[Found]:
    """Yield Django's app, which the settings name that manage.py names."""
    tree = _parse(os.path.join(folder, "manage.py"))
    for node in ast.walk(tree) if tree is not None else ():
        arguments = node.args if isinstance(node, ast.Call) else []
        words = [word.value for word in arguments if isinstance(word, ast.Constant)]
        if words[:1] != ["DJANGO_SETTINGS_MODULE"] or not isinstance(words[-1], str):
            continue
        settings = words[-1]
        named = _named_by(folder, settings) or f"{settings.partition('.')[0]}.wsgi.application"
        module, _, name = named.rpartition(".")
        if _file_of(folder, module):
            yield Found(
                "manage.py", f"Django, with the settings {settings}, whose WSGI app is {named}", f"{module}:{name}"
            )
            return


def _named_by(folder: str, settings: str) -> str:
    """Return WSGI_APPLICATION of the settings, "" if it is not there as a literal."""
    tree = _parse(_file_of(folder, settings))
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if names == ["WSGI_APPLICATION"] and isinstance(node.value.value, str):
                return node.value.value
    return ""


def _file_of(folder: str, module: str) -> str:
    base = os.path.join(folder, *module.split("."))
    return next((path for path in (base + ".py", os.path.join(base, "__init__.py")) if os.path.isfile(path)), "")


def _find_in(folder: str, file: str, module: str) -> list[Found]:
    """Return the app that a file defines, or else its factory."""
    tree = _parse(os.path.join(folder, file))
    defined = dict(_definitions(tree)) if tree is not None else {}
    for name in DEFAULT_NAMES:
        if name in defined:
            node = defined[name]
            maker = _maker_of(node)
            if maker in ASGI:
                return [Found(file, f"{name} = {maker}(...): an ASGI app, and aserve serves WSGI", "")]
            if isinstance(node, ast.AsyncFunctionDef):
                return []
            what = f"{name} = {maker}(...)" if maker else name
            return [Found(file, what, f"{module}:{name}")]
    for name in FACTORY_NAMES:
        factory = defined.get(name)
        if isinstance(factory, ast.FunctionDef):
            missing = len(factory.args.args) - len(factory.args.defaults)
            more = f", which takes {missing} argument{'s' * (missing > 1)}: write literals" if missing else ""
            return [Found(file, f"{name}(), a factory{more}", f"{module}:{name}({', '.join(['...'] * missing)})")]
    return []


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node


def _maker_of(node: ast.stmt) -> str:
    """Return the name of the class in `app = Flask(__name__)`, "" for other statements."""
    value = getattr(node, "value", None)
    if not isinstance(value, ast.Call):
        return ""
    return getattr(value.func, "id", "") or getattr(value.func, "attr", "")


def _parse(path: str) -> ast.Module | None:
    """Return the tree of a source file; None: there is no such file, or it is no Python."""
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read(MAX_FILE_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
