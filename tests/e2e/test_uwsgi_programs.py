"""Small programs that import uwsgi, in the manner of real ones: with one ini file they do the same on aserve as on an installed uWSGI."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest
from harness.client import RawClient
from harness.front import free_port
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.long_on_pypy]

PATIENCE_SECONDS = 60.0
INI = """\
[uwsgi]
{bind}
master = true
enable-threads = true
wsgi-file = program.py
callable = app
{options}
"""
# Each program defines `answer(environ)`; notes made by itself are read from a file.
BEGIN = """\
import os, sys, time
import uwsgi
from uwsgidecorators import *

NOTES = os.path.abspath("notes")  # uWSGI's spooler works in the folder of its jobs

def note(word):
    with open(NOTES, "a") as file:
        file.write(word + "\\n")

def noted():
    return sorted(set(open(NOTES).read().split())) if os.path.exists(NOTES) else []

"""
END = """

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    body = answer(environ)
    return [body.encode()] if isinstance(body, str) else body
"""


class Program(NamedTuple):
    """A program; the further lines of its file; and its last answer, to one of many repeated requests."""

    source: str
    options: str
    expected: str
    body: str = ""
    file: str = ""  # mule.py


PROGRAMS = {
    # A status page, as django-uwsgi's: everything is read and shown.
    "status": Program(
        '''
def answer(environ):
    total = sum(worker["requests"] for worker in uwsgi.workers())
    rows = [[worker[name] for name in ("id", "pid", "status", "running_time", "avg_rt", "tx", "rss", "vsz", "exceptions",
             "signals", "last_spawn", "respawn_count", "delta_requests")] for worker in uwsgi.workers()]
    assert time.localtime(rows[0][10]).tm_year > 2020 and rows[0][2] in (b"busy", b"idle")
    assert uwsgi.masterpid() == os.getppid() and uwsgi.numproc == len(rows) == 2 and uwsgi.worker_id() in (1, 2)
    assert total >= uwsgi.request_id() >= 0 and uwsgi.total_requests() >= 0 and uwsgi.mem()[1] > 0
    assert uwsgi.version_info[0] == 2 and uwsgi.opt["master"] and uwsgi.hostname and uwsgi.started_on and uwsgi.logsize() == 0
    return "enough" if total >= 4 else "few"
''', "processes = 2", "enough"),
    # Functions that run by themselves
    "timers": Program(
        '''
@timer(1)
def tick(number):
    note("timer")

@rbtimer(1)
def other(number):
    note("rbtimer")

@cron(-1, -1, -1, -1, -1)
def minute(number):
    note("cron")

@signal(17)
def raised(number):
    note("signal-%d" % number)

def answer(environ):
    uwsgi.signal(17)
    return " ".join(word for word in noted() if word != "cron")
''', "processes = 2", "rbtimer signal-17 timer"),
    # A watched file
    "files": Program(
        '''
os.makedirs("watched", exist_ok=True)

@filemon("watched")
def changed(number):
    note("changed")

def answer(environ):
    with open("watched/file", "a") as file:
        file.write("x")
    return " ".join(noted())
''', "", "changed"),
    # Jobs in a folder.
    "jobs": Program(
        '''
@spool
def work(arguments):
    note("spool-" + arguments["name"])

@spoolraw
def raw(arguments):
    note("raw-" + arguments["name"])
    return uwsgi.SPOOL_OK

@spool(pass_arguments=True)
def whole(number, name=None):
    note("whole-%d-%s" % (number, name))

def answer(environ):
    if not noted():
        work.spool(name="a")
        raw.spool({"name": "b"})
        whole(5, name="c")
        time.sleep(1)
    return " ".join(noted())
''', "spooler = jobs", "raw-b spool-a whole-5-c"),
    # Locks, and a function that only one process may run
    "locks": Program(
        '''
@lock
def add():
    count = int(uwsgi.cache_get("count") or 0)
    time.sleep(0.01)
    uwsgi.cache_update("count", str(count + 1))
    return uwsgi.is_locked()

def answer(environ):
    threads = [threading.Thread(target=add) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not uwsgi.is_locked()
    return "even" if int(uwsgi.cache_get("count")) % 5 == 0 else "lost"
import threading
''', "processes = 1\ncache2 = name=default,items=100", "even"),
    # Calls done by a mule
    "mulefunc": Program(
        '''
@mulefunc
def work(name, count=1):
    note("%s-%d-%s" % (name, count, uwsgi.mule_id() > 0))

@mulefunc(2)
def second():
    note("mule-%d" % uwsgi.mule_id())

@mulemsg(3)
def third(message):
    if message == b"text":  # and no call for any mule, which uWSGI may give to this one, too
        note("message-text")

def answer(environ):
    assert uwsgi.mule_id() == 0
    work("job", count=3)
    second()
    uwsgi.mule_msg("text", 3)
    return " ".join(noted())
''', "mule = true\nmules = 2", "job-3-True message-text mule-2"),
    # A mule's own program, and a farm.
    "mule": Program(
        '''
def answer(environ):
    uwsgi.mule_msg(b"any")
    uwsgi.mule_msg("own", 1)
    uwsgi.farm_msg("f", b"farm")
    return " ".join(noted())
''', "mule = mule.py\nfarm = f:1", "any-1 farm-1 own-1", file='''
import uwsgi
while True:
    message = uwsgi.mule_get_msg()
    assert uwsgi.in_farm("f")
    with open("notes", "a") as file:
        file.write("%s-%d\\n" % (message.decode(), uwsgi.mule_id()))
'''),
    # Tasks that choose their worker, as uwsgi-tasks does
    "tasks": Program(
        '''
import pickle
TASKS = {}

def task(executor):
    def decorate(function):
        TASKS[function.__name__] = function
        def send(*arguments):
            message = pickle.dumps((function.__name__, arguments))
            if executor == "mule":
                return uwsgi.mule_msg(message)
            return uwsgi.spool({b"task": message})
        return send
    return decorate

def run(message):
    name, arguments = pickle.loads(message)
    TASKS[name](*arguments)

def run_spooled(values):
    run(values[b"task"])
    return uwsgi.SPOOL_OK

uwsgi.mule_msg_hook, uwsgi.spooler = run, run_spooled

@task("mule")
def in_mule(word):
    note("mule-" + word)

@task("spooler")
def in_spooler(word):
    note("spooler-" + word)

def answer(environ):
    if not noted():
        in_mule("a")
        in_spooler("b")
        time.sleep(1)
    return " ".join(noted())
''', "mule = true\nspooler = jobs", "mule-a spooler-b"),
    # Sessions in the cache.
    "cache": Program(
        '''
class Sessions:
    def get(self, key):
        found = uwsgi.cache_get(key, "sessions")
        return found.decode() if found is not None else None

    def set(self, key, value):
        return uwsgi.cache_update(key, value, 60, "sessions")

def answer(environ):
    sessions = Sessions()
    assert sessions.get("none") is None and uwsgi.cache_exists("none", "sessions") is None
    assert uwsgi.cache_set("once", "1", 0, "sessions") in (True, None) and uwsgi.cache_set("once", "2", 0, "sessions") is None
    assert uwsgi.cache_get("x", "nosuch") is None
    uwsgi.cache_inc("visits", 1, 0, "sessions")
    sessions.set("user", "anna")
    return "%s %s" % (sessions.get("user"), uwsgi.cache_num("visits", "sessions") >= 3)
''', "processes = 2\ncache2 = name=sessions,items=100", "anna True"),
    # Facts of a request, and files
    "request": Program(
        '''
with open("sent", "w") as file:
    file.write("the file")

def answer(environ):
    assert environ["wsgi.input"].read() == b"a=b"
    uwsgi.set_logvar("user", "anna")
    assert uwsgi.get_logvar("user") == b"anna" and uwsgi.get_logvar("none") is None
    assert uwsgi.cl() == int(environ.get("CONTENT_LENGTH") or 0) and uwsgi.connection_fd
    uwsgi.set_user_harakiri(30)
    uwsgi.set_user_harakiri(0)
    uwsgi.sendfile("sent")
    return []
''', "", "the file", body="a=b"),
    # A body of unknown length.
    "chunks": Program(
        '''
def answer(environ):
    found = []
    while True:
        chunk = uwsgi.chunked_read()
        if not chunk:
            return b"".join(found).decode()
        found.append(chunk)
''', "", "one two three", body="chunked"),
}  # fmt: skip


class UWSGI:
    """The real uWSGI, on an ini file."""

    def __init__(self, command: str, folder: pathlib.Path, port: int) -> None:
        self.address = ("127.0.0.1", port)
        self._log = open(folder / "uwsgi.log", "wb")
        self.process = subprocess.Popen(
            [command, "--ini", "site.ini", "--die-on-term"], cwd=folder, stdout=self._log, stderr=self._log,
            start_new_session=True,
        )  # fmt: skip

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE_SECONDS)
        self._log.close()


def write(folder: pathlib.Path, program: Program, bind: str) -> None:
    (folder / "jobs").mkdir()
    (folder / "program.py").write_text(BEGIN + program.source + END)
    (folder / "mule.py").write_text(program.file)
    (folder / "site.ini").write_text(INI.format(bind=bind, options=program.options))


def fetch(address: tuple[str, int], body: str) -> str:
    """Return the body of the answer; "": there is none yet."""
    try:
        client = RawClient(address)
    except OSError:
        return ""
    try:
        if body == "chunked":
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
            client.send(b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n")
        else:
            client.send(
                b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body.encode())
            )
        octets = client.recv_to_end()
    except OSError:
        return ""
    finally:
        client.close()
    head, _, found = octets.partition(b"\r\n\r\n")
    return found.decode() if head.split(None, 2)[1:2] == [b"200"] else ""


@pytest.mark.parametrize("name", PROGRAMS)
def test_aserve_serves_the_program_unchanged(tmp_path, name):
    program = PROGRAMS[name]
    write(tmp_path, program, "http-socket = 127.0.0.1:0")
    process = ServerProcess(["--uwsgi-ini", "site.ini"], tmp_path, {}, ["env"])
    try:
        wait_until(
            lambda: fetch(process.address, program.body) == program.expected, PATIENCE_SECONDS, lambda: process.log
        )
        process.signal()
        assert process.wait(40) == 0 and process.faults() == ""
    finally:
        process.end()


@pytest.mark.parametrize("name", PROGRAMS)
def test_uwsgi_serves_the_program_the_same(tmp_path, name):
    """uWSGI serves the same: it is no invention of ours."""
    command = shutil.which("uwsgi", path=os.path.dirname(sys.executable))
    if command is None or sys.implementation.name != "cpython":
        pytest.skip("uWSGI is not installed")
    program = PROGRAMS[name]
    port = free_port()
    write(tmp_path, program, f"http-socket = 127.0.0.1:{port}")
    server = UWSGI(command, tmp_path, port)
    try:
        wait_until(
            lambda: fetch(server.address, program.body) == program.expected, PATIENCE_SECONDS,
            lambda: (tmp_path / "uwsgi.log").read_text(),
        )  # fmt: skip
    finally:
        server.end()


ECHO = """\
import uwsgi

def app(environ, start_response):
    uwsgi.websocket_handshake(environ["HTTP_SEC_WEBSOCKET_KEY"], environ.get("HTTP_ORIGIN", ""))
    while True:
        message = uwsgi.websocket_recv()
        uwsgi.websocket_send(message)
        uwsgi.websocket_send_binary(message.upper())
"""


def test_the_websocket_of_uwsgis_example_echoes(start_process, tmp_path, raw_client):
    """uWSGI's own example of a WebSocket echoes until the client leaves."""
    (tmp_path / "echo.py").write_text(ECHO)
    process = start_process(f"{tmp_path / 'echo.py'}:app", "--uwsgi-module", "on", "--threads", "4")
    client = raw_client(process)
    fields = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    client.request("/", *fields)
    head = client.recv_until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101") and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
    for _ in range(3):
        client.send(b"\x81\x82\0\0\0\0hi")
        assert client.recv_exactly(8) == b"\x81\x02hi\x82\x02HI"
    client.send(b"\x88\x80\0\0\0\0")
    assert client.recv_to_end() == b"\x88\x00"
    process.signal()
    assert process.wait(40) == 0
