"""The objects of one supervisor.

Owns:     Parts: each object is made here, once; closing them.
Thread:   the supervisor's only one.
Not here: events (events.py), actions (acts.py), the loop (supervisor.py).
"""

from __future__ import annotations

import os

from ..lifecycle.manager import Manager
from ..settings import MAX_WORKERS
from .children.children import Children
from .children.pages import Pages
from .children.poller import Clock, Poller
from .crew import Crew
from .fleet.fleet import Fleet
from .monitoring.overview import Overview
from .monitoring.status import Status
from .monitoring.touched import TouchedFiles
from .monitoring.watch import Watch
from .programs.attached import Attached
from .site import Site
from .transfers.placement import Placement
from .transfers.transfers import Transfers
from .upgrade.inheritance import Inheritance
from .upgrade.upgrade import Upgrade


class Parts:
    """The objects of one supervisor, from the ground up."""

    def __init__(self, site: Site, fleet: Fleet, clock: Clock, inherited: Inheritance | None) -> None:
        self.site, self.fleet, self.clock = site, fleet, clock
        poller = self.poller = Poller(clock)
        self.timers = poller.timers
        self.manager = Manager(main_pid=os.getpid())
        pages = Pages(2 * MAX_WORKERS, inherited.pages if inherited is not None else None, site.plan.workers[0] + 1)
        children = self.children = Children(pages, poller.selector, clock)
        fleet.workers = children
        attached = self.attached = Attached(
            site.command,
            poller.signals,
            poller.timers,
            lambda *cell: self.tally.count(*cell),
            lambda config: self.overview.programs(config),
        )
        status = self.status = Status(children, fleet, attached, site.listeners)
        overview = self.overview = Overview(children, status, site.supervise, site.command, poller.watch, site.on_life)
        self.tally = overview.tally
        attached.follow(site.plan.config)
        watch = self.watch = Watch(children)
        status.slow_starts = watch.slow_starts
        self.touched = TouchedFiles(site.plan.config.touch_reload)
        crew = self.crew = Crew(fleet, children, clock, status, overview, watch)
        overview.resize = crew.resize
        self.placement = Placement(children, fleet)
        transfers = self.transfers = Transfers(children, self.placement)
        self.upgrade = Upgrade(
            site.command, fleet, children, poller.signals, self.manager, attached, overview, site.listeners, transfers
        )
        self.old_workers = inherited.old_workers if inherited is not None else None

    def let_go(self) -> None:
        """Close the descriptors of the supervisor, and restore the handlers of signals; in a forked child, too."""
        self.poller.close()
        self.transfers.let_go()
        if self.old_workers is not None:
            self.old_workers.close()
        self.overview.close(is_end=False)
