"""The server's starter may have left it in any state: aserve serves and ends in time, or tells in one line why not.

A table of surroundings is tried with each kind of serving process: a single process, the app on the loop, workers of a mold, and workers beside
programs and a spooler. tests/e2e/test_releases.py flips links under a server.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
from typing import NamedTuple

import pytest
from harness.interpreter import IS_PYPY
from harness.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's")

APP = """\
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"%d" % len(environ["wsgi.input"].read())]
"""
KINDS = {
    "by itself": (),
    "inline": ("--threads", "0"),
    "mold": ("--workers", "2", "--preload"),
    "programs": (
        "--workers",
        "1",
        "--spooler",
        "{folder}/jobs",
        "--attach",
        "sh -c 'touch {folder}/began; exec sleep 60'",
    ),
}


class Surroundings(NamedTuple):
    """The state that the server finds."""

    launcher: tuple[str, ...]  # starts the server
    refused: str | None = ""  # the only line; "": it serves; None: either, by the descriptors of each kind
    app: str = "{folder}/served.py:app"
    has_log: bool = True


def shell(script: str) -> tuple[str, ...]:
    """Return a launcher that runs a script of the shell before the command."""
    return "sh", "-ec", f'{script}\nexec "$@"', "sh"


def python(script: str) -> tuple[str, ...]:
    """Return a launcher that runs a script of Python before the command."""
    return sys.executable, "-Ic", f"import os, signal, sys\n{script}\nos.execv(sys.argv[1], sys.argv[1:])"


def mounting(script: str) -> tuple[str, ...]:
    """Return a launcher that runs a script in a mount namespace before the command; the test's folder stays as it is."""
    kept = "mount --bind {folder} {folder}"
    return ("unshare", "--mount", *shell(f"{kept}\n{script}"))


# Below /tmp is the folder of the test, and maybe the interpreter.
NOTHING_TO_WRITE = """\
unset TMPDIR
mount --bind {folder} /mnt
for each in /tmp /var/tmp; do mount --bind $each $each; mount -o remount,bind,ro $each; done
mount --bind /mnt {folder}
cd /
mount -o remount,bind,ro /
"""
FEW = r"`ulimit -n` is \d+.*; raise it: LimitNOFILE="
SURROUNDINGS = {
    "no standard input": Surroundings(shell("exec <&-")),
    "no standard output": Surroundings(shell("exec >&-")),
    "no standard error": Surroundings(shell("exec 2>&-"), has_log=False),
    "no standard descriptor": Surroundings(shell("exec <&- >&- 2>&-"), has_log=False),
    "pipes without a reader": Surroundings(
        python("r, w = os.pipe(); os.dup2(w, 1); os.dup2(w, 2); os.close(r)"), has_log=False
    ),
    "no HOME": Surroundings(("env", "-u", "HOME")),
    "no environment": Surroundings(("env", "-i")),
    "ASCII": Surroundings(
        ("env", "-i", "LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", "PYTHONIOENCODING=ascii:strict")
    ),
    "no /proc": Surroundings(mounting("mount -t tmpfs none /proc")),
    "no /dev": Surroundings(mounting("mount -t tmpfs none /dev")),
    "nothing to write": Surroundings(mounting(NOTHING_TO_WRITE)),
    "a folder that is gone": Surroundings(shell("mkdir gone; cd gone; rmdir ../gone")),
    "a folder that is gone, with the app": Surroundings(
        shell("mkdir gone; cd gone; rmdir ../gone"), "the working directory was removed: start aserve in one that stays", "served:app"
    ),
    "a link that was flipped": Surroundings(shell("ln -s one now; cd now; ln -sfn two ../now"), app="served:app"),
    "blocked signals": Surroundings(python("signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())")),
    "ignored signals": Surroundings(python("for each in (1, 2, 10, 12, 13, 15, 17): signal.signal(each, signal.SIG_IGN)")),
    "10 descriptors": Surroundings(shell("ulimit -n 10"), FEW),
    "20 descriptors": Surroundings(shell("ulimit -n 20"), None),
    "32 descriptors": Surroundings(shell("ulimit -n 32")),
}  # fmt: skip
# Cases of the event loop and the interpreter: tried inline and on PyPy, too, whose processes start slower.
OF_THE_LOOP = ("no standard descriptor", "no /proc", "blocked signals", "10 descriptors")


@functools.cache
def can_mount() -> bool:
    """Tell whether this test may mount."""
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    )


class Started:
    """A server started in such surroundings."""

    def __init__(self, folder: pathlib.Path, found: Surroundings, flags: tuple[str, ...]) -> None:
        for name in ("jobs", "one", "two"):
            (folder / name).mkdir()
        for place in (folder, folder / "one", folder / "two"):
            (place / "served.py").write_text(APP)
        self.socket = folder / "s"
        self.log_path = folder / "log"
        own = [sys.executable, "-m", "aserve", found.app, "--bind", "unix:{folder}/s", *flags]
        words = [word.replace("{folder}", str(folder)) for word in (*found.launcher, *own)]
        self.began = folder / "began" if any("began" in word for word in flags) else None
        # `python -m` finds an installed aserve, but no bare checkout.
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        """Return the server's output."""
        return self.log_path.read_text(errors="replace")

    def wait_for_answer(self) -> str:
        """Return the response to a request, once there is one and all programs have begun; "": the server ended before."""

        def look() -> str:
            answer = self._send() if self.began is None or self.began.exists() else ""
            return answer or ("ended" if self.process.poll() is not None else "")

        return wait_until(look, 60, lambda: self.log).replace("ended", "")

    def _send(self) -> str:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(self.socket))
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\none")
            with client.makefile("rb") as answer:
                return answer.read().decode()
        return ""  # not bound, or ended

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)


@pytest.fixture
def start(tmp_path):
    """start(surroundings, flags) -> Started."""
    running = []

    def begin(found, flags):
        running.append(Started(tmp_path, found, flags))
        return running[0]

    yield begin
    for process in running:
        process.end()


def marks_of(number: int, name: str, kind: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a cell: in the brief run each surrounding has one kind in turn."""
    kinds = ("inline", "mold") if name in OF_THE_LOOP else ("by itself", "mold", "programs")
    chosen = "mold" if IS_PYPY else kinds[number % len(kinds)]
    return [] if kind == chosen else [pytest.mark.long]


CELLS = [
    pytest.param(found, kind, id=f"{name}, {kind}", marks=marks_of(number, name, kind))
    for number, (name, found) in enumerate(SURROUNDINGS.items())
    for kind in KINDS
    if (kind == "mold" or not IS_PYPY) and (name in OF_THE_LOOP or not (IS_PYPY or kind == "inline"))
]


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(("found", "kind"), CELLS)
def test_aserve_serves_or_advises_in_any_surroundings(start, found, kind):
    """aserve serves a request and ends by SIGTERM with status 0; or its last line advises, and it ends by itself."""
    if found.launcher[0] == "unshare" and not can_mount():
        pytest.skip("needs the right to mount")
    process = start(found, KINDS[kind])
    answer = process.wait_for_answer()
    if answer:
        assert found.refused in ("", None), process.log
        assert re.match(r"HTTP/1.1 200 OK\r\n.*\r\n\r\n3$", answer, re.DOTALL)
        process.process.send_signal(signal.SIGTERM)
        # Beyond the time limit of a drain.
        assert wait_until(lambda: process.process.poll() is not None, 60, lambda: process.log)
        assert process.process.returncode == 0, process.log
        assert not found.has_log or "stopped" in process.log
        assert found.refused is None or "ERROR" not in process.log, process.log
    else:
        *_, line = process.log.splitlines()
        assert found.refused != "" and process.process.returncode in (1, 2), process.log
        assert re.match(rf"aserve: error: .*{found.refused or FEW}", line), process.log
    assert not re.search(r"Traceback|internal error|[a-z]Warning:", process.log), process.log
