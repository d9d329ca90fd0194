"""Proofs that a hook of gunicorn's configuration decides nothing: read from its source.

Owns:     only_logs, for pre_request; only_calls_factory, for ssl_context.
Thread:   the main thread.
Spec:     gunicorn 27.0.1: gunicorn/http/message.py (Request), gunicorn/workers/base.py (Worker), gunicorn/glogging.py.
Not here: what follows from it (gunicorn_guards.py).

What is not proved counts as a guard, so the forms that are known are few. The source is read, and not the bytecode: that of CPython 3.9 to
3.15 and of PyPy differs. It is the function's own if its file compiles to that code.
"""

from __future__ import annotations

import ast
import datetime
import logging
import os
import string
import time
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Union

Function = Union[ast.FunctionDef, ast.Lambda]

LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
# Attributes that each worker and each request of gunicorn has.
OF_WORKER = ("pid", "ppid", "age", "nr", "alive", "timeout")
OF_REQUEST = ("method", "uri", "path", "query", "fragment", "version", "headers", "scheme", "remote_addr", "peer_addr")
# Those that are text, or a list of pairs of texts.
TEXTS, PAIRS = ("method", "uri", "path", "query", "scheme"), "headers"
NOTED = "start_time"  # what hooks set on a request, to log in post_request; gunicorn reads no such attribute
# Functions without arguments that cannot fail.
CLOCKS = (time.time, time.monotonic, time.perf_counter, time.process_time, datetime.datetime.now, os.getpid)
PLAIN = (str, int, float, bool, type(None))
CALLABLES = (BuiltinFunctionType, FunctionType, MethodType)  # they compare by what they are
OWNERS = (time, datetime, datetime.datetime, logging, os)
BUILTINS = {"str": str, "repr": repr, "print": print, "len": len, "dict": dict}
_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime"))  # keys that `extra` may not have


def only_logs(function: object) -> bool:
    """Whether a pre_request provably does nothing but write lines and note the time: it raises nothing and changes no request."""
    node = _source_of(function)
    if node is None:
        return False
    assert isinstance(function, FunctionType)
    proof = _Proof(function, node)
    if isinstance(node, ast.Lambda):
        return proof.is_value(node.body)
    return all(map(proof.is_statement, node.body))


def only_calls_factory(function: object) -> bool:
    """Whether an ssl_context provably returns gunicorn's own context: its body is `return default_ssl_context_factory()`."""
    node = _source_of(function)
    if node is None:
        return False
    body = [node.body] if isinstance(node, ast.Lambda) else [each for each in node.body if not _is_docstring(each)]
    if len(body) != 1:
        return False
    call = body[0].value if isinstance(body[0], ast.Return) else body[0]
    return (
        isinstance(call, ast.Call)
        and not call.args
        and not call.keywords
        and isinstance(call.func, ast.Name)
        and call.func.id == node.args.args[1].arg
    )


def _source_of(function: object) -> Function | None:
    """Return the source of a plain function of two arguments; None: there is none, or it is not this function's."""
    if not isinstance(function, FunctionType) or function.__closure__ or function.__defaults__:
        return None
    code = function.__code__
    try:
        with open(code.co_filename, "rb") as file:
            tree = ast.parse(file.read())
        whole = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None
    if _parts_of(code) not in map(_parts_of, _codes_in(whole)):
        return None  # the file has changed since, or another one has its place
    found = [node for node in ast.walk(tree) if _is_at(node, code)]
    if len(found) != 1:
        return None
    node = found[0]
    assert isinstance(node, (ast.FunctionDef, ast.Lambda))
    own = node.args
    is_plain = len(own.args) == 2 and not (own.posonlyargs or own.kwonlyargs or own.vararg or own.kwarg)
    return node if is_plain else None


def _is_at(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.lineno == code.co_firstlineno and node.name == code.co_name and not node.decorator_list
    return isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and code.co_name == "<lambda>"


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code, and all within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes_in(const)


def _parts_of(code: CodeType) -> tuple[object, ...]:
    constants = [(type(const), const) for const in code.co_consts if not isinstance(const, CodeType)]
    return code.co_name, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames, constants


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _stored_in(*nodes: ast.AST) -> set[str]:
    """Return the names that are assigned here."""
    names = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}


class _Proof:
    """What is known about the names of one function."""

    def __init__(self, function: FunctionType, node: Function) -> None:
        self._globals = function.__globals__
        self._worker, self._request = (each.arg for each in node.args.args)
        self._locals = _stored_in(node)
        self._bound: set[str] = set()  # locals that have a value here
        self._loggers: set[str] = set()  # locals that are loggers

    # Statements

    def is_statement(self, node: ast.stmt) -> bool:
        """Whether a statement only logs."""
        if _is_docstring(node):
            return True
        if isinstance(node, ast.Expr):
            return self.is_value(node.value)
        if isinstance(node, ast.Return):
            return node.value is None or self.is_value(node.value)
        if isinstance(node, ast.If):
            return self.is_value(node.test) and self._are_alone(node.body) and self._are_alone(node.orelse)
        return isinstance(node, ast.Assign) and len(node.targets) == 1 and self._assigns(node.targets[0], node.value)

    def _are_alone(self, body: list[ast.stmt]) -> bool:
        """Whether statements that may not run only log; what they assign is not known behind them."""
        bound, loggers = set(self._bound), set(self._loggers)
        are_all = all(map(self.is_statement, body))
        self._bound, self._loggers = bound, loggers - _stored_in(*body)
        return are_all

    def _assigns(self, target: ast.expr, value: ast.expr) -> bool:
        if isinstance(target, ast.Attribute):
            is_noted = target.attr == NOTED and self._is_name(target.value, self._request)
            return is_noted and self.is_value(value)
        if not isinstance(target, ast.Name) or target.id in (self._worker, self._request):
            return False
        is_logger = self._is_logger(value)
        if not is_logger and not self.is_value(value):
            return False
        self._bound.add(target.id)
        (self._loggers.add if is_logger else self._loggers.discard)(target.id)
        return True

    # Expressions

    def is_value(self, node: ast.expr | None) -> bool:
        """Whether an expression raises nothing, and does nothing but log."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(map(self.is_value, node.elts))
        if isinstance(node, ast.Name):
            return self._is_known(node.id)
        if isinstance(node, ast.Attribute):
            return self._is_attribute(node)
        if isinstance(node, ast.JoinedStr):
            return all(map(self.is_value, node.values))
        if isinstance(node, ast.FormattedValue):
            return node.format_spec is None and self.is_value(node.value)
        if isinstance(node, ast.BoolOp):
            return all(map(self.is_value, node.values))
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not) and self.is_value(node.operand)
        if isinstance(node, ast.IfExp):
            return self.is_value(node.test) and self.is_value(node.body) and self.is_value(node.orelse)
        if isinstance(node, ast.Compare):
            return self._is_comparison(node)
        if isinstance(node, ast.BinOp):
            return self._is_filled(node)
        if isinstance(node, ast.Subscript):
            return self._is_text(node.value) and _is_slice(node.slice)
        return isinstance(node, ast.Call) and self._is_call(node)

    def _is_known(self, name: str) -> bool:
        """Whether a name has a value that can be shown: a local, or a plain global."""
        if name in self._locals or name in (self._worker, self._request):
            return name in self._bound or name in (self._worker, self._request)
        return type(self._globals.get(name, self)) in PLAIN

    def _is_name(self, node: ast.expr, name: str) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    def _is_attribute(self, node: ast.Attribute) -> bool:
        of_request = self._is_name(node.value, self._request) and node.attr in OF_REQUEST
        return of_request or (self._is_name(node.value, self._worker) and node.attr in OF_WORKER)

    def _is_comparison(self, node: ast.Compare) -> bool:
        operators, others = node.ops, node.comparators
        if all(isinstance(each, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)) for each in operators):
            return self.is_value(node.left) and all(map(self.is_value, others))
        if len(operators) != 1 or not isinstance(operators[0], (ast.In, ast.NotIn)):
            return False
        if isinstance(others[0], (ast.Tuple, ast.List)):
            return self.is_value(node.left) and self.is_value(others[0])
        is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        return is_text and self._is_text(others[0])

    def _is_text(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and self._is_name(node.value, self._request) and node.attr in TEXTS

    def _is_filled(self, node: ast.BinOp) -> bool:
        """Whether this is a text with as many %s as there are values behind it."""
        template = node.left.value if isinstance(node.left, ast.Constant) else None
        if not isinstance(node.op, ast.Mod) or not isinstance(template, str) or not isinstance(node.right, ast.Tuple):
            return False
        rest = template.replace("%s", "").replace("%r", "")
        count = template.count("%s") + template.count("%r")
        return "%" not in rest and count == len(node.right.elts) and self.is_value(node.right)

    # Calls

    def _is_call(self, node: ast.Call) -> bool:
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            return False
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in LEVELS and self._is_logger(called.value):
            return bool(node.args) and all(map(self.is_value, node.args)) and all(map(self._is_keyword, node.keywords))
        if node.keywords:
            return False
        if isinstance(called, ast.Attribute) and called.attr == "format" and isinstance(called.value, ast.Constant):
            return _fits(called.value.value, len(node.args)) and all(map(self.is_value, node.args))
        if isinstance(called, ast.Attribute) and called.attr == "get" and self._is_dict(called.value):
            return 1 <= len(node.args) <= 2 and all(isinstance(each, ast.Constant) for each in node.args)
        return self._is_known_call(self._value_of(called), node)

    def _is_known_call(self, function: object, node: ast.Call) -> bool:
        if isinstance(function, CALLABLES) and any(function == clock for clock in CLOCKS):
            return not node.args
        if any(function is each for each in (str, repr)):
            return len(node.args) == 1 and self.is_value(node.args[0])
        if function is print:
            return all(map(self.is_value, node.args))
        if function is len:
            return len(node.args) == 1 and (self._is_text(node.args[0]) or self._is_pairs(node.args[0]))
        return self._is_dict(node)

    def _is_dict(self, node: ast.expr) -> bool:
        """Whether this is dict(request.headers)."""
        if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
            return False
        return self._value_of(node.func) is dict and self._is_pairs(node.args[0])

    def _is_pairs(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and self._is_name(node.value, self._request) and node.attr == PAIRS

    def _is_keyword(self, node: ast.keyword) -> bool:
        if node.arg != "extra":
            return node.arg in ("exc_info", "stack_info") and isinstance(node.value, ast.Constant)
        value = node.value
        if not isinstance(value, ast.Dict) or not all(map(self.is_value, value.values)):
            return False
        return all(
            isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value not in _RECORD
            for key in value.keys
        )

    def _is_logger(self, node: ast.expr) -> bool:
        """Whether this is the worker's log, a logger of the module, or one that is looked up by its name."""
        if isinstance(node, ast.Attribute) and self._is_name(node.value, self._worker):
            return node.attr == "log"
        if isinstance(node, ast.Name) and node.id in self._locals:
            return node.id in self._loggers
        if isinstance(node, ast.Call) and not node.keywords and self._value_of(node.func) is logging.getLogger:
            return all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in node.args)
        value = self._value_of(node)
        return value is logging or type(value) is logging.Logger

    def _value_of(self, node: ast.expr) -> object:
        """Return the value of a global, of a builtin, or of an attribute of a module or a class of the standard library; None: not known."""
        if isinstance(node, ast.Attribute):
            owner = self._value_of(node.value)
            return getattr(owner, node.attr, None) if any(owner is each for each in OWNERS) else None
        if not isinstance(node, ast.Name) or node.id in (*self._locals, self._worker, self._request):
            return None
        return self._globals.get(node.id, BUILTINS.get(node.id))


def _is_slice(node: ast.expr) -> bool:
    """Whether this is a slice with numbers, or without, as in [:80]."""
    if not isinstance(node, ast.Slice) or node.step is not None:
        return False
    ends = [each for each in (node.lower, node.upper) if each is not None]
    return all(isinstance(each, ast.Constant) and type(each.value) is int for each in ends)


def _fits(template: object, count: int) -> bool:
    """Whether str.format fills this text with this number of values: its fields are empty or numbers, and have no form."""
    if not isinstance(template, str):
        return False
    try:
        fields = [field for field in string.Formatter().parse(template) if field[1] is not None]
    except ValueError:
        return False
    if any(form or kind not in (None, "r", "s") for _, _, form, kind in fields):
        return False
    names = [name for _, name, _, _ in fields]
    if all(name == "" for name in names):
        return len(names) <= count
    return all(name is not None and name.isdigit() and int(name) < count for name in names)
