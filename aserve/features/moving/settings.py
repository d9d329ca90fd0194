"""The settings for deployments of other servers.

Owns:     MovingSettings: what becomes of a rule that guards the app and has no effect here; the FIFO of uWSGI's deploy scripts.
Thread:   any; data.
Not here: the flags that name a file (naming.py), the rules (uwsgi_routes.py, gunicorn_guards.py), the FIFO (master_fifo.py).
"""

from __future__ import annotations

from ...settings import REPLACED, EngineSettings, row
from ...settings.kinds import FILE, choice
from ...settings.paths import whole


class MovingSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    dropped_guards: str = row(
        "refuse", "Process", "--dropped-guards", choice("refuse", "warn"),
        "what follows if a file of uWSGI or gunicorn has a rule that keeps clients from the app, such as a route with ldapauth, and aserve cannot "
        "obey it: no start, or a warning; see docs/moving-from-uwsgi.md",
        "A site that asked for a password must not be served without one because its server is another.",
    )
    master_fifo: str | None = row(
        None, "Process", "--master-fifo", FILE,
        "FIFO that the supervisor makes, and whose letters it obeys as uWSGI does its master-fifo's: r and c reload, q ends, + and - change the "
        "number of workers, l opens logs anew; see docs/moving-from-uwsgi.md",
        "It is for deploy scripts that were written for uWSGI; `aserve reload` says whether the new code serves.",
        needs=REPLACED,
        fixed=True,
        path=whole,
    )
    # fmt: on
