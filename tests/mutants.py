"""Do the tests of a module notice a change of the module? python tests/mutants.py [MODULE] [NUMBER...]: `make mutants`; minutes.

A mutant is a module with one change: a comparison turned round, a condition negated, `and` for `or`, a statement left out, another number. A test of
the module must fail with each mutant, or no test knows the purpose of the changed code. Surviving mutants are printed, and the exit status is 1.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import io
import os
import sys
import types
from collections.abc import Iterator, Sequence

import hypothesis.stateful  # noqa: F401 (no child has to import hypothesis and pytest)
import pytest
from harness import examples
from harness.modules import PACKAGE, ROOT
from hypothesis import Phase, settings

# A module of each room, and the tests beside the mirrored tests.
MODULES = {
    "core/growth": "", "settings/crontab": "", "rpc/packets": "rpc/test_*.py", "wsgi/head": "", "protocols/chunked": "", "proxies/forwarded": "",
    "connections/data_rate": "", "features/http2/turns": "features/http2/test_session*.py", "processes/fleet/decide": "",
    "compat/routes/conditions": "",
}  # fmt: skip
# Of each module, spread over the whole file; numbers name further mutants.
MOST = 40

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


def functions_of(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions of a module: all decisions are there."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def changes_of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the replacements of a node, each with words."""
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[number] = TURNED[type(operator)]()
            yield "turned", other
    elif isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", other
        for value in node.values:
            yield f"only {ast.unparse(value)}", value
    elif isinstance(node, (ast.If, ast.IfExp)):
        other = copy.deepcopy(node)
        other.test = ast.UnaryOp(ast.Not(), other.test)
        yield "negated", other
    elif isinstance(node, ast.comprehension) and node.ifs:
        other = copy.deepcopy(node)
        other.ifs = []
        yield "without a condition", other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not negated", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        yield "other", ast.Constant(not node.value if type(node.value) is bool else node.value + 1)
    elif isinstance(node, (ast.Assign, ast.Return, ast.Expr, ast.AugAssign, ast.Delete)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_needed = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple))
        if not is_text and not (is_needed and "self." not in ast.unparse(node.targets[0])):
            yield "left out", ast.Pass()


def places_of(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield each node below this node, with the place: the parent, the field, and the number in a list."""
    for name, value in ast.iter_fields(node):
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list"):
                yield node, name, number, child
                yield from places_of(child)


def mutants(tree: ast.Module) -> Iterator[str]:
    """Make mutants of a tree in turn, in the order of the file; yield the words of each change meanwhile."""
    for function in functions_of(tree):
        for parent, name, number, child in list(places_of(function)):
            for what, changed in changes_of(child):
                before = getattr(parent, name)
                setattr(parent, name, changed if number is None else [*before[:number], changed, *before[number + 1 :]])
                text = ast.unparse(child).split("\n")[0].strip()
                yield f"{function.name}: {what}: {text}"
                setattr(parent, name, before)


class Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a tree in place of a module."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self._name, self._path, self._tree = f"aserve.{module.replace('/', '.')}", PACKAGE / f"{module}.py", tree

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self._path, loader=self) if name == self._name else None

    def create_module(self, spec: object) -> None:
        """See Loader: the usual one."""

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(ast.fix_missing_locations(self._tree), str(self._path), "exec"), module.__dict__)


def is_caught(module: str, tree: ast.Module) -> bool:
    """Whether a test fails with this mutant; the tests run in a process of their own."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = run_tests(module, tree)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def run_tests(module: str, tree: ast.Module) -> int:
    """Run the tests of a module with this tree; return the exit status."""
    sys.meta_path.insert(0, Mutant(module, tree))
    examples.EXAMPLES = settings(examples.EXAMPLES, phases=[Phase.generate])  # the first failure is enough
    folder, _, name = module.rpartition("/")
    patterns = [f"{folder}/test_{name}*.py", *filter(None, [MODULES.get(module)])]
    files = [str(path) for pattern in patterns for path in (ROOT / "tests").glob(pattern)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return pytest.main(["-qx", "--assert=plain", "-p", "no:cacheprovider", "--timeout=30", *files])


def survivors(module: str, wanted: Sequence[int]) -> int:
    """Try mutants of a module; print the survivors, and return how many there are."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    assert is_caught(module, ast.Module([], [])) and not is_caught(module, tree), f"the tests of {module} fail anyway"
    step, tried, left = max(-(-sum(1 for _ in mutants(tree)) // MOST), 1), 0, 0
    for number, what in enumerate(mutants(tree)):
        if number in wanted or (not wanted and number % step == 0):
            tried += 1
            if not is_caught(module, tree):
                left += 1
                print(f"{number:4d}  survives  {module}: {what}", flush=True)
    print(f"{module}: {tried} mutants, {tried - left} caught", flush=True)
    return left


def main(arguments: list[str]) -> int:
    """Try the named modules, or all."""
    numbers = [int(each) for each in arguments if each.isdigit()]
    named = [each for each in arguments if not each.isdigit()]
    return 1 if sum([survivors(module, numbers) for module in named or MODULES]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
