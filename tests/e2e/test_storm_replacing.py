"""Invariants while workers are replaced: by a reload, for more or fewer workers, for their age. Each test is an invariant.

Over TCP, or each way of `make storm`, while clients ask without a break; see harness/storm.py.
"""

import contextlib
import os
import random
import re
import signal

import pytest
from harness.callers import TestCaller
from harness.combining import long
from harness.interpreter import NEEDS_LINUX
from harness.storm import IS_LONG, START_SECONDS, TEST_SECONDS, every_way, kept_results, start_storm
from harness.waiting import wait_until

__all__ = ["kept_results", "start_storm"]  # fixtures
pytestmark = [NEEDS_LINUX, pytest.mark.slow, pytest.mark.checkout, pytest.mark.timeout(TEST_SECONDS)]

HUP, TERM, TTIN, TTOU = signal.SIGHUP, signal.SIGTERM, signal.SIGTTIN, signal.SIGTTOU
SLOW_SECONDS = 5.0 if IS_LONG else 0.5
SLOW = f"import time\ntime.sleep({SLOW_SECONDS})\n"
APP = """\
import os
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%s %%d" %% os.getpid()]
"""


@pytest.mark.long_on_pypy
@every_way
def test_no_request_is_lost(start_storm, tmp_path):
    """1: a reload by signal or by a touched file, one worker more, one less, one sent away: every request is answered."""
    storm = start_storm("--workers", "2", "--touch-reload", "touched")
    for number in storm.rounds():
        storm.wait_for_workers(2)
        storm.process.write_app(f"version-{number}")
        storm.reload()
        with storm.logging("touched has changed: done"):
            (tmp_path / "touched").write_text(str(number))
        storm.signal(TTIN, "worker 3 .* is ready")
        storm.ask_more()
        storm.signal(TTOU, r"worker \d .* has ended")
        with storm.logging(r"worker \d \(pid \d+\) has ended"):
            os.kill(storm.wait_for_workers(2)[-1], TERM)
        storm.ask_more()
    storm.check_nothing_lost()
    storm.stop()


@pytest.mark.long  # the same as above, for longer
def test_no_request_is_lost_by_a_slow_import(start_storm):
    """2: the same with an app of slow import."""
    storm = start_storm("--workers", "2", app=SLOW + APP % "one")
    for _ in storm.rounds():
        storm.wait_for_workers(2)
        storm.reload()
        storm.ask_more()
    storm.check_nothing_lost()
    storm.stop()


BROKEN = {
    "raise ImportError('no')\n": "raised ImportError: no",
    "def app(:\n": "raised SyntaxError: ",
    "raise SystemExit(3)\n": "raised SystemExit: 3",
    # As a constructor in C that calls exit().
    "import ctypes\nctypes.CDLL(None)._exit(4)\n": "it exited with status 4 before it was ready",
    "import os\nos.kill(os.getpid(), 11)\n": "it was killed by SIGSEGV before it was ready",
    "import time\ntime.sleep(99)\n": r"it was not ready within 6 s \(--start-timeout\)",
}


@pytest.mark.long_on_pypy
@pytest.mark.provokes("Fatal Python error: (Segmentation fault|Aborted)")
def test_broken_code_changes_nothing(start_storm):
    """3: code that raises, exits, crashes or hangs at import: old workers serve on, and the log says why; mended code is taken."""
    storm = start_storm("--workers", "2", "--start-timeout", "6")
    for number in storm.rounds():
        before = storm.wait_for_workers(2)
        for source, why in BROKEN.items():
            storm.process.write_app(source)
            storm.signal(
                HUP,
                rf"nothing was reloaded: worker 1 .* could not start: .*{why}.*; correct it, .*still serving as before: 2 of 2 workers",
            )
            assert storm.wait_for_workers(2) == before
            storm.ask_more(10)
        assert storm.process.count("Traceback") == 2 * (number + 1)  # of errors of the app, each once
        storm.process.write_app("mended")
        storm.reload()
    storm.check_nothing_lost()
    storm.stop()


def test_signals_in_any_order(start_storm, tmp_path):
    """6: reloads upon reloads, more and fewer workers, workers sent away or killed at their start: the server comes to rest, whole."""
    control = str(tmp_path / "control")
    storm = start_storm("--workers", "2", "--control", control)
    choose = random.Random(6)
    for _ in storm.rounds():
        storm.wait_for_workers(2)
        for _ in range(20):
            storm.process.signal(HUP)
        for _ in range(20):
            storm.process.signal(choose.choice([HUP, TTIN, TTOU, signal.SIGUSR1]))
            pids = storm.process.workers
            if pids and choose.random() < 0.3:
                with contextlib.suppress(ProcessLookupError):  # just ended
                    os.kill(choose.choice(pids), TERM)
            storm.ask_more(choose.choice([0, 0, 20]))
        settle(storm, control, 2)
    storm.check_nothing_lost()
    storm.stop()


def settle(storm, control, count):
    """Have so many workers, and wait until all serve.

    Earlier signals may still be on their way at the first question, but not at the second.
    """
    for _ in range(2):
        caller = TestCaller(control)
        caller.ask(ask="workers", count=count)
        wait_until(lambda: caller.read() and caller.is_answered, START_SECONDS, lambda: storm.process.log)  # noqa: B023
        caller.close()
    storm.wait_for_workers(count)


@pytest.mark.long_on_pypy
@every_way
@pytest.mark.parametrize("first", ["reload", "end"])
def test_an_end_among_reloads(start_storm, first):
    """6: SIGTERM amid a reload, and SIGHUP amid the end: status 0, and nothing is left."""
    storm = start_storm("--workers", "2")
    storm.wait_for_workers(2)
    storm.ask_more()
    pair = [HUP, TERM] if first == "reload" else [TERM, HUP]
    for number in [*pair, HUP, signal.SIGTTIN, signal.SIGUSR1]:
        storm.process.signal(number)
    assert storm.process.wait(30) == 0, storm.process.log
    storm.check_none_cut_off()


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("flags", [[], long(["--reload-at-once"])])
def test_never_fewer_than_asked_for(start_storm, flags):
    """7: during a reload the number of serving workers never falls below the wish; each goes when its successor serves."""
    storm = start_storm("--workers", "3", *flags)
    for _ in storm.rounds():
        storm.wait_for_workers(3)
        storm.reload()
    storm.check_nothing_lost()
    counts, serving, of_slot = [], 0, {}
    for slot, what in re.findall(r"worker (\d) \(pid \d+\) (is ready|drains)", storm.process.log):
        change = 1 if what == "is ready" else -1
        serving, of_slot[slot] = serving + change, of_slot.get(slot, 0) + change
        assert of_slot[slot] in (1, 2)
        counts.append(serving)
    assert min(counts[2:]) == 3 and counts[-1] == 3, storm.process.log
    assert max(counts) == 4 or flags
    storm.stop()
