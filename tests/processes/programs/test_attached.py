"""Programs beside the workers: on processes of numbers alone; tests/e2e/test_attached.py has real ones."""

import os
import signal
import time
import types

import pytest

from aserve.compat.uwsgi_api.spooler import pages as spoolers
from aserve.compat.uwsgi_api.spooler.board import PAGE_VARIABLE, Page
from aserve.compat.uwsgi_api.spooler.supervising import Spoolers
from aserve.core.memory_file import map_memory_file
from aserve.features import Config
from aserve.features.programs import Named
from aserve.lifecycle.program import name_programs
from aserve.processes.children.command import Command
from aserve.processes.children.poller import Timers
from aserve.processes.programs import attached as module
from aserve.processes.programs.attached import Attached
from aserve.settings import crontab

TERM, KILL = signal.SIGTERM, signal.SIGKILL


class Running:
    """Attached programs whose kernel and clock are the test's."""

    def __init__(self, monkeypatch, *commands, **settings):
        self.now, self.started, self.signals, self.counted, self.cut = 100.0, [], [], [], []
        self.error = None
        self.refused = set()  # programs of another user
        self.seconds_since_1970 = 1_700_000_000.0 - 1_700_000_000 % 86400  # midnight, by the wall clock
        clock = types.SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.seconds_since_1970)
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "start_program", self._start)
        monkeypatch.setattr(os, "kill", self._kill)
        monkeypatch.setattr(os, "killpg", self._kill_group)
        self.timers = Timers(lambda: self.now)
        self.config = Config(workers=1, drain_seconds=5, attach=commands, **settings)
        self.attached = self.new()
        self.attached.follow(self.config)

    def new(self):
        """Return the state of another program in the same process."""
        environ = {"A": "a", "B": "b", "LISTEN_FDS": "1", "NOTIFY_SOCKET": "@x"}
        command = Command(["python", "-m", "aserve", "a:app"], environ, "/")
        self.spoolers = Spoolers(command.words, {})
        parts = self.spoolers, Named()
        return Attached(
            command, None, self.timers, lambda name, cell: self.counted.append(cell),
            lambda config: name_programs(one for part in parts for one in part.programs(config)),
        )  # fmt: skip

    def _start(self, program, environ, folder, signals, kept):
        if self.error is not None:
            raise self.error
        self.started.append((program.name, environ, folder))
        return 1000 + len(self.started)

    def _kill(self, pid, number):
        self.signals.append((pid, number))
        if pid in self.refused:
            raise PermissionError(1, "Operation not permitted")

    def _kill_group(self, pid, number):
        self._kill(-pid, number)
        if pid % 2:
            raise ProcessLookupError  # nobody was left

    def turn(self, seconds=0.0):
        """Let so much time pass; return the names of started programs."""
        self.now += seconds
        self.seconds_since_1970 += seconds
        before = len(self.started)
        for timer in self.timers.pop_due():
            timer.run()
        self.attached.start_due()
        return [name for name, _, _ in self.started[before:]]

    def states(self):
        """Return where each stands."""
        return {each["name"]: each["state"] for each in self.attached.describe()}


@pytest.fixture
def run(monkeypatch, caplog):
    """Make programs: run(*commands, **settings) -> Running."""
    caplog.set_level("INFO", "aserve")
    monkeypatch.setattr(spoolers, "KEPT", {})
    yield lambda *commands, **settings: Running(monkeypatch, *commands, **settings)
    for fd in spoolers.KEPT.values():
        os.close(fd)


def test_the_start_has_folder_and_variables(run, caplog):
    """Each program is started once, in the folder, with the app's variables, and without systemd's words to us."""
    one = run("celery -A shop", "beat=celery beat", chdir="/srv", env=["B=c"])
    assert len(one.attached) == 0 and one.turn() == ["celery", "beat"] and one.turn(50) == []
    assert one.started[0][1:] == ({"A": "a", "B": "c"}, "/srv") and len(one.attached) == 2
    assert "attached beat (pid 1002) has begun: celery ..." in caplog.text
    first, _ = one.attached.describe()
    assert (first["pid"], first["state"], first["seconds"], first["restarts"]) == (1001, "running", 50.0, 0)


def test_an_end_is_followed_by_a_start(run, caplog):
    """An ended program is started once more, later each time; processes left behind are ended."""
    one = run("a")
    one.turn()
    for number, seconds in enumerate((0.1, 0.2, 0.4)):
        one.attached.on_end(1001 + number, "exited with status 3")
        assert (
            one.states() == {"a": "waiting"}
            and one.attached.describe_missing() == "; attached, but not running: a"
            and len(one.attached) == 0
        )
        assert one.turn(seconds - 0.01) == [] and one.turn(0.02) == ["a"] and one.attached.describe_missing() == ""
        assert (
            f"(pid {1001 + number}) has ended after 0 s: it exited with status 3; it is started once more in {seconds} s"
            in caplog.text
        )
    assert one.signals == [(-1001, KILL), (-1002, KILL), (-1003, KILL)]
    assert one.counted == ['reason="ended"'] * 3 and one.attached.describe()[0]["restarts"] == 3


def test_one_that_ran_for_long(run):
    """The end counts as the first again."""
    one = run("a")
    one.turn()
    one.attached.on_end(1001, "exited with status 0")
    one.turn(0.1)
    one.now += 60
    one.attached.on_end(1002, "exited with status 0")
    assert one.turn(0.1) == ["a"]


def test_spoolers_are_our_own_command(run, caplog):
    """Spoolers are our own command, with a variable for the folder, and find folders alone."""
    one = run("a", spooler=["/x", "/y"], spooler_processes=2, chdir="/srv")
    assert one.turn() == ["spooler", "spooler-2", "spooler-3", "spooler-4", "a"]
    assert [(environ.get("ASERVE_DOES_JOBS_OF"), folder) for _, environ, folder in one.started] == [
        ("/x", None), ("/x", None), ("/y", None), ("/y", None), (None, "/srv"),
    ]  # fmt: skip
    assert "attached spooler-4 (pid 1004) has begun: python ..." in caplog.text


def test_ends_of_strangers_mean_nothing(run):
    one = run("a")
    one.turn()
    one.attached.on_end(77, "exited with status 0")
    assert one.states() == {"a": "running"} and one.signals == []


def test_no_process_is_left(run, caplog):
    """A failed start is tried again."""
    one = run("a")
    one.error = BlockingIOError(11, "Resource temporarily unavailable")
    assert one.turn() == [] and one.turn(0.1) == []
    assert "attached a could not be forked: Resource temporarily unavailable; the next try is in 0.2 s" in caplog.text
    one.error = None
    assert one.turn(0.2) == ["a"]


def test_a_reload_starts_all_anew(run, caplog):
    """All are started anew; removed names end, new ones begin."""
    one = run("a", "b", "c=x")
    one.turn()
    one.attached.on_end(1002, "was killed by SIGSEGV")
    one.signals.clear()
    config = Config(workers=1, drain_seconds=5, attach=["a", "b", "d"])
    one.attached.renew(config)
    assert one.turn() == ["b", "d"]  # b waited for nothing any more
    assert sorted(one.signals) == [(1001, TERM), (1003, TERM)]
    assert one.states() == {"a": "ending", "b": "running", "d": "running", "c": "ending"}
    one.attached.renew(config)
    assert one.signals.count((1001, TERM)) == 1
    one.attached.on_end(1001, "exited with status 0")
    one.attached.on_end(1003, "exited with status 0")
    assert one.turn() == ["a"] and one.states() == {"a": "running", "b": "ending", "d": "ending"}
    assert one.counted == ['reason="ended"', 'reason="reload"']
    assert "attached a (pid 1001) is started anew: workers are new" in caplog.text
    assert "attached a (pid 1001) has ended, to be started anew: it exited with status 0" in caplog.text


def test_the_same_settings_are_asked_once(run):
    """A reload without other settings starts all programs anew, and asks no extension for the programs."""
    one = run("a")
    one.turn()
    one.attached._programs_of = None
    one.attached.renew(one.config)
    assert one.signals == [(1001, TERM)]


def test_one_that_does_not_end(run, caplog):
    """A program without end is killed with the whole group after the time."""
    one = run("a")
    one.turn()
    one.attached.renew(one.config)
    one.turn(4.9)
    assert one.signals == [(1001, TERM)]
    one.turn(0.2)
    assert one.signals == [(1001, TERM), (1001, KILL), (-1001, KILL)]
    assert "attached a (pid 1001) had not ended 5 s after SIGTERM (--drain-timeout); ending it" in caplog.text
    one.attached.on_end(1001, "was killed by SIGKILL")
    assert one.turn() == ["a"]


def test_the_end_of_all(run):
    """Programs are told, have their time, and none is started any more, not by a reload either."""
    one = run("a", "b")
    one.turn()
    one.attached.end(lambda: one.cut.append(1))
    one.attached.renew(one.config)
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn(1) == [] and len(one.attached) == 1 and one.cut == []
    one.turn(4)
    assert one.cut == [1] and one.signals[-2:] == [(1002, KILL), (-1002, KILL)]
    one.attached.on_end(1002, "was killed by SIGKILL")
    assert len(one.attached) == 0 and one.turn(99) == []


def test_another_users_program_does_not_hold_the_end(run, caplog):
    """A program that may not be sent a signal keeps nobody from ending: the log says so, and the end does not wait."""
    one = run("a", "b")
    one.turn()
    one.refused = {1001, -1001}
    one.attached.renew(one.config)
    assert one.signals == [(1001, TERM), (1002, TERM)]
    assert (
        "attached a (pid 1001): it may not be sent SIGTERM, as it runs as another user; end it by hand" in caplog.text
    )
    one.attached.on_end(1002, "exited with status 0")
    assert one.turn() == ["b"]
    one.attached.end(lambda: one.cut.append(1))
    assert len(one.attached) == 2 and one.signals[-1] == (1003, TERM)
    one.attached.on_end(1003, "exited with status 0")
    one.turn(5)
    assert len(one.attached) == 0 and one.cut == [1]
    one.attached.on_end(1001, "exited with status 0")  # after all
    assert one.states() == {"a": "waiting", "b": "waiting"}


def test_another_users_after_a_reload(run):
    """Such a program is not begun a second time while it runs, and the end does not wait."""
    one = run("a")
    one.turn()
    one.refused = {1001}
    one.attached.renew(one.config)
    assert one.turn(6) == [] and len(one.attached) == 1 and one.states() == {"a": "ending"}
    one.attached.end(lambda: one.cut.append(1))
    assert len(one.attached) == 0 and one.cut == [1]


def test_another_users_at_once(run):
    """Nor does the end at once."""
    one = run("a")
    one.turn()
    one.refused = {1001, -1001}
    one.attached.kill()
    assert len(one.attached) == 0 and one.signals == [(1001, KILL), (-1001, KILL)]


def test_the_rest_of_another_users_group(run):
    """A left process not to be killed does not hide the program's end."""
    one = run("a")
    one.turn()
    one.refused = {-1001}
    one.attached.on_end(1001, "exited with status 0")
    assert one.states() == {"a": "waiting"} and one.turn(0.1) == ["a"]


def test_two_of_a_program_never_run(run):
    """A program waits for the end of the same one, or of a namesake begun by different settings."""
    one = run("p worker", "p beat", "q=x")
    one.turn()
    one.attached.renew(Config(workers=1, drain_seconds=5, attach=["p beat"]))  # now named p, and p-2 before
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn() == [] and {each["pid"]: each["words"] for each in one.attached.describe() if each["pid"]} == {
        1002: ("p", "beat"),
        1003: ("x",),
    }
    one.attached.follow(Config(workers=1, drain_seconds=5, attach=["p beat", "q=x new"]))
    assert one.turn() == []
    one.attached.on_end(1002, "exited with status 0")
    assert one.turn() == ["p"]
    one.attached.on_end(1003, "exited with status 0")
    assert one.turn() == ["q"]


def test_never_two_of_those_that_swap_their_names(run):
    """Two never run when their order changes."""
    one = run("p worker", "p beat")
    one.turn()
    one.attached.renew(Config(workers=1, drain_seconds=5, attach=["p beat", "p worker"]))
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn() == []
    one.attached.on_end(1002, "exited with status 0")
    assert one.turn() == ["p", "p-2"]


def test_as_many_of_the_same_as_are_named(run):
    """Each goes on by itself: none waits for the rest."""
    one = run("p", "p", spooler=["/x", "/y"])
    assert len(one.turn()) == 4
    one.attached.renew(one.config)
    one.attached.on_end(1001, "exited with status 0")
    one.attached.on_end(1003, "exited with status 0")
    assert one.turn() == ["spooler", "p"]


def test_one_that_a_reload_has_told_to_end(run):
    """At the end the old time goes on, and the cut counts."""
    one = run("a")
    one.turn()
    one.attached.renew(one.config)
    one.turn(3)
    one.attached.end(lambda: one.cut.append(1))
    one.turn(2)
    assert one.signals == [(1001, TERM), (1001, KILL), (-1001, KILL)] and one.cut == [1]


def test_none_is_waited_for_at_once(run):
    one = run("a")
    one.turn()
    one.attached.kill()
    one.attached.on_end(1001, "was killed by SIGKILL")
    assert one.signals[:2] == [(1001, KILL), (-1001, KILL)] and one.turn(99) == []


def test_new_code_goes_on_with_programs(run):
    """New code goes on with running programs, and ends programs told to end."""
    one = run("a", "b", "c=x", "d")
    one.turn()
    one.attached.on_end(1004, "exited with status 0")
    one.attached.renew(Config(workers=1, drain_seconds=5, attach=["a", "b", "d"]))
    states = one.attached.describe()
    one.signals.clear()
    one.now += 2
    after = one.attached = one.new()
    after.follow(Config(workers=1, drain_seconds=5, attach=["a", "d"]))
    after.adopt(states)
    assert one.signals == []  # all three were told
    assert one.turn() == ["d"] and one.states() == {"a": "ending", "d": "running", "c": "ending", "b": "ending"}
    for pid in (1001, 1002, 1003):
        after.on_end(pid, "exited with status 0")
    assert one.turn() == ["a"] and one.states() == {"a": "running", "d": "running"}
    assert next(each for each in after.describe() if each["name"] == "a")["restarts"] == 1


def test_new_code_while_one_ends(run):
    """The program has the old time, and is not told twice; a removed program is told."""
    one = run("a", "b")
    one.turn()
    one.attached.renew(Config(workers=1, drain_seconds=5, attach=["a"]))
    states = [
        {**each, "state": "running", "ends_in": None} if each["name"] == "b" else each
        for each in one.attached.describe()
    ]
    one.now += 2
    states = [{**each, "ends_in": 3.0} if each["name"] == "a" else each for each in states]
    one.signals.clear()
    one.timers = Timers(lambda: one.now)
    one.attached = one.new()
    one.attached.follow(Config(workers=1, drain_seconds=5, attach=["a"]))
    one.attached.adopt(states)
    assert one.signals == [(1002, TERM)]
    one.turn(3)
    assert one.signals[1:] == [(1001, KILL), (-1001, KILL)]


# Jobs


def page_of(one, number):
    """Return the page of the process started so."""
    fd, place = one.started[number][1][PAGE_VARIABLE].split(",")
    return Page.inherited(f"{os.dup(int(fd))},{place}", map_memory_file)


def test_a_job_that_takes_too_long(run, caplog, monkeypatch):
    """The process of the job is killed with all children; the job has failed."""
    one = run("a", spooler=["/x"], spooler_processes=2, spooler_seconds=5)
    one.turn()
    page_of(one, 0).begin("old")
    page_of(one, 1).begin("new")
    pages = one.spoolers._pages
    monkeypatch.setattr(
        pages, "overdue", lambda name, seconds: ("old", 5.4) if (name, seconds) == ("spooler", 5) else None
    )
    one.attached.end_overdue()
    assert one.signals == [(1001, KILL), (-1001, KILL)]
    assert "attached spooler (pid 1001) has been at old for 5 s (--spooler-timeout): ending it" in caplog.text
    one.attached.on_end(1001, "was killed by SIGKILL")
    assert one.spoolers.status() == {"jobs": {"ended": {"done": 0, "failed": 1, "retried": 0}, "waiting": {"/x": 0}}}
    assert one.counted == ['reason="ended"'] and one.turn(0.1) == ["spooler"]


def test_without_jobs_nothing_is_overdue(run, monkeypatch):
    one = run("a")
    one.attached.end_overdue()
    assert one.spoolers.status() == {"jobs": None} and spoolers.KEPT == {} and one.turn() == ["a"]
    one = run(spooler=["/x"])
    one.turn()
    page_of(one, 0).begin("old")
    one.attached.end_overdue()
    assert one.signals == []


def test_one_that_has_done_its_jobs(run, caplog):
    """The next begins at once, without a fault; any different end is a fault."""
    one = run("a", spooler=["/x"], spooler_max_jobs=3)
    one.turn()
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn() == ["spooler"] and one.attached.describe()[0]["pause_seconds"] == 0.0
    assert "attached spooler (pid 1001) has ended, to be started anew: it has done its jobs" in caplog.text
    one.attached.on_end(1003, "exited with status 1")
    one.attached.on_end(1002, "exited with status 0")
    assert one.counted == ['reason="recycle"', 'reason="ended"', 'reason="ended"']
    assert one.attached.describe()[0]["pause_seconds"] == 0.1


# At times (--cron)


@pytest.fixture
def cron(run, monkeypatch):
    """Make programs with commands at times, by the clock of Greenwich."""
    monkeypatch.setattr(crontab, "time", types.SimpleNamespace(localtime=time.gmtime))
    return lambda *commands, **settings: run(cron=commands, **settings)


def test_a_run_begins_at_its_minute(cron, caplog):
    """A command begins at the minute, once; the end is final. Nothing is told as missing."""
    one = cron("*/2 * * * * prune --all", "0 3 * * * x", chdir="/srv")
    assert one.turn() == [] and one.states() == {"cron prune": "scheduled", "cron x": "scheduled"}
    assert one.turn(60) == [] and one.turn(60) == ["cron prune"] and one.turn(30) == []
    assert one.started[0][2] == "/srv" and one.states()["cron prune"] == "running"
    one.attached.on_end(1001, "exited with status 0")
    assert (
        one.states()["cron prune"] == "scheduled" and one.attached.describe_missing() == "" and len(one.attached) == 0
    )
    assert one.turn(89) == [] and one.turn(1) == ["cron prune"]
    one.attached.on_end(1002, "exited with status 3")
    assert one.counted == ['result="done"', 'result="failed"'] and one.attached.describe()[0]["restarts"] == 2
    assert "cron prune (pid 1001) has begun: prune ...\n" in caplog.text
    assert [(record.levelname, record.message) for record in caplog.records if "has ended" in record.message] == [
        ("INFO", "cron prune (pid 1001) has ended after 30 s: it exited with status 0"),
        ("ERROR", "cron prune (pid 1002) has ended after 0 s: it exited with status 3"),
    ]
    assert one.signals == [(-1001, KILL), (-1002, KILL)]  # processes left behind


def test_one_that_still_runs(cron, caplog):
    """A running command is not begun a second time; the skipped run is counted, and told."""
    one = cron("* * * * * a")
    assert one.turn(60) == ["cron a"] and one.turn(60) == [] and one.turn(1) == []
    assert one.counted == ['result="skipped"']
    assert "cron a (pid 1001) still runs, after 60 s: it is not begun once more" in caplog.text
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn(1) == [] and one.turn(60) == ["cron a"]


def test_a_reload_while_it_runs(cron):
    """The run goes on; new settings count for the next, and a removed command ends."""
    one = cron("a=* * * * * x", "b=* * * * * y")
    assert one.turn(60) == ["cron a", "cron b"]
    one.attached.renew(Config(workers=1, drain_seconds=5, cron=["a=* * * * * new"], env=["C=c"]))
    assert one.signals == [(-1002, TERM)] and one.turn() == []
    assert one.states() == {"cron a": "running", "cron b": "ending"}
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn(1) == [] and one.turn(60) == ["cron a"] and one.started[-1][1]["C"] == "c"


def test_a_reload_with_another_order(cron):
    """None runs twice at a time, under whatever name, and none waits for another's run."""
    one = cron("2 0 * * * sh x", "* * * * * sh y")
    assert one.turn(60) == ["cron sh-2"]
    one.attached.renew(Config(workers=1, drain_seconds=5, cron=["* * * * * sh y", "2 0 * * * sh x"]))
    assert one.turn(60) == ["cron sh-2"] and one.counted == ['result="skipped"']
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn(60) == ["cron sh"] and one.counted == ['result="skipped"', 'result="done"']


def test_the_end_while_it_runs(cron):
    """All processes of the shell are told, and have their time; nothing begins any more."""
    one = cron("* * * * * a", "*/2 * * * * b")
    one.turn(60)
    one.attached.end(lambda: one.cut.append(1))
    assert one.signals == [(-1001, TERM), (1001, TERM)]  # no group yet
    assert one.turn(60) == [] and one.cut == [1] and "skipped" not in "".join(one.counted)


def test_new_code_while_it_runs(cron):
    """The run goes on, and a past minute is not looked at again; the shell's processes are told to end as before."""
    one = cron("a=* * * * * x", "b=* * * * * y", "c=0 0 1 1 * z")
    one.turn(60)
    states = one.attached.describe()
    after = one.attached = one.new()
    one.signals.clear()
    after.follow(Config(workers=1, drain_seconds=5, cron=["a=* * * * * x", "c=0 0 1 1 * z"]))
    after.adopt([{**state, "looked_at": state["looked_at"] + 1} for state in states])
    assert one.signals == [(-1002, TERM)]
    one.attached.on_end(1001, "exited with status 0")
    assert one.turn() == [] and one.turn(60) == [] and one.turn(60) == ["cron a"]
    after.adopt([{"name": "cron a", "pid": 0, "is_wanted": True}])  # as told by another version


def test_no_process_is_left_for_it(cron):
    """The start is tried again, and the times go on."""
    one = cron("* * * * * a")
    one.error = BlockingIOError(11, "Resource temporarily unavailable")
    assert one.turn(60) == [] and one.states() == {"cron a": "waiting"}
    one.error = None
    assert one.turn(1) == ["cron a"]


def test_a_clock_that_is_set_back(cron):
    """By an hour, nothing runs a second time; by more, the clock was wrong before."""
    one = cron("* * * * * a")
    assert one.turn(60) == ["cron a"]
    one.attached.on_end(1001, "exited with status 0")
    one.seconds_since_1970 -= 3600
    assert one.turn(60) == [] and one.turn(3540) == [] and one.turn(60) == ["cron a"]
    one.attached.on_end(1002, "exited with status 0")
    one.seconds_since_1970 -= 86400
    assert one.turn() == [] and one.turn(60) == ["cron a"]


def test_a_reload_that_renames_them(cron, caplog):
    """A run goes on under the command's new name: the run is not cut off, and no second begins."""
    one = cron("* * * * * ./manage.py a", "* * * * * ./manage.py b", "* * * * * ./manage.py c")
    assert one.turn(60) == ["cron manage.py", "cron manage.py-2", "cron manage.py-3"]
    one.attached.on_end(1001, "exited with status 0")
    one.attached.renew(Config(workers=1, cron=["* * * * * ./manage.py c", "* * * * * ./manage.py b"]))
    assert one.signals == [(-1001, KILL)] and one.turn(60) == []
    assert one.counted == ['result="done"', 'result="skipped"', 'result="skipped"']
    one.attached.on_end(1003, "exited with status 1")
    assert "cron manage.py (pid 1003) has ended after 60 s: it exited with status 1" in caplog.text
    assert one.turn(60) == ["cron manage.py"] and one.states() == {
        "cron manage.py": "running",
        "cron manage.py-2": "running",
    }


def test_a_command_that_is_gone_from_among_others(cron):
    """The removed command's run ends, not the run with the name now."""
    one = cron("* * * * * ./manage.py a", "* * * * * ./manage.py b")
    one.turn(60)
    one.attached.renew(Config(workers=1, cron=["* * * * * ./manage.py b"]))
    assert {abs(pid) for pid, _ in one.signals} == {1001}
    assert one.states() == {"cron manage.py": "running", "cron manage.py-2": "ending"}
    one.attached.on_end(1001, "was killed by SIGTERM")
    assert one.turn(60) == [] and one.counted == ['result="skipped"']


def test_the_minute_of_another(cron):
    """A command waiting for a start does not give the minute to the next owner of the name."""
    one = cron("1 0 * * * ./manage.py a")
    one.error = BlockingIOError(11, "Resource temporarily unavailable")
    assert one.turn(60) == []
    one.error = None
    one.attached.renew(Config(workers=1, cron=["0 3 * * * ./manage.py b"]))
    assert one.turn(60) == [] and one.states() == {"cron manage.py": "scheduled"}


def test_new_code_and_what_is_due(cron):
    """New code starts waiting commands; old runs and ends are known, and names may differ by then."""
    one = cron("1 0 * * * a", "* * * * * ./manage.py b", "* * * * * ./manage.py c")
    one.error = BlockingIOError(11, "Resource temporarily unavailable")
    assert one.turn(60) == []
    one.error = None
    one.attached._by_name["cron a"].backoff.due_at = one.now + 600
    assert one.turn(1) == ["cron manage.py", "cron manage.py-2"]
    one.attached.on_end(1001, "exited with status 3")
    states, one.attached = one.attached.describe(), one.new()
    one.signals.clear()
    one.attached.follow(Config(workers=1, cron=["1 0 * * * a", "* * * * * ./manage.py c"]))
    one.attached.adopt(states)
    assert one.signals == [] and one.turn() == ["cron a"]
    _, last = one.attached.describe()
    assert (last["name"], last["pid"], last["restarts"]) == ("cron manage.py", 1002, 1)
    assert last["last_end"] == "exited with status 3"
