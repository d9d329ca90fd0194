"""Run a command for some seconds at most, and end all processes left behind: python tests/within.py SECONDS COMMAND...

At the limit the command gets SIGTERM, and SIGKILL a minute later. Once the command has ended, this program kills all that the command has
started and not ended. On Linux no process escapes by a session of its own: this program becomes the parent of each orphan.
"""

import contextlib
import ctypes
import glob
import os
import pathlib
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 60  # for pytest to tear down all fixtures. Guess.
WHAT_TO_DO = (
    "`make test-whole` runs the suite in steps, and goes on where it stopped; `make test LIMIT=3600` has more seconds"
)


def main(seconds: str, *command: str) -> int:
    """Return the command's exit status, as a shell has it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = os.spawnvp(os.P_NOWAIT, command[0], command)

    def end(number: int, frame: object) -> None:
        if number == signal.SIGALRM:
            print(f"This has taken {seconds} s, its limit, and ends. {WHAT_TO_DO}.", file=sys.stderr, flush=True)
        os.kill(pid, signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
        signal.alarm(GRACE_SECONDS)

    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C comes to the command as well
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(int(seconds))
    while (ended := os.waitpid(-1, 0))[0] != pid:
        pass
    signal.alarm(0)
    kill_the_rest()
    status = os.waitstatus_to_exitcode(ended[1])
    return status if status >= 0 else 128 - status


def kill_the_rest() -> None:
    """Kill each child of this process, until none is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for children in glob.glob("/proc/self/task/*/children"):
                for child in map(int, pathlib.Path(children).read_text().split()):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
