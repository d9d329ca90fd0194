"""A supervisor's answers, on children of numbers alone; tests/e2e/test_control.py has real ones."""

import json
import re
import signal

import pytest
from harness.callers import TestCaller

from aserve.connections.in_flight import InFlight
from aserve.core.exchange import Exchange
from aserve.core.footprint import Activity
from aserve.core.memory_file import map_memory_file
from aserve.core.page import Field, State
from aserve.processes import answers
from aserve.processes.children.child import STACKS_SIGNAL
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def ask(supervised, tmp_path):
    """Ask a serving supervisor: ask(**question) -> TestCaller; ask.one is the supervisor."""
    path = tmp_path / "control"
    one = supervised(2, control=str(path))
    callers = []

    def ask(**question):
        callers.append(TestCaller(path))
        callers[-1].ask(**question)
        for _ in range(3):
            one.turn()
        return callers[-1]

    ask.one = one
    yield ask
    for caller in callers:
        caller.close()


def test_the_status_has_each_child(ask):
    """The status is of the server, and of each of its children, with the oldest requests."""
    first, second = ask.one.start()
    InFlight(None, map_memory_file(second.in_flight)).begin(Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/slow", 2))
    page = second.page
    page[Field.REQUESTS], page[Field.TICKED_AT] = 7, 1
    page[Field.STALLED_SECONDS], page[Field.WAITING], page[Field.WAITING_MILLISECONDS] = 12, 5, 12_400
    server, one, two = ask(ask="status").read()
    assert server["text"].startswith("serving on") and (server["workers_wanted"], server["workers_ready"]) == (2, 2)
    assert server["threads"] == ask.one.supervisor.fleet.plan.config.threads == 32
    assert one["worker"]["slot"] == 1 and one["worker"]["at"] == [] and one["worker"]["silent_seconds"] is None
    two = two["worker"]
    assert (two["pid"], two["state"], two["requests"]) == (second.pid, "ready", 7)
    assert two["at"][0][1] == "GET /slow" and two["silent_seconds"] > 1 and two["waiting_seconds"] == 12.4
    _, stall = server["warnings"]  # the first is of its loop, which does not turn
    assert (
        stall["text"].startswith("Worker 2: all threads busy: no queued request started for 12 s")
        and stall["is_failure"]
    )
    ask.one.end(first, number=signal.SIGKILL)
    server, *others = ask(ask="status").read()
    assert server["text"].startswith("degraded: 1 of 2") and server["workers_ready"] == 1


def test_warnings_of_what_is_counted(ask):
    """With --metrics the warnings are the status page's."""
    ask.one.start()
    minute = {"requests": 10, "ends": {"5xx complete": 10}, "refused": {}, "lost_lines": 0, "gil": {"p50": None}}
    recent = {"all_busy_seconds": 0.0, "busy_share": 0.0, "queue_seconds": 0.0}
    ask.one.supervisor.parts.status.statuses.counted = lambda: ({"minute": minute, "recent": recent}, {})
    server, *_ = ask(ask="status").read()
    (warning,) = server["warnings"]
    assert warning["text"].startswith("100 % of the responses") and warning["is_failure"] and "minute" not in server


def test_a_reloads_caller_hears_of_its_end(ask):
    before = ask.one.start()
    caller = ask(ask="reload")
    assert caller.read() == []
    while not caller.is_answered:
        for child in ask.one.children:
            if child not in before and child.ready_at == 0:
                ask.one.say(child, say="ready")
        ask.one.leave(*[child for child in before if not child.has_left and child.state.name == "DRAINING"])
        ask.one.turn()
        found = caller.read()
    ((_, text),) = found[0].items()
    assert len(found) == 1 and re.fullmatch(r"done in \d+\.\d s: code and settings of 2 workers are new", text)


def test_a_reloads_caller_hears_of_settings_that_stay(ask):
    """The word that all is new would not be true alone."""
    ask.one.start()
    ask.one.settings.update(bind=":1")
    assert ask(ask="reload").read() == [{"text": "unchanged until the command is started anew: --bind"}]


def test_a_reload_that_fails(ask):
    """The caller hears why, be it the settings or the app."""
    ask.one.start()
    ask.one.read_error = ConfigError("threads: 'x' is not a number")
    assert ask(ask="reload").read() == [{"error": "nothing was reloaded: threads: 'x' is not a number"}]
    ask.one.read_error = None
    caller = ask(ask="reload")
    newest = ask.one.children[-1]
    ask.one.end(newest, status=1)
    ask.one.turn()
    assert caller.read()[0]["error"].startswith(f"nothing was reloaded: {newest} could not start")


def test_a_reload_that_is_refused(ask):
    """The status has why, until the next begins: a signal has no answer."""
    ask.one.start()
    ask.one.read_error = ConfigError("threads: 'x' is not a number")
    ask.one.signal(signal.SIGHUP)
    server, *_ = ask(ask="status").read()
    (warning,) = server["warnings"]
    assert re.fullmatch(r"Nothing was reloaded, \d+ s ago: threads: 'x' is not a number\.", warning["text"])
    assert not warning["is_failure"]
    ask.one.read_error = None
    ask.one.signal(signal.SIGHUP)
    assert ask(ask="status").read()[0]["refused"] is None
    newest = ask.one.children[-1]
    ask.one.end(newest, status=1)
    assert ask(ask="status").read()[0]["refused"]["why"].startswith(f"{newest} could not start: ")


def test_a_reload_that_stays_half_done(ask):
    """The caller of a reload without an end hears why; the status has the reason until the end."""
    before = ask.one.start()
    caller = ask(ask="reload")
    ask.one.say(ask.one.children[-1], say="ready")
    other = ask.one.children[-1]
    ask.one.say(other, say="failed", why="no module 'a'", traceback="")
    ask.one.end(other, status=1)
    half_done = f"{other} could not start: no module 'a'; 1 of 2 workers has the new code; it is tried again"
    assert caller.read() == [{"error": half_done}]
    server, *_ = ask(ask="status").read()
    (warning,) = server["warnings"]
    assert warning["text"] == f"A reload is half done: {half_done}." and not warning["is_failure"]
    assert json.loads(ask.one.several.exporter._picture.event())["warnings"] == [warning]
    (other,) = ask.one.turn(0.11)
    ask.one.say(other, say="ready")
    ask.one.leave(*before)
    assert ask(ask="status").read()[0]["warnings"] == []


def test_one_is_replaced(ask):
    """The successor starts, and the worker drains when that is ready; a second caller hears so."""
    first, second = ask.one.start()
    callers = [ask(ask="recycle", worker=2)]
    successor = ask.one.children[-1]
    assert successor.slot == 2 and successor is not second and second.state is State.READY
    callers.append(ask(ask="recycle", worker=2))
    assert [caller.read() for caller in callers] == [[], []]
    InFlight(None, map_memory_file(second.in_flight)).begin(Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/slow", 2))
    ask.one.say(successor, say="ready")
    assert second.state is State.DRAINING and first.state is State.READY
    ask.one.turn()
    for caller in callers:
        ((_, text),) = caller.read()[0].items()
        assert re.fullmatch(
            rf"worker 2 is replaced: pid {successor.pid} serves, ready after \d+\.\d s; "
            r"1 old worker still drains, with 1 request \(--drain-timeout 30\)",
            text,
        )
        assert caller.is_answered


def test_one_is_replaced_after_failures(ask):
    """The caller hears of the first failure; a person who asks again does not wait for a pause to end."""
    ask.one.start()
    others, caller = ask(ask="recycle", worker=1), ask(ask="recycle", worker=2)
    (failing,) = [child for child in ask.one.children if child.slot == 1 and child.state is State.STARTING]
    ask.one.say(failing, say="ready")
    ask.one.turn()
    failing = ask.one.children[-1]
    assert others.read()[0]["text"].startswith("worker 1 is replaced")
    ask.one.end(failing, status=1)
    ask.one.turn()
    assert caller.read() == [
        {
            "error": f"worker 2 is not replaced: {failing} could not start: it exited with status 1 before it was ready, "
            "without a word; the one of before serves on; another is tried"
        }
    ]
    count = len(ask.one.children)
    ask.one.turn()
    assert len(ask.one.children) == count
    ask(ask="recycle", worker=2)
    assert len(ask.one.children) == count + 1


def test_one_that_is_not_replaced_any_more(ask):
    """The worker has gone itself, or all is to end."""
    ask.one.start()
    gone = ask(ask="recycle", worker=1)
    ask(ask="workers", count=1)
    assert gone.read() == [{"error": "worker 1 gets no successor any more: see `aserve status`, and the log"}]
    ask(ask="reload")
    behind = ask(ask="recycle", worker=2)
    ask.one.end(ask.one.children[-1], status=1)
    ask.one.turn()
    assert behind.read() == [], "the wish stays"
    ask.one.signal(signal.SIGTERM)
    ask.one.turn()
    assert behind.read() == [{"error": "the server is ending"}]


@pytest.mark.parametrize("worker", [0, 3, "2", None])
def test_one_that_cannot_be_replaced(ask, worker):
    """A worker that does not serve cannot be replaced."""
    ask.one.start()
    assert ask(ask="recycle", worker=worker).read() == [{"error": f"no worker {worker} serves"}]


@pytest.mark.parametrize(("question", "size"), [({"change": 1}, 3), ({"change": -1}, 1), ({"count": 4}, 4)])
def test_more_workers_or_fewer(ask, question, size):
    """By a change, or by their number."""
    ask.one.start()
    assert ask(ask="workers", **question).read() == [{"text": f"workers: {size}; before: 2"}]
    assert ask.one.supervisor.fleet.size == size


def test_a_silent_worker_leaves_first(ask):
    """The answer names the silent worker, and is an error where no worker answers any more."""
    first, second = ask.one.start()
    first.is_mute = True
    text = f"workers: 1; before: 2; does not answer, and is ended after --drain-timeout: {first}"
    assert ask(ask="workers", change=-1).read() == [{"text": text}] and second.slot in ask.one.supervisor.fleet.slots
    second.is_mute = True
    (answer,) = ask(ask="workers", count=1).read()
    assert "no worker answers now: see `aserve status`" in answer["error"]


@pytest.mark.parametrize("question", [{"count": 0}, {"change": -2}, {"count": 100_000}, {"count": "x"}, {}])
def test_a_number_of_workers_that_cannot_be(ask, question):
    """An impossible number changes nothing, and the caller hears so."""
    ask.one.start()
    assert "error" in ask(ask="workers", **question).read()[0]
    assert ask.one.supervisor.fleet.size == 2


def test_stacks_come_from_each_worker(ask):
    """Each serving worker is asked, and the answer is their words."""
    children = ask.one.start()
    caller = ask(ask="stacks")
    for child in children:
        (order,) = [message for message, _ in ask.one.heard(child) if message["do"] == "stacks"]
        ask.one.say(child, say="stacks", number=order["number"], text=f"of {child.slot}")
    assert [(each["worker"], each["pid"], each["text"]) for each in caller.read()] == [
        (child.slot, child.pid, f"of {child.slot}") for child in children
    ]
    assert caller.is_answered
    ask.one.say(children[0], say="stacks", number=4711, text="nobody has asked for it")


def test_stacks_of_one_that_hangs(ask):
    """After two seconds the kernel has the worker write its stacks to the log; other workers' have come meanwhile."""
    first, second = ask.one.start()
    caller = ask(ask="stacks")
    (order,) = [message for message, _ in ask.one.heard(first) if message["do"] == "stacks"]
    ask.one.say(first, say="stacks", number=order["number"], text="well")
    assert not caller.is_answered
    ask.one.turn(2.0)
    one, two = caller.read()
    assert one["text"] == "well" and caller.is_answered
    assert two["text"].startswith("its event loop does not turn: its stacks are written to its standard error")
    assert (second.pid, STACKS_SIGNAL) in ask.one.system.signals


def test_stacks_of_a_stopped_one(ask, monkeypatch):
    """A stopped process writes nothing until SIGCONT: the answer says so, and no signal waits for the process."""
    monkeypatch.setattr(answers, "activity_of", lambda pid: Activity("T", 0.0))
    first, _ = ask.one.start()
    caller = ask(ask="stacks", worker=1)
    ask.one.turn(2.0)
    assert f"`kill -CONT {first.pid}` lets it go on" in caller.read()[0]["text"] and caller.is_answered
    assert (first.pid, STACKS_SIGNAL) not in ask.one.system.signals


def test_stacks_of_one_that_starts(ask):
    """A starting worker cannot be asked: any word ends it."""
    (first,) = ask.one.turn()
    assert ask(ask="stacks", worker=1).read()[0]["text"].startswith("it does not serve")
    assert (first.pid, STACKS_SIGNAL) in ask.one.system.signals and ask.one.heard(first) == []
    assert ask(ask="stacks", worker=9).read() == [{"error": "there is no worker 9"}]


def test_stacks_of_one_that_ends_meanwhile(ask):
    """Nobody is interrupted, and the caller hears why there are none."""
    first, _ = ask.one.start()
    caller = ask(ask="stacks", worker=1)
    ask.one.end(first, number=signal.SIGKILL)
    ask.one.turn(2.0)
    assert caller.read() == [{"worker": 1, "pid": first.pid, "text": "it has ended meanwhile\n"}]
    assert (first.pid, STACKS_SIGNAL) not in ask.one.system.signals and caller.is_answered


@pytest.mark.parametrize("question", ["reload", "recycle", "workers"])
def test_at_the_end(ask, question):
    """An ending server begins nothing."""
    ask.one.start()
    ask.one.signal(signal.SIGTERM)
    assert ask(ask=question, count=3).read() == [{"error": "the server is ending"}]


def test_balancers_orders_reach_all_workers(ask):
    """Present workers are told, and later ones, over new code, too; until the next order."""
    first, second = ask.one.start()
    ask.one.heard(first)
    why = "drained by aserve balancers"
    assert ask(ask="balancers", wish="drain").read() == [{"text": "balancers are told: drain"}]
    assert ask.one.heard(first) == [({"do": "set unready", "why": why}, [])]
    overview = ask.one.supervisor.parts.overview
    assert ask.one.several.exporter.balance.why_unready() == why and overview.hand_down().state["why_unready"] == why
    ask.one.end(second, number=signal.SIGKILL)
    ask.one.turn(30)
    third = ask.one.children[-1]
    ask.one.say(third, say="ready")
    assert ({"do": "set unready", "why": why}, []) in ask.one.heard(third)
    assert ask(ask="status").read()[0]["unready"] == why
    assert ask(ask="balancers", wish="ready").read() == [{"text": "balancers are told: ready"}]
    assert ask.one.heard(third) == [({"do": "set unready", "why": ""}, [])]
    for wrong in ("stopped", 7, None):
        assert ask(ask="balancers", wish=wrong).read() == [{"error": "say one of ready, drain, maint"}]


def test_an_import_that_takes_long(ask, caplog):
    """The log says so after 10 s, 20 s, 40 s, with the worker's stacks; the status and a reload's caller hear of it, and later callers at once."""
    server, *_ = ask(ask="status").read()
    assert server["text"].startswith("starting")
    ask.one.start()
    caller = ask(ask="reload")
    new = ask.one.children[-1]
    for _ in range(3):
        ask.one.turn(6.0)
    text = "worker 1 imports a:app, for "
    assert ask.one.system.signals == [(new.pid, signal.SIGURG)] and caplog.text.count(text) == 1
    assert "no --start-timeout ends it; its stacks follow" in caplog.text
    assert caller.read()[0]["text"].startswith(text)
    warnings = ask(ask="status").read()[0]["warnings"]
    assert [each["text"].startswith("Worker 1 imports a:app, for ") for each in warnings] == [True]
    assert ask(ask="reload").read()[0]["text"].startswith(text)
    for _ in range(4):
        ask.one.turn(6.0)
    assert ask.one.system.signals == 3 * [(new.pid, signal.SIGURG)]
    ask.one.say(new, say="ready")
    ask.one.turn(1.0)
    assert ask(ask="status").read()[0]["warnings"] == []


def test_the_status_of_a_server_that_ends(ask):
    """The status tells why, and for how long at most; no worker is called missing."""
    ask.one.start()
    ask.one.signal(signal.SIGTERM)
    ask.one.turn(3.0)
    server, *_ = ask(ask="status").read()
    assert re.fullmatch(r"draining since SIGTERM, at most \d+ s", server["text"])
    assert [each["text"] for each in server["warnings"]] == [f"The server is {server['text']}."]
    ask.one.signal(signal.SIGTERM)
    assert ask.one.supervisor.parts.status._describe_end() == "ending"
