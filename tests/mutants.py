"""Are the tests of a pure module good for anything? python tests/mutants.py [NUMBER...]: `make mutants`; it takes minutes.

Each mutant is processes/fleet/decide.py with one change: a comparison turned round, a condition negated, `and` for `or`, a statement left out, the other
way of a number. A test must fail with each, or what was changed has no purpose that a test knows. Those that survive are printed, and the exit status
is 1.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import io
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import hypothesis.stateful  # noqa: F401 (that each child has it already, as what else the tests import)
import pytest  # noqa: F401
from harness import examples
from harness.interpreter import IS_PYPY  # noqa: F401
from harness.modules import PACKAGE
from hypothesis import Phase, settings

MODULE = "aserve.processes.fleet.decide"
PATH = PACKAGE / "processes/fleet/decide.py"
TESTS = tuple(f"processes.fleet.test_decide{of}" for of in ("", "_molds", "_limits", "_silent", "_histories"))

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


def functions_of(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions of a module, in which all of its decisions are."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def changes_of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node may become: its place is taken by the second."""
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
    """Yield each node below this one, with where it hangs: its parent, the field, and its number in a list."""
    for name, value in ast.iter_fields(node):
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list"):
                yield node, name, number, child
                yield from places_of(child)


def mutants(tree: ast.Module) -> Iterator[str]:
    """Make of a tree one mutant after another, in the order of the file; yield what has been changed while it is so."""
    for function in functions_of(tree):
        for parent, name, number, child in list(places_of(function)):
            for what, changed in changes_of(child):
                before = getattr(parent, name)
                setattr(parent, name, changed if number is None else [*before[:number], changed, *before[number + 1 :]])
                text = ast.unparse(child).split("\n")[0].strip()
                yield f"{function.name}: {what}: {text}"
                setattr(parent, name, before)


def is_caught(tree: ast.Module) -> bool:
    """Whether a test fails with this mutant; they run in a process of their own."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = run_tests(tree)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def run_tests(tree: ast.Module) -> int:
    """Run the tests with this module, without pytest, which would take longer than they do; return the exit status."""
    module = types.ModuleType(MODULE)
    module.__package__, module.__file__ = MODULE.rpartition(".")[0], str(PATH)
    sys.modules[MODULE] = module
    exec(compile(ast.fix_missing_locations(tree), str(PATH), "exec"), module.__dict__)
    examples.EXAMPLES = settings(examples.EXAMPLES, phases=[Phase.generate])  # the first that fails is enough
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            for name in TESTS:
                for test in [each for each in vars(importlib.import_module(name)).items() if each[0][:5] == "test_"]:
                    run_test(test[1])
        except BaseException:  # whatever it is
            return 1
    return 0


def run_test(test: Any) -> None:
    """Run one test, with each row of its parameters; those of one name are all that there are."""
    (mark,) = [each for each in getattr(test, "pytestmark", []) if each.name == "parametrize"] or [None]
    for value in mark.args[1] if mark is not None else [None]:
        test(**({mark.args[0]: value} if mark is not None else {}))


def main(arguments: list[str]) -> int:
    """Try them; print those that survive, and how many were caught."""
    tree, wanted, caught = ast.parse(PATH.read_text()), {int(each) for each in arguments}, []
    assert is_caught(ast.Module([], [])) and not is_caught(tree), "the tests do not pass as it is"
    for number, what in enumerate(mutants(tree)):
        if not wanted or number in wanted:
            caught.append(is_caught(tree))
            if not caught[-1]:
                print(f"{number:4d}  survives  {what}", flush=True)
    print(f"{len(caught)} mutants, {sum(caught)} caught")
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
