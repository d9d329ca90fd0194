"""The settings of `import uwsgi`, and the grammar of `--uwsgi-cache`, which is that of uWSGI's option cache2.

Owns:     UwsgiSettings; CacheSpec; 'name=sessions,items=1000,...'.
Thread:   any; pure.
Not here: the cache itself (caches.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.named_tuple import NamedTuple
from ...core.patterns import lazy_pattern
from ...features.sharing.settings import SharingSettings
from ...settings import ConfigError, row
from ...settings.kinds import (
    GIB,
    KIB,
    Kind,
    checked_texts,
    choice,
    count,
    matching,
    show_text,
    show_texts,
    size,
    texts_of,
)

DEFAULT_NAME = "default"  # uWSGI's name of the cache if none is given
_NAME = lazy_pattern(r"[A-Za-z0-9_.-]{1,64}\Z")
_ITEMS = count(1, 10_000_000)
_VALUE = size(1, GIB)
_KEY = size(1, 60 * KIB)  # the length of a key has two octets
_TRUE = {"1": True, "0": False, "true": True, "false": False, "on": True, "off": False}


class CacheSpec(NamedTuple):
    """One cache that all processes share."""

    name: str = DEFAULT_NAME
    items: int = 0
    value_bytes: int = 64 * KIB  # the longest value; uWSGI's default
    key_bytes: int = 2 * KIB  # the longest key; uWSGI's default
    has_eviction: bool = False  # a full cache evicts items that were not used for long


_FIELDS = {"name": "name", "items": "items", "blocksize": "value_bytes", "keysize": "key_bytes", "purge_lru": "has_eviction"}  # fmt: skip


def parse_cache(text: str) -> CacheSpec:
    """
    Parse `name=NAME,items=N,blocksize=SIZE,keysize=SIZE,purge_lru=1`; only `items` is required.

    Raises:
        ValueError: the text is not of that form.
    """
    given: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in _FIELDS or not equals:
            raise ValueError(f"{part!r} is none of name=, items=, blocksize=, keysize= and purge_lru=")
        given[_FIELDS[key]] = _value_of(key, value)
    if "items" not in given:
        raise ValueError(f"{text!r} does not say how many items there is room for, as in items=1000")
    return CacheSpec(**given)  # type: ignore[arg-type]


def _value_of(key: str, value: str) -> object:
    if key == "name":
        return matching(_NAME, "is not the name of a cache: up to 64 letters, digits, _, . and -")(value)
    if key == "purge_lru":
        if value.lower() not in _TRUE:
            raise ValueError(f"purge_lru={value} is neither 0 nor 1")
        return _TRUE[value.lower()]
    return {"items": _ITEMS, "blocksize": _VALUE, "keysize": _KEY}[key].parse(value)


def _parse_caches(value: object) -> tuple[str, ...]:
    texts = tuple(texts_of(value, str.splitlines))
    names = [parse_cache(text).name for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two caches are called {name}")
    return texts


CACHES = Kind(
    "items=N[,name=NAME,...]",
    "how many items, and what else differs from name=default,blocksize=64k,keysize=2k,purge_lru=0; in a variable one to a line",
    _parse_caches,
    show_texts,
)


class QueueSpec(NamedTuple):
    """The ring of messages that all processes share."""

    items: int = 0
    value_bytes: int = 64 * KIB  # the longest message; uWSGI's default


def parse_queue(text: str) -> QueueSpec:
    """
    Parse `items=N,blocksize=SIZE`; only `items` is required.

    Raises:
        ValueError: the text is not of that form.
    """
    spec = parse_cache(text)
    if spec != CacheSpec(items=spec.items, value_bytes=spec.value_bytes):
        raise ValueError(f"{text!r} has more than items= and blocksize=")
    return QueueSpec(spec.items, spec.value_bytes)


class Extras(NamedTuple):
    """What processes share besides caches: few sites have any of it."""

    queue: str | None = None  # of --uwsgi-queue
    areas: Sequence[str] = ()  # of --uwsgi-sharedarea
    metrics: Sequence[str] = ()  # of --uwsgi-metric


def _parse_queue(value: object) -> str | None:
    if value is None:
        return None
    (text,) = texts_of(value, lambda given: [given])
    parse_queue(text)
    return text


def _parse_metrics(value: object) -> tuple[str, ...]:
    fault = "is not the name of a metric: up to 64 letters, digits, _, . and -"
    return tuple(dict.fromkeys(checked_texts(value, matching(_NAME, fault))))


AREA = size(1, GIB)
QUEUE = Kind("items=N[,blocksize=SIZE]", "how many messages, and how long one may be (64k)", _parse_queue, show_text)
AREAS = Kind(
    "SIZE",
    "octets, or a size such as 64k; in a variable one to a line",
    lambda value: checked_texts(value, AREA.parse),
    show_texts,
)
METRICS = Kind("NAME", "letters, digits, _, . and -; in a variable one to a line", _parse_metrics, show_texts)


class UwsgiSettings(SharingSettings):
    """The settings of this feature."""

    # fmt: off
    uwsgi_module: str = row(
        "auto", "Serving", "--uwsgi-module", choice("auto", "on", "off"),
        "whether `import uwsgi` works in the app; auto: with a uwsgi bind, --route, --spooler, --uwsgi-cache, --uwsgi-mule or --shared",
        "Apps use the import to detect uWSGI, and half of these apps behave differently without; see `aserve docs uwsgi-api`. "
        "A server in your own program leaves this to you.",
        fixed=True,
    )
    uwsgi_cache: Sequence[str] = row(
        (), "Serving", "--uwsgi-cache", CACHES,
        "a cache shared by all workers, for uwsgi.cache_get and the like, as in uWSGI's option cache2; repeatable; see `aserve docs uwsgi-api`",
        "Only you know the values worth caching. Memory is taken as the cache fills.",
        fixed=True,
    )
    uwsgi_queue: str | None = row(
        None, "Serving", "--uwsgi-queue", QUEUE,
        "a ring of messages shared by all workers, for uwsgi.queue_push and the like, as in uWSGI's option queue; see `aserve docs uwsgi-api`",
        "Only apps written for uWSGI use it.",
        fixed=True,
    )
    uwsgi_sharedarea: Sequence[str] = row(
        (), "Serving", "--uwsgi-sharedarea", AREAS,
        "memory shared by all workers, for uwsgi.sharedarea_read and the like, as in uWSGI's option sharedarea; repeatable; see `aserve docs uwsgi-api`",
        "Only apps written for uWSGI use it.",
        fixed=True,
    )
    uwsgi_metric: Sequence[str] = row(
        (), "Serving", "--uwsgi-metric", METRICS,
        "a number shared by all workers, for uwsgi.metric_inc and the like, as in uWSGI's option metric; repeatable; see `aserve docs uwsgi-api`",
        "Only apps written for uWSGI use such numbers; prometheus_client's metrics are in --metrics.",
        fixed=True,
    )
    # fmt: on

    @property
    def extras(self) -> Extras:
        """What processes share besides caches."""
        return Extras(self.uwsgi_queue, self.uwsgi_sharedarea, self.uwsgi_metric)

    def check(self) -> None:
        """See Settings."""
        if self.uwsgi_cache and self.uwsgi_module == "off":
            raise ConfigError("--uwsgi-cache is for apps that import uwsgi, which --uwsgi-module off prevents")
        if self.shared and self.uwsgi_module == "off":
            raise ConfigError("--shared is for apps that import uwsgi, which --uwsgi-module off prevents")
        if self.extras != Extras() and self.uwsgi_module == "off":
            raise ConfigError(
                "--uwsgi-queue, --uwsgi-sharedarea and --uwsgi-metric are for apps that import uwsgi, which --uwsgi-module off prevents"
            )
