"""The settings of the access log.

Owns:     AccessLogSettings.
Thread:   any; pure.
Not here: the grammar of a format and of a skip (log_line.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.log_target import LOGGER, SYSLOG
from ...settings import EngineSettings, Needs, row
from ...settings.kinds import Kind, checked_texts, parse_path, show_text, show_texts
from ...settings.paths import Base, whole
from .log_line import JSON, NAMED, parse_line_format, parse_skip

_LOG = Needs(("access_log",))


def _parse_log_format(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is not a line of text")
    if value not in NAMED and value != JSON:
        parse_line_format(value)
    return value


def whole_log(text: str, base: Base) -> str:
    """Return the target of an access log: a file, standard output, syslog or a logger."""
    return text if text == "-" or text.startswith((SYSLOG, LOGGER)) else whole(text, base)


LOG_PATH = Kind(
    "PATH",
    "a path, - for standard output, syslog:, syslog:/PATH, syslog:udp://HOST:PORT or logger:NAME",
    parse_path,
    show_text,
)
LOG_FORMAT = Kind(
    "FORMAT",
    "combined, common, uwsgi, json, or text with gunicorn's or uWSGI's names of values; see `aserve docs logging`",
    _parse_log_format,
)
LOG_COPIES = Kind(
    "PATH",
    f"{LOG_PATH.accepts}; in a variable one to a line",
    lambda value: checked_texts(value, parse_path),
    show_texts,
)
SKIPS = Kind(
    "'PATH [STATUS]'",
    "a path, in which * is any text, and a status such as 200 or 2xx; in a variable one to a line",
    lambda value: checked_texts(value, parse_skip),
    show_texts,
)


class AccessLogSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    access_log: str | None = row(
        None, "Logs", "--access-log", LOG_PATH,
        "write a line for each request to a file, to standard output with -, with syslog: to the machine's log, or to a logger; see `aserve docs logging`",
        "Most servers stand behind a proxy with an access log.",
        path=whole_log,
    )
    access_log_copy: Sequence[str] = row(
        (), "Logs", "--access-log-copy", LOG_COPIES,
        "a further place for the lines of --access-log; repeatable",
        "A single place is enough, unless a file and a collector of logs both want lines.",
        path=whole_log,
        needs=_LOG,
    )
    access_log_format: str = row(
        "combined", "Logs", "--access-log-format", LOG_FORMAT,
        "the contents of a line: combined, common, uwsgi, json, or text with gunicorn's or uWSGI's names of values; see `aserve docs logging`",
        "Apache and nginx write this format by default, and most tools read this format.",
        needs=_LOG,
    )
    access_log_skip: Sequence[str] = row(
        (), "Logs", "--access-log-skip", SKIPS,
        "requests without a line, such as health checks: '/healthz 2xx'; repeatable",
        "A line left out is missing in time of need.",
        needs=_LOG,
    )
    # fmt: on
