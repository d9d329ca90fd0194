"""gunicorn's configurations become ours: the file, the variable, and combinations of settings."""

import os
import pathlib
import signal
import sys
import types

import pytest

from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.features import Config
from aserve.lifecycle.load_error import LoadError
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a configuration's draft: load(source, **environ) -> Draft."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")

    def load(source, **environ):
        (tmp_path / "conf.py").write_text(source.replace("; ", "\n"))
        return load_gunicorn("conf.py", environ)[0]

    return load


def test_a_hook_that_asks_for_the_logger_of_requests_gets_gunicorns(load):
    hook = "accesslog = '-'; def on_starting(server): server.log.{}"
    assert load(hook.format("access_log.addFilter(None)")).settings["access-log"] == "-"
    assert ["logs" in load(hook.format(name)).facts for name in ("access_log", "info('a')")] == [True, False]


@pytest.mark.parametrize(
    ("source", "binds"),
    [("", ["systemd:web"]), ("bind = ':80'", ["systemd:web"]), ("certfile = 'c'", ["https://systemd:web"])],
)
def test_sockets_of_systemd(load, source, binds):
    """The sockets are bound in place of the file's, as by gunicorn, and the log says so."""
    draft = load(source, LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="web")
    assert draft.settings["bind"] == binds and draft.notes == []
    said = ["conf.py:1: bind = :80: systemd has passed sockets, and they are bound in its place, as by gunicorn"]
    assert [str(note) for note in draft.replaced] == (said if "bind" in source else [])


TRUSTED = ["127.0.0.1", "::1", "unix"]
LINES = {"access-log-format": '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(B)s "%(f)s" "%(a)s"'}
OURS = {"argv": ["gunicorn", "-c", "conf.py"], "environ-as": "gunicorn"}
DEFAULTS = {"workers": 1, "threads": 1, "trusted-proxies": TRUSTED, **OURS}


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("", {}),
        ("workers = 3", {"workers": 3}),
        ("http_protocols = 'h1'", {"http2": "off"}),
        ("http_protocols = ['h2', 'h1']", {}),
        ("workers = 3; threads = 4", {"workers": 3, "threads": 4}),
        ("bind = ':80'", {"bind": ["0.0.0.0:80"]}),
        ("bind = ['a:1', 'unix:s']", {"bind": ["a:1", "unix:s"]}),
        ("bind = 'a:1,b:2'", {"bind": ["a:1", "b:2"]}),
        ("bind = 'a:1'; proxy_protocol = True", {"bind": ["proxy+http://a:1"]}),
        ("bind = 'a:1'; protocol = 'uwsgi'", {"bind": ["uwsgi://a:1"]}),
        ("certfile = 'c'; keyfile = 'k'", {"bind": ["https://127.0.0.1:8000"], "certificate": "c", "key": "k"}),
        ("chdir = '/srv'; bind = 'unix:s'; pidfile = 'p'; accesslog = 'a'; reload_extra_files = 't'", {
            "chdir": "/srv", "bind": ["unix:/srv/s"], "pid-file": "/srv/p", "access-log": "/srv/a", "touch-reload": ["/srv/t"], **LINES}),
        ("chdir = '/srv'; accesslog = '-'", {"chdir": "/srv", "access-log": "-", **LINES}),
        ("accesslog = '-'; access_log_format = '%(h)s %(b)s'", {"access-log": "-", "access-log-format": "%(h)s %(B)s"}),
        ("statsd_host = ('a', 1); statsd_prefix = 'web.shop.'", {"statsd": "a:1", "statsd-prefix": "web.shop.gunicorn"}),
        ("timeout = 60", {"request-timeout": 60.0}),
        ("timeout = 60; threads = 2", {"threads": 2, "hang-timeout": 60.0}),
        ("timeout = None; max_requests = 0; umask = 0", {"max-requests": 0}),
        ("worker_class = 'gthread'; threads = 8", {"threads": 8}),
        ("worker_class = 'gevent'; timeout = 9", {"threads": 256, "hang-timeout": 9.0}),
        ("worker_class = 'eventlet'; worker_connections = 50; threads = 3", {"threads": 50}),
        ("max_requests = 100; max_requests_jitter = 10", {"max-requests": 100, "max-requests-jitter": 10}),
        ("max_requests_jitter = 10", {}),
        ("preload_app = True; umask = 0o27", {"preload": True}),
        ("access_log_format = None; statsd_host = ''", {}),
        ("preload_app = False; daemon = False; reload = False; user = None", {}),
        ("limit_request_line = 0", {"max-request-line": 16 << 20, "max-head": 16 << 20}),
        ("limit_request_line = 8190; limit_request_field_size = 100000", {"max-request-line": 8190, "max-head": 100000}),
        ("forwarded_allow_ips = '10.0.0.1'", {"trusted-proxies": ["10.0.0.1", "unix"]}),
        ("forwarded_allow_ips = ''", {"trusted-proxies": None}),
        ("syslog = True; syslog_addr = 'udp://a:514'", {"access-log": "syslog:udp://a:514", **LINES}),
        ("syslog = True", {"access-log": "syslog:udp://localhost:514", **LINES}),
        ("syslog = True; syslog_addr = 'unix:///run/log#dgram'", {"access-log": "syslog:/run/log", **LINES}),
        ("timeout = 172800; loglevel = 'warn'", {"request-timeout": 86400, "log-level": "warning"}),
        ("threads = 10000", {"threads": 4096}),
        ("secure_scheme_headers = {'X-SSL': 'on'}", {"scheme-fields": ["X-SSL: on"]}),
        ("secure_scheme_headers = {}", {"scheme-fields": ["none"]}),
        ("raw_env = 'A=1'; pythonpath = 'a,b'; loglevel = 'WARNING'", {
            "env": ["A=1"], "python-path": ["b", "a", "."], "log-level": "WARNING"}),
        ("import os; x = 1; _y = 2; workers = max(x, 2)", {"workers": 2}),
    ],
)  # fmt: skip
def test_settings_become_ours(load, source, settings):
    """Settings become ours, beside gunicorn's own defaults; our Config accepts them."""
    draft = load(source)
    expected = {**DEFAULTS, **settings, **({"python-path": [os.getcwd()]} if "chdir" in settings else {})}
    assert draft.settings == {key: value for key, value in expected.items() if value is not None}
    Config.from_sources({}, {}, draft.settings)


@pytest.mark.parametrize(
    ("source", "app"),
    [
        ("wsgi_app = 'a:b'", "a:b"),
        ("paste = 'a.ini#b'", "config:a.ini#b"),
        ("wsgi_app = 'a'", "a:application"),
        ("", None),
    ],
)
def test_apps_default_to_application(load, source, app):
    assert load(source).app == app


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("x = 1; worker_class = 'gevent'", "conf.py:2: worker_class = gevent: threads = 256 in its place"),
        (
            "worker_class = 'uvicorn.workers.UvicornWorker'",
            "conf.py:1: worker_class = uvicorn.workers.UvicornWorker: such",
        ),
        (
            "class GeventWorker: pass\nclass W(GeventWorker): pass\nworker_class = W; worker_connections = 50",
            "conf.py:3: worker_class = W: threads = 50 in its place",
        ),
        ("class W: pass\nworker_class = W", "conf.py:2: worker_class = W: aserve has workers of one kind"),
        ("reload = True\nreload_engine = 'poll'", "conf.py:1: reload = True: it has no effect here: `--reload`, for"),
        (
            "dirty_apps = ['shop:Model']; dirty_workers = 2",
            "conf.py:1: dirty_apps = ...: it has no effect here: aserve starts no dirty workers",
        ),
        ("daemon = True", "conf.py:1: daemon = True: it has no effect here: aserve stays in the foreground"),
        (
            "syslog = True; syslog_addr = 'tcp://a:1'",
            "conf.py:2: syslog_addr = tcp://a:1: the access log of aserve goes to",
        ),
        (
            "accesslog = '-'; access_log_format = '%(h)s %(x)s'",
            "conf.py:2: access_log_format = %(h)s %(x)s: lines have a hyphen",
        ),
        (
            "def pre_request(worker, req): print(req)",
            "conf.py:1: pre_request(): it has no effect here: it is not called",
        ),
        (
            "time_out = 3",
            "conf.py:1: time_out = 3: gunicorn has no such setting, and it has no effect; is timeout meant?",
        ),
        (
            "logfile = 'a.log'",
            "conf.py:1: logfile = a.log: gunicorn has no such setting, and it has no effect; is errorlog meant?",
        ),
        *(
            (
                f"{name} = 'a'",
                f"conf.py:1: {name} = a: gunicorn has no such setting, and it has no effect; is {meant} meant?",
            )
            for name, meant in [
                ("preload", "preload_app"),
                ("access_logfile", "accesslog"),
                ("access_logformat", "access_log_format"),
                ("error_logfile", "errorlog"),
                ("log_file", "errorlog"),
                ("log_level", "loglevel"),
            ]
        ),
        ("keepalive = 0", "conf.py:1: keepalive = 0: less than keep-alive may be; it is 0.1 here"),
    ],
)
def test_notes_have_line_and_advice(load, source, note):
    assert [str(each)[: len(note)] for each in load(source).notes] == [note]


@pytest.mark.parametrize("name", ["SERVER", "SERVER_SOFTWARE"])
def test_the_name_of_the_server(load, monkeypatch, name):
    """A name set by a file in gunicorn's module is ours, once; without gunicorn the error advises."""
    module = types.ModuleType("gunicorn")
    module.SERVER, module.SERVER_SOFTWARE = "gunicorn", "gunicorn/27.0.1"
    monkeypatch.setitem(sys.modules, "gunicorn", module)
    assert "server-name" not in load("import gunicorn").settings
    assert load(f"import gunicorn; gunicorn.{name} = 'web'").settings["server-name"] == "web"
    assert "server-name" not in load("import gunicorn").settings
    monkeypatch.setitem(sys.modules, "gunicorn", None)
    with pytest.raises(LoadError, match=r"; have gunicorn installed as well, or take out what imports it$"):
        load("import gunicorn")


@pytest.mark.parametrize(
    ("source", "statsd", "prefix"),
    [
        ("statsd_host = 'localhost:8125'; statsd_prefix = 'shop.'", "localhost:8125", "shop.gunicorn"),
        ("statsd_host = 'unix:///run/statsd'", "unix:/run/statsd", "gunicorn"),
        ("statsd_prefix = 'shop'; statsd_host = ''", None, None),
    ],
)
def test_names_of_statsd_are_gunicorns(load, source, statsd, prefix):
    settings = load(source).settings
    assert (settings.get("statsd"), settings.get("statsd-prefix")) == (statsd, prefix)


@pytest.mark.parametrize(
    "source",
    [
        "import multiprocessing; cores = multiprocessing.cpu_count(); name = 'shop'; TIME_OUT = 3",
        "def pre_fork(server, worker):\n    pass",
        "errorlog = '-'; worker_tmp_dir = '/dev/shm'; proc_name = 'x'; secure_scheme_headers = {'X-FORWARDED-PROTO': 'https'}",
        "keepalive = 5; worker_connections = 1000; capture_output = True; sendfile = True; statsd_host = None",
    ],
)
def test_equal_settings_need_no_word(load, source):
    assert load(source).notes == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("x = 1; workers = 'abc'", "conf.py:2: workers = abc: 'abc' is not a number"),
        ("timeout = -1", "conf.py:1: timeout = -1: -1 is too small"),
        ("threads = None", "conf.py:1: threads = None: None is not a number"),
        ("bind = 3", "conf.py:1: bind = 3: 3 is neither text nor a list of texts"),
        ("bind = 'a:b'", "conf.py:1: bind = a:b: 'a:b': 'b' is not a port"),
        ("bind = '?:1'", "conf.py:1: bind = ?:1: '?:1': '?' is not a host name or address"),
        ("umask = 'x'", "conf.py:1: umask = x: invalid literal"),
        ("secure_scheme_headers = 3", "conf.py:1: secure_scheme_headers = 3: 3 is no dict"),
        ("loglevel = 'loud'", "conf.py:1: loglevel = loud: 'loud' is none of these"),
    ],
)
def test_errors_have_their_line(load, source, why):
    with pytest.raises(ConfigError) as caught:
        load(source)
    assert str(caught.value).startswith(why)


def test_code_that_raises(load):
    """A failure of the code is told as an app's, and is a mistake in the settings all the same."""
    with pytest.raises(LoadError, match=r"executing conf\.py raised ZeroDivisionError") as caught:
        load("x = 1; 1 / 0")
    assert 'File "conf.py", line 2' in caught.value.app_traceback and caught.value.exit_status == 2
    with pytest.raises(LoadError, match=r"executing conf\.py raised SyntaxError"):
        load("x = (")
    with pytest.raises(ConfigError, match=r"cannot read gunicorn's configuration /no/such\.py: No such file"):
        load_gunicorn("/no/such.py", {})


def test_what_the_code_finds(load, tmp_path):
    """The code finds its own path, gunicorn's name for it, and the folder's modules; the folder is as before afterwards."""
    (tmp_path / "shop_settings_of_conf.py").write_text("TIMEOUT = 7\n")
    (tmp_path / "sub").mkdir()
    before = list(sys.path)
    draft = load(
        "import os; from shop_settings_of_conf import TIMEOUT as timeout; raw_env = ['F=' + __file__ + __name__]; os.chdir('sub')"
    )
    assert draft.settings["env"] == [f"F={tmp_path}/conf.py__config__"] and draft.settings["request-timeout"] == 7
    assert os.getcwd() == str(tmp_path) and sys.path == before


def test_other_spellings_of_the_file_are_taken(load, tmp_path, monkeypatch):
    load("workers = 4")
    assert load_gunicorn("file:conf.py", {})[0].settings["workers"] == 4
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "conf_as_a_module.py").write_text("workers = 5\n")
    assert load_gunicorn("python:conf_as_a_module", {})[0].settings["workers"] == 5
    with pytest.raises(LoadError, match="importing no_such_conf raised ModuleNotFoundError"):
        load_gunicorn("python:no_such_conf", {})
    (tmp_path / "conf_that_ends.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(LoadError, match="importing conf_that_ends raised SystemExit"):
        load_gunicorn("python:conf_that_ends", {})


@pytest.mark.parametrize(
    ("source", "name", "place"),
    [
        ("workers = 2\nfrom shop_settings import WORKERS\n", "shop_settings", "conf.py:2"),
        ("def f():\n    import shop.sub\n\nf()\n", "shop", "conf.py:2"),
        ("\nimport conf_that_needs_more\n", "shop_driver", "conf.py:2"),
    ],
)
def test_an_import_that_fails(tmp_path, monkeypatch, source, name, place):
    """The error names the missing module, the line of the file, and where to run it; the traceback has the user's files alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf.py").write_text(source)
    (tmp_path / "conf_that_needs_more.py").write_text("import shop_driver\n")
    with pytest.raises(LoadError) as caught:
        load_gunicorn("conf.py", {})
    assert str(caught.value) == (
        f"executing conf.py raised ModuleNotFoundError: No module named {name!r}; {sys.executable} has no such module: "
        f"run aserve in the app's folder, with the Python that has the app's packages; {place} needs the module"
    )
    assert "aserve" not in caught.value.app_traceback and caught.value.app_traceback.startswith("Traceback")
    with pytest.raises(LoadError, match=r"No module named 'no_such_conf'; .* has no such module: run aserve in"):
        load_gunicorn("python:no_such_conf", {})


def test_a_module_in_the_folder(tmp_path, monkeypatch):
    """python: finds the module there, as gunicorn does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf_in_this_folder.py").write_text("workers = 6\n")
    assert load_gunicorn("python:conf_in_this_folder", {})[0].settings["workers"] == 6


def test_handlers_of_signals_are_removed(load, caplog):
    """A configuration may not have handlers of signals, as its reading process has."""
    before = signal.getsignal(signal.SIGTERM)
    load("import signal; signal.signal(signal.SIGTERM, lambda *given: None)")
    assert signal.getsignal(signal.SIGTERM) == before
    assert "conf.py has set handlers for SIGTERM, which were removed" in caplog.text


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("-w 3 --threads 2", {"workers": 3, "threads": 2}),
        ("--workers=3 -k gthread --threads=8 -t 9", {"workers": 3, "threads": 8, "hang-timeout": 9.0}),
        ("-b :80 -b unix:s", {"bind": ["0.0.0.0:80", "unix:s"]}),
        (
            "--bind a:1 --access-logfile - --log-level debug",
            {"bind": ["a:1"], "access-log": "-", "log-level": "debug", **LINES},
        ),
        ("--preload --max-requests 9 --keep-alive 7", {"preload": True, "max-requests": 9, "keep-alive": 7}),
        ("-e A=1 --env 'B=x y'", {"env": ["A=1", "B=x y"]}),
        ("--no-sendfile -R --worker-tmp-dir /dev/shm", {}),
    ],
)
def test_the_variable_alone_is_enough(words, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    draft, _ = load_gunicorn("", {"GUNICORN_CMD_ARGS": words})
    assert draft.settings == {**DEFAULTS, "argv": ["gunicorn"], **settings} and draft.notes == []


def test_the_variable_wins(load, tmp_path):
    """The variable wins over the file, and may name the file; an unknown setting is told, and an unreadable setting is an error."""
    assert load("workers = 3; threads = 2", GUNICORN_CMD_ARGS="-w 5").settings["workers"] == 5
    draft, _ = load_gunicorn("", {"GUNICORN_CMD_ARGS": "-c conf.py --no-such"})
    assert draft.settings["workers"] == 3 and draft.name == "conf.py"
    assert str(draft.notes[0]) == "GUNICORN_CMD_ARGS: --no-such: aserve does not know it, and it has no effect"
    for words, why in (("-w", "expected one argument"), ("'", "No closing quotation")):
        with pytest.raises(ConfigError, match=f"^GUNICORN_CMD_ARGS: .*{why}"):
            load_gunicorn("", {"GUNICORN_CMD_ARGS": words})


def test_what_platforms_say(load):
    """WEB_CONCURRENCY is read where our own settings are; FORWARDED_ALLOW_IPS is gunicorn's."""
    draft = load("", WEB_CONCURRENCY="3", FORWARDED_ALLOW_IPS="*")
    assert draft.settings == {"threads": 1, "trusted-proxies": ["*"], **OURS}


def test_elsewhere_one_process_serves(load, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    draft = load("workers = 3; preload_app = True")
    assert draft.settings == {"threads": 1, "trusted-proxies": TRUSTED, **OURS}
    assert {note.text for note in draft.notes} == {"worker processes need Linux; one process serves"}


@pytest.mark.parametrize(
    "path", sorted((pathlib.Path(__file__).parent / "gunicorn").glob("*.py")), ids=lambda p: p.name
)
def test_files_like_real_ones_are_read(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draft, _ = load_gunicorn(str(path), {})
    Config.from_sources({}, {}, draft.settings)
