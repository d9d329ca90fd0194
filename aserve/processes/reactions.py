"""What a supervisor does about events: each noun gives its part of the tables.

Owns:     Reactions: it makes the nouns that act, and joins their tables by signal, word and question; the checks of each second.
Thread:   the supervisor's only one.
Not here: what is due (fleet/decide.py), waiting for events (children/events.py), the nouns that look (present.py), the loop, and forking (supervisor.py). And:

| noun                 | answers for                                                                                       |
|---|---|
| `Crew` (crew.py)     | the number of workers; one that is ready, or asks for a successor; pauses after failures; orders to all |
| `Reloads`            | what is read, logged and told at the beginning of a reload                                          |
| `Molds`              | the messages of molds                                                                               |
| `Ends`, `Acts`       | how a child has ended (ends.py); what is due, a method for each Do (acts.py)                        |
| `Losses`             | the requests of a worker that dies                                                                  |
| `Takers`             | which worker gets a connection at rest that another gives away                                      |
| `Moves`              | requests that wait for a thread, and connections at rest, on their way to another worker            |
| `Shutdown`, `Upgrade`| the end of it all (shutdown.py), and new code of aserve's own (upgrade.py)                          |
| `Answers`            | what people ask on the control socket                                                               |
| `Manager`            | what systemd sees (lifecycle/manager.py)                                                            |

What happens, by event:

| a signal: `by_signal`                 | a worker's word: `by_word`            | a child's end: ends.py                       |
|---|---|---|
| TERM, INT: all drain; again: at once  | ready: it serves                      | it is a fact, by which decide.py judges      |
| QUIT: all end at once                 | failed: why it ends                   |                                              |
| HUP: all are replaced                 | failing: it asks for a successor      |                                              |
| TTIN, TTOU: one worker more, one less | left: it drains, and accepts no more  |                                              |
| USR1: logs are reopened               | idle: a connection for another        |                                              |
|                                       | request: one for another; taken,      |                                              |
|                                       | missed: one that has come, or has not |                                              |
|                                       | changed: a reload, with --reload      |                                              |
| USR2: new code of aserve's own        | the trial's: upgrade.py               | the trial's: upgrade.py                      |
|                                       | a mold's: molds.py                    |                                              |
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..lifecycle.manager import Manager
from .acts import Acts
from .answers import Answers
from .children.child import MOLD, TRIAL, Child
from .children.children import Hear
from .children.events import Events
from .children.losses import Losses
from .crew import Crew
from .ends import Ends
from .fleet.fleet import Fleet
from .molds import Molds
from .present import Present
from .reloads import Reloads
from .shutdown import Shutdown
from .site import Site
from .transfers.levelling import level_out
from .transfers.placement import Takers
from .transfers.transfers import Moves
from .upgrade.inheritance import Inheritance
from .upgrade.upgrade import Upgrade

CHECK_SECONDS = 1.0


class Reactions:
    """All that is done."""

    def __init__(
        self, site: Site, fleet: Fleet, events: Events, present: Present, inherited: Inheritance | None
    ) -> None:
        self._site, self._fleet, self._events, self._present = site, fleet, events, present
        children, status, overview, attached = present.children, present.status, present.overview, present.attached
        tally, clock, timers, listeners = present.tally, events.clock, events.timers, site.listeners
        manager = self.manager = Manager(main_pid=os.getpid())
        crew = self.crew = Crew(fleet, children, clock, status, overview, present.watch)
        overview.resize = crew.resize
        takers = self._takers = Takers(children, fleet)
        moves = self._moves = Moves(children, takers)
        upgrade = self.upgrade = Upgrade(
            site.command, fleet, children, events.signals, manager, attached, overview, listeners, moves
        )
        shutdown = self.shutdown = Shutdown(fleet, children, clock, listeners, manager, attached, upgrade)
        status.describe_end, status.slow_starts = shutdown.describe, present.watch.slow_starts
        reloads = self.reloads = Reloads(site.read, fleet, crew, children, manager, tally)
        answers = Answers(fleet, crew, reloads, children, timers, status)
        losses = Losses(overview.on_lost, tally, site.on_life)
        ends = self.ends = Ends(fleet, children, attached, losses, upgrade, overview, present.watch, moves)
        self.by_do = Acts(fleet, present, crew, reloads, shutdown, upgrade, manager).by_do
        molds = self.molds = Molds(fleet, children)
        for noun in (shutdown, reloads, crew, upgrade, ends):
            events.by_signal.update(noun.by_signal)
        self.by_word: dict[str, Hear] = {  # of a worker's message
            "failed": Child.on_failed,
            "left": Child.on_left,
            **overview.by_word,
            **crew.by_word,
            **reloads.by_word,
            **answers.by_word,
            **moves.by_word,
        }
        self.by_others_word: dict[int, Mapping[str, Hear]] = {TRIAL: upgrade.by_word, MOLD: molds.by_word}
        overview.answer(answers.by_question, timers.after, is_upgraded=inherited is not None)
        if inherited is not None:
            upgrade.take_over(inherited)
            upgrade.strangers.listen(events.selector, moves.give, moves.keep)
            reloads.ask("SIGUSR2")

    def check(self) -> None:
        """Check the facts that no message reports; and from then on, once a second."""
        self._events.timers.after(CHECK_SECONDS, self.check)
        present = self._present
        self.ends.reap()
        self.reloads.look_at_touched()
        present.children.on_second()
        self.crew.follow_limits()
        self._takers.on_second()
        self._moves.on_second()
        self.upgrade.strangers.on_second()
        level_out(present.children, self._fleet.asked)
        present.status.on_second()
        present.overview.on_second()
        present.attached.end_overdue()
        for due in present.watch.look(self._fleet.plan.config, self._events.clock()):
            self.crew.replace(*due)
        for text in present.watch.look_at_starts(self._events.clock()) if not self._fleet.is_ending else ():
            for question in self._fleet.waiting:
                question.caller.say({"text": text})
        self.manager.feed_watchdog(present.watch.has_moved())

    def tell_ready(self) -> None:
        """Tell the service manager that it serves, and how, unless that is about to change."""
        if self._fleet.has_served and not self._fleet.is_moving and not self.upgrade.is_under_way:
            self.manager.tell_ready(self._present.status.line)

    def end(self) -> int:
        """
        Close everything; return the exit status.

        Raises:
            StartFailed: the first worker could not start.
        """
        for listener in self._site.listeners:
            listener.close()
        self._present.overview.close(is_end=True)
        if self._moves.end():
            self.shutdown.note_unfinished()
        self.let_go()
        return self.shutdown.end()

    def let_go(self) -> None:
        """Close what only the supervisor needs, and let signals mean what they did before; in a forked child, too."""
        self._events.close()
        self._moves.let_go()
        self.upgrade.strangers.close()
        self._present.overview.close(is_end=False)
