"""Mules: processes beside the workers that get messages, or run a program with the module `uwsgi` (--uwsgi-mule).

Owns:     UwsgiMules, the extension.
Thread:   see Extension.

post.py has the messages, runner.py the process of a mule, functions.py what the app calls, supervising.py what the supervisor starts.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....core.command_line import COMMAND_LINE, read_command_line
from ....extension import BesideContext, Extension, Life, LifeContext, RunBeside
from ....lifecycle.supervision import Supervision, SupervisorContext
from ....settings import ConfigError
from .settings import MULE_VARIABLE, MuleSettings


class UwsgiMules(Extension[MuleSettings]):
    """--uwsgi-mule."""

    switches = ("uwsgi_mule",)

    @staticmethod
    def processes() -> Mapping[str, RunBeside]:
        """See Extension."""
        return {MULE_VARIABLE: _run_mule}

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        from .supervising import Mules

        return Mules(context.words)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Check that a process like this one can be started; make the queues of messages before the first worker."""
        if event is Life.READ and not read_command_line()[1:]:
            raise ConfigError(
                f"--uwsgi-mule: the command line, which mules run, is not known without {COMMAND_LINE}; mount /proc"
            )
        if event is Life.WORKERS_BEGIN or (
            event is Life.IMPORTS and context.role is not None and context.role.is_trial
        ):
            self._share(context)

    def _share(self, context: LifeContext) -> None:
        from . import post

        try:
            post.share(post.Post.open(len(self._config.uwsgi_mule), self._config.uwsgi_farm, context.kept))
        except OSError as fault:
            raise ConfigError(
                f"--uwsgi-mule: there is no descriptor for its messages: {fault.strerror or fault}"
            ) from None


def _run_mule(text: str, context: BesideContext) -> int:
    from ..jobs import run_mule

    return run_mule(text, context)
