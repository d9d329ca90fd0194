"""A method for each signal and each word, and the looks of each second: on processes of numbers alone."""

import os
import signal

from aserve.connections.drain.moved_request import write_request
from aserve.core.exchange import Exchange
from aserve.core.page import Field
from aserve.features import Config
from aserve.processes import events
from aserve.processes.children.poller import HANDLED
from aserve.processes.fleet.fleet import Do
from aserve.processes.transfers.request_file import RequestFile

TERM, HUP = signal.SIGTERM, signal.SIGHUP


def test_the_tables_are_whole(supervised):
    """Each caught signal, and each action but a start, has its noun."""
    one = supervised(1)
    assert one.supervisor.parts.poller.by_signal.keys() == set(HANDLED)
    assert one.supervisor.acts.by_do.keys() == set(Do) - {Do.START}


def test_a_signal_that_is_not_the_supervisors(supervised):
    """A signal of the wake-up descriptor without a handler of ours is left alone."""
    one = supervised(1)
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    one.signal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert not one.supervisor.fleet.is_ending


def test_two_reloads_asked_for_at_once(supervised, caplog):
    """The settings have not been read in between: one reload is enough."""
    one = supervised(1)
    one.start()
    signal.raise_signal(HUP)
    one.signal(HUP)
    assert caplog.text.count("SIGHUP: replacing 1 worker") == 1 and not one.supervisor.fleet.next_why
    one.signal(HUP)
    assert "SIGHUP: once more, after what is under way" in caplog.text and one.supervisor.fleet.next_why == "SIGHUP"


def test_looks_of_each_second(supervised, monkeypatch, manager):
    """systemd's watchdog is fed, where there is one, and hears warnings; the limits of --workers auto are read more rarely."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    one, looked = supervised(1), []
    monkeypatch.setattr(events, "LIMITS_SECONDS", 3)
    monkeypatch.setattr(one.supervisor.parts.crew, "follow_limits", lambda: looked.append(one.system.now))
    monkeypatch.setattr(events, "SAMPLE_SECONDS", 2)
    monkeypatch.setattr(Config, "advise", lambda self, facts: [("A fault.", str(facts))])
    (child,) = one.start()
    page = child.page
    for _ in range(6):
        page[Field.TICK] += 1
        one.turn(1.0)
    manager.wait_for("WATCHDOG=1", count=5)
    assert one.supervisor.parts.status.warnings == [("A fault.", str(one.supervisor.parts.overview.facts()))]
    assert len(looked) == 2 and looked[1] - looked[0] == 3.0


def test_an_idle_connection(supervised):
    """The connection goes to the worker with the fewest, gifts on their way counted; without a worker it is closed."""
    one = supervised(3)
    first, second, third = one.start()
    for child, count in ((first, 0), (second, 5), (third, 6)):
        child.page[Field.CONNECTIONS] = count
    given = []
    for _ in range(4):
        reading, writing = os.pipe()
        os.close(reading)
        one.say(first, fd=writing, say="idle", listener=0, peer=["192.0.2.1", "5"])
        for child in (second, third):
            for message, (fd,) in one.heard(child):
                del message["number"]  # by which the worker tells its receipt
                assert message == {"say": "idle", "do": "adopt", "listener": 0, "peer": ["192.0.2.1", "5"]}
                given.append(child.slot)
                os.close(fd)
    assert given == [2, 2, 3, 2]
    for child in one.children:  # each has written its page by now
        child.page[Field.TICK] += 1
    one.turn(1.1)
    assert [child.given_count for child in one.children] == [0, 0, 0]


def test_an_idle_connection_during_a_reload(supervised):
    """The connection goes to a staying worker, though that has more."""
    one = supervised(3)
    first, _, _ = one.start()
    one.signal(HUP)
    new = one.children[-1]
    new.page[Field.CONNECTIONS] = 100
    one.say(new, say="ready")
    reading, writing = os.pipe()
    os.close(reading)
    one.say(first, fd=writing, say="idle", listener=0, peer=None)
    ((_, (fd,)),) = one.heard(new)
    os.close(fd)


def test_an_idle_connection_that_nobody_takes(supervised):
    """The connection is closed: its worker drains, and there is no other."""
    one = supervised(1)
    (child,) = one.start()
    one.signal(TERM)
    reading, writing = os.pipe()
    one.say(child, fd=writing, say="idle", listener=0, peer=None)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_request_that_no_worker_is_left_for(supervised, monkeypatch, caplog):
    """All drain, and the worker ended before its request came back: the log names it, and the exit status tells the loss."""
    one = supervised(1)
    (child,) = one.start()
    reading, writing = os.pipe()
    file = RequestFile()
    file.write(write_request(Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/cart\0", 2)))
    request = {"say": "request", "listener": 0, "peer": {}, "to": 0, "giver": child.page_number, "until": 0.0}
    one.signal(TERM)
    one.system.workers_ends[child.pid].send(request, [writing, file.detach()])
    one.turn()
    one.end(child)
    parts = one.supervisor.parts
    with monkeypatch.context() as patch:
        patch.setattr(parts, "let_go", parts.transfers.let_go)  # the rest is the fixture's to close
        assert one.supervisor.acts.end() == 1 and os.read(reading, 1) == b""
    assert "no worker is left for requests that were on their way to one; lost: 1: GET /cart" in caplog.text
    os.close(reading)
