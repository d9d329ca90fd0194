"""The view and the acts of a supervisor's extensions."""

import signal

import pytest
from harness.supervising import told

from aserve.connections.listeners import open_listeners
from aserve.core.page import Field, State
from aserve.lifecycle.supervision import HandedDown, Supervision
from aserve.processes.children import children
from aserve.processes.upgrade.inheritance import Inheritance, OldWorkers
from aserve.settings import parse_bind


class Recorder(Supervision):
    """An extension that notes its calls."""

    def __init__(self):
        self.heard = []
        self.left = HandedDown({"own": 5})

    def words(self):
        return {"a word": lambda *what: self.heard.append(("a word", *what))}

    def share(self):
        return {"shared": len(self.heard)}

    def on_second(self):
        self.heard.append("second")

    def on_end(self, end):
        self.heard.append(("end", end.pid, end.page_number, end.page[Field.SLOT], end.lost))

    def hand_down(self):
        return self.left

    def take_over(self, state, has_children):
        self.heard.append((state["own"], has_children))

    def close(self, is_end):
        self.heard.append(("close", is_end))


@pytest.fixture
def recorder():
    """One extension."""
    return Recorder()


def test_workers_are_heard_and_told(supervised, recorder, monkeypatch):
    """An extension learns of workers' ends and words, and may send a word to one."""
    one = supervised(2, extensions=[recorder])
    first, second = one.start()
    recorder.heard.clear()
    one.say(first, say="a word", text="b")
    ((word, pid, message, fds),) = recorder.heard
    assert (word, pid, message["text"], fds) == ("a word", first.pid, "b", [])
    one.heard(first), one.heard(second)
    one.supervisor.parts.overview._tell(second.pid, {"do": "it"})
    assert (told(one, first), told(one, second)) == ([], [{"do": "it"}])
    recorder.heard.clear()
    number = second.page_number
    lost = [(1.0, "GET /")]
    monkeypatch.setattr(children, "read_in_flight", lambda table: lost)
    one.end(second, number=signal.SIGKILL)
    assert ("end", second.pid, number, 2, 1) in recorder.heard
    assert {"shared": len(recorder.heard)} in [share() for share in one.supervisor.parts.overview.shares]


def test_a_second_is_the_supervisors(supervised, recorder):
    one = supervised(1, extensions=[recorder])
    recorder.heard.clear()
    one.turn(2)
    assert recorder.heard == ["second", "second"]


@pytest.mark.provokes("internal error;")
def test_a_second_that_fails(supervised, recorder, caplog):
    """A bug in one extension keeps no second from the rest, nor from the supervisor."""
    broken = Recorder()
    broken.on_second = lambda: 1 / 0
    one = supervised(1, extensions=[broken, recorder])
    one.start()
    one.turn()
    assert recorder.heard == ["second"] and caplog.text.count("ZeroDivisionError") == 1


def test_number_of_workers(supervised, recorder, caplog):
    """An extension may change the number; the settings of an option have a say where a reload changes --workers."""
    one = supervised(2, extensions=[recorder])
    one.start()
    one.context.resize(3, "all 2 workers are busy")
    one.start()
    assert "all 2 workers are busy: the number of workers is 3 now; it was 2" in caplog.text
    for wanted, size in [(1, 3), (4, 4)]:
        one.settings.update(workers=wanted, max_workers=5)
        before = [child for child in one.children if child.state is State.READY]
        one.signal(signal.SIGHUP)
        one.start()
        one.leave(*before)
        assert one.supervisor.fleet.size == size
    assert "--workers 1:" not in caplog.text and "--workers 4: the number of workers is 4 now; it was 3" in caplog.text


def test_new_code_gets_each_extensions_state(supervised, recorder):
    """Each extension's state is the new code's, in one object; its listeners and open files stay open."""
    (listener,) = open_listeners([parse_bind("127.0.0.1:0")])
    recorder.left = HandedDown({"own": 7}, [listener], [5])
    one = supervised(1, extensions=[recorder])
    found = one.supervisor.parts.overview.hand_down()
    listener.close()
    assert (found.state["own"], found.bound, found.fds) == (7, [listener], [5])
    left = Inheritance(
        "99.0",
        [],
        [],
        OldWorkers(),
        counted={**found.state, "why_unready": "drained by aserve balancers", "started_at": 1.5},
    )
    other = supervised(1, inherited=left, extensions=[heir := Recorder()])
    assert heir.heard[0] == (7, False)
    overview = other.supervisor.parts.overview
    assert (overview.why_unready, overview.started_at) == ("drained by aserve balancers", 1.5)


def test_the_end_is_told_from_an_upgrade(supervised, recorder):
    one = supervised(1, extensions=[recorder])
    recorder.heard.clear()
    for is_end in (False, True):
        one.supervisor.parts.overview.close(is_end)
    assert recorder.heard == [("close", False), ("close", True)]
