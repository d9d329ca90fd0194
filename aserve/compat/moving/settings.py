"""The settings of this feature, for deployments that were another server's.

Owns:     MovingSettings: what the app finds in its environ and in sys.argv; what becomes of a rule that guards the app and has no effect here; the FIFO of uWSGI's deploy scripts.
Thread:   any; data.
Not here: the flags that name a file (naming.py), the effect (environ.py, arguments.py, master_fifo.py), the rules (uwsgi_routes.py, gunicorn_guards.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.patterns import lazy_pattern
from ...settings import REPLACED, EngineSettings, row
from ...settings.kinds import FILE, NAME_CHARACTER, Kind, choice, show_texts, texts_of
from ...settings.paths import whole
from ...settings.secrecy import show_argument

UWSGI_VERSION = "2.0.30"  # for apps and files that ask for it
NO_FIELDS, OURS = "none", "aserve"
SERVERS = choice(OURS, "uwsgi", "gunicorn")
_SCHEME_FIELD = lazy_pattern(rf"({NAME_CHARACTER}+): *([!-~]+)")


def _parse_words(value: object) -> tuple[str, ...]:
    words = value.splitlines() if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise ValueError("it is neither text nor a list of texts")  # without the value, which may hold a secret
    return tuple(words)


def _parse_scheme_fields(value: object) -> tuple[str, ...]:
    found: list[str] = []
    for field in texts_of(value, str.splitlines):
        match = _SCHEME_FIELD.fullmatch(field.lower())
        if match is None and field.lower() == NO_FIELDS:
            continue
        if match is None:
            raise ValueError(f"{field!r} is not of the form NAME: VALUE, as in 'X-Forwarded-Proto: https'")
        found.append(": ".join(match.groups()))
    return tuple(found or ([NO_FIELDS] if value else []))


def _parse_server(value: object) -> str | None:
    return None if value is None or SERVERS.parse(value) == OURS else str(SERVERS.parse(value))


SERVER = SERVERS._replace(parse=_parse_server, show=lambda name: name or OURS)
WORDS = Kind("WORD", "words; in a variable one to a line", _parse_words, show_texts)
NAMED_VALUES = Kind(
    "FIELD",
    "a field and its value, as in 'X-Forwarded-Proto: https', or none; in a variable one to a line",
    _parse_scheme_fields,
    show_texts,
)


class MovingSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    dropped_guards: str = row(
        "refuse", "Process", "--dropped-guards", choice("refuse", "warn"),
        "the effect of a rule in a file of uWSGI or gunicorn to keep clients from the app, such as a route with ldapauth, "
        "beyond aserve's means: no start, or a warning; see `aserve docs moving-from-uwsgi-options`",
        "A site with a password must not be served without a password because of a new server.",
    )
    master_fifo: str | None = row(
        None, "Process", "--master-fifo", FILE,
        "FIFO made by the supervisor, with the letters of uWSGI's master-fifo: r and c reload, q ends, + and - change the "
        "number of workers, l opens logs anew; see `aserve docs moving-from-uwsgi-options`",
        "For deploy scripts written for uWSGI; `aserve reload` says whether the new code serves.",
        needs=REPLACED,
        fixed=True,
        path=whole,
    )
    environ_as: str | None = row(
        None, "Proxies", "--environ-as", SERVER,
        "which server's environ the app finds, where environs differ: X-Forwarded-* of any peer unchanged, REMOTE_ADDR of the "
        "peer, and the scheme as in uWSGI or gunicorn; with gunicorn RAW_URI, too; see `aserve docs proxies`",
        "A client can send these fields, so a new app does not see them. Settings of uWSGI and gunicorn imply their own: an "
        "app behind a proxy there knows which addresses to believe, and must go on with https. With uwsgi and trusted-proxies, "
        "aserve's rules decide about these fields.",
    )
    scheme_fields: Sequence[str] = row(
        (), "Proxies", "--scheme-fields", NAMED_VALUES,
        "with --environ-as gunicorn, the fields of a trusted proxy for https, each with the value for https, or none; repeatable",
        "gunicorn's secure_scheme_headers; without a value X-Forwarded-Proto: https, X-Forwarded-Protocol: ssl and "
        "X-Forwarded-Ssl: on, as there. Any other value of such a field says http.",
    )
    argv: Sequence[str] = row(
        (), "Process", "--argv", WORDS,
        "a word of sys.argv for the app's import, the program's name first; repeatable; by default aserve's own",
        "An app with a parser of sys.argv at import must not find aserve's flags. Settings of uWSGI and gunicorn set the words of these servers.",
        secret=show_argument,
    )
    # fmt: on
