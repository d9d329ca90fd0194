"""An app moved from uWSGI or gunicorn finds the same sys.argv and environ."""

import signal

import pytest
from harness.interpreter import NEEDS_LINUX, ONCE
from harness.process import ServerProcess
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]

APP = """
import json, os, sys

AT_IMPORT = list(sys.argv)
NAMES = ("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_REAL_IP", "RAW_URI", "wsgi.url_scheme")

def application(environ, start_response):
    told = {name: environ.get(name) for name in NAMES}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"argv": AT_IMPORT, "pid": os.getpid(), **told}).encode()]
"""
FIELDS = ("X-Forwarded-For: 198.51.100.7, 10.0.0.9", "X-Forwarded-Proto: https", "X-Real-IP: 198.51.100.7")
KEPT = {
    "REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "198.51.100.7, 10.0.0.9", "HTTP_X_FORWARDED_PROTO": "https",
    "HTTP_X_REAL_IP": "198.51.100.7", "wsgi.url_scheme": "https",
}  # fmt: skip


@pytest.fixture
def serve(tmp_path):
    """Start aserve in a folder with the app: serve(*arguments) -> ServerProcess."""
    (tmp_path / "tell.py").write_text(APP)
    running = []

    def start(*arguments):
        running.append(ServerProcess(list(arguments), tmp_path, {}))
        return running[-1]

    yield start
    for process in running:
        process.end()
        assert process.faults() == ""


def ask(raw_client, process, fields=FIELDS):
    """Return the app's answers to two requests of one connection: C may serve more of the second."""
    client = raw_client(process.address)
    first, second = (client.fetch("/a%20b?c=1", *fields).json() for _ in "12")
    assert first == second
    return second


@ONCE
def test_an_app_of_uwsgi_finds_its_environ(serve, raw_client):
    """uWSGI's name and the words of pyargv; the fields of any peer, and the scheme by them, with one warning."""
    process = serve("uwsgi", "--http-socket", "127.0.0.1:0", "-w", "tell", "--pyargv", "--site shop", "--master")
    told = ask(raw_client, process)
    assert told["argv"] == ["uwsgi", "--site", "shop"]
    assert KEPT.items() <= told.items() and told["RAW_URI"] is None
    assert ask(raw_client, process, fields=())["wsgi.url_scheme"] == "http"
    assert process.log.count("X-Forwarded-* of any client reach the app") == 1
    process.signal()
    assert process.wait() == 0


@ONCE
def test_uwsgi_with_named_proxies(serve, raw_client):
    """A flag of aserve before the word sets aserve's rules: no field of another peer counts, without a warning."""
    process = serve("--trusted-proxies", "10.0.0.9", "uwsgi", "--http-socket", "127.0.0.1:0", "-w", "tell", "-M")
    told = ask(raw_client, process)
    assert told["wsgi.url_scheme"] == "http" and told["HTTP_X_FORWARDED_PROTO"] is None
    assert "of any client" not in process.log


@ONCE
@pytest.mark.parametrize("preload", [[], ["--preload"]], ids=["each", "preload"])
def test_an_app_of_gunicorn_finds_its_environ(serve, raw_client, preload):
    """gunicorn's command line unchanged, RAW_URI, and the fields as sent; after a reload, too."""
    words = ["gunicorn", "-b", "127.0.0.1:0", *preload, "tell"]
    process = serve(*words)
    told = ask(raw_client, process)
    assert told["argv"] == words and told["RAW_URI"] == "/a%20b?c=1" and KEPT.items() <= told.items()
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done in")
    wait_until(lambda: ask(raw_client, process)["pid"] != told["pid"], 30, lambda: process.log)
    again = ask(raw_client, process)
    assert {**again, "pid": 0} == {**told, "pid": 0}
    process.signal()
    assert process.wait() == 0


@ONCE
def test_an_app_of_aserve_sees_no_fields(serve, raw_client):
    """Without another server's settings the app sees none of the fields, and aserve's own arguments."""
    process = serve("tell:application", "--workers", "1")
    told = ask(raw_client, process)
    assert told["argv"][1:] == ["--bind", "127.0.0.1:0", "tell:application", "--workers", "1"]
    assert [told[name] for name in KEPT] == ["127.0.0.1", None, None, None, "http"]
