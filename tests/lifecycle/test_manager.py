"""Messages to a service manager."""

import os

import pytest
from harness.manager import Manager as Heard

from aserve.core.systemd import Notifier
from aserve.lifecycle.manager import Manager


@pytest.fixture
def heard(tmp_path):
    heard = Heard(tmp_path / "notify")
    yield heard
    heard.close()


def test_only_what_has_changed(heard):
    """READY goes out once, and after each reload; a new status; at the end nothing follows."""
    manager = Manager(Notifier(heard.address), os.getpid())
    for status in ("2 workers", "2 workers", "degraded", "degraded"):
        manager.tell_ready(status)
    manager.tell_reloading("SIGHUP")
    manager.tell_ready("degraded")
    manager.tell_stopping("SIGTERM")
    manager.tell_stopping("SIGQUIT")
    manager.tell_reloading("SIGHUP")
    manager.tell_ready("2 workers")
    ready, status, reloading, again, stopping = heard.hear()
    assert ready == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=2 workers"]
    assert status == ["STATUS=degraded"]
    assert reloading[0] == "RELOADING=1" and reloading[2] == "STATUS=reloading: SIGHUP"
    assert again == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=degraded"]
    assert stopping == ["STOPPING=1", "STATUS=SIGTERM"]


def test_warnings_follow_the_state(heard):
    """The line of `systemctl status` has the warnings of options behind the state."""
    Manager(Notifier(heard.address)).tell_ready("2 workers", [("No new certificate for a.example: refused.", "wait")])
    assert heard.hear() == [["READY=1", "STATUS=2 workers; no new certificate for a.example: refused"]]


class Deaf(Notifier):
    """Its messages do not go out for so many times."""

    times = 0

    def send(self, *fields, fds=()):
        self.times -= 1
        return super().send(*fields, fds=fds) if self.times < 0 else False


def test_what_has_not_gone_out(heard):
    """Such a message is told again with the next event: also the reload, and before it is ready."""
    notifier = Deaf(heard.address)
    manager = Manager(notifier)
    notifier.times = 2
    for _ in range(4):
        manager.tell_ready("2 workers")
    notifier.times = 1
    for _ in range(3):
        manager.tell_ready("degraded")
    notifier.times = 3
    manager.tell_reloading("SIGHUP")
    for _ in range(5):
        manager.tell_ready("2 workers")
    assert [(message[0], message[-1]) for message in heard.hear()] == [
        ("READY=1", "STATUS=2 workers"),
        ("STATUS=degraded", "STATUS=degraded"),
        ("RELOADING=1", "STATUS=reloading: SIGHUP"),
        ("READY=1", "STATUS=2 workers"),
    ]


def test_what_has_changed_nothing(heard):
    """The status says so after READY, whatever else changes, until the next reload."""
    manager = Manager(Notifier(heard.address))
    manager.tell_reloading("SIGUSR2")
    manager.note_unchanged("SIGUSR2")
    for status in ("2 workers", "degraded"):
        manager.tell_ready(status)
    manager.tell_reloading("SIGHUP")
    manager.tell_ready("2 workers")
    assert [message[-1] for message in heard.hear()] == [
        "STATUS=reloading: SIGUSR2",
        "STATUS=2 workers; SIGUSR2 has changed nothing, see the log",
        "STATUS=degraded; SIGUSR2 has changed nothing, see the log",
        "STATUS=reloading: SIGHUP",
        "STATUS=2 workers",
    ]


@pytest.mark.parametrize(("usec", "messages"), [("", []), ("5000000", [["WATCHDOG=1"]])])
def test_the_watchdog_is_put_off(heard, monkeypatch, usec, messages):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    Manager(Notifier(heard.address)).feed_watchdog(True)
    assert heard.hear() == messages


def test_the_watchdog_of_workers_that_are_stuck(heard, monkeypatch, caplog):
    """The watchdog is not put off, and half-way the log warns, once each time."""
    monkeypatch.setenv("WATCHDOG_USEC", "10000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    manager = Manager(Notifier(heard.address))
    for has_moved in [False] * 9 + [True] + [False] * 5:
        manager.feed_watchdog(has_moved)
    assert heard.hear() == [["WATCHDOG=1"]]
    assert caplog.text.count("no progress for 5 s") == caplog.text.count("in 5 s systemd's watchdog") == 2


def test_no_manager_is_told_nothing(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Manager().tell_ready("2 workers")
