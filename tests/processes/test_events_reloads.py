"""Reloads, on processes of numbers alone: order, time and end of each replacement."""

import contextlib
import logging
import os
import signal

import pytest
from harness.callers import TestCaller
from harness.supervising import LEAVE, slots_of, told

from aserve.connections.in_flight import InFlight
from aserve.core.errors import AserveError
from aserve.core.exchange import Exchange
from aserve.core.memory_file import map_memory_file
from aserve.core.page import State
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy

TERM, HUP = signal.SIGTERM, signal.SIGHUP


def test_one_after_another(supervised, caplog):
    """Each successor serves before the old worker drains, and that before the next begins."""
    one = supervised(2)
    first, second = one.start()
    one.signal(HUP)
    (new,) = [child for child in one.children if child.state == State.STARTING]
    assert (new.slot, new.generation) == (1, 2) and told(one, first) == []
    one.system.now += 2.5
    one.say(new, say="ready")
    assert told(one, first) == [LEAVE] and told(one, second) == []
    other = one.children[-1]
    assert (other.slot, other.state) == (2, State.STARTING)
    one.say(other, say="ready")
    assert told(one, second) == [LEAVE]
    one.leave(second)
    assert "SIGHUP: done" not in caplog.text  # the other may still accept: a new client may meet old code
    one.leave(first)
    assert "SIGHUP: done in 2.5 s: code and settings of 2 workers are new" in caplog.text
    for child in (first, second):
        assert one.end(child, status=1) == []
    # Work left unfinished by a worker of long ago is not the command's end.
    assert one.supervisor.fleet.exit_status == 0


def test_requests_that_go_on_in_old_workers(supervised, caplog):
    """The end of the reload tells old requests: some may hang."""
    one = supervised(2)
    before = one.start()
    for child in before:
        table = InFlight(None, map_memory_file(child.in_flight))
        for target in ("/a", "/b")[: child.slot]:
            table.begin(Exchange(f"REQUEST_METHOD\0GET\0REQUEST_URI\0{target}", 2))
    one.signal(HUP)
    one.say(one.children[-1], say="ready")
    one.say(one.children[-1], say="ready")
    one.leave(*before)
    assert "of 2 workers are new; 2 old workers still drain, with 3 requests (--drain-timeout 30)" in caplog.text
    one.end(before[1])
    one.signal(HUP)
    for child in one.children[-1:]:
        one.say(child, say="ready")
    for child in one.children[-1:]:
        one.say(child, say="ready")
    one.leave(*[child for child in one.children if child.state is State.DRAINING and not child.has_left])
    assert "of 2 workers are new; 1 old worker still drains, with 1 request (--drain-timeout 30)" in caplog.text


def test_code_that_does_not_start(supervised, caplog):
    """Nothing has changed, and the log says so."""
    one = supervised(2)
    before = one.start()
    one.signal(HUP)
    new = one.children[-1]
    one.say(new, say="failed", why="no module 'a'", traceback="Traceback: here\n")
    assert one.end(new, status=1) == []
    assert one.children == before and all(child.state == State.READY for child in before)
    assert (
        f"SIGHUP: nothing was reloaded: {new} could not start: no module 'a'; correct it, and send SIGHUP; "
        "still serving as before: 2 of 2 workers" in caplog.text
    )
    assert one.turn(100.0) == [] and "degraded" not in caplog.text


def test_a_later_successor_that_does_not_start(supervised, caplog):
    """The new code has shown its fitness: the slot is tried again, and the old worker goes on meanwhile."""
    one = supervised(2)
    first, second = one.start()
    one.signal(HUP)
    one.say(one.children[-1], say="ready")
    other = one.children[-1]
    one.end(other, number=9)
    assert (
        f"{other} could not start: it was killed by SIGKILL before it was ready, without a word; the next"
        in caplog.text
    )
    assert "SIGHUP: half done: 1 of 2 workers has the new code" in caplog.text
    assert second.state == State.READY and "degraded" not in caplog.text
    (other,) = one.turn(0.11)
    one.say(other, say="ready")
    one.leave(first)
    assert second.state == State.DRAINING and "SIGHUP: done" not in caplog.text
    one.end(second, number=9)
    assert "SIGHUP: done" in caplog.text


@pytest.mark.parametrize("is_unfit", [True, False])
def test_a_fork_that_fails(supervised, monkeypatch, caplog, is_unfit):
    """Nothing is reloaded, and nothing of it goes on: no other slot begins, and the supervisor lives, also with --preload."""
    one = supervised(2, preload=is_unfit)
    if is_unfit:
        (mold,) = one.turn()
        one.say(mold, say="unfit", why="at import: thread ticker")
        one.end(mold)
    workers = one.start()
    one.system.fork_error = None if is_unfit else OSError(11, "Resource temporarily unavailable")
    one.signal(HUP)
    if is_unfit:
        (mold,) = one.molds
        one.system.fork_error = OSError(11, "Resource temporarily unavailable")
        one.say(mold, say="unfit", why="at import: thread ticker")
        one.end(mold)
    assert "still serving as before: 2 of 2 workers" in caplog.text
    one.turn()
    assert one.children == list(workers) and one.supervisor.fleet.reload is None


def test_who_started_before_it(supervised, caplog):
    """The reload need not wait for the failed starter."""
    one = supervised(2, start_seconds=5)
    _, second = one.start()
    one.end(second, number=9)
    one.turn(0.2)
    late = one.children[-1]
    one.turn(6)
    one.signal(HUP)
    one.end(late, number=6)
    assert (
        f"{late} could not start: it was not ready within 5 s (--start-timeout); a reload has begun since"
        in caplog.text
    )
    assert one.supervisor.fleet.is_moving and "half done" not in caplog.text


def test_what_systemd_is_told_of_one_that_is_half_done(supervised, monkeypatch, manager):
    """READY, with a status: `systemctl reload` need not wait for an endless one; then the end is told."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    one = supervised(2)
    before = one.start()
    one.signal(HUP)
    one.say(one.children[-1], say="ready")
    one.turn()
    assert [message[0] for message in manager.hear()] == ["READY=1", "RELOADING=1"]
    one.end(one.children[-1], number=9)
    one.turn()
    assert manager.hear()[2][-1].endswith(" with 2 workers; a reload is half done")
    one.turn(0.11)
    one.say(one.children[-1], say="ready")
    one.leave(*before)
    one.turn()
    assert [message[0] for message in manager.hear()[2:]] == ["READY=1", manager.hear()[0][-1]]


def test_settings_that_have_not_changed(supervised, monkeypatch):
    """The app may have: all workers are replaced, for another plan with the same settings."""
    one = supervised(2)
    before, plan = one.start(), one.supervisor.fleet.plan
    site = one.supervisor.parts.site._replace(read=lambda before: before._replace())
    monkeypatch.setattr(one.supervisor.parts, "site", site)
    one.signal(HUP)
    one.start()
    one.leave(*before)
    fleet = one.supervisor.fleet
    assert fleet.reload is None and fleet.plan is not plan and fleet.plan.config is plan.config
    assert slots_of(child for child in one.children if child.plan is fleet.plan) == [1, 2]


def test_settings_that_are_wrong(supervised, caplog):
    one = supervised(1)
    one.start()
    for error in (ConfigError("workers: no"), AserveError("route: no")):
        one.read_error = error
        one.signal(HUP)
        assert len(one.children) == 1 and f"SIGHUP: nothing was reloaded: {error}; correct it" in caplog.text


def test_settings_that_cannot_be_read(supervised, tmp_path, monkeypatch, caplog):
    """Any fault changes nothing, and the log has its traceback; of a missing folder it advises."""
    one = supervised(1, control=str(tmp_path / "control"))
    one.start()
    one.read_error = RuntimeError("of a plug-in")
    refused = "the settings could not be read: RuntimeError: of a plug-in; the log has the traceback"
    one.signal(HUP)
    assert f"SIGHUP: nothing was reloaded: {refused}; correct it" in caplog.text
    assert "Traceback (most recent call last)" in caplog.text
    with contextlib.closing(TestCaller(tmp_path / "control")) as caller:
        caller.ask(ask="reload")
        for _ in range(3):
            one.turn()
        assert caller.read() == [{"error": f"nothing was reloaded: {refused}"}]
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    one.read_error = FileNotFoundError(2, "No such file or directory")
    one.signal(HUP)
    assert (
        "SIGHUP: nothing was reloaded: the working directory was removed: start aserve in one that stays" in caplog.text
    )
    assert len(one.children) == 1


def test_settings_that_have_changed(supervised, caplog):
    """New settings are those of the successors, and from the first of these on the supervisor's; the address stays."""
    one = supervised(1)
    one.start()
    one.settings.update(workers=3, threads=5, bind=":1", log_level="warning")
    one.signal(HUP)
    assert "SIGHUP: unchanged until the command is started anew: --bind" in caplog.text
    (new,) = [child for child in one.children if child.state == State.STARTING]
    assert new.plan.config.threads == 5 and new.plan.config.bind == ("127.0.0.1:8000",)
    one.say(new, say="ready")
    assert slots_of(child for child in one.children if child.state == State.STARTING) == [2, 3]


def test_a_reload_leaves_levels_to_a_log_config(supervised, tmp_path):
    """The levels of loggers are the file's."""
    level = logging.getLogger("aserve").level
    one = supervised(1, log_config=str(tmp_path / "log.ini"))
    one.start()
    one.settings.update(log_level="critical")
    one.signal(HUP)
    (new,) = [child for child in one.children if child.state == State.STARTING]
    one.say(new, say="ready")
    assert logging.getLogger("aserve").level == level


def test_asked_for_once_more(supervised, caplog):
    """Reloads asked for during one are one more, afterwards, whether the first was done or not."""
    one = supervised(1)
    (before,) = one.start()
    one.signal(HUP)
    one.system.now += 7.0
    for _ in range(3):
        one.signal(HUP)
    new = one.children[-1]
    assert f"once more, after what is under way: {new} has been starting for 7.0 s; kill it if it hangs" in caplog.text
    one.end(new, number=9)
    assert caplog.text.count("SIGHUP: replacing 1 worker") == 2
    (new,) = one.turn() or one.children[-1:]
    one.signal(HUP)
    one.say(new, say="ready")
    one.leave(before)
    assert caplog.text.count("SIGHUP: done") == 1 and caplog.text.count("SIGHUP: replacing 1 worker") == 3


def test_a_file_that_has_changed(supervised, tmp_path, caplog):
    """--touch-reload: files are looked at once a second."""
    one = supervised(1, touch_reload=[str(tmp_path / "touched")])
    one.start()
    (tmp_path / "touched").touch()
    one.turn(0.5)
    assert len(one.children) == 1
    assert slots_of(one.turn(0.6)) == [1]
    assert "touched has changed: replacing 1 worker\n" in caplog.text


def test_a_file_that_has_changed_during_a_reload(supervised, tmp_path, caplog):
    """Touched again before the first successor serves: another reload follows, for parts perhaps read before."""
    path = tmp_path / "touched"
    path.touch()
    one = supervised(1, touch_reload=[str(path)])
    one.start()
    one.signal(HUP)
    os.utime(path, (1, 1))
    one.say(one.children[-1], say="ready")
    one.turn(1.1)
    assert "touched has changed: once more, after what is under way" in caplog.text


def test_other_files_that_may_change(supervised, tmp_path, caplog):
    """The watched files are of the serving settings."""
    one = supervised(1)
    one.start()
    one.settings.update(touch_reload=[str(tmp_path / "touched")])
    one.signal(HUP)
    one.say(one.children[-1], say="ready")
    (tmp_path / "touched").touch()
    one.turn(1.1)
    assert "touched has changed: once more" in caplog.text
