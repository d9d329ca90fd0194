"""examples/systemd/rolling.sh, with an ssh that runs its commands here: on servers behind HAProxy, and on hosts with set answers."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from harness.client import RawClient
from harness.front import DOCS, Page
from harness.interpreter import ONCE
from harness.load import load
from harness.waiting import wait_until

pytestmark = [
    ONCE,
    pytest.mark.checkout,
    pytest.mark.skipif(sys.platform != "linux", reason="sockets as systemd passes them"),
]

EXAMPLES = pathlib.Path(DOCS).parent / "examples"
SCRIPT = EXAMPLES / "systemd/rolling.sh"
PATIENCE_SECONDS = 60.0

# Ten milliseconds for a request, so that asking clients leave CPU to the rest.
APP = """\
import time
def app(environ, start_response):
    time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"{version} {name}"]
"""

# The script's commands: a host is a folder. Here sleep and systemctl ask the test for their end and status.
OPTIONS = "-o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10"
SSH = f'[ "$1 $2 $3 $4 $5 $6 $#" = "{OPTIONS} 8" ] && cd "$HOSTS/$7" && HOST=$7 exec sh -c "$8"'
ASKING = 'echo "{} $*" >"$HOSTS/asked"; read status <"$HOSTS/answer"; exit $status'


class Machine:
    """A machine that reaches hosts; `on_asked(words)` returns the exit status of its sleep and of their systemctl."""

    def __init__(self, folder, ssh, on_asked=lambda words: 0):
        self.folder, self._on_asked = folder, on_asked
        self.asked = []
        programs = folder / "bin"
        programs.mkdir()
        scripts = {"ssh": ssh, "sleep": ASKING.format("sleep"), "systemctl": ASKING.format("$HOST")}
        for name, text in scripts.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        for name in ("asked", "answer"):
            os.mkfifo(folder / name)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self):
        while True:
            words = (self.folder / "asked").read_text().split()
            if not words:
                return
            self.asked.append(" ".join(words))
            status = 1
            try:
                status = self._on_asked(words)
            finally:
                (self.folder / "answer").write_text(f"{status}\n")

    def roll(self, *hosts, **env):
        """Run the script to its end; return its output and exit status."""
        env = {**os.environ, "HOSTS": str(self.folder), "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **env}
        done = subprocess.run(
            [SCRIPT, *hosts],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=280,
            check=False,
        )
        return done.stdout, done.returncode

    def close(self):
        """Answer nobody any more."""
        (self.folder / "asked").write_text("")
        self._thread.join(20)


@pytest.fixture
def machine(tmp_path):
    """Make a machine: machine(ssh, on_asked)."""
    made = []

    def make(*args):
        made.append(Machine(tmp_path, *args))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Host:
    """A host: a lasting socket, as held by systemd, and a server on it with the flags of the example's unit."""

    def __init__(self, start, name, folder):
        self._start = start
        self.folder = folder / name
        self.folder.mkdir()
        self.write("old", self.folder / "shop_app.py")
        self.write("newer", self.folder / "new.py")
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.begin()

    def write(self, version, path):
        path.write_text(APP.format(version=version, name=self.folder.name))

    def begin(self):
        """Start the server."""
        [command] = re.findall("^ExecStart=(.*)$", (EXAMPLES / "systemd/shop.service").read_text(), re.M)
        _, _, *flags = command.split()
        app = f"{self.folder}/shop_app.py:app"
        folder = {"RUNTIME_DIRECTORY": str(self.folder)}  # as of the unit
        self.process = self._start(app, *flags, fds=[self.listening.fileno()], LISTEN_FDNAMES="web", **folder)

    def restart(self):
        """Restart as systemd does; return the exit status."""
        self.process.signal()
        assert self.process.wait(PATIENCE_SECONDS) == 0
        self.begin()
        return 0


@pytest.fixture
def site(start_process, fronts, tmp_path, machine):
    """Two hosts behind the HAProxy of docs/health.md: site() -> hosts, HAProxy, and the machine."""
    hosts = {}

    def make():
        for name in ("one", "two"):
            hosts[name] = Host(start_process, name, tmp_path)
        servers = "\n".join(
            f"    server {name} 127.0.0.1:{host.listening.getsockname()[1]}" for name, host in hosts.items()
        )
        block = Page("health").block("Health checks by HAProxy", "haproxy")
        changes = {"    server one 127.0.0.1:8000": servers, "inter 2s": "inter 100ms"}
        return hosts, fronts.haproxy(block, changes)

    yield make
    for host in hosts.values():
        host.listening.close()


SETTINGS = {
    "ASERVE": f"{sys.executable} -I -m aserve",
    "CONTROL": "control",
    "INSTALL": "cp new.py shop_app.py",
    "RESTART": "systemctl restart shop.service",
    "PATIENCE": "1000",  # times 60 requests
}


@pytest.mark.timeout(300)  # seconds; a dozen starts of Python
def test_new_code_on_all_hosts(site, machine):
    """Each host in turn is restarted when HAProxy sends no more requests; no request fails, and all answer with the new code."""
    hosts, haproxy = site()
    assert {haproxy.fetch("/")[2] for _ in range(4)} == {b"old one", b"old two"}
    with load(lambda: RawClient(("127.0.0.1", haproxy.port)), kinds=("kept", "fresh")) as clients:

        def on_asked(words):
            if words[0] == "sleep":  # as long as HAProxy takes for some more requests
                before = clients.count
                return 0 if wait_until(lambda: clients.count >= before + 60, PATIENCE_SECONDS) else 1
            return hosts[words[0]].restart()

        rolled = machine(SSH, on_asked)
        said, status = rolled.roll("one", "two", **SETTINGS)
        assert status == 0, said
    steps = [f"{name}: {step}" for name in hosts for step in ("the new code", "drain", "restart", "done")]
    assert said.splitlines() == steps
    assert [words for words in rolled.asked if not words.startswith("sleep")] == [
        f"{name} restart shop.service" for name in hosts
    ]
    assert {haproxy.fetch("/")[2] for _ in range(4)} == {b"newer one", b"newer two"}


# Hosts with set answers: `at` is a part of a command, and `then` is done in its place.
TOLD = """\
echo "$7: $8" >>"$HOSTS/log"
case $8 in
{cases}
*status*) echo '   "requests": 3,'; echo '   "requests": 4,' ;;
esac
"""
RISES = 'n=$(cat "$HOSTS/n" 2>/dev/null || echo 0); echo $((n + 1)) >"$HOSTS/n"; echo "\\"requests\\": $n,"'


@pytest.mark.parametrize(
    ("at", "then", "why", "done"),
    [
        ("*status*)", "exit 1", "one: nothing was begun: it is not well, or does not answer", "one: status"),
        ("I)", "exit 3", "one: INSTALL has failed; its server goes on", "one: I"),
        ("*drain*)", "exit 255", "one: it does not answer", "one: balancers drain"),
        ("*status*)", RISES, "one: the balancer still sends requests; the host is back, with the code of before",
         "one: balancers ready"),
        ("*status*)", 'grep -q drain "$HOSTS/log" && exit 255; echo', "one: it does not answer any more, and is out", "one: status"),
        ("R)", "exit 1", "one: RESTART has failed, and the host is out", "one: R"),
        ("*status*)", 'grep -q R$ "$HOSTS/log" && exit 1; echo', "one: the new code does not serve, and the host may be out",
         "one: status"),
        ("*ready*)", "exit 255", "one: the new code serves, but was not told so: after a reload the host is out", "one: balancers ready"),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_goes_wrong(machine, tmp_path, at, then, why, done):
    """The last line tells the fault, no host is touched any more, and the exit status is 1."""
    rolled = machine(TOLD.replace("{cases}", f"{at} {then} ;;"))
    said, status = rolled.roll("one", "two", ASERVE="A", CONTROL="C", INSTALL="I", RESTART="R", PATIENCE="2")
    assert (said.splitlines()[-1], status) == (f"rolling.sh: {why}", 1)
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert last.replace(": A ", ": ").replace(" --json", "").replace(" --control C", "") == done


def test_no_host_gets_the_usage(machine):
    assert machine("exit 99").roll() == ("rolling.sh: usage: rolling.sh HOST...\n", 1)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("**/*.sh")), ids=lambda path: path.name)
def test_shellcheck_finds_no_fault(path):
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
