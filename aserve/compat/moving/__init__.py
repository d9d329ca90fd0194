"""The settings of other servers, as they are: those of uWSGI and gunicorn become ours.

Owns:     Translating, the extension with `aserve translate`.
Thread:   the main thread.
Not here: the translation of settings (uwsgi.py, gunicorn.py), the command (translate.py).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from ...extension import Extension, Run
from ...settings import EngineSettings


class Translating(Extension[EngineSettings]):
    """`aserve translate`; for a server it does nothing."""

    @staticmethod
    def commands() -> Mapping[str, Run]:
        """See Extension."""
        return {"translate": _translate}


def _translate(argv: Sequence[str], environ: MutableMapping[str, str]) -> int:
    from .translate import run_translate

    return run_translate(argv, environ)
