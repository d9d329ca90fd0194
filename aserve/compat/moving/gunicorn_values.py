"""Parses values of gunicorn's settings: Python objects, or text of GUNICORN_CMD_ARGS.

Owns:     functions for the rows of gunicorn's table.
Thread:   any.
Not here: the translation of each setting (gunicorn_table.py), rules over several settings (gunicorn.py).
"""

from __future__ import annotations

from typing import Any, Callable

from ...settings.secrecy import show_variable
from .addresses import place_of as place_of
from .addresses import texts as texts
from .draft import BY_KEY, Draft, Given
from .gunicorn_hooks import does_nothing
from .log_formats import take_log_format as take_log_format

# gunicorn's default, with a zero for a body without octets, as there.
ACCESS_FORMAT = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(B)s "%(f)s" "%(a)s"'
Take = Callable[[Draft, Given], None]
MAX_HEAD_BYTES = 16 << 20
FORWARDER_DEFAULT = {"SCRIPT_NAME", "PATH_INFO"}  # of forwarder_headers
HEAD_BYTES = 64 << 10  # aserve's default of --max-head


def is_unset(value: Any) -> bool:
    """Whether gunicorn treats the value as unset."""
    return value is None or value == ""


def real(value: Any) -> float:
    """
    Parse a number, which may be text.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None


def whole(value: Any) -> int:
    """
    Parse a whole number, which may be text.

    Raises:
        ValueError: it is none.
    """
    if real(value) != int(real(value)):
        raise ValueError(f"{value!r} is not a whole number")
    return int(real(value))


def fact(name: str) -> Take:
    """Return a function that keeps a value for the end."""

    def take(draft: Draft, given: Given) -> None:
        draft.facts[given.key if name == "hook" else name] = given

    return take


def hook(name: str) -> Take:
    """Return a function that keeps a hook for the end, if it does anything; gunicorn takes the name of a function, too."""

    def take(draft: Draft, given: Given) -> None:
        if not is_unset(given.value) and not does_nothing(given.value):
            draft.facts[name] = given

    return take


def number(key: str, least: float, most: float) -> Take:
    """Return a function that puts a number into this setting of aserve, clamped to these bounds."""

    def take(draft: Draft, given: Given) -> None:
        if is_unset(given.value):
            return
        is_real = isinstance(least, float)
        value = real(given.value) if is_real else whole(given.value)
        if value < 0:
            raise ValueError(f"{given.value!r} is too small")
        bounded = max(least, min(value, most))
        if bounded != value:
            draft.note(given, f"{'less' if value < least else 'more'} than {key} may be; it is {bounded} here")
        draft.put(key, bounded, given)

    return take


def text(key: str) -> Take:
    """Return a function that puts a text into this setting; a path may be relative to `chdir`."""

    def take(draft: Draft, given: Given) -> None:
        if is_unset(given.value):
            return
        value = str(given.value) if type(given.value) is int else given.value
        draft.put(key, value, given)
        if BY_KEY[key].path is not None:
            draft.facts.setdefault("paths", []).append(key)

    return take


def take_log_level(draft: Draft, given: Given) -> None:
    """Take loglevel: `warn` is logging's old name of a warning."""
    value = "warning" if str(given.value).lower() == "warn" else given.value
    text("log-level")(draft, given._replace(value=value))


def take_access_format(draft: Draft, given: Given) -> None:
    """Take access_log_format."""
    if not is_unset(given.value):
        take_log_format(draft, given)


def take_statsd(draft: Draft, given: Given) -> None:
    """Take statsd_host: host:port, a pair of these, or unix://PATH."""
    value = given.value
    if is_unset(value):
        return
    text = f"{value[0]}:{value[1]}" if isinstance(value, (tuple, list)) else str(value)
    draft.put("statsd", text.replace("unix://", "unix:", 1), given)


def take_paths(key: str) -> Take:
    """Return a function that adds paths to this setting; a later source replaces those of an earlier one."""

    def take(draft: Draft, given: Given) -> None:
        draft.settings.pop(key, None)
        draft.whence.pop(key, None)
        for path in [] if is_unset(given.value) else texts(given.value):
            draft.add(key, path, given)

    return take


def take_protocols(draft: Draft, given: Given) -> None:
    """Take http_protocols; with h2 aserve's own default is as there."""
    if not is_unset(given.value) and "h2" not in texts(given.value):
        draft.put("http2", "off", given)


def take_bind(draft: Draft, given: Given) -> None:
    """Take bind: text, or a list."""
    if not is_unset(given.value):
        for item in texts(given.value):
            place_of(item, "")  # raises if it is wrong
        draft.facts["bind"] = given


def take_raw_env(draft: Draft, given: Given) -> None:
    """Take raw_env: NAME=VALUE, or a list of these."""
    draft.settings.pop("env", None)
    draft.whence.pop("env", None)
    pairs = [given.value] if isinstance(given.value, str) else list(given.value or ())
    for pair in pairs:
        if not isinstance(pair, str) or "=" not in pair:
            raise ValueError(f"{show_variable(str(pair))!r} is not of the form NAME=VALUE")
        draft.add("env", pair, given)


def take_request_line(draft: Draft, given: Given) -> None:
    """Take limit_request_line: 0 is any length."""
    value = whole(given.value) or MAX_HEAD_BYTES
    draft.put("max-request-line", max(64, min(value, MAX_HEAD_BYTES)), given)
    if value > HEAD_BYTES:
        draft.facts["head"] = given


def take_field_size(draft: Draft, given: Given) -> None:
    """Take limit_request_field_size: 0 is any size."""
    value = whole(given.value) or MAX_HEAD_BYTES
    if value > HEAD_BYTES:
        draft.put("max-head", min(value, MAX_HEAD_BYTES), given)


def take_header_map(draft: Draft, given: Given) -> None:
    """Take header_map: the treatment of fields whose names have an underscore."""
    if given.value == "dangerous":
        draft.note(
            given,
            "fields whose names have an underscore reach the app from trusted proxies, and only those that are named; let whatever sets them use hyphens, "
            "or name them in --underscore-fields",
        )


def take_forwarder_headers(draft: Draft, given: Given) -> None:
    """Take forwarder_headers: fields with an underscore in their names, allowed from forwarded_allow_ips."""
    for name in [] if is_unset(given.value) else texts(given.value):
        if name == "*":
            draft.note(given, "name the fields in --underscore-fields: any other could be a client's")
        elif name not in FORWARDER_DEFAULT:
            if "_" in name:  # others reach the app anyway, in both servers
                draft.add("underscore-fields", name, given)
        elif set(texts(given.value)) != FORWARDER_DEFAULT:
            draft.note(given, f"{name} is no field of aserve's: a proxy says its mount point as X-Forwarded-Prefix")


def take_forwarded(draft: Draft, given: Given) -> None:
    """Take forwarded_allow_ips, proxy_allow_ips."""
    for peer in [] if is_unset(given.value) else texts(given.value):
        if peer not in draft.settings.get("trusted-proxies", ()):
            draft.add("trusted-proxies", peer, given)
    draft.facts["forwarded"] = True


def take_scheme_fields(draft: Draft, given: Given) -> None:
    """
    Take secure_scheme_headers: the value that says https, by the name of the field.

    Raises:
        ValueError: it is no dict.
    """
    if not isinstance(given.value, dict):
        raise ValueError(f"{given.value!r} is no dict")
    draft.put("scheme-fields", [f"{name}: {value}" for name, value in given.value.items()] or ["none"], given)


def take_cert_reqs(draft: Draft, given: Given) -> None:
    """Take cert_reqs: 0, 1 or 2, as ssl.CERT_NONE and so on."""
    value = whole(int(given.value))
    if value not in (0, 1, 2):
        raise ValueError(f"{given.value!r} is none of 0, 1 and 2")
    draft.put("client-certificate", ("none", "optional", "required")[value], given)


def take_ssl_version(draft: Draft, given: Given) -> None:
    """Take ssl_version: a protocol, or its name."""
    name = getattr(given.value, "name", str(given.value))
    if "1_3" in name or "1.3" in name:
        draft.put("tls-min", "1.3", given)
