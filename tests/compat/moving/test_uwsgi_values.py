"""How values of uWSGI's options are read."""

import sys
import sysconfig

import pytest

from aserve.compat.moving import uwsgi_values
from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.uwsgi_values import (
    https_bind,
    is_on,
    number,
    place_of,
    put_virtualenv,
    take_area,
    take_attached,
    take_cache,
    take_chmod,
    take_chown,
    take_greenlets,
    take_header,
    take_log_file,
    take_logger,
    take_metric,
    take_mule,
    take_plugins,
    take_python_path,
    text_of,
    whole,
)
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def given(value, key="key"):
    """Return such a setting."""
    return Given(key, value, "a.ini:1")


def taken(take, value, key="key"):
    """Return the draft after one setting."""
    draft = Draft("a.ini")
    take(draft, given(value, key))
    return draft


@pytest.mark.parametrize(
    ("text", "value"), [("4", 4), (" 4 ; four", 4), ("30s", 30), ("-1", None), ("abc", None), ("", None)]
)
def test_numbers_are_read_as_by_atoi(text, value):
    if value is None:
        with pytest.raises(ValueError, match=r"is not a whole number|is too small"):
            whole(given(text))
    else:
        assert whole(given(text)) == value


def test_a_number_beyond_ours():
    """The number is kept in our bounds, with a note."""
    draft = taken(number("backlog", 1, 65535), "100000")
    assert draft.settings == {"backlog": 65535} and draft.notes[0].text == "more than backlog may be; it is 65535 here"
    draft = taken(number("backlog", 1, 65535), "0")
    assert draft.settings == {"backlog": 1} and draft.notes[0].text == "less than backlog may be; it is 1 here"


@pytest.mark.parametrize(
    ("text", "is_it"),
    [("true", True), ("", True), ("1", True), ("yes", True), ("0", False), ("False", False), ("off", False)],
)
def test_switches_are_off_as_in_uwsgi(text, is_it):
    assert is_on(given(text)) is is_it


def test_texts_end_before_a_comment():
    assert text_of(given("a;b#c ; comment")) == "a;b#c" and text_of(given("a  # b")) == "a"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:3031", "127.0.0.1:3031"),
        (": 5000", "0.0.0.0:5000"),
        ("*:80", "0.0.0.0:80"),
        ("8000", "0.0.0.0:8000"),
        ("[::1]:80", "[::1]:80"),
        ("/run/a.sock", "unix:/run/a.sock"),
        ("a.sock", "unix:/srv/a.sock"),
        ("./a:b.sock", "unix:/srv/./a:b.sock"),
        ("unix:/a", "unix:/a"),
        ("@name", "unix:@name"),
        ("fd://3", "fd:3"),
    ],
)
def test_places_are_addresses_of_binds(text, place):
    assert place_of(text, "/srv") == place


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        (":8443,a.crt,a.key", "https://0.0.0.0:8443?certificate=a.crt&key=a.key"),
        (":1,a.crt,a.key,HIGH,!ca.pem", "https://0.0.0.0:1?certificate=a.crt&key=a.key&ciphers=HIGH&client-ca=ca.pem&client-certificate=required"),
        (":1,a.crt,a.key,,ca.pem", "https://0.0.0.0:1?certificate=a.crt&key=a.key&client-ca=ca.pem&client-certificate=optional"),
        (":8443,a.crt", None),
    ],
)  # fmt: skip
def test_https_has_address_and_certificate(text, bind):
    if bind is None:
        with pytest.raises(ValueError, match="is not of the form ADDRESS,CERTIFICATE,KEY"):
            https_bind(text, "")
    else:
        assert https_bind(text, "") == bind


@pytest.mark.parametrize(
    ("text", "mode"), [("660", "660"), ("0660", "660"), ("", "666"), ("true", None), ("664 ; x", "664")]
)
def test_chmod_without_a_mode_is_666(text, mode):
    if mode is None:
        with pytest.raises(ValueError, match="is not the mode"):
            taken(take_chmod, text)
    else:
        assert taken(take_chmod, text).settings == {"unix-mode": mode}


def test_chown_has_user_and_group():
    assert taken(take_chown, "a:b").settings == {"unix-owner": "a", "unix-group": "b"}
    assert taken(take_chown, "a").settings == {"unix-owner": "a"}
    assert taken(take_chown, ":b").settings == {"unix-group": "b"}


def test_greenlets_become_threads():
    assert taken(take_greenlets, "100").facts["greenlets"] == 100
    draft = taken(take_greenlets, "5000")
    assert draft.facts["greenlets"] == 256 and "threads = 256 in its place" in draft.notes[0].text


def test_a_virtualenv_gives_its_packages(tmp_path, monkeypatch):
    """The present environment needs nothing; another's packages are used with the same Python; a note otherwise."""
    draft = Draft("a.ini")
    put_virtualenv(draft, given(sys.prefix), "")
    assert not draft.settings and not draft.notes
    put_virtualenv(draft, given("venv"), str(tmp_path))
    base = str(tmp_path / "venv")
    packages = sysconfig.get_path("purelib", vars={"base": base, "platbase": base})
    assert not draft.settings and f"there is no {packages}" in draft.notes[0].text
    monkeypatch.setattr("os.path.isdir", lambda path: True)
    put_virtualenv(draft, given("venv"), str(tmp_path))
    assert draft.settings == {"python-path": [packages]}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("file:/var/log/a", "/var/log/a"),
        ("file:logfile=/var/log/a,maxsize=1", "/var/log/a"),
        ("stdio", "-"),
        ("stdio:", "-"),
        ("syslog", "syslog:"),
        ("syslog:uwsgi1234", "syslog:"),
        ("rsyslog:10.0.0.1:514,uwsgi", "syslog:udp://10.0.0.1:514"),
        ("rsyslog:10.0.0.1", "syslog:udp://10.0.0.1:514"),
    ],
)
def test_loggers_are_kept_with_their_names(text, target):
    assert list(taken(take_logger, text, "logger").facts["log"]) == [target]
    assert list(taken(take_logger, text, "req-logger").facts["request log"]) == [target]


@pytest.mark.parametrize("key", ["logger", "req-logger"])
def test_loggers_with_a_name(key):
    """Named loggers get lines by rules; requests are not logged to them."""
    draft = taken(take_logger, "cron file:/var/log/cron", key)
    assert not draft.facts and "log-route has no effect here" in draft.notes[0].text


@pytest.mark.parametrize("text", ["redislog:1.2.3.4:6379", "file:", "zeromq:tcp://1.2.3.4:9191"])
def test_loggers_that_are_not_here(text):
    draft = taken(take_logger, text)
    assert not draft.facts and "--access-log" in draft.notes[0].text


@pytest.mark.parametrize(
    ("text", "target"),
    [("/var/log/a", "/var/log/a"), ("true", None), ("", None), ("10.0.0.1:514", "syslog:udp://10.0.0.1:514")],
)
def test_log_files_get_lines_of_requests(text, target):
    draft = taken(take_log_file, text)
    assert list(draft.facts.get("log file", [None])) == [target] and bool(draft.notes) is bool(target)


@pytest.mark.parametrize(
    ("text", "others"),
    [("python3", ""), ("http,python311", ""), ("0:python", ""), ("/usr/lib/uwsgi/python3", ""), ("python,gevent3,cgi", "gevent3, cgi")],
)  # fmt: skip
def test_plugins_for_python_need_no_word(text, others):
    notes = taken(take_plugins, text).notes
    assert [note.text for note in notes] == (
        [f"{others}: aserve has no plugins; Python and HTTP are always there"] if others else []
    )


@pytest.mark.parametrize(
    ("key", "value", "command", "notes"),
    [
        ("attach-daemon", "celery -A 'a b' worker", "celery -A 'a b' worker", []),
        ("attach-daemon", "A=b celery", "env A=b celery", []),
        ("attach-daemon", "memcached -m 8 & wait", "sh -c 'memcached -m 8 & wait'", ["a shell runs it"]),
        ("attach-daemon", "celery --pid=$HOME/x", "sh -c 'celery --pid=$HOME/x'", ["a shell runs it"]),
        (
            "attach-daemon2",
            "cmd=celery -A a --x=1,stopsignal=2, uid=33",
            "celery -A a --x=1",
            ["these have no effect here: stopsignal, uid"],
        ),
        ("attach-daemon2", "command=a -b 1\\,2", "a -b 1,2", []),
        (
            "smart-attach-daemon",
            "/tmp/m.pid memcached -d -P /tmp/m.pid",
            "memcached -d -P /tmp/m.pid",
            ["it must not make a daemon of itself"],
        ),
        ("smart-attach-daemon2", "/tmp/m.pid,5 celery", "celery", []),
    ],
)
def test_attached_commands_run_as_before(key, value, command, notes):
    """A command runs as before, by a shell only if needed."""
    draft = taken(take_attached, value, key)
    assert draft.settings == {"attach": [command]}
    assert len(draft.notes) == len(notes) and all(note.text.startswith(text) for note, text in zip(draft.notes, notes))


@pytest.mark.parametrize(
    ("key", "value"), [("attach-daemon2", "freq=3"), ("smart-attach-daemon", "/tmp/a.pid"), ("attach-daemon", "")]
)
def test_attached_without_a_command(key, value):
    with pytest.raises(ValueError, match="there is no command"):
        taken(take_attached, value, key)


def test_mules_have_programs_or_wait():
    """A mule has a program, or waits for messages; `mules` is a number of the latter."""
    for value, key, programs in (
        ("tasks.py", "mule", ["tasks.py"]),
        ("shop.mules:run", "mule", ["shop.mules:run"]),
        ("", "mule", ["-"]),
        ("2", "mules", ["-", "-"]),
    ):
        draft = taken(take_mule, value, key)
        assert draft.settings == {"uwsgi-mule": programs} and draft.notes == []


@pytest.mark.parametrize(
    ("value", "size", "is_told"),
    [
        ("2", "8192", False),
        ("pages=1", "4096", False),
        ("size=64k", "64k", False),
        ("file=/x,size=5", None, True),
        ("fd=3", None, True),
    ],
)
def test_areas_are_counted_in_octets(value, size, is_told):
    """Pages there, octets here; an area that is a file has no effect, with a note."""
    draft = taken(take_area, value, "sharedarea")
    assert draft.settings == ({"uwsgi-sharedarea": [size]} if size else {}) and bool(draft.notes) is is_told


def test_metrics_are_taken_by_name():
    assert taken(take_metric, "visits", "metric").settings == {"uwsgi-metric": ["visits"]}
    draft = taken(take_metric, "name=visits,type=counter", "metric")
    assert draft.settings == {"uwsgi-metric": ["visits"]} and draft.notes == []
    draft = taken(take_metric, "name=visits,initial_value=5", "metric")
    assert "initial_value: a metric begins with 0" in draft.notes[0].text


def test_a_caches_missing_features_are_told():
    """Missing features are told: a file behind the cache, and other servers."""
    draft = taken(take_cache, "name=a,items=3,store=/tmp/a,nodes=b:1")
    assert draft.settings == {"uwsgi-cache": ["name=a,items=3"]}
    assert draft.notes[0].text == "store, nodes: it is no file, and no other server's; it outlives reloads"
    with pytest.raises(ConfigError, match=r"a.ini:1: key = name=a: .*how many items"):
        taken(take_cache, "name=a")


def test_headers_become_fields_of_each_response():
    """Each is a field of every response; a field that each response has anyway is told to have no effect."""
    draft = Draft("a.ini")
    take_header(draft, given("X-Frame-Options: DENY", "add-header"))
    take_header(draft, given("Content-Type: text/plain", "add-header"))
    take_header(draft, given("X-A: b", "add-header"))
    assert draft.settings == {"add-field": ["X-Frame-Options: DENY", "X-A: b"]}
    (note,) = draft.notes
    assert "it has no effect here: Content-Type differs from response to response" in str(note)


def test_the_name_of_the_server():
    """The name has a separate setting; a text unfit for a field is told as such."""
    draft = Draft("a.ini")
    take_header(draft, given("Server: nginx", "add-header"))
    take_header(draft, given("nosniff", "add-header"))
    assert draft.settings == {"server-name": "nginx"} and "is not of the form NAME: VALUE" in str(draft.notes)


def test_patterns_of_the_python_path(tmp_path):
    """Each path of a pattern is there, a folder with its slash; the last is the first, and an unmatched pattern stays."""
    for name in "ab":
        (tmp_path / name).mkdir()
    draft = Draft("a.ini")
    for value in ("/no/such/*", f"{tmp_path}/*"):
        take_python_path(draft, Given("pythonpath", value, "a.ini:1"))
    assert draft.settings == {"python-path": [f"{tmp_path}/b/", f"{tmp_path}/a/", "/no/such/*", "."]}


def test_a_machine_without_syslog(monkeypatch):
    """uWSGI starts there, too; lines are not lost here."""
    monkeypatch.setattr(uwsgi_values, "LOCAL_SYSLOG", "/no/such/log")
    draft = Draft("a.ini")
    take_logger(draft, Given("logger", "syslog:app", "a.ini:1"))
    assert [*draft.facts["log"]] == ["-"]
    assert draft.notes[0].text == "there is no /no/such/log: lines of requests go to standard output"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("localhost:8080;", "localhost:8080"),
        (":80 # web", "0.0.0.0:80"),
        ("[::1]:80;", "[::1]:80"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_a_port_ends_with_its_digits(value, place):
    assert place_of(value, "") == place
