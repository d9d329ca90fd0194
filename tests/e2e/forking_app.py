"""An app that starts processes; each path is one way, and answers what became of it."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

SLEEP_SECONDS = 60.0  # far longer than any test waits

# As in a terminal, also where the tests run in the background and a shell has had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

fork = multiprocessing.get_context("fork")


def terminate() -> object:
    """Terminate a Process that has hardly begun."""
    process = fork.Process(target=time.sleep, args=(SLEEP_SECONDS,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode


def terminate_running() -> object:
    """Terminate a Process that runs."""
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_tell_and_sleep, args=(sender,))
    process.start()
    receiver.recv()
    process.terminate()
    process.join()
    return process.exitcode


def interrupt() -> object:
    """Send a SIGINT to a Process that runs."""
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_leave_when_interrupted, args=(sender,))
    process.start()
    receiver.recv()
    os.kill(process.pid, 2)
    process.join()
    return process.exitcode


def leave_pool() -> object:
    """Leave a Pool while it is busy: it terminates its workers."""
    with fork.Pool(2) as pool:
        pool.apply_async(time.sleep, (SLEEP_SECONDS,))
        pid = pool.apply(os.getpid)
    return pid != os.getpid()


def use_executor() -> object:
    """Let a ProcessPoolExecutor do something."""
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as executor:
        return executor.submit(pow, 2, 5).result()


def use_subprocess() -> object:
    """Run one program to its end, terminate another."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        process.terminate()
    return subprocess.run([sys.executable, "-c", "exit(3)"], check=False).returncode, process.returncode


def use_preexec() -> object:
    """Run a program with a function before it, for which Python forks as os.fork() does; then terminate one."""
    with subprocess.Popen(["sleep", "60"], preexec_fn=os.setsid) as process:
        process.terminate()
    return process.returncode


def _tell_and_sleep(sender: Any) -> None:
    sender.send(None)
    time.sleep(SLEEP_SECONDS)


def _leave_when_interrupted(sender: Any) -> None:
    try:
        sender.send(None)
        time.sleep(SLEEP_SECONDS)
    except KeyboardInterrupt:
        sys.exit(7)


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Do what the path says."""
    name = environ["PATH_INFO"].strip("/")
    text = str(globals()[name]() if name else os.getpid())
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
