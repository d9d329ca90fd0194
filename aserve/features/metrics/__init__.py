"""The counts of a process, and its own answers if there is no supervisor: --metrics, --stats, --statsd, --agent-check.

Owns:     Metrics and AgentCheck, the extensions.
Thread:   see Extension.
Not here: the words (counting.py), the answers (single.py), both of which take 1 MB of a process with their imports.

table.py has every metric once: its place in memory, its name, its meaning. counting.py writes the counts of a process; totals.py adds
up those of several; text.py formats them. For the status page, history.py keeps the last minute, and picture.py puts that into an event
with the status and the warnings (lifecycle/status.py, advice.py). pages.py answers requests, scrapes.py has their connections.
exporter.py joins these parts, for one process (lone.py, single.py), and for the many of a supervisor (several.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from ...connections.listeners import Listener
from ...core import error_log, forks
from ...core.ends import Reader
from ...extension import Extension, Life, LifeContext, ServerContext
from ...lifecycle.supervision import Supervision, SupervisorContext
from .settings import MetricsSettings

if TYPE_CHECKING:
    from .counting import Counters
    from .single import Single


class AgentCheck(Extension[MetricsSettings]):
    """--agent-check without counts: answers balancers, unless a supervisor does."""

    modules: Sequence[str] = ("app", "counting", "gil", "single")
    _single: Single | None = None

    @staticmethod
    def is_on(config: MetricsSettings) -> bool:
        """See Extension."""
        return bool(config.agent_check) and not Metrics.is_on(config)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Import the module of a supervisor early, as `modules`; warn in a check."""
        if event is Life.CHECKS:
            from .scrapes import warn_of_readers

            warn_of_readers(self._config)
        if event is Life.STARTS and context.plan.config.workers is not None:
            from . import several  # noqa: F401

    def bind(self) -> Sequence[Listener]:
        """See Extension."""
        from .scrapes import open_metrics

        return open_metrics(self._config)

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        from .several import Several

        return Several(context, self._config)

    def start(self, context: ServerContext) -> None:
        """See Extension."""
        self._single = None
        if context.counters is None:
            from .single import Single

            self._single = Single(context.server, context.loop)
            context.at_stop(self._single.close)
            context.bound.extend(forks.local_address(listener.socket.fileno()) for listener in self._single.listeners)

    def on_second(self) -> None:
        """See Extension."""
        if self._single is not None:
            self._single.on_second()


class Metrics(AgentCheck):
    """--metrics, --stats and --statsd: counts, and answers balancers as well."""

    wants = ("times",)
    counters: Counters  # from `start` on

    @staticmethod
    def is_on(config: MetricsSettings) -> bool:
        """See Extension."""
        return bool(config.metrics or config.stats or config.statsd)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """See AgentCheck; let what the app counts be where a supervisor finds it."""
        super().on_life(event, context)
        if context.role is None or event not in (Life.IMPORTS, Life.FORKED, Life.ENDS):
            return
        from . import app_files

        if event is Life.ENDS:
            app_files.leave()
        elif context.environ is not None:
            app_files.enter(context.role, context.environ)

    def start(self, context: ServerContext) -> None:
        """See Extension."""
        from .app import AppMetrics, telling
        from .counting import Counters
        from .gil import GilWatch

        self._context = context
        super().start(context)
        self.memory = context.counters if self._single is None else self._single.memory
        self.counters = Counters(self.memory, self._config.threads)
        self._app = AppMetrics(context.loop, telling(context.say)) if context.say is not None else None
        watch = GilWatch(self.counters.note_gil_wait)
        watch.start()
        context.at_stop(watch.stop)

    def reader(self) -> Reader:
        """See Extension."""
        return Reader(self.counters, refused=self.counters.write_refused)

    def answers(self) -> Mapping[str, Callable[[], Any]]:
        """See Extension; the fact is the counts that warnings are made from."""
        from .app import READ

        facts = {"counted": self._single.counted} if self._single is not None else {}
        return {**facts, READ: self._app.answer} if self._app is not None else facts

    def on_second(self) -> None:
        """Write the present numbers, before they are read."""
        now, lost = self._context.server.statistics(), self._context.ask("access_log_lines_lost") or 0
        self.counters.on_second(now, lost, self._context.busy.seconds, error_log.lost_lines())
        super().on_second()
