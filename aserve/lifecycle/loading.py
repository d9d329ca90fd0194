"""Finds and imports the user's WSGI app.

Owns:     the app spec ("module:attr", "module:factory('arg')", "path/to/file.py:app", "config:site.ini#name"), the app's folder on sys.path, one
          clear line for each failure, and the check for a patched process.
Thread:   any; before the server starts.
Spec:     PEP 3333 (the definition of a WSGI app).
Not here: calling the app (wsgi/gateway.py), objects other than apps (app_check.py), the errors (load_error.py), printing errors (command/cli.py).
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from ..core.errors import AserveError
from ..core.near_names import near_names
from ..settings.secrecy import show_app
from .app_check import describe, why_no_app
from .load_error import LoadError, app_raised
from .misnamed import hint_for_module, why_hidden
from .surroundings import PLACED

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# A longer import is logged. Guess: imports of a large app take some seconds.
SLOW_START_SECONDS = 10.0

PASTE = "config:"  # PasteDeploy's own prefix for a file
DEFAULT_NAMES = ("app", "application")  # the names in frameworks' tutorials; tried in this order
FACTORY_NAMES = ("create_app", "make_app", "get_app", "get_wsgi_application")

# Modules replaced by gevent and eventlet, and needed unpatched by a server with real threads and an event loop.
NEEDED_MODULES = ("thread", "threading", "_thread", "socket", "select")


class PatchedError(AserveError):
    """The app has replaced threads and sockets in the whole process: aserve cannot serve the app."""


def check_unpatched() -> None:
    """
    Check that gevent and eventlet have left the server's modules unpatched.

    Raises:
        PatchedError: a module is patched.
    """
    for module, test, call in (
        ("gevent.monkey", "is_module_patched", "gevent.monkey.patch_all()"),
        ("eventlet.patcher", "is_monkey_patched", "eventlet.monkey_patch()"),
    ):
        is_patched = getattr(sys.modules.get(module), test, None)
        patched = [name for name in NEEDED_MODULES if is_patched is not None and is_patched(name)]
        if patched:
            raise PatchedError(
                f"the app has called {call} or the like, which replaces {', '.join(patched)} in this process; aserve serves "
                "in real threads and needs none of it: take that call out, or use a server made for it"
            )


def not_loaded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Stand for an app that cannot be imported; never called: with --reload, a page gives the reason."""
    raise AssertionError("the app could not be imported")


def load_app(spec: str) -> WSGIApplication:
    """
    Import and return the app of `spec`; for a module form the current folder, for a file form the file's, comes first on sys.path.

    Raises:
        LoadError: there is no such app, or the app's code raised.
    """
    if spec.startswith(PASTE) and (os.sep in spec or ".ini" in spec):  # config:app names a module `config`
        return _checked(_load_paste(spec[len(PASTE) :]), spec)
    where, colon, attribute = spec.partition(":")
    if not where or (colon and not attribute):
        raise LoadError(f"{show_app(spec)!r} is not an app; write module:name or path/to/file.py:name")
    if len(where) == 1 and (attribute[:1] in ("\\", "/") or attribute.endswith(".py")):
        raise LoadError(
            f"{show_app(spec)!r} is a path of Windows; write the path on this machine, such as /srv/shop/app.py"
        )
    try:
        module = load_module(where)
        found = _find(module, where, attribute) if attribute else _find_default(module, where)
    except LoadError as fault:
        hidden = "" if fault.app_traceback or _is_file(where) else why_hidden(where, working_folder())
        if not hidden:
            raise
        raise LoadError(hidden) from None
    return _checked(found, show_app(spec))


def load_module(where: str) -> ModuleType:
    """
    Import a module by name, or by the path of the file.

    Raises:
        LoadError: there is no such module, or the module has raised.
    """
    return _load_file(where) if _is_file(where) else _load_module(where)


def whole_spec(spec: str, folder: str = "") -> str:
    """Return the spec with the whole path of a file, relative to `folder`: an app imported before may change the working directory."""
    where, colon, attribute = spec.partition(":")
    return f"{_absolute(os.path.join(folder, where))}{colon}{attribute}" if _is_file(where) else spec


def folder_of(spec: str) -> str:
    """Return this app's folder for the first place of sys.path, whether or not the folder exists."""
    where = spec.partition(":")[0]
    return _split(_absolute(where))[0] if _is_file(where) else working_folder()


def working_folder() -> str:
    """Return the working directory; raise LoadError after a removal, since sys.path may have another app of the same name."""
    try:
        return os.getcwd()
    except OSError:
        raise LoadError("the working directory was removed: start aserve in one that stays") from None


def _absolute(path: str) -> str:
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(working_folder(), path))


def _is_file(where: str) -> bool:
    return where.endswith(".py") or os.sep in where


def _find_file(path: str) -> None:
    """
    Find a file of the APP setting.

    Raises:
        LoadError: no such file, or this user may not look.
    """
    if os.path.isfile(path):
        return
    try:
        os.stat(path)
    except PermissionError:
        raise LoadError(
            f"user {os.geteuid()} may not enter a folder of {path}; let it, or have the app in another folder"
        ) from None
    except OSError:
        pass
    hint = "the path is a folder: add the file" if os.path.isdir(path) else "check the path"
    hint = f"{path}.py exists: add .py" if os.path.isfile(path + ".py") else hint
    hint = "write / between folders" if "\\" in path else hint
    raise LoadError(f"there is no file {path}; {hint}")


def _load_paste(place: str) -> object:
    """Set up the logging of FILE[#NAME]; return PasteDeploy's app of FILE."""
    relative, _, name = place.partition("#")
    path = _absolute(relative)
    _find_file(path)
    try:
        deploy = importlib.import_module("paste.deploy")
    except ImportError:
        raise LoadError(
            f"{path} needs PasteDeploy, which is not installed; `pip install pastedeploy` would do it"
        ) from None
    import configparser  # PasteDeploy imports it, too; together 1 MB in each process
    import logging.config

    _put_first_on_path(working_folder())
    try:
        parser = configparser.RawConfigParser()
        parser.read(path, encoding="utf-8")
        if parser.has_section("loggers"):
            defaults = {"__file__": path, "here": os.path.dirname(path)}
            logging.config.fileConfig(path, defaults, disable_existing_loggers=False)
        return deploy.loadapp(f"config:{path}", name=name or None)
    except (Exception, SystemExit) as fault:
        raise app_raised(path, "loading", fault) from None


# Modules


def _load_module(name: str) -> ModuleType:
    folder = working_folder()
    _put_first_on_path(folder)
    parts = name.split(".")
    # importlib finds `my-app` in my-app.py, as do gunicorn and uWSGI by importlib.
    if not (all(map(str.isidentifier, parts)) or (all(parts) and importlib.machinery.PathFinder.find_spec(parts[0]))):
        hint = f"write ./{name} for the file" if os.path.isfile(name) else "a file's path ends in .py, or has a slash"
        raise LoadError(f"{name!r} is not a module name; {hint}")
    return _import(name, f"{name!r} in {folder} or on sys.path")


def _load_file(path: str) -> ModuleType:
    """Import a file, in a package by the dotted name."""
    path = _absolute(path)
    _find_file(path)
    folder, name = _split(path)
    _put_first_on_path(folder)
    if folder != os.path.dirname(path):
        return _import(name, f"{name!r} in {folder}")
    return _import_path(path, name)


def _split(path: str) -> tuple[str, str]:
    """Return the folder to import a file from, above the file's package; and the dotted name."""
    folder, name = os.path.split(path)
    if not name.endswith(".py"):
        return folder, name
    name = name[: -len(".py")]
    if name == "__init__":  # the package itself: a second copy would have objects of its own
        folder, name = os.path.split(folder)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    return folder, name


def _put_first_on_path(folder: str) -> None:
    if sys.path[:1] != [folder] and folder not in PLACED:
        sys.path.insert(0, folder)


def _import(name: str, looked_for: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as fault:
        # Only for the name itself or a package above; any other name is an import in the app.
        if fault.name is None or not f"{name}.".startswith(f"{fault.name}."):
            raise app_raised(name, "importing", fault) from None
        missing = "" if fault.name == name else f" (there is no {fault.name!r})"
        raise LoadError(f"no module {looked_for}{missing}; {hint_for_module(name)}") from None
    except (Exception, SystemExit) as fault:
        raise app_raised(name, "importing", fault) from None


def _import_path(path: str, name: str) -> ModuleType:
    if name in sys.modules:  # an app in json.py must not replace the imported module json
        name = f"aserve_app_{name}"
    spec_of = importlib.util.spec_from_file_location
    spec = spec_of(name, path) or spec_of(name, path, loader=_Script(name, path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before the run: frameworks look modules up by __name__
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        del sys.modules[name]
        raise app_raised(path, "importing", fault) from None
    return module


class _Script(importlib.machinery.SourceFileLoader):
    """Loads a file with any name, such as app.wsgi or bin/nova-api-wsgi, without a compiled file in the folder, where names could clash."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source."""
        return self.source_to_code(self.get_data(self.path), self.path)


# Attributes


def _find(module: ModuleType, where: str, attribute: str) -> object:
    """Follow `name`, `name.sub` or `name('a', b=1)` from the module."""
    path, parenthesis, _ = attribute.partition("(")
    is_call = bool(parenthesis)
    if not all(part.isidentifier() for part in path.split(".")):
        shown = show_app(attribute)
        raise LoadError(f"{shown!r} in {where}:{shown} is neither a name nor a call such as create_app()")
    arguments, keywords = _read_arguments(where, path, attribute) if is_call else ([], {})
    whole, attribute = show_app(f"{where}:{attribute}"), show_app(attribute)  # a factory's arguments may be passwords
    found: object = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise LoadError(_no_attribute(found, part, where, attribute))
        found = getattr(found, part)
    if not is_call:
        return found
    if not callable(found):
        raise LoadError(f"{where}:{path} is {describe(found)}, not a factory; leave out the ()")
    try:
        return found(*arguments, **keywords)
    except (Exception, SystemExit) as fault:
        trace = fault.__traceback__
        if isinstance(fault, TypeError) and trace and not trace.tb_next:  # no line of the app has run
            remedy = "give a factory its arguments as literals, and an app no ()"
            raise LoadError(f"{whole} cannot be called so: {fault}; {remedy}") from None
        raise app_raised(whole, "calling", fault) from None


def _read_arguments(where: str, path: str, attribute: str) -> tuple[list[object], dict[str, object]]:
    """Return the arguments of a call: literals, by ast.literal_eval, so no code is run."""
    call: ast.expr | None
    shown = show_app(attribute)
    try:
        call = ast.parse(attribute, mode="eval").body
        if isinstance(call, ast.Call) and ast.unparse(call.func) != path:
            call = None  # `path` itself has a call, as in make('prod').wrap('b')
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        # The last three: too deep nesting; PyPy may raise a TypeError about a RecursionError of ast's.
        call = None
    if not isinstance(call, ast.Call):
        raise LoadError(
            f"{shown!r} in {where}:{shown} is neither a name nor a call such as create_app('prod', debug=False); "
            "in a shell, put quotes around the whole"
        )
    arguments = [
        _read_literal(argument, str(number), f"{where}:{shown}") for number, argument in enumerate(call.args, 1)
    ]
    keywords: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in keywords:
            raise LoadError(f"{where}:{shown} has ** or a keyword twice; write name=value, once each")
        keywords[keyword.arg] = _read_literal(keyword.value, keyword.arg, f"{where}:{shown}")
    return arguments, keywords


def _read_literal(argument: ast.expr, name: str, shown: str) -> object:
    try:
        return ast.literal_eval(argument)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise LoadError(
            f"argument {name} in {shown} is no literal; write strings with their quotes, numbers, "
            "True, False, None, or tuples, lists, sets and dicts of them"
        ) from None


def _find_default(module: ModuleType, where: str) -> object:
    for name in DEFAULT_NAMES:
        if hasattr(module, name):
            return getattr(module, name)
    if where.endswith("gunicorn.conf.py"):
        raise LoadError(f"{where} has settings of gunicorn; write: aserve gunicorn -c {where} module:app")
    for name in FACTORY_NAMES:
        if callable(getattr(module, name, None)):
            raise LoadError(f"neither app nor application in {_origin(module)}, but a factory: write {where}:{name}()")
    raise LoadError(
        f"neither app nor application in {_origin(module)}; "
        f"write {where}:NAME with one of: {_own_callables(module) or '(it defines no callable)'}"
    )


def _no_attribute(holder: object, name: str, where: str, attribute: str) -> str:
    origin = _origin(holder) if isinstance(holder, ModuleType) else describe(holder)
    near = near_names(name, [n for n in dir(holder) if n[0] != "_"], 3)
    if near:
        return f"no {name!r} in {origin} for {where}:{attribute}; near: {', '.join(near)}"
    callables = _own_callables(holder)
    hint = f"callables there: {callables}" if callables else "it defines no callable"
    return f"no {name!r} in {origin} for {where}:{attribute}; {hint}"


def _own_callables(holder: object) -> str:
    """Return the names of up to eight public callables defined in `holder`."""
    home = getattr(holder, "__name__", None)
    names = [
        name
        for name, value in sorted(vars(holder).items() if hasattr(holder, "__dict__") else ())
        if name[0] != "_"
        and callable(value)
        and (getattr(value, "__module__", None) == home or not isinstance(value, type))
    ]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _checked(found: object, spec: str) -> WSGIApplication:
    if why := why_no_app(found, spec):
        raise LoadError(why)
    return cast("WSGIApplication", found)


def _origin(module: ModuleType) -> str:
    folders = getattr(module, "__path__", ["built in"])  # of a package without __init__.py
    return f"{module.__name__} ({getattr(module, '__file__', None) or ', '.join(folders)})"
