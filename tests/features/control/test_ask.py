"""The commands that ask a server: their questions, output and exit status."""

import json
import os
import re
import socket
import threading

import pytest

from aserve.features.control import ask
from aserve.features.control.ask import run_command, show_age
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy

WORKER = {
    "slot": 1, "pid": 12, "generation": 1, "state": "ready", "seconds": 3700.0, "requests": 7, "connections": 3, "running": 1,
    "waiting": 0, "threads_busy": 1, "silent_seconds": 0.4, "rss_bytes": 50 << 20, "pss_bytes": 40 << 20,
    "uss_bytes": 30 << 20, "at": [[2.5, "GET /slow"]],
}  # fmt: skip
MOLD = {**WORKER, "slot": 0, "state": "mold", "uss_bytes": None, "rss_bytes": None, "at": [], "silent_seconds": None}
HUNG = {**WORKER, "slot": 2, "silent_seconds": 12.0, "websockets": 2}
SERVER = {
    "version": "1", "python": "cpython 3", "pid": 10, "seconds": 5.0, "text": "serving on x", "workers_wanted": 2, "workers_ready": 2,
}  # fmt: skip
ENDED = "the server ended, or was upgraded, before it answered"


class FakeServer:
    """Gives one answer."""

    def __init__(self, path):
        self.path, self.question, self.answer = str(path), None, []
        self.octets, self.is_reset = b"", False  # the following octets, and the end
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock):
        with sock, sock.makefile("r") as lines:
            if self.is_reset:
                sock.recv(1, socket.MSG_PEEK)  # a close with unread octets resets
                return
            self.question = json.loads(lines.readline())
            self.wait()
            sock.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in self.answer) + self.octets)

    def wait(self):
        """Wait before the answer."""

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = FakeServer(tmp_path / "control")
    yield server
    server.close()


def run(server, *argv):
    return run_command([*argv, "--control", server.path], {}, pytest.fail)


def test_status_shows_server_and_workers(server, capsys):
    """A status is a line about the server, and a table of its workers."""
    server.answer = [SERVER, {"worker": MOLD}, {"worker": WORKER}, {"worker": HUNG}]
    assert run(server, "status") == 0
    assert server.question == {"ask": "status"}
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["aserve 1 on cpython 3, pid 10: serving on x", "running for 5 s"]
    assert " ".join(lines[3].split()) == "worker pid state for requests running waiting busy open memory oldest request"
    assert lines[4].split() == ["-", "12", "mold", "1", "h", "1", "min", "7", "1", "0", "1", "3", "-", "-"]
    assert " ".join(lines[5].split()) == "1 12 ready 1 h 1 min 7 1 0 1 3 30MiB GET /slow (2.5 s)"
    assert "ready, silent for 12 s" in lines[6] and " 3 (2 ws)  " in lines[6]


def test_attached_programs_have_a_table(server, capsys):
    program = {
        "name": "celery", "pid": 7, "state": "running", "seconds": 61.0, "restarts": 2, "last_end": "exited with status 1",
        "command": "celery -A shop", "uss_bytes": 9 << 20, "rss_bytes": 10 << 20,
    }  # fmt: skip
    waiting = {
        **program,
        "name": "a",
        "pid": 0,
        "state": "waiting",
        "last_end": "",
        "uss_bytes": None,
        "rss_bytes": None,
    }
    timed = {**waiting, "name": "cron b", "state": "scheduled", "when": "0 3 * * *"}
    jobs = {"waiting": {"/a": 3, "/b": 1}, "ended": {"done": 9, "failed": 0, "retried": 2}}
    server.answer = [{**SERVER, "attached": [program, waiting, timed], "jobs": jobs}, {"worker": WORKER}]
    assert run(server, "status") == 0
    *lines, empty, last = capsys.readouterr().out.splitlines()
    assert (empty, last) == ("", "jobs: 4 waiting; 9 done, 0 failed, 2 retried")
    server.answer = [{**SERVER, "jobs": {**jobs, "waiting": {}}}, {"worker": WORKER}]  # of a queue nobody here knows
    assert run(server, "status") == 0 and capsys.readouterr().out.endswith("\njobs: 9 done, 0 failed, 2 retried\n")
    table = [re.split("  +", line) for line in lines[-4:]]
    assert table == [
        ["attached", "pid", "state", "for", "restarts", "memory", "last end", "command"],
        ["celery", "7", "running", "1 min 1 s", "2", "9MiB", "exited with status 1", "celery -A shop"],
        ["a", "-", "waiting", "-", "2", "-", "-", "celery -A shop"],
        ["cron b", "-", "scheduled", "-", "2", "-", "-", "0 3 * * * celery -A shop"],
    ]
    server.answer = [{**SERVER, "jobs": {**jobs, "waiting": {}}}, {"worker": WORKER}]
    assert run(server, "status") == 0
    assert capsys.readouterr().out.endswith("\njobs: 9 done, 0 failed, 2 retried\n")  # jobs of queues wait elsewhere


def test_certificates_have_a_line_each(server, capsys):
    """Each certificate has a line: its end, and the last order's outcome."""
    there = {
        "name": "a.example",
        "until": "2027-02-25 10:12 UTC",
        "renewed_on": "2027-01-27 03:00 UTC",
        "fault": "",
        "again": None,
    }
    failing = {**there, "name": "b.example", "fault": "refused", "again": "2027-01-28 03:00 UTC"}
    new = {**there, "name": "c.example", "until": None, "renewed_on": None}
    server.answer = [{**SERVER, "certificates": [there, failing, new]}, {"worker": WORKER}]
    assert run(server, "status") == 0
    assert [re.split("  +", line) for line in capsys.readouterr().out.splitlines()[-4:]] == [
        ["certificate", "until", "renewed on", "last order"],
        ["a.example", there["until"], there["renewed_on"], "done"],
        ["b.example", there["until"], there["renewed_on"], "failed, again at 2027-01-28 03:00 UTC"],
        ["c.example", "a placeholder", "-", "-"],
    ]


def test_status_of_one_that_lacks_a_worker(server, capsys):
    """The exit status tells a lack; --json is for programs."""
    server.answer = [{**SERVER, "workers_ready": 1}, {"worker": WORKER}]
    assert run(server, "status", "--json") == 1
    assert json.loads(capsys.readouterr().out) == {**SERVER, "workers_ready": 1, "workers": [WORKER]}


@pytest.mark.parametrize("is_failure", [False, True])
def test_status_with_warnings(server, capsys, is_failure):
    """Below the table stand the warnings; where requests are not served, the exit status says so, too."""
    warning = {"text": "Worker 1: it is so.", "do": "`aserve stacks 1` shows it.", "is_failure": is_failure}
    server.answer = [{**SERVER, "warnings": [warning]}, {"worker": WORKER}]
    assert run(server, "status") == int(is_failure)
    out = capsys.readouterr().out
    assert out.endswith("\n\nneeds a look:\n- Worker 1: it is so.\n  `aserve stacks 1` shows it.\n")
    assert run(server, "status", "--json") == int(is_failure)
    assert json.loads(capsys.readouterr().out)["warnings"] == [warning]


@pytest.mark.parametrize(
    ("argv", "question"),
    [
        (["reload"], {"ask": "reload"}),
        (["recycle", "2"], {"ask": "recycle", "worker": 2}),
        (["workers", "+2"], {"ask": "workers", "change": 2}),
        (["workers", "-1"], {"ask": "workers", "change": -1}),
        (["workers", "4"], {"ask": "workers", "count": 4}),
    ],
)
def test_what_changes_something(server, argv, question, capsys):
    """The command prints its effect."""
    server.answer = [{"text": "done"}]
    assert run(server, *argv) == 0
    assert server.question == question and capsys.readouterr().out == "done\n"


def test_stacks_come_worker_by_worker(server, capsys):
    """Stacks come worker by worker; of a server without workers, its process's; a mold has a name, and no number."""
    server.answer = [
        {"worker": 2, "pid": 12, "text": "here\n"},
        {"worker": 0, "pid": 13, "text": "there\n"},
        {"worker": 0, "name": "the mold", "pid": 14, "text": "nowhere\n"},
    ]
    assert run(server, "stacks", "2") == 0
    assert server.question == {"ask": "stacks", "worker": 2}
    assert capsys.readouterr().out == (
        "--- worker 2 (pid 12); the last call first\nhere\n\n--- pid 13; the last call first\nthere\n\n"
        "--- the mold (pid 14); the last call first\nnowhere\n\n"
    )


def test_whoever_reads_has_seen_enough(server, monkeypatch):
    """As `aserve stacks | head` does: no traceback."""
    server.answer = [{"worker": 2, "pid": 12, "text": "here\n"}]
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w", encoding="utf-8") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert run(server, "stacks") == 1


@pytest.mark.parametrize("command", ["status", "reload", "stacks"])
@pytest.mark.parametrize("answer", [[{"error": "not now"}], []])
def test_a_refusal_goes_to_standard_error(server, command, answer, capsys):
    """A refusal is told on standard error, and so is a missing answer."""
    server.answer = answer
    assert run(server, command) == 1
    why = "not now" if answer else ENDED
    assert capsys.readouterr().err == f"aserve: error: {why}\n"


@pytest.mark.parametrize("command", ["status", "reload", "stacks"])
@pytest.mark.parametrize("octets", [b"", b'{"text": "do'], ids=["nothing", "part of a line"])
def test_a_server_that_is_gone(server, command, octets, capsys):
    """A reset connection, as by an upgrade, and a line without an end are told as an early end."""
    server.octets, server.is_reset = octets, not octets
    assert run(server, command) == 1
    assert capsys.readouterr().err == f"aserve: error: {ENDED}\n"


@pytest.mark.parametrize("command", ["status", "reload", "stacks"])
@pytest.mark.parametrize(
    "octets", [b"HTTP/1.1 400 Bad Request\r\n", b"[" * 100_000 + b"\n", b"\xff\n", b"[1]\n"],
    ids=["no JSON", "deep", "no UTF-8", "no object"],
)  # fmt: skip
def test_what_answers_is_another_server(server, command, octets, capsys):
    """One line says that the socket is not --control's."""
    server.octets = octets
    assert run(server, command) == 1
    assert capsys.readouterr().err.startswith("aserve: error: what answers there is not aserve's control socket")


def test_a_status_that_is_cut_off(server, capsys):
    """Half a table is not shown."""
    server.answer, server.octets = [SERVER, {"worker": WORKER}], b'{"worker'
    assert run(server, "status") == 1
    assert capsys.readouterr() == ("", f"aserve: error: {ENDED}\n")


@pytest.mark.parametrize("argv", [["status"], ["status", "--json"], ["stacks"], ["reload"], ["workers", "2"]])
def test_a_supervisor_that_does_not_answer(tmp_path, monkeypatch, argv):
    """The command names the process, and gives up."""
    monkeypatch.setattr(ask, "PATIENCE_SECONDS", 0.01)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "control"))
        silent.listen()
        with pytest.raises(ConfigError, match=rf"^the supervisor \(pid {os.getpid()}\) does not answer: is it stopped"):
            run_command([*argv, "--control", str(tmp_path / "control")], {}, pytest.fail)


def test_a_system_that_does_not_tell_who_listens(monkeypatch):
    """The process has no number then."""
    monkeypatch.setattr(ask, "SO_PEERCRED", None)
    with socket.socket(socket.AF_UNIX) as sock:
        assert ask._name(sock) == "the supervisor"


def test_an_answer_that_takes_long(server, monkeypatch):
    """While other callers get an answer, the command waits for its own."""
    connect = ask._call

    def call(path, question):
        sock = connect(path, question)
        sock.settimeout(60 if question["ask"] == "anything" else 0.01)
        return sock

    monkeypatch.setattr(ask, "_call", call)
    gate = threading.Event()
    monkeypatch.setattr(server, "wait", lambda: (server.question["ask"] == "anything" and gate.set()) or gate.wait(60))
    server.answer = [{"text": "done"}]
    assert run(server, "reload") == 0 and gate.is_set()


def test_who_is_asked(server, tmp_path, capsys):
    """The flag wins over the variable, the variable over the file of settings."""
    server.answer = [{"text": "done"}]
    assert run_command(["reload"], {"ASERVE_CONTROL": server.path}, pytest.fail) == 0
    (tmp_path / "site.toml").write_text(f'control = "{server.path}"\n')
    assert run_command(["reload", "--config", "site.toml"], {}, pytest.fail) == 0
    (tmp_path / "pyproject.toml").write_text(f'[tool.aserve]\ncontrol = "{server.path}"\n')
    assert run_command(["reload"], {}, pytest.fail) == 0
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nthreads = 2\n")
    with pytest.raises(ConfigError, match="aserve reload: no running server was found; ask as root or"):
        run_command(["reload"], {}, pytest.fail)


def test_the_only_server_is_asked(server, tmp_path, monkeypatch):
    """Without a name the only server is asked; of several one is to be named."""
    monkeypatch.chdir(tmp_path)
    server.answer = [{"text": "done"}]
    monkeypatch.setattr(ask, "running", lambda: iter([server.path]))
    assert run_command(["reload"], {}, pytest.fail) == 0
    monkeypatch.setattr(ask, "running", lambda: iter(["/a", "/b"]))
    with pytest.raises(ConfigError, match=r"which server\? Give --control PATH, 2 run here: /a, /b"):
        run_command(["reload"], {}, pytest.fail)


def test_top_finds_its_socket(tmp_path, monkeypatch):
    """The command finds its socket as any command, and has its own screen."""
    monkeypatch.chdir(tmp_path)
    assert run_command(["top"], {"ASERVE_CONTROL": "/run/x"}, lambda path: {"/run/x": 7}[path]) == 7
    with pytest.raises(ConfigError, match="aserve top: no running server was found; ask as root or"):
        run_command(["top"], {}, pytest.fail)


def test_mistakes_are_one_line_each(tmp_path, monkeypatch):
    """Each mistake is one line: nobody to ask, no answer, unknown arguments."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError,
        match="aserve status: no running server was found; ask as root or as the server's user, or give --control PATH",
    ):
        run_command(["status"], {}, pytest.fail)
    with pytest.raises(ConfigError, match=r"no server answers at '/no/such' \(No such file or directory\)"):
        run_command(["status", "--control", "/no/such"], {}, pytest.fail)
    with pytest.raises(ConfigError, match="'many' is neither a number nor a change"):
        run_command(["workers", "many", "--control", "x"], {}, pytest.fail)


def test_a_socket_of_another_user_names_the_users_who_may_ask(tmp_path):
    """The server runs: to look for the server would not help."""
    if os.geteuid():
        pytest.skip("needs root, to become another user")
    os.chmod(tmp_path, 0o700)
    os.seteuid(54321)
    try:
        with pytest.raises(ConfigError, match=r"\(Permission denied\); ask as root or as the server's user"):
            run_command(["status", "--control", str(tmp_path / "s")], {}, pytest.fail)
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (42.9, "42 s"), (200, "3 min 20 s"), (3600, "1 h 0 min"), (18120, "5 h 2 min"), (90061, "1 d 1 h")],
)
def test_ages_read_like_words(seconds, text):
    assert show_age(seconds) == text
