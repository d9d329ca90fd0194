"""uWSGI's configurations become ours: combinations of options."""

import pathlib
import shutil
import sys

import pytest

from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.features import Config
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return the draft of a configuration's lines: load(lines, **environ) -> Draft."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("aserve.compat.moving.uwsgi.present_umask", lambda: 0)

    def load(lines, **environ):
        (tmp_path / "a.ini").write_text("[uwsgi]\n" + "\n".join(lines.split("; ")) + "\n")
        return load_uwsgi("a.ini", environ)

    return load


DEFAULTS = {
    "threads": 1,
    "access-log": "-",
    "access-log-format": "uwsgi",
    "uwsgi-module": "on",
    "argv": ["uwsgi"],
    "environ-as": "uwsgi",
}  # of uWSGI's own


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        ("master = 1", {"workers": 1}),
        ("master = false", {}),
        ("processes = 3", {"workers": 3, "preload": True}),
        ("processes = 3; lazy-apps", {"workers": 3}),
        ("processes = 3; lazy = 1", {"workers": 3}),
        ("processes = 3; lazy-apps = 0", {"workers": 3, "preload": True}),
        ("processes = 1", {"workers": 1}),
        ("workers = 3; master", {"workers": 3, "preload": True}),
        ("mules = 2; farm = a:1,2; farm = b:1", {"uwsgi-mule": ["-", "-"], "uwsgi-farm": ["a:1,2", "b:1"], "workers": 1}),
        ("stats = 127.0.0.1:1717", {"stats": "127.0.0.1:1717"}),
        ("stats = a.sock; chdir = /srv; stats-minified", {"stats": "unix:/srv/a.sock", "chdir": "/srv"}),
        (
            "stats = /a.sock; chmod-socket = 660",
            {"stats": "unix:/a.sock", "unix-mode": "660", "metrics-mode": "660"},
        ),
        ("stats = /a.sock; umask = 027", {"stats": "unix:/a.sock", "umask": "027"}),
        ("master-fifo = a.fifo; chdir = /srv", {"master-fifo": "/srv/a.fifo", "chdir": "/srv", "workers": 1}),
        ("hook-as-user-atexit = unlink:a", {"workers": 1}),
        ("threads = 4", {"threads": 4}),
        ("thread_s = 4", {}),
        ("enable_threads = 1; max_requests = 9", {"max-requests": 9, "workers": 1}),
        ("gevent = 100", {"threads": 100}),
        ("gevent = 100; threads = 200", {"threads": 200}),
        ("socket = :1", {"bind": ["uwsgi://0.0.0.0:1"]}),
        ("socket = :1; protocol = http", {"bind": ["0.0.0.0:1"]}),
        ("socket = :1; socket = a.sock", {"bind": ["uwsgi://0.0.0.0:1", "uwsgi://unix:a.sock"]}),
        ("http = :1,127.0.0.1:2", {"bind": ["0.0.0.0:1"]}),
        ("httprouter = :1", {"bind": ["0.0.0.0:1"]}),
        ("uwsgi-socket = :1; http-socket = :2; scgi-socket = :3", {"bind": ["uwsgi://0.0.0.0:1", "0.0.0.0:2", "scgi://0.0.0.0:3"]}),
        ("shared-socket = :9; http = =0", {"bind": ["0.0.0.0:9"]}),
        ("shared-socket = :9; https = =0,a.crt,a.key", {"bind": ["https://0.0.0.0:9?certificate=a.crt&key=a.key"]}),
        ("https = :1,a.crt,a.key", {"bind": ["https://0.0.0.0:1?certificate=a.crt&key=a.key"]}),
        ("chdir = /srv; socket = a.sock; touch-reload = b", {
            "chdir": "/srv", "bind": ["uwsgi://unix:/srv/a.sock"], "touch-reload": ["/srv/b"], "workers": 1}),
        ("chdir = /srv; pidfile = a.pid", {"chdir": "/srv", "pid-file": "a.pid"}),
        ("max-requests = 100; max-requests-delta = 7; processes = 3", {"max-requests": 100, "max-requests-jitter": 21, "workers": 3, "preload": True}),
        ("max-requests-delta = 7", {}),
        ("queue = 100; queue-blocksize = 1024", {"uwsgi-queue": "items=100,blocksize=1024"}),
        ("attach-daemon = a b; attach-daemon2 = cmd=c; mule", {"attach": ["a b", "c"], "uwsgi-mule": ["-"], "workers": 1}),
        ("cron = 59 2 -1 -1 -1 a b; cron2 = hour=1,unique=1 c; cron-harakiri = 60", {
            "cron": ["59 2 * * * exec timeout -s KILL 60 /bin/sh -c 'a b'", "* 1 * * * exec timeout -s KILL 60 /bin/sh -c c"],
            "workers": 1}),
        ("spooler = a; spooler-harakiri = 60; spooler-max-tasks = 5; spooler-import = shop.jobs; spooler-python-import = b.py", {
            "spooler": ["a"], "spooler-timeout": 60, "spooler-max-jobs": 5, "spooler-import": ["shop.jobs", "b.py"], "workers": 1}),
        ("max-worker-lifetime = 60; max-worker-lifetime-delta = 5", {"max-lifetime": 60, "max-lifetime-jitter": 5, "workers": 1}),
        ("cache2 = name=a, max_items=10,blocksize=4096,key_size=64,purge_lru", {
            "uwsgi-cache": ["name=a,items=10,blocksize=4096,keysize=64,purge_lru=1"]}),
        ("cache2 = name=a,items=10,hashsize=3; cache2 = items=5", {"uwsgi-cache": ["name=a,items=10", "items=5"]}),
        ("cache = 100; cache-blocksize = 4096; cache-expire-freq = 3; locks = 2", {"uwsgi-cache": ["items=100,blocksize=4096"]}),
        ("cache-blocksize = 4096", {}),
        ("reload-on-rss = 256", {"max-rss": 256 << 20, "workers": 1}),
        ("buffer-size = 65535", {"max-head": 65535, "max-request-line": 65535}),
        ("limit-post = 0", {}),
        ("limit-post = 1024", {"max-body": 1024}),
        ("socket-timeout = 9", {"body-timeout": 9, "write-timeout": 9}),
        ("socket-write-timeout = 9", {"body-timeout": 9, "write-timeout": 9}),
        ("http-headers-timeout = 9; http-timeout = 300", {"head-timeout": 9}),
        ("socket-timeout = 30; http-timeout = 9", {"body-timeout": 9, "write-timeout": 9}),
        ("http-keepalive = 9", {"keep-alive": 9}),
        ("http-keepalive = 1", {}),
        ("http-keepalive = true", {}),
        ("harakiri = 9; listen = 9; umask = 022", {"request-timeout": 9, "backlog": 9, "umask": "022"}),
        (
            "uid = www-data; gid = 33; add-gid = games; add-gid = 5",
            {"user": "www-data", "group": "33", "add-group": ["games", "5"]},
        ),
        ("disable-logging; log-format = %(addr)", {"access-log": None, "access-log-format": None}),
        ("disable-logging = 0", {}),
        ("disable-logging; log-5xx", {"access-log-skip": ["* 1xx", "* 2xx", "* 3xx", "* 4xx"]}),
        ("logto = a.log", {"access-log": "a.log"}),
        ("logto = a.log; req-logger = stdio; logger = syslog", {"access-log": "-"}),
        ("log-syslog", {"access-log": "syslog:", "access-log-copy": None}),
        (
            "req-logger = file:/a; logger = file:/m; req-logger = stdio; req-logger = file:/a; req-logger = syslog",
            {"access-log": "/a", "access-log-copy": ["-", "syslog:"]},
        ),
        ("logger = file:/a; logger = stdio; log-syslog", {"access-log": "/a", "access-log-copy": ["-", "syslog:"]}),
        ("logto = a.log; logto2 = b.log", {"access-log": "b.log", "access-log-copy": None}),
        ("logto = a.log; logger = file:/b", {"access-log": "/b", "access-log-copy": None}),
        ("logger = nowhere:1", {}),
        ("master: true; threads : 3", {"workers": 1, "threads": 3}),
        ("pyargv = --site  shop", {"argv": ["uwsgi", "--site", "shop"]}),
    ],
)  # fmt: skip
def test_settings_become_ours(load, lines, settings):
    """Settings become ours, beside uWSGI's own defaults; our Config accepts them."""
    draft = load(lines)
    expected = {**DEFAULTS, **settings}
    expected = {key: value for key, value in expected.items() if value is not None}
    assert draft.settings == expected
    if "https" not in lines:
        Config.from_sources({}, {}, draft.settings)


@pytest.mark.parametrize(
    ("lines", "app"),
    [
        ("module = a.b:c", "a.b:c"),
        ("module = a.b", "a.b:application"),
        ("wsgi = a; callable = app", "a:app"),
        ("callable = create_app(); module = a", "a:create_app()"),
        ("wsgi-file = a.py", "a.py:application"),
        ("file = a.wsgi; callable = app", "./a.wsgi:app"),
        ("wsgi-file = b/a.py", "b/a.py:application"),
        ("mount = /=a:app", "a:app"),
        ("mount = /x=a.py", "a.py:application"),
        ("mount = /x=a.py; no-default-app", None),
        ("paste = config:/srv/a.ini", "config:/srv/a.ini"),
        ("chdir = /srv; ini-paste = a.ini", "config:/srv/a.ini"),
        ("mount = /=a:app; mount = /b=b:app", "a:app"),
        ("", None),
    ],
)
def test_apps_default_to_application(load, lines, app):
    draft = load(f"master; {lines}" if lines else "master")
    assert draft.app == app and draft.settings.get("python-path") == (["."] if app and "b/" in app else None)


def test_a_module_and_a_file(load, tmp_path, monkeypatch):
    """uWSGI tries both in turn; here the file is served if present, and a note names the choice."""
    monkeypatch.chdir(tmp_path)
    draft = load("wsgi-file = a.wsgi; module = shop; chdir = site")
    assert draft.app == "shop:application" and "of module and wsgi-file it is this one" in draft.notes[0].text
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.wsgi").touch()
    draft = load("wsgi-file = a.wsgi; module = shop; chdir = site")
    assert draft.app == "./a.wsgi:application" and draft.notes[0].said == "wsgi-file = a.wsgi"


def test_mounts_have_their_paths(load):
    """Each app is below a path; the root's app is the app, if no further app is named."""
    draft = load("mount = /x=a:app; mount = y/=b.py; mount = /=c; callable = made()")
    assert draft.settings["mount"] == ["/x=a:app", "/y=b.py:made()"] and draft.app == "c:made()" and not draft.notes
    draft = load("module = a; mount = /=b")
    assert (
        draft.app == "a:application" and draft.notes[0].text == "the app for all other paths is a:application already"
    )


@pytest.mark.parametrize(
    ("lines", "workers"),
    [
        ("processes = 8; cheaper = 2", (2, 8)),
        ("processes = 8; cheaper = 2; cheaper-initial = 2; cheaper-step = 1; cheaper-algo = spare", (2, 8)),
        ("processes = 8; cheaper = 8; cheaper-algo = busyness; cheaper-rss-limit-soft = 1000", (8, None)),
        ("processes = 8; cheaper-initial = 4", (8, None)),
        ("processes = 8; cheaper = 8", (8, None)),
        ("processes = 8; cheaper = 0", (8, None)),
        ("cheaper = 2; master = 1", (1, None)),
    ],
)
def test_cheaper_starts_fewer_workers(load, lines, workers):
    draft = load(lines)
    assert (draft.settings["workers"], draft.settings.get("max-workers")) == workers and draft.notes == []
    assert draft.settings.get("preload", False) is (workers != (1, None))


def test_stats_by_http(load):
    """The switch is a scheme before the address."""
    assert load("stats = 127.0.0.1:1717; stats-http = 1").settings["stats"] == "http://127.0.0.1:1717"
    assert load("stats = /run/s; stats-http = false").settings["stats"] == "unix:/run/s"


def test_other_cheaper_options_have_a_line(load):
    """The least number starts, and further words of a file on the number are not obeyed: each has a line."""
    draft = load(
        "processes = 8; cheaper = 2; cheaper-initial = 5; cheaper-algo = busyness; cheaper-rss-limit-soft = 1; cheaper-rss-limit-hard = 2"
    )
    assert (draft.settings["workers"], draft.settings["max-workers"]) == (2, 8)
    assert [str(each) for each in draft.notes] == [
        "a.ini:4: cheaper-initial = 5: as many as `cheaper` says start, and more while all are busy",
        "a.ini:5: cheaper-algo = busyness: workers are added while all are busy, and end after a calm minute, as with the algorithm spare",
        "a.ini:6: cheaper-rss-limit-soft = 1: memory does not limit the number of workers: lower `processes`",
        "a.ini:7: cheaper-rss-limit-hard = 2: memory does not limit the number of workers: lower `processes`",
    ]


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("vaccum = true", "a.ini:2: vaccum = true: aserve does not know it, and it has no effect; is vacuum meant?"),
        ("my-own = 1", "a.ini:2: my-own = 1: aserve does not know it, and it has no effect"),
        ("optimize = 2", "a.ini:2: optimize = 2: it has no effect here: have `PYTHONOPTIMIZE` set where you start"),
        ("flock = /a", "a.ini:2: flock = /a: it has no effect here: flock(1) does it"),
        (
            "add-header = Connection: close",
            "a.ini:2: add-header = Connection: close: it has no effect here: Connection differs from response to response",
        ),
        ("daemonize = 1", "a.ini:2: daemonize = 1: aserve stays in the foreground: systemd, a container"),
        ("daemonize = a.log", "a.ini:2: daemonize = a.log: aserve stays in the foreground: systemd, a container"),
        (
            "log-route = a b; log-drain = x; log-route = c d",
            "a.ini:2: log-route, log-drain: these have no effect here: messages, and",
        ),
        ("alarm = a b; log-alarm = x", "a.ini:2: alarm, log-alarm: these have no effect here: what watches"),
        ("static-safe = /x", "a.ini:2: static-safe = /x: it has no effect here: `--static /PREFIX=FOLDER` has"),
        ("pidfile = a.pid; pidfile2 = b.pid", "a.ini:2: pidfile = a.pid: it is not written: aserve has one pid file"),
        (
            "fastcgi-socket = :1",
            "a.ini:2: fastcgi-socket = :1: it has no effect here: aserve speaks HTTP, uwsgi and SCGI: let `socket` have",
        ),
        ("socket = :1; protocol = raw", "a.ini:2: socket = :1: aserve does not speak raw"),
        ("log-x-forwarded-for = 1", "a.ini:2: log-x-forwarded-for = 1: name your proxies"),
        (
            "log-format = %(addr) %(vszM)",
            "a.ini:2: log-format = %(addr) %(vszM): lines have a hyphen for what is not known: vszM",
        ),
        ("logger = file:/m.log; log-syslog", "a.ini:2: logger, log-syslog: messages go to standard error"),
        ("logger = file:/m.log; req-logger = stdio", "a.ini:2: logger = file:/m.log: messages go to standard error"),
        ("limit-post = 0", "a.ini:2: limit-post = 0: 0 is no limit there"),
        ("http-manage-expect = 65536", "a.ini:2: http-manage-expect = 65536: no limit is of requests with Expect"),
        ("memory-report", "a.ini:2: memory-report: lines of requests are without the memory of the process"),
        ("static-map /a=/s3cret", "a.ini:2: static-map: an equals sign is missing, and so it has no effect"),
        ("master: 1", "a.ini:2: master ...: uWSGI wants an equals sign there"),
    ],
)
def test_notes_have_line_and_advice(load, lines, note):
    assert [str(each)[: len(note)] for each in load(lines).notes] == [note]


@pytest.mark.parametrize(
    "lines",
    [
        "enable-threads; single-interpreter; thunder-lock; vacuum; need-app; die-on-term; disable-logging; memory-report; auto-procname; plugins-dir = /usr/lib/uwsgi/plugins; http-manage-expect = true; strict = true",
        "cheaper = 0; processes = 2; cheaper-algo = backlog; gevent-monkey-patch = false; spooler = off",
        "base = /srv; x = %(base)/a; env = A=%(x ++ base)",
    ],
)
def test_equal_settings_need_no_word(load, lines):
    assert load(lines).notes == []


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("processes = abc", "a.ini:2: processes = abc: 'abc' is not a whole number"),
        ("processes = 0", "a.ini:2: processes = 0: 0 is too small"),
        ("processes = 5000", "a.ini:2: processes = 5000: 5000 is too large; accepted for workers: a whole"),
        ("socket = 1.2.3.4:http", "a.ini:2: socket = 1.2.3.4:http: '1.2.3.4:http': port 'http' is not a number"),
        ("https = :1", "a.ini:2: https = :1: ':1' is not of the form ADDRESS,CERTIFICATE,KEY"),
        ("chmod-socket = rw", "a.ini:2: chmod-socket = rw: 'rw' is not the mode of a file"),
        (
            "emperor-stats = :1; emperor = /etc/vassals",
            "a.ini:3: emperor = /etc/vassals: aserve starts no servers: start one",
        ),
        ("harakiri = $(NOPE)", "a.ini:2: harakiri = $(NOPE): '$(NOPE)' is not a whole number"),
    ],
)
def test_errors_have_their_line(load, lines, why):
    with pytest.raises(ConfigError) as caught:
        load(lines)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        ("if-exists = /no.ini; ini = /no.ini; endif =", {}),
        ("if-env = NOPE; ini = /no.ini; endif =; threads = 2", {"threads": 2}),
        ("for = b.ini; ini = %(_); endfor =", {"threads": 7}),
        ("if-file = b.ini; ini = b.ini; endif =; set = name=b.ini; include = %(name)", {"threads": 7}),
        ("for-readline = b.env; env = %(_); endfor =", {"env": ["A=1", "B=2"]}),
        ("env = FOO", {}),
        ("for-readline = b.env; env = %(_); socket = :8888", {"env": ["A=1", "B=2"], "bind": ["uwsgi://0.0.0.0:8888"]}),
        ("processes = %((%k * 2) + 1)", {}),
        ("harakiri = true; threads =", {}),
        ("umask = 0", {"umask": "000"}),
    ],
)
def test_what_is_tolerated(load, tmp_path, lines, settings):
    """An unreached include, comments among variables, a repeated bind, and a wrong number: uWSGI starts, and so does aserve."""
    (tmp_path / "b.ini").write_text("[uwsgi]\nthreads = 7\n")
    (tmp_path / "b.env").write_text("# comment\nA=1\n\nB=2\n")
    assert load(lines).settings == {**DEFAULTS, **settings}


def test_files_that_include_one_another(load, tmp_path):
    (tmp_path / "b.ini").write_text("[uwsgi]\nif-file = b.ini\nini = b.ini\nendif =\n")
    with pytest.raises(ConfigError, match="files include one another"):
        load("if-file = b.ini; ini = b.ini; endif =")


def test_variables_come_before_the_file(load):
    """Variables come before the file, and the file wins; without a file, variables are all."""
    draft = load("threads = 5", UWSGI_THREADS="9", UWSGI_PROCESSES="2")
    assert (draft.settings["threads"], draft.settings["workers"]) == (5, 2)
    draft = load_uwsgi("", {"UWSGI_THREADS": "9"})
    assert draft.settings["threads"] == 9 and draft.name == "UWSGI_ variables"


def test_what_apps_are_told(load):
    """uwsgi.opt: octets, True, lists."""
    opt = load("threads = 2; vacuum; env = A=1; env = B=2; env = C=3; master = 0; lazy-apps = 0").facts["options"]
    assert opt == {
        "threads": b"2", "vacuum": True, "env": [b"A=1", b"B=2", b"C=3"], "master": b"0", "lazy-apps": b"0",
    }  # fmt: skip


def test_what_else_a_process_does(load):
    """Hooks and imports become extensions."""
    assert load("threads = 2").facts["extensions"] == []
    found = load("hook-asap = print:a; exec-pre-app = true; import = a.b; lazy-apps").facts["extensions"]
    assert [type(one).__name__ for one in found] == ["UwsgiHooks", "UwsgiImports"]


def test_elsewhere_one_process_serves(load, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "darwin")
    draft = load("processes = 2; max-requests = 5; max-requests-delta = 1")
    assert draft.settings == DEFAULTS
    assert {note.text for note in draft.notes} == {"worker processes need Linux; one process serves"}


def test_sections_on_the_command_line(tmp_path):
    """file:section, and a file whose name has a colon."""
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = 1\n[two]\nthreads = 2\n")
    (tmp_path / "a:b.ini").write_text("[uwsgi]\nthreads = 3\n")
    found = [load_uwsgi(f"{tmp_path}/{name}", {}).settings["threads"] for name in ("a.ini", "a.ini:two", "a:b.ini")]
    assert found == [1, 2, 3]


@pytest.mark.parametrize(
    "path", sorted((pathlib.Path(__file__).parent / "uwsgi").glob("*.*")), ids=lambda path: path.name
)
def test_files_like_real_ones_are_read(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "version.txt").write_text("1\n")
    shutil.copy(path.with_name("base_of_includes.ini"), tmp_path)
    environ = {"SHOP_PORT": "0", "SHOP_MODULE": "wsgi", "SHOP_PROCESSES": "2", "SHOP_UID": "root", "SHOP_GID": "root"}
    draft = load_uwsgi(f"{path}:development" if path.stem == "sections" else str(path), environ)
    Config.from_sources({}, {}, draft.settings)


@pytest.mark.parametrize(
    "lines",
    [
        "route: ^/ basicauth:R,u:s3cret",
        "route ^/ basicauth:R,u:s3cret",
        "env: PASSWORD:s3cret",
        "env: PASSWORD=s3cret",
        "env PASSWORD s3cret",
        "env = s3cret",
        "basicauth s3cret",
        "nosuch = s3cret",
        "env = PASSWORD=s3cret@(/no/such/file)",
        "route-run = basicauth:R,u:s3cret@(/no/such/file)",
        "route-run = basicauth:R,u:s3cret%(1000000000000000000000 + 1)",
        "for-times = 1000000\nroute-run = basicauth:R,u:s3cret\nendfor =",
        "route = ( basicauth:R,u:s3cret",
    ],
)
def test_values_that_may_be_secrets(tmp_path, monkeypatch, lines):
    """No message has secrets, whatever is wrong with the line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text(f"[uwsgi]\nmodule = a:b\n{lines}\n")
    try:
        draft = load_uwsgi("a.ini", {})
    except ConfigError as fault:
        told = str(fault)
    else:
        told = f"{list(map(str, draft.notes))}{list(map(str, draft.guards))}"
    assert "s3cret" not in told


def test_files_that_are_not_served_there(tmp_path, monkeypatch):
    """static-skip-ext and a root keep files from clients; here they end the start, beside static-map."""
    monkeypatch.chdir(tmp_path)
    for lines, count in (
        ("static-map = /s=/srv\nstatic-skip-ext = .py", 1),
        ("static-map = /s=/srv\nchroot = /jail", 1),
        ("chroot = /jail\nstatic-skip-ext = .py", 0),
    ):
        (tmp_path / "a.ini").write_text(f"[uwsgi]\nmodule = a:b\n{lines}\n")
        draft = load_uwsgi("a.ini", {})
        assert [note.where for note in draft.guards] == ["a.ini:4"] * count


@pytest.mark.parametrize(
    ("value", "mode"), [("", "666"), ("1", "666"), ("660", "660"), ("0660", "660"), ("000", "000"), ("060", "060")]
)
def test_modes_of_sockets(tmp_path, monkeypatch, value, mode):
    """A mode is never wider than asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text(f"[uwsgi]\nmodule = a:b\nsocket = /run/x\nchmod-socket = {value}\n")
    assert load_uwsgi("a.ini", {}).settings["unix-mode"] == mode
