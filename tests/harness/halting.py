"""Processes stopped by a test for a while."""

import os
import signal

from .waiting import wait_until


def halt(*pids: int) -> None:
    """Stop processes, and return once none of their threads runs.

    kill(2) returns earlier: until a process has taken the signal, its threads go on, and may accept a client.
    """
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(is_halted(pid) for pid in pids))


def is_halted(pid: int) -> bool:
    """Whether each thread of a process is stopped."""
    return all(_state_of(pid, int(thread)) == "T" for thread in os.listdir(f"/proc/{pid}/task"))


def _state_of(pid: int, thread: int) -> str:
    """Return the letter of proc_pid_stat(5); "": the thread has ended."""
    try:
        with open(f"/proc/{pid}/task/{thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
