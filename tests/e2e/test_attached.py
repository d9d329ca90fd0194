"""Real programs beside the workers (--attach), through ends, reloads, upgrades and the supervisor's end."""

import json
import os
import pathlib
import re
import signal
import sys

import pytest
from harness.combining import long
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess, run_command
from harness.waiting import wait_until
from harness.workers import is_alive

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

# Writes its environment to a file named by its pid, then waits; SIGTERM is noted, and ends the program unless a file `stubborn` exists.
PROGRAM = """\
import json, os, signal, sys, time

def on_term(number, frame):
    open(f"{os.getpid()}.term", "w").close()
    if not os.path.exists("stubborn"):
        sys.exit(0)

signal.signal(signal.SIGTERM, on_term)
fds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        fds[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        pass
sys.stdout.write("a line of standard output\\n")
sys.stderr.write("a line of standard error\\n")
sys.stdout.flush()
sys.stderr.flush()
child = os.fork() if "--with-child" in sys.argv else 0
if "--with-child" in sys.argv and child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
told = {
    "argv": sys.argv[1:], "fds": fds, "environ": dict(os.environ), "folder": os.getcwd(), "child": child,
    "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    "session": os.getsid(0),
}
if child or "--with-child" not in sys.argv:
    with open(f"{os.getpid()}.new", "w") as file:
        json.dump(told, file)
    os.rename(f"{os.getpid()}.new", f"{os.getpid()}.started")
while True:
    time.sleep(0.01)
"""


class Programs:
    """The told state of the programs in a folder."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)

    def command(self, *arguments):
        return " ".join([sys.executable, "-I", str(self.folder / "program.py"), *arguments])

    def pids(self):
        """Return the pids of all begun programs, in order."""
        paths = sorted(self.folder.glob("*.started"), key=lambda path: path.stat().st_mtime_ns)
        return [int(path.stem) for path in paths]

    def alive(self):
        """Return the pids of running programs."""
        return [pid for pid in self.pids() if is_alive(pid)]

    def wait(self, count=1, but=()):
        """Wait until that many more programs run; return their pids."""
        return wait_until(lambda: len(new := [pid for pid in self.alive() if pid not in but]) == count and new, 30)

    def told(self, pid):
        """Return a program's own words."""
        return json.loads((self.folder / f"{pid}.started").read_text())

    def has_term(self, pid):
        """Tell whether a program got SIGTERM."""
        return (self.folder / f"{pid}.term").exists()


@pytest.fixture
def programs(tmp_path):
    programs = Programs(tmp_path)
    yield programs
    for pid in programs.alive():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.long_on_pypy
def test_what_it_is_given(start_workers, programs):
    """A program has standard error, and nothing else of the server's; its lines are in the log; it ends with the server."""
    os.set_inheritable(leaked := os.open("/etc/passwd", os.O_RDONLY), True)
    process = start_workers(
        "--workers", "1", "--attach", f"one={programs.command('x', 'y z')}", "--env", "OWN=1", OTHER="2"
    )
    os.close(leaked)
    (pid,) = programs.wait()
    told = programs.told(pid)
    assert told["argv"] == ["x", "y", "z"] and told["folder"] == str(programs.folder) and told["session"] == pid
    assert {told["environ"][name] for name in ("OWN", "OTHER")} == {"1", "2"} and told["blocked"] == []
    fds = {int(fd): path for fd, path in told["fds"].items()}
    assert fds[0] == os.devnull and fds[1] == fds[2] and "stderr-" in fds[2]
    assert [path for fd, path in fds.items() if fd > 2 and not path.endswith("/fd")] == []
    process.wait_for_log(
        "a line of standard output\na line of standard error|a line of standard error\na line of standard output"
    )
    process.wait_for_log(rf"attached one \(pid {pid}\) has begun: {re.escape(sys.executable)} \.\.\.\n")
    assert process.stop() == 0 and programs.has_term(pid)
    assert re.search(rf"attached one \(pid {pid}\) has ended: it exited with status 0\n(.*\n)*.*stopped", process.log)


def test_signals_ignored_by_python_end_a_program(start_workers):
    """SIGPIPE and SIGXFSZ, ignored by Python, end an attached program as any program."""
    process = start_workers("--workers", "1", "--attach", "sh -c 'grep SigIgn /proc/self/status; exec sleep 600'")
    ignored = int(process.wait_for_log(r"SigIgn:\t([0-9a-f]+)\n")[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_an_ended_program_is_started_again(start_workers, programs):
    """A program that ended is started once more, and its children are ended."""
    process = start_workers("--workers", "1", "--attach", f"one={programs.command('--with-child')}")
    (pid,) = programs.wait()
    child = programs.told(pid)["child"]
    assert is_alive(child)
    os.kill(pid, signal.SIGKILL)
    (after,) = programs.wait(but=[pid])
    wait_until(lambda: not is_alive(child))
    process.wait_for_log(
        rf"attached one \(pid {pid}\) has ended after \d+ s: it was killed by SIGKILL; it is started once more in 0\.1 s"
    )
    child = programs.told(after)["child"]
    assert process.stop() == 0
    wait_until(lambda: not is_alive(child))


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("number", [long(signal.SIGHUP), signal.SIGUSR2], ids=lambda number: number.name)
def test_a_reload_restarts_a_program_once(start_workers, programs, number):
    """A program goes on until workers are new, and is started anew once; two never run, even through new code of the supervisor."""
    process = start_workers("--workers", "1", "--attach", f"one={programs.command()}")
    (pid,) = programs.wait()
    process.signal(number)
    process.wait_for_log(rf"{number.name}: done in", 40)
    (after,) = programs.wait(but=[pid])
    text = process.log
    assert text.index(f"{number.name}: done in") < text.index(f"attached one (pid {pid}) has ended, to be started anew")
    assert text.count("attached one (pid ") == text.count(f"(pid {pid})") + text.count(
        f"attached one (pid {after}) has begun"
    )
    assert programs.pids() == [pid, after] and programs.has_term(pid)
    assert process.stop() == 0 and not is_alive(after)


@pytest.mark.long_on_pypy
def test_a_reload_reads_the_list_of_programs(start_workers, programs, tmp_path):
    """A reload reads the list of programs; a missing command changes nothing."""
    toml = tmp_path / "pyproject.toml"
    toml.write_text(f"[tool.aserve]\nworkers = 1\nattach = ['one={programs.command('1')}']\n")
    process = start_workers()
    (one,) = programs.wait()
    toml.write_text("[tool.aserve]\nworkers = 1\nattach = ['no-such-program']\n")
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: nothing was reloaded: --attach: cannot run 'no-such-program'")
    toml.write_text(f"[tool.aserve]\nworkers = 1\nattach = ['two={programs.command('2')}']\n")
    process.signal(signal.SIGHUP)
    (two,) = programs.wait(but=[one])
    wait_until(lambda: not is_alive(one))
    assert programs.told(two)["argv"] == ["2"]
    assert process.stop() == 0


def test_sigquit_ends_a_program_at_once(start_workers, programs, tmp_path):
    process = start_workers("--workers", "1", "--attach", f"one={programs.command()}")
    (pid,) = programs.wait()
    assert process.stop(signal.SIGQUIT) == 128 + signal.SIGQUIT and not is_alive(pid) and not programs.has_term(pid)


@pytest.mark.long_on_pypy
def test_a_supervisor_that_dies(start_workers, programs):
    """The kernel tells the program, which ends; the next supervisor starts another."""
    process = start_workers("--workers", "1", "--attach", f"one={programs.command()}")
    (pid,) = programs.wait()
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), 30)
    assert programs.has_term(pid)


@pytest.mark.long_on_pypy
def test_the_status_shows_each_program(start_workers, programs, tmp_path):
    """`aserve status` shows a program, also one that ends all the time."""
    control = str(tmp_path / "control")
    attached = ("--attach", f"one={programs.command()}", "--attach", "false=sh -c 'exit 3'")
    process = start_workers("--workers", "1", "--control", control, *attached)
    (pid,) = programs.wait()
    process.wait_for_log("attached false .* it exited with status 3; it is started once more in 1.6 s", 40)
    ask = ("status", "--control", control)
    done = run_command(*ask)
    assert re.search(r"\nattached +pid +state +for +restarts +memory +last end +command\n", done.stdout)
    assert re.search(rf"\none +{pid} +running +\d+ s +0 +\S+ +- +{re.escape(sys.executable)} \.\.\.\n", done.stdout)
    assert re.search(r"\nfalse +(-|\d+) +(waiting|running) +\S.* \d+ .* exited with status 3 +sh \.\.\.\n", done.stdout)
    found = json.loads(run_command(*ask, "--json").stdout)
    assert [each["name"] for each in found["attached"]] == ["one", "false"] and found["attached"][1]["restarts"] >= 5
    assert found["attached"][0]["rss_bytes"] > 0


@pytest.mark.long_on_pypy
def test_one_that_cannot_be_run(start_workers, tmp_path):
    """A failure of the run is in the log, with the reason."""
    script = pathlib.Path(tmp_path / "script")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    process = start_workers("--workers", "1", "--attach", f"one={script}")
    process.wait_for_log(rf"attached one: cannot run {re.escape(str(script))}: No such file or directory\n")
    process.wait_for_log(
        r"attached one \(pid \d+\) has ended after \d+ s: it exited with status 127; it is started once more in 0\.2 s"
    )
    assert process.stop() == 0


# A minute takes a second by the clock of --cron.
FAST = """\
import sys, time, types
from aserve.processes.programs import attached
attached.time = types.SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() * 60)
from aserve.command.cli import main
sys.exit(main())
"""
RUN = "echo $$ >> runs; while [ ! -e go ]; do sleep 0.02; done"


@pytest.mark.long_on_pypy
def test_a_cron_command_begins_at_its_minute(start_workers, tmp_path, monkeypatch):
    """A command of --cron begins at its minute, and not while it runs, even by new code. The command ends with the server."""
    monkeypatch.setattr(ServerProcess, "command", (sys.executable, "-I", "-c", FAST))
    runs, go = tmp_path / "runs", tmp_path / "go"
    process = start_workers("--workers", "1", "--cron", f"c=* * * * * {RUN}")
    wait_until(lambda: runs.exists() and runs.read_text(), 30)
    (pid,) = map(int, runs.read_text().split())
    process.wait_for_log(rf"cron c \(pid {pid}\) still runs, after \d+ s: it is not begun once more", 30)
    process.signal(signal.SIGUSR2)
    process.wait_for_log("SIGUSR2: done in", 60)
    process.wait_for_log(r"SIGUSR2: done in(.*\n)+.* still runs", 30)
    assert runs.read_text().split() == [str(pid)] and is_alive(pid)
    go.touch()
    process.wait_for_log(rf"cron c \(pid {pid}\) has ended after \d+ s: it exited with status 0", 30)
    wait_until(lambda: len(runs.read_text().split()) > 1, 30)
    go.unlink()
    last = wait_until(lambda: (pid := int(runs.read_text().split()[-1])) and is_alive(pid) and pid, 30)
    assert process.stop() == 0 and not is_alive(last)
