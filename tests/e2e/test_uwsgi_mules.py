"""Mules (--uwsgi-mule): processes beside the workers that get messages from them, and lose none by a reload."""

import os
import re
import signal

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.uwsgi_apps import APP, ask, notes, who

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

PATIENCE_SECONDS = 60.0  # a mule imports the app first, on a busy machine
MULES = ["--uwsgi-module", "on", "--uwsgi-cache", "items=100"]
EXTRA = """\
@mulefunc
def work(name):
    uwsgi.cache_set(name, str(uwsgi.mule_id()))
    note(name)

@mulefunc(2)
def second(name):
    note(f"{name}-{uwsgi.mule_id()}")

@timer(0.05, target="mule2")
def tick(number):
    note(f"tick-{uwsgi.mule_id()}-{uwsgi.worker_id()}")
"""
PROGRAM = """\
import os, uwsgi
while True:
    message = uwsgi.mule_get_msg()
    with open("notes", "a") as file:
        file.write(f"{message.decode()} {os.getpid()}\\n")
"""


@pytest.fixture
def start(start_workers):
    """Start a server with these mules: start(*programs, extra="", flags=()) -> Workers."""

    def start_(*programs, extra=EXTRA, flags=()):
        mules = [word for program in programs for word in ("--uwsgi-mule", program)]
        return start_workers("--workers", "2", *MULES, *mules, *flags, app=APP + extra)

    return start_


def mules_of(process):
    """Return the pids of begun mules, in the order of the log."""
    return [int(pid) for pid in re.findall(r"attached mule(?:-\d)? \(pid (\d+)\) has begun", process.log)]


@pytest.mark.long_on_pypy
@pytest.mark.provokes("was killed by SIGKILL", "is started once more")
def test_a_function_runs_in_a_mule(start, wait_until):
    """A call of a request runs in a mule, which shares the cache; a dead mule's calls are done by the next."""
    process = start("-", "-")
    assert ask(process, "work('job')")[0] == "True" and ask(process, "second('other')")[0] == "True"
    wait_until(lambda: who(process, "job") and who(process, "other-2"), PATIENCE_SECONDS)
    first, two = mules_of(process)
    assert who(process, "other-2") == [two] and who(process, "job")[0] in (first, two)
    assert ask(process, "uwsgi.cache_get('job')")[0] in ("b'1'", "b'2'")
    os.kill(two, signal.SIGKILL)
    assert ask(process, "second('later')")[0] == "True"
    wait_until(lambda: who(process, "later-2"), PATIENCE_SECONDS)
    assert who(process, "later-2") not in ([two], [first])
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_a_timer_of_a_mule_runs_there(start, wait_until):
    process = start("-", "-")
    wait_until(lambda: [word for word, _ in notes(process) if word.startswith("tick")][3:], PATIENCE_SECONDS)
    assert {word for word, _ in notes(process)} == {"tick-2-0"}
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_a_program_of_a_mule_gets_messages(start, wait_until):
    """A mule's program has the module uwsgi, and waits for messages by itself. A reload starts it anew; messages sent meanwhile are done."""
    process = start("mule.py", extra=f"import pathlib\npathlib.Path('mule.py').write_text({PROGRAM!r})\n")
    assert ask(process, "uwsgi.mule_msg('one')")[0] == "True"
    (before,) = wait_until(lambda: who(process, "one"), PATIENCE_SECONDS)
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done", 60)
    assert ask(process, "uwsgi.mule_msg('two', 1)")[0] == "True"
    wait_until(lambda: who(process, "two"), PATIENCE_SECONDS)
    wait_until(lambda: len(mules_of(process)) == 2, PATIENCE_SECONDS)
    assert before == mules_of(process)[0]
    assert process.stop() == 0


@pytest.mark.long_on_pypy
@pytest.mark.provokes("was killed by SIGKILL")
def test_counts_go_on_over_workers(start, wait_until):
    """Workers' requests are counted over their ends, as a status page shows."""
    process = start("-")
    for _ in range(5):
        ask(process, "1")
    wait_until(lambda: int(ask(process, "uwsgi.total_requests()")[0]) >= 5)
    _, pid = ask(process, "1")
    os.kill(pid, signal.SIGKILL)
    process.wait_for_log("no worker is missing any more")
    assert int(ask(process, "uwsgi.total_requests()")[0]) >= 5
    found = eval(ask(process, "[(w['id'], w['tx'] > 0, w['avg_rt'] >= 0, w['status']) for w in uwsgi.workers()]")[0])
    assert [each[0] for each in found] == [1, 2] and any(each[1] for each in found)
    assert process.stop() == 0
