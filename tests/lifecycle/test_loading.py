"""From an app spec to a WSGI callable, and one clear line for each failure."""

import logging
import os
import sys
import types

import pytest

from aserve.lifecycle.load_error import LoadError
from aserve.lifecycle.loading import PatchedError, check_unpatched, folder_of, load_app, load_module

APP = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"app"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder; a test's imports from it are forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [name for name in sys.modules if name.startswith("site_")]:
        del sys.modules[name]  # another file's test has left it
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def call(app):
    """Return the body of the app's response to nothing in particular."""
    return b"".join(app({}, lambda status, headers, exc_info=None: None))


def error_of(spec):
    """Return the LoadError of a spec; its text is one line."""
    with pytest.raises(LoadError) as caught:
        load_app(spec)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


# Found apps


@pytest.mark.parametrize(
    ("source", "spec"),
    [
        (APP, "site_a:app"),
        (APP, "site_a"),
        (APP.replace("def app", "def application"), "site_a"),
        (APP + "class holder:\n    web = staticmethod(app)\n", "site_a:holder.web"),
        (APP + "def make():\n    return app\n", "site_a:make()"),
        (APP + "class holder:\n    def make():\n        return app\n", "site_a:holder.make()"),
        (APP + "def make(*a, **k): return (a, k) == ((), {}) and app\n", "site_a:make( )"),
        (APP + "def make(*a, **k): return (a, k) == (('prod',), {}) and app\n", "site_a:make('prod')"),
        (APP + "def make(*a, **k): return (a, k) == (('a:b(c)',), {}) and app\n", 'site_a:make("a:b(c)")'),
        (
            APP + "def make(*a, **k): return a == (-1, [2, {'x': None}], (3,)) and app\n",
            "site_a:make(-1, [2, {'x': None}], (3,))",
        ),
        (
            APP + "def make(*a, **k): return (a, k) == ((), dict(debug=True, n=1.5)) and app\n",
            "site_a:make(debug=True, n=1.5)",
        ),
        (
            APP + "class holder:\n    def make(name, *, n): return (name, n) == (b'x', {1}) and app\n",
            "./site_a.py:holder.make(b'x', n={1})",
        ),
        (APP, "./site_a.py"),
        (APP, "site_a.py:app"),
        (APP + "def make():\n    return app\n", "site_a.py:make()"),
        (
            "class app:\n"
            "    def __init__(self, environ, start_response): pass\n"
            "    def __iter__(self): return iter([b'app'])\n",
            "site_a:app",
        ),
        (
            "class App:\n    def __call__(self, environ, start_response): return [b'app']\napp = App()\n",
            "site_a:app",
        ),
        ("def app(*args): return [b'app']\n", "site_a:app"),
        ("import functools\napp = functools.partial(lambda a, e, s: [a], b'app')\n", "site_a:app"),
    ],
)
def test_every_form_of_spec_is_found(folder, source, spec):
    (folder / "site_a.py").write_text(source)
    assert call(load_app(spec)) == b"app"


def test_callable_without_a_signature(folder):
    """C's callables may not tell their signature; the first request will."""
    (folder / "site_a.py").write_text("app = type\n")
    assert load_app("site_a:app") is type


def test_module_form_puts_the_current_folder_first(folder):
    """The app's neighbours are importable, and before installed modules."""
    (folder / "neighbour.py").write_text("NAME = b'app'\n")
    (folder / "site_a.py").write_text(f"import neighbour\n{APP}")
    load_app("site_a")
    load_app("site_a")
    assert sys.path[0] == str(folder)
    assert sys.path.count(str(folder)) == 1


def test_file_form_puts_its_folder_first(folder, monkeypatch):
    """A file's neighbours are importable, wherever the command runs."""
    (folder / "deep").mkdir()
    (folder / "deep/neighbour.py").write_text("")
    (folder / "deep/site_a.py").write_text(f"import neighbour\n{APP}")
    assert call(load_app("deep/site_a.py")) == b"app"
    assert sys.path[0] == str(folder / "deep")
    assert sys.modules["site_a"].__file__ == str(folder / "deep/site_a.py")


def test_file_in_a_package_keeps_its_full_name(folder):
    """mysite/wsgi.py may import mysite.settings, and relatively."""
    (folder / "mysite").mkdir()
    (folder / "mysite/__init__.py").write_text("")
    (folder / "mysite/settings.py").write_text("")
    (folder / "mysite/wsgi.py").write_text(f"import mysite.settings\nfrom . import settings\n{APP}")
    assert call(load_app("mysite/wsgi.py")) == b"app"
    assert sys.path[0] == str(folder)


def test_the_first_file_of_a_package_is_the_package(folder):
    """Objects of shop/__init__.py, such as a database, exist once."""
    (folder / "mysite").mkdir()
    (folder / "mysite/__init__.py").write_text(APP)
    assert load_app("mysite/__init__.py") is sys.modules["mysite"].app
    assert sys.path[0] == str(folder) and "mysite.__init__" not in sys.modules


def test_modules_beside_the_app(folder):
    """By name, or by the path of a file; a missing one is told."""
    (folder / "jobs_a.py").write_text("NAME = 'a'\n")
    assert load_module("jobs_a").NAME == load_module("./jobs_a.py").NAME == "a"
    for name in ("no_jobs", "no_jobs.py"):
        with pytest.raises(LoadError, match="no_jobs"):
            load_module(name)


def test_file_named_like_a_known_module(folder):
    """An app in json.py is loaded, and json stays the same."""
    import json

    (folder / "json.py").write_text(APP)
    assert call(load_app("json.py")) == b"app"
    assert sys.modules["json"] is json


def test_file_whose_name_is_no_identifier(folder):
    """A file needs no importable name."""
    (folder / "my-app.py").write_text(APP)
    assert call(load_app("my-app.py:app")) == b"app"


@pytest.mark.parametrize("name", ["app.wsgi", "nova-api-wsgi", "app.cgi", "package/script"])
def test_file_with_any_name(folder, name):
    """uWSGI runs each by wsgi-file, also in the folder of a package; no compiled file is left where a program may not put one."""
    (folder / "package").mkdir()
    (folder / "package/__init__.py").touch()
    (folder / name).write_text(APP)
    assert call(load_app(f"./{name}:app")) == b"app"
    assert not list(folder.rglob("__pycache__")) and sys.path[0] == str((folder / name).parent)


def test_module_whose_name_is_no_identifier(folder):
    (folder / "my-shop.py").write_text(APP)
    assert call(load_app("my-shop:app")) == b"app"


PASTE = """\
[app:main]
use = call:of_paste:make
word = one

[app:other]
use = call:of_paste:make
word = two
"""
LOGGERS = """
[loggers]
keys = root, shop

[handlers]
keys =

[formatters]
keys =

[logger_root]
handlers =

[logger_shop]
level = ERROR
handlers =
qualname = of_paste.%(here)s
"""


def test_paste_apps_are_found_by_name(folder, monkeypatch):
    pytest.importorskip("paste.deploy", reason="PasteDeploy is not installed")
    monkeypatch.setattr(logging.root, "handlers", logging.root.handlers[:])
    (folder / "of_paste.py").write_text(
        f"WORD = ''\n{APP}\ndef make(conf, word):\n    global WORD\n    WORD = word\n    return app\n"
    )
    (folder / "site.ini").write_text(PASTE)
    assert call(load_app("config:site.ini")) == b"app" and sys.modules["of_paste"].WORD == "one"
    (folder / "site.ini").write_text(PASTE + LOGGERS)
    assert call(load_app(f"config:{folder}/site.ini#other")) == b"app" and sys.modules["of_paste"].WORD == "two"
    assert logging.getLogger(f"of_paste.{folder}").level == logging.ERROR
    for spec, part in (("config:site.ini#third", "raised LookupError"), ("config:no.ini", "there is no file ")):
        assert part in str(error_of_app(spec))
    (folder / "config.py").write_text(APP)
    assert call(load_app("config:app")) == b"app"
    monkeypatch.setitem(sys.modules, "paste.deploy", None)
    assert "needs PasteDeploy, which is not installed" in str(error_of_app("config:site.ini"))


def error_of_app(spec):
    """Return why an app cannot be loaded."""
    with pytest.raises(LoadError) as caught:
        load_app(spec)
    return caught.value


# Missing apps


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("", ["'' is not an app", "module:name"]),
        (":app", ["':app' is not an app"]),
        ("site_a:", ["'site_a:' is not an app"]),
        ("nowhere:app", ["no module 'nowhere' in {folder}", "run aserve in the folder"]),
        ("sit_a:app", ["no module 'sit_a'", "did you mean site_a?"]),
        ("nowhere.deep:app", ["no module 'nowhere.deep'", "(there is no 'nowhere')"]),
        ("site_a.app", ["no module 'site_a.app'", "did you mean site_a:app?"]),
        ("site a:app", ["'site a' is not a module name"]),
        ("a-note:app", ["'a-note' is not a module name", "write ./a-note for the file"]),
        (".site_a:app", ["'.site_a' is not a module name"]),
        ("nowhere.py", ["no file {folder}/nowhere.py", "check the path"]),
        ("proj\\\\app.py", ["no file {folder}/proj\\\\app.py", "write / between folders"]),
        ("./site_a", ["no file {folder}/site_a", "{folder}/site_a.py exists: add .py"]),
        ("site_b/", ["no file {folder}/site_b; the path is a folder: add the file"]),
        ("./notes.txt", ["neither app nor application in notes.txt", "it defines no callable"]),
        ("notes.txt", ["no module 'notes.txt'"]),
        ("gunicorn.conf.py", ["settings of gunicorn; write: aserve gunicorn -c gunicorn.conf.py module:app"]),
        ("site_a:ap", ["no 'ap' in site_a ({folder}/site_a.py)", "near: app"]),
        ("site_b:app", ["no 'app' in site_b ({folder}/site_b)"]),  # a package without __init__.py
        ("site_a:xyzzy", ["no 'xyzzy'", "callables there: app, make, needs_one"]),
        ("site_a:number.xyzzy", ["no 'xyzzy' in an int", "it defines no callable"]),
        ("site_a:app..b", ["'app..b'", "neither a name nor a call"]),
        ("site_a:make(", ["'make('", "neither a name nor a call such as create_app('prod', debug=False)", "quotes"]),
        ("site_a:make()()", ["'make(...)'", "neither a name nor a call"]),
        ("site_a:make().x", ["'make(...)'", "neither a name nor a call"]),
        ("site_a:make('prod').wrap('b')", ["'make(...)' in", "neither a name nor a call"]),
        ("site_a:make('prod').wrap()", ["neither a name nor a call"]),
        ("site_a:make" + ".x" * 3000 + "()", [""]),
        ("site_a:make() + 1", ["neither a name nor a call"]),
        ("site_a:make(\0)", ["neither a name nor a call"]),
        ("site_a:(1)", ["'(...)'", "neither a name nor a call"]),
        (
            "site_a:make(number)",
            ["argument 1 in site_a:make(...) is no literal", "write strings with their quotes, numbers"],
        ),
        ("site_a:make(sys.exit())", ["argument 1", "is no literal"]),
        ("site_a:make(1 + 1)", ["argument 1", "is no literal"]),
        ("site_a:make(f'{number}')", ["is no literal"]),
        ("site_a:make(*[1])", ["argument 1", "is no literal"]),
        ("site_a:make(a=number)", ["argument a", "is no literal"]),
        ("site_a:make({[]: 1})", ["argument 1", "is no literal"]),
        ("site_a:make(**{})", ["** or a keyword twice"]),
        ("site_a:make(1)", ["site_a:make(...) cannot be called so: make() takes 0 positional arguments"]),
        ("site_a:needs_one()", ["argument: 'one'; give a factory its arguments as literals, and an app no ()"]),
        ("site_a:nothing('a')", ["no 'nothing' in site_a"]),
        ("site_a:number('a')", ["site_a:number is an int, not a factory", "leave out the ()"]),
        ("site_a:number", ["site_a:number is an int, which cannot be called"]),
        ("site_a:sys", ["site_a:sys is the module sys"]),
        ("site_a:number()", ["site_a:number is an int, not a factory", "leave out the ()"]),
        ("site_a:make", ["cannot be called with (environ, start_response)", "site_a:make()"]),
        ("site_a:make()", ["site_a:make() is an int, which cannot be called"]),
        ("site_a:needs_one", ["cannot be called with (environ, start_response)"]),
    ],
)
def test_a_missing_app_is_one_line(folder, spec, parts):
    """One line: the wanted app, the place, and a remedy."""
    (folder / "site_a.py").write_text(
        f"{APP}\nimport sys\nfrom collections import OrderedDict\n"
        "number = 3\ndef make(): return 3\ndef needs_one(one): pass\n"
    )
    (folder / "notes.txt").write_text("")
    (folder / "gunicorn.conf.py").write_text("def post_fork(server, worker): pass\n")
    (folder / "a-note").write_text("")
    (folder / "site_b").mkdir()
    text = str(error_of(spec))
    for part in parts:
        assert part.format(folder=folder) in text


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("depth", [100, 200, 300, 500, 700, 900, 1500, 5000])
@pytest.mark.parametrize("shape", ["sum", "minus", "attributes"])
def test_deep_arguments_are_told_like_others(folder, shape, depth):
    """An argument that is no literal, so deep that Python gives up reading or showing it, is told like any other."""
    (folder / "site_a.py").write_text("def make(*arguments): raise AssertionError\n")
    argument = {"sum": "+".join(["x"] * depth), "minus": "-" * depth + "x", "attributes": "x" + ".y" * depth}[shape]
    text = str(error_of(f"site_a:make({argument})"))
    assert "is no literal; write strings" in text or "is neither a name nor a call" in text


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("", ["neither app nor application in site_a", "it defines no callable"]),
        ("def web(e, s): pass\n", ["write site_a:NAME with one of: web"]),
        ("def create_app(): pass\n", ["but a factory: write site_a:create_app()"]),
        ("\n".join(f"def f{i}(): pass" for i in range(9)), ["f0, f1", "f7, ..."]),
    ],
)
def test_no_default_tells_the_modules_names(folder, source, parts):
    (folder / "site_a.py").write_text(source)
    text = str(error_of("site_a"))
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    "source",
    [
        "async def app(scope, receive, send): pass\n",
        "class App:\n    async def __call__(self, scope, receive, send): pass\napp = App()\n",
        "def app(scope, receive, send): pass\n",
    ],
)
def test_an_asgi_app_is_recognised(folder, source):
    (folder / "site_a.py").write_text(source)
    text = str(error_of("site_a:app"))
    assert "is an ASGI app" in text
    assert "a2wsgi" in text


def test_a_file_out_of_reach(folder, monkeypatch):
    """A file in a folder closed to the user of --user is not told to be missing."""

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(os.path, "isfile", lambda path: False)
    monkeypatch.setattr(os, "stat", refuse)
    fault = error_of("./site_a.py")
    monkeypatch.undo()
    assert f"user {os.geteuid()} may not enter a folder of {folder}/site_a.py" in str(fault)


# The app's own errors


def test_a_failing_import_keeps_the_apps_frames(folder):
    (folder / "inner.py").write_text("def fail():\n    raise ValueError('bad\\nvalue')\n")
    (folder / "site_a.py").write_text("import inner\ninner.fail()\n")
    fault = error_of("site_a:app")
    assert str(fault) == "importing site_a raised ValueError: bad"
    frames = [line for line in fault.app_traceback.splitlines() if line.startswith("  File ")]
    assert [frame.split('"')[1] for frame in frames] == [
        str(folder / "site_a.py"),
        str(folder / "inner.py"),
    ]


def test_chained_errors_are_cut_too(folder):
    """Causes are shown, without the import system's frames."""
    (folder / "site_a.py").write_text(
        "import importlib\n"
        "try:\n    importlib.import_module('xyzzy')\n"
        "except ImportError as fault:\n    raise RuntimeError('no xyzzy') from fault\n"
    )
    fault = error_of("site_a:app")
    assert "direct cause" in fault.app_traceback
    assert "importlib/__init__.py" not in fault.app_traceback
    assert "<frozen importlib" not in fault.app_traceback


def test_missing_import_of_the_app(folder):
    """A missing import of the app is the app's error, not a wrong spec."""
    (folder / "site_a.py").write_text("import xyzzy\n")
    fault = error_of("site_a:app")
    assert str(fault) == (
        f"importing site_a raised ModuleNotFoundError: No module named 'xyzzy'; {sys.executable} has no such module: "
        "run aserve in the app's folder, with the Python that has the app's packages"
    )
    assert "site_a.py" in fault.app_traceback


def test_missing_import_beside_an_inactive_environment(folder):
    """The virtual environment in the app's folder is named, unless this Python is in it; a missing part of a package does not matter here."""
    (folder / "site_a.py").write_text("import xyzzy\n")
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").write_text("")
    assert str(error_of("site_a:app")).endswith(
        "the virtual environment venv is not active; start venv/bin/python -m aserve"
    )
    os.symlink(sys.prefix, folder / ".venv")
    (folder / "site_b.py").write_text("import json.xyzzy\n")
    assert str(error_of("site_b:app")).endswith("No module named 'json.xyzzy'")
    (folder / "venv" / "bin" / "python").unlink()
    assert str(error_of("site_a:app")).endswith("that has the app's packages")


def test_import_of_uwsgi(folder, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not type(f).__module__.startswith("aserve")])
    monkeypatch.delitem(sys.modules, "uwsgi", raising=False)
    (folder / "site_a.py").write_text("import uwsgi\n")
    assert str(error_of("site_a")).endswith("No module named 'uwsgi'; with --uwsgi-module on there is one")


def test_a_syntax_error_shows_the_line(folder):
    (folder / "site_a.py").write_text("def app(:\n")
    fault = error_of("site_a:app")
    assert "SyntaxError" in str(fault)
    assert "def app(:" in fault.app_traceback


def test_exit_while_importing(folder):
    """A script that exits at its import does not take the command with it silently."""
    (folder / "site_a.py").write_text("import sys\nsys.exit()\n")
    assert str(error_of("site_a:app")) == "importing site_a raised SystemExit"


def test_a_failing_file_is_named(folder):
    """A file form's error names the file, and leaves no half-made module behind."""
    (folder / "site_a.py").write_text("1 / 0\n")
    fault = error_of("./site_a.py")
    assert str(fault).startswith(f"importing {folder}/site_a.py raised ZeroDivisionError")
    assert "site_a.py" in fault.app_traceback
    assert "site_a" not in sys.modules


def test_a_factorys_error_is_the_apps(folder):
    (folder / "site_a.py").write_text("def make():\n    raise KeyError('DATABASE')\n")
    fault = error_of("site_a:make()")
    assert str(fault) == "calling site_a:make() raised KeyError: 'DATABASE'"
    assert "in make" in fault.app_traceback
    assert "loading.py" not in fault.app_traceback


# Acts forbidden to the app


@pytest.mark.parametrize(
    ("module", "test", "said"),
    [
        (
            "gevent.monkey",
            "is_module_patched",
            "gevent.monkey.patch_all() or the like, which replaces threading, socket in",
        ),
        (
            "eventlet.patcher",
            "is_monkey_patched",
            "eventlet.monkey_patch() or the like, which replaces threading, socket in",
        ),
    ],
)
def test_patched_threads_and_sockets(module, test, said, monkeypatch):
    """Threads and sockets replaced by gevent or eventlet are told in one line, with a remedy."""
    patched = ["socket", "threading", "os"]
    monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(**{test: patched.__contains__}))
    with pytest.raises(PatchedError) as caught:
        check_unpatched()
    assert said in str(caught.value) and "take that call out" in str(caught.value)
    del patched[:2]
    check_unpatched()  # what else they replace does no harm


def test_gevent_that_patches_nothing(monkeypatch):
    """An app may use gevent as a library, or have a module of that name."""
    monkeypatch.setitem(sys.modules, "gevent.monkey", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "eventlet.patcher", None)
    check_unpatched()


def test_folder_of_an_app(folder, monkeypatch):
    """The folder comes first on sys.path, also where there is no such app yet."""
    monkeypatch.chdir(folder)
    (folder / "sub/package").mkdir(parents=True)
    (folder / "sub/package/__init__.py").touch()
    assert folder_of("a:app") == folder_of("a.b") == os.getcwd()
    assert folder_of("sub/a.py:app") == folder_of("sub/package/a.py") == os.path.join(os.getcwd(), "sub")


@pytest.mark.parametrize(
    ("call", "spec"),
    [
        (load_app, "own:app"),
        (load_app, "own.py:app"),
        (load_app, "config:own.ini"),
        (folder_of, "own:app"),
        (folder_of, "own.py:app"),
    ],
)
def test_a_working_directory_that_was_removed(folder, monkeypatch, call, spec):
    """The folder is told, with a remedy. Nothing goes on without it: another module of the app's name may be on sys.path, an older installed one,
    say, and would be served in its place.
    """
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(LoadError, match=r"^the working directory was removed: start aserve in one that stays$"):
        call(spec)


def test_a_path_from_the_root_needs_no_working_directory(folder, monkeypatch):
    """Such an app is served all the same."""
    (folder / "own_app.py").write_text("def app(environ, start_response): pass\n")
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert callable(load_app(f"{folder}/own_app.py:app"))
