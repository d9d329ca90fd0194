"""The state passed on by a supervisor to new code in the same process.

Owns:     Inheritance: writing before exec, reading afterwards; the number of the form.
Thread:   the supervisor's only one.
Not here: the time (upgrade.py), the use by the new code (parts.py, upgrade.py).

The state is an object in JSON, in a file in memory. A variable of the environment names the descriptor. The state names further
descriptors, which stay open: the listeners, the workers' channels, pages and tables of requests in flight, requests and connections on
the way to a worker, clients of the metrics before their request.

The new code may be of a different version. Every version writes, and reads, `form`, `version`, `blocked`, `descriptors`,
`listeners` and `farewell`, since form 2 `metrics` and `counted`, and `attached`, where known. The form is a number for all else, for the fields of
a page and the words of a channel: raise the form when a meaning changes. New code that does not know the form has only the listeners. Then the new
code starts workers of its own, and ends the old workers by the only message common to all versions (old_workers.py). Until their end the old
workers pass requests and connections to each other: of these the new code reads `children` (channel, page), `moves`, and the fields of a message
named in old_workers.py, if present.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...connections.listeners import Listener
from ...core.descriptors import close_all
from ...core.memory_file import KEPT, open_memory_file
from ...core.named_tuple import NamedTuple
from ...settings import VERSION, ConfigError, EngineSettings, parse_bind
from ..children.children import Children, drain_order
from ..fleet.plan import Plan
from ..monitoring.overview import Overview
from .old_workers import OldWorkers, open_socket

FORM = 11

State = dict[str, Any]


class Inheritance(NamedTuple):
    """The state of the previous code, as read by the new code."""

    version: str  # of the previous code
    blocked: Sequence[int]  # signals blocked at the start of the command
    listeners: Sequence[Listener]
    old_workers: OldWorkers
    # Set if the form is known; otherwise these keep their defaults, but for the last three.
    plan: Plan | None = None
    size: int | None = None
    pages: int | None = None  # the descriptor of Pages
    children: Sequence[State] = ()
    bound: Sequence[Listener] = ()  # by extensions
    counted: State | None = None  # None: not known; see Overview.restore
    attached: Sequence[State] = ()  # see Attached.adopt
    kept: Mapping[str, int] = {}  # files by name; see memory_file.KEPT
    moves: Sequence[State] = ()  # see Transfers.adopt
    gaps: Sequence[int] = ()  # see Fleet

    @classmethod
    def read(cls, fd: int, settings: type[EngineSettings]) -> Inheritance:
        """Read the file, and close the file; the named descriptors are not inherited further. `settings`: the class of Plan.config."""
        with open(fd, encoding="utf-8") as file:
            file.seek(0)
            state = json.load(file)
        for each in state["descriptors"]:
            os.set_inheritable(each, False)
        listeners = [_open_listener(each) for each in state["listeners"]]
        bound = [_open_listener(each) for each in state.get("metrics", ())]
        common, counted = (state["version"], state["blocked"], listeners), state.get("counted")
        attached = state.get("attached", ())
        try:
            if state["form"] == FORM:
                plan = Plan(_read_settings(state["settings"], settings), state["app"])
                return cls(
                    *common, OldWorkers(), plan, state["size"], state["pages"], state["children"], bound, counted,
                    attached,
                    state.get("kept", {}), state.get("moves", ()), state.get("gaps", ()),
                )  # fmt: skip
        except ConfigError:
            pass  # a setting means something else by now: so may the rest
        farewell = state["farewell"]
        moves = state.get("moves", ())
        kept = {fd for move in moves for fd in move["fds"]}
        used = {*farewell["channels"], *kept, *(listener.socket.fileno() for listener in (*listeners, *bound))}
        close_all(set(state["descriptors"]) - used)
        old_workers = OldWorkers(farewell["channels"], farewell["message"], state.get("children", ()), moves)
        return cls(*common, old_workers, bound=bound, counted=counted, attached=attached)


@contextlib.contextmanager
def hand_down(
    listeners: Sequence[Listener],
    plan: Plan,
    size: int,
    children: Children,
    blocked: Iterable[int],
    overview: Overview,
    attached: Sequence[State] = (),
    moves: Sequence[State] = (),
    gaps: Iterable[int] = (),
) -> Iterator[int]:
    """
    Write an inheritance; within the block, exec keeps the named descriptors. Yield the descriptor of the inheritance.

    Raises:
        OSError: no descriptor or memory is left.
    """
    counted = overview.hand_down()  # before the rest: extensions may give orders to children
    pages, descriptions = children.describe()
    channels = [each["channel"] for each in descriptions]
    fds = [
        pages,
        *channels,
        *(each["in_flight"] for each in descriptions),
        *(listener.socket.fileno() for listener in (*listeners, *counted.bound)),
        *counted.fds,
        *KEPT.values(),
        *(fd for move in moves for fd in move["fds"]),
    ]
    state = {
        "form": FORM,
        "version": VERSION,
        "blocked": sorted(blocked),
        "descriptors": fds,
        "listeners": [_describe_listener(listener) for listener in listeners],
        "counted": counted.state,
        "metrics": [_describe_listener(listener) for listener in counted.bound],  # the name in every version
        "farewell": {"channels": channels, "message": drain_order(is_replaced=True)},
        "settings": vars(plan.config),
        "app": plan.spec,
        "size": size,
        "pages": pages,
        "children": descriptions,
        "attached": attached,
        "kept": KEPT,
        "moves": moves,
        "gaps": sorted(gaps),
    }
    with os.fdopen(open_memory_file("aserve-inheritance"), "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        try:
            for each in (file.fileno(), *fds):
                os.set_inheritable(each, True)
            yield file.fileno()
        finally:
            for each in (file.fileno(), *fds):
                os.set_inheritable(each, False)


def _describe_listener(listener: Listener) -> State:
    rest = listener._asdict()
    return {"fd": rest.pop("socket").fileno(), "bind": rest.pop("bind").spec, "rest": rest}


def _open_listener(state: State) -> Listener:
    rest = {name: value for name, value in state["rest"].items() if name in Listener._fields}
    tuples: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in rest.items()}
    return Listener(open_socket(state["fd"]), parse_bind(state["bind"]), **tuples)


def _read_settings(values: State, settings: type[EngineSettings]) -> EngineSettings:
    known = {setting.name for setting in settings.rows()}
    return settings(**{name: value for name, value in values.items() if name in known})
