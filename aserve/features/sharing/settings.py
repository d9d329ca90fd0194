"""The settings `--shared` and `--shared-prefix`: the hosts' common Redis or Valkey, and the names there.

Owns:     SharingSettings; Shared; the grammar of the URL.
Thread:   any; pure.
Not here: connecting there (store.py).
"""

from __future__ import annotations

import importlib.util
import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from ...core.named_tuple import NamedTuple
from ...core.patterns import lazy_pattern
from ...settings import ConfigError, EngineSettings, Needs, row
from ...settings.kinds import Kind, show_text
from ...settings.secrecy import HIDDEN, show_url

_DB = lazy_pattern(r"/?(?:[0-9]{1,6})?\Z")
_PREFIX = lazy_pattern(r"[A-Za-z0-9_.:-]{1,100}\Z")


class Shared(NamedTuple):
    """The shared database, and the prefix of the keys."""

    url: str
    prefix: str

    def __repr__(self) -> str:
        return f"Shared({show_url(self.url)!r}, {self.prefix!r})"


def _parse_url(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{value if isinstance(value, int) else 'it'} is not text")
    text = re.sub(r"\Aunix:(?=/[^/])", "unix://", value)
    try:
        parts = urlsplit(text)
    except ValueError:  # the exception's message would show a password
        raise ValueError(f"{show_url(value)!r} is no URL") from None
    if not text.startswith(("redis://", "rediss://", "unix:")):  # the redis package accepts no others, such as REDIS://
        raise ValueError(f"{show_url(value)!r} begins neither with redis:// nor rediss:// nor unix:")
    if parts.scheme == "unix" and (len(parts.path) < 2 or not text.startswith("unix://")):
        raise ValueError(f"{show_url(value)!r} names no file by its whole path")
    if parts.scheme != "unix" and not (parts.hostname and _has_port(parts) and _DB.match(parts.path)):
        raise ValueError(f"{show_url(value)!r} is not HOST[:PORT][/DB]; in a password / is %2F, and # is %23")
    for name, number in parse_qsl(parts.query, keep_blank_values=True):
        if not name.startswith("ssl_") and name != "db":
            raise ValueError(
                f"{f'{name}=' if number else HIDDEN} is no option here; db= and ssl_ca_certs= and its like are"
            )
        if name == "db" and not re.match(r"[0-9]{1,6}\Z", number):
            raise ValueError(f"db={number} is no number of a database")
    return text


def _has_port(parts: SplitResult) -> bool:
    """Whether the port is valid or missing; urllib's message would show a part of a password."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _parse_prefix(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _PREFIX.match(value):
        raise ValueError(f"{value!r} is not a name")
    return value


SHARED = Kind(
    "URL", "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://... with TLS, unix:PATH[?db=DB]", _parse_url, show_text
)
SHARED_PREFIX = Kind("NAME", "up to 100 letters, digits, _, ., : and -", _parse_prefix, show_text)


class SharingSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    shared: str | None = row(
        None, "Serving", "--shared", SHARED,
        "Redis or Valkey shared by all hosts, for the cache, locks, timers and cron of `import uwsgi`, queues of --spooler, and certificates of --https with their keys; see `aserve docs uwsgi-api` and `aserve docs certificates`",
        "By default each host has separate ones, and no other server has to run. This needs redis (pip install "
        "'aserve-wsgi[redis]'). Put a password into the variable: every user can read a command line.",
        secret=show_url,
        fixed=True,
    )
    shared_prefix: str | None = row(
        None, "Serving", "--shared-prefix", SHARED_PREFIX,
        "prefix of the keys in --shared; hosts with the same prefix share",
        "The APP, as named on the command line: two sites with the same name need two databases, or two prefixes.",
        needs=Needs(("shared",), "is for what hosts share; give --shared, which says where"),
        fixed=True,
    )
    # fmt: on

    def check(self) -> None:
        """See Settings."""
        if self.shared and not importlib.util.find_spec("redis"):
            raise ConfigError("--shared needs redis, which is not installed; pip install 'aserve-wsgi[redis]'")


def shared_of(config: SharingSettings, spec: str | None) -> Shared | None:
    """Return the shared database and prefix, by default the app's name; None: nothing is shared."""
    return Shared(config.shared, config.shared_prefix or spec or "") if config.shared is not None else None
