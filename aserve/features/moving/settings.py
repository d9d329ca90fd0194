"""The setting of files of other servers that aserve reads.

Owns:     MovingSettings: what becomes of a rule that guards the app and has no effect here.
Thread:   any; data.
Not here: the flags that name a file (naming.py), the rules (uwsgi_routes.py, gunicorn_guards.py).
"""

from __future__ import annotations

from ...settings import EngineSettings, row
from ...settings.kinds import choice


class MovingSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    dropped_guards: str = row(
        "refuse", "Process", "--dropped-guards", choice("refuse", "warn"),
        "what follows if a file of uWSGI or gunicorn has a rule that keeps clients from the app, such as a route with ldapauth, and aserve cannot "
        "obey it: no start, or a warning; see docs/moving-from-uwsgi.md",
        "A site that asked for a password must not be served without one because its server is another.",
    )
    # fmt: on
