"""The present state of a supervisor: the processes that there are, and what is known of them.

Owns:     Present: it makes the nouns that look, and change nothing by themselves.
Thread:   the supervisor's only one.
Not here: what is done about an event (reactions.py), the loop (supervisor.py).
"""

from __future__ import annotations

from ..settings import MAX_WORKERS
from .children.children import Children, Hear
from .children.events import Events
from .children.pages import Pages
from .fleet.fleet import Fleet
from .monitoring.overview import Overview
from .monitoring.status import Status
from .monitoring.watch import Watch
from .programs.attached import Attached
from .site import Site
from .upgrade.inheritance import Inheritance


class Present:
    """Processes, and the nouns that look at them."""

    def __init__(self, site: Site, fleet: Fleet, events: Events, hear: Hear, inherited: Inheritance | None) -> None:
        """`hear`: handles the messages of children."""
        pages = Pages(2 * MAX_WORKERS, inherited.pages if inherited is not None else None, site.plan.workers[0] + 1)
        self.children = Children(pages, events.selector, events.clock, hear)
        fleet.workers = self.children
        self.attached = Attached(
            site.command,
            events.signals,
            events.timers,
            lambda *cell: self.tally.count(*cell),
            lambda config: self.overview.programs(config),
        )
        self.status = Status(self.children, fleet, self.attached, site.listeners)
        self.overview = Overview(pages, self.children, self.status, site.supervise, site.command, events.watch)
        self.tally = self.overview.tally
        self.attached.follow(site.plan.config)
        self.watch = Watch(self.children)
