"""Properties of a process: the parent of orphans, and the stack of its signal handlers."""

import subprocess
import sys

import pytest

# A grandchild with an ended parent tells its new parent.
ADOPTED = """\
import os, time
from aserve._cparsers import lib
assert lib.subreaper_begin() == 0
reading, writing = os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.001)
        os.write(writing, b"%d" % os.getppid())
    os._exit(0)
assert int(os.read(reading, 99)) == os.getpid()
os.wait(), os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux's")
def test_an_orphan_goes_to_the_asking_process():
    subprocess.run([sys.executable, "-Ic", ADOPTED], check=True, timeout=60)


# A child whose parent ends gets its wanted signal.
TOLD = """\
import os, signal, time
from aserve._cparsers import lib
reading, writing = os.pipe()
if os.fork() == 0:
    begun, told = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        assert lib.parent_death_signal(signal.SIGUSR1) == 0
        os.write(told, b"x")
        os.write(writing, b"%d" % signal.sigwait([signal.SIGUSR1]))
        os._exit(0)
    os.read(begun, 1)
    os._exit(0)
os.close(writing)
assert int(os.read(reading, 99)) == signal.SIGUSR1
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux's")
def test_the_end_of_a_parent():
    subprocess.run([sys.executable, "-Ic", TOLD], check=True, timeout=60)


# Without room for all of their frames the kernel ends the process by SIGSEGV.
TOGETHER = """\
import faulthandler, os, signal
from aserve._cparsers import lib
came = []
deadly = {signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL}
numbers = {*range(1, 32)} - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT} - deadly
for number in numbers:
    signal.signal(number, lambda number, frame: came.append(number))
faulthandler.enable()
assert lib.signal_stack(1 << 20) == 0
before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
for number in numbers:
    os.kill(os.getpid(), number)
signal.pthread_sigmask(signal.SIG_SETMASK, before)
assert numbers == {*came}, came
"""


def test_many_signals_at_once():
    """All are handled, though faulthandler has made a stack for one of them."""
    subprocess.run([sys.executable, "-Ic", TOGETHER], check=True, timeout=60)
