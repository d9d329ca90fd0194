"""uWSGI's hooks: what a file has done before the app is imported, when workers begin, and at the end.

Owns:     take_hook; MOMENTS, when which hook is due; UwsgiHooks, the extension.
Thread:   the main thread, in the supervisor and in workers.
Spec:     uWSGI 2.0.31, its documentation, "Hooks".
Not here: the actions (uwsgi_actions.py).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...core.named_tuple import NamedTuple
from ...extension import Extension, Life, LifeContext
from ...lifecycle.program import environ_for
from ...settings import ConfigError, EngineSettings
from .draft import Draft, Given
from .uwsgi_actions import ACTIONS, ActionError, Place, do_action
from .uwsgi_values import text_of

logger = logging.getLogger("aserve")

# What needs no hook: SIGTERM and SIGINT drain in any case.
_NOT_NEEDED = re.compile(r"!?unix_signal:(2|15)\s+(gracefully_)?kill_them_all\b")
_FOLDERS = ("cd", "chdir")
_OF_PROCESS = (*_FOLDERS, "putenv")  # what an importing process has inherited there from one before
Holds = Callable[
    [Any, bool], bool
]  # of a process's role (None: it is no child of a supervisor), and whether the file says lazy-apps


class Moment(NamedTuple):
    """When a hook is due."""

    events: Sequence[Life]
    holds: Holds
    ends_start: bool = True  # a hook that fails does
    lazy_events: Sequence[Life] = ()  # with lazy-apps; without any: `events`


class Step(NamedTuple):
    """One hook of a file."""

    given: Given
    moment: str
    action: str
    argument: str


def _in_main(role: Any, is_lazy: bool) -> bool:
    return role is None


def _with_app(role: Any, is_lazy: bool) -> bool:
    """Whether this process is the one that imports new code first, or one of all with lazy-apps."""
    return role is None or is_lazy or role.is_mold or role.is_new


def _in_worker(role: Any, is_lazy: bool) -> bool:
    return role is None or role.is_worker


def _in_first(role: Any, is_lazy: bool) -> bool:
    return role is None or role.slot == 1


def _once(role: Any, is_lazy: bool) -> bool:
    return role is None or (role.is_worker and role.is_new)


_AT_START = Moment((Life.STARTS,), _in_main)
_READY = (Life.IMPORTED, Life.FORKED)  # connections that come now wait in the kernel's queue for a moment
MOMENTS: Mapping[str, Moment] = {
    "asap": _AT_START,
    "pre-jail": _AT_START,
    "in-jail": _AT_START,
    "post-jail": _AT_START,
    "as-root": _AT_START,
    # IMPORTS: without a supervisor.
    "as-user": Moment((Life.WORKERS_BEGIN, Life.IMPORTS), _in_main),
    "master-start": Moment((Life.WORKERS_BEGIN,), _in_main, ends_start=False),
    "pre-app": Moment((Life.IMPORTS,), _with_app),
    "post-app": Moment((Life.IMPORTED,), _with_app),
    "post-fork": Moment((Life.IMPORTED, Life.FORKED), _in_worker, lazy_events=(Life.IMPORTS,)),
    "accepting": Moment(_READY, _in_worker, ends_start=False),
    "accepting1": Moment(_READY, _in_first, ends_start=False),
    "accepting-once": Moment(_READY, _once, ends_start=False),
    "accepting1-once": Moment(_READY, _once, ends_start=False),
    "as-user-atexit": Moment((Life.EXITS,), _in_main, ends_start=False),
}
AT_END = "as-user-atexit"
BEFORE_WORKERS = (*(name for name, moment in MOMENTS.items() if moment is _AT_START), "as-user")


def take_hook(draft: Draft, given: Given) -> None:
    """
    Take hook-MOMENT = ACTION:ARGUMENT, and exec-MOMENT = COMMAND.

    Raises:
        ValueError: it has no action.
    """
    kind, _, moment = given.key.partition("-")
    action, colon, argument = ("exec", ":", given.value) if kind == "exec" else given.value.partition(":")
    action = action[action[:1] == "!" :]  # uWSGI does not log its argument
    hidden = given._replace(is_secret=True)
    if not colon:
        raise ValueError("a hook is of the form ACTION:ARGUMENT")
    if _NOT_NEEDED.match(given.value):
        return
    if moment not in MOMENTS:
        draft.note(hidden, f"it has no effect here: hooks are {', '.join(MOMENTS)}")
    elif action not in ACTIONS:
        draft.note(hidden, f"it has no effect here: {action} is none of the actions {', '.join(ACTIONS)}")
    else:
        draft.facts.setdefault("steps", []).append(Step(hidden, moment, action, argument))


def put_folder(draft: Draft) -> str:
    """Put the folder that chdir, and hooks before the workers, enter: each process has it; return the folder of relative paths."""
    chdir, steps, folder, base = draft.facts.get("chdir"), draft.facts.get("steps", []), "", ""
    for moment in BEFORE_WORKERS:
        for index, step in enumerate(steps):
            if step.moment == moment and step.action in _FOLDERS:
                folder = os.path.abspath(os.path.join(folder, step.argument))
                steps[index] = step._replace(argument=folder)
                draft.put("chdir", folder, step.given)
        if moment == "asap":
            if chdir is not None and text_of(chdir):
                folder = os.path.abspath(os.path.join(folder, text_of(chdir)))
                draft.put("chdir", folder, chdir)
            base = folder
    return base


class UwsgiHooks(Extension[EngineSettings]):
    """Does what a file's hooks say."""

    def __init__(self, steps: Sequence[Step], is_lazy: bool) -> None:
        """`is_lazy`: the file says lazy-apps."""
        self._steps = steps
        self._is_lazy = is_lazy
        self._folder = ""  # that hooks have entered, before the workers

    def on_life(self, event: Life, context: LifeContext) -> None:
        """See Extension; neither --check nor a process that does jobs has hooks."""
        if context.is_check or context.is_spooler:
            return
        is_own = event in (Life.IMPORTS, Life.IMPORTED, Life.FORKED)  # the folder is the app's, and not a supervisor's
        for name, moment in MOMENTS.items():
            if event in ((self._is_lazy and moment.lazy_events) or moment.events):
                holds = moment.holds(context.role, self._is_lazy)
                for step in self._steps:
                    if step.moment == name and (holds or (moment.holds is _with_app and step.action in _OF_PROCESS)):
                        self._do(step, moment, context, is_own)

    def _do(self, step: Step, moment: Moment, context: LifeContext, is_own: bool) -> None:
        config, own = context.plan.config, {} if context.environ is None else context.environ
        folder = os.getcwd() if is_own else self._folder or (step.moment != "asap" and config.chdir) or os.getcwd()
        whole = os.path.join(folder, step.argument)
        if step.action in _FOLDERS and not is_own and os.path.isdir(whole):
            self._folder = whole
            return
        try:
            do_action(step.action, step.argument, Place(folder, environ_for(config, own), own))
        except ActionError as fault:
            text = f"{step.given.where}: {step.given.key}: {step.action}: {fault}"
            if moment.ends_start:
                raise ConfigError(text) from None
            logger.error("%s", text)
