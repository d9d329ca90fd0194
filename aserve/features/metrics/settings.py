"""The settings of metrics, of the status page, and of the answers to balancers and to statsd.

Owns:     MetricsSettings; `settings_of`.
Thread:   any; pure.
"""

from __future__ import annotations

import dataclasses
import re

from ...settings import EngineSettings, Needs, parse_bind, row
from ...settings.kinds import LISTENING, Kind, choice, show_text


def _parse_statsd(value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "://" in value:
        raise ValueError(f"{value!r} is no such address")
    bind = parse_bind(value)
    if bind.is_given or (bind.kind == "tcp" and not bind.port):
        raise ValueError(f"{value!r} is no such address")
    return bind.spec


def _parse_statsd_prefix(value: object) -> str:
    if not isinstance(value, str) or not STATSD_PREFIX.match(value):
        raise ValueError(f"{value!r} is not such a name")
    return value


STATSD = Kind("ADDRESS", "host:port, [v6]:port, unix:/path, unix:@name", _parse_statsd, show_text)
# What statsd's own grammar (":", "|", "@", "#") and Graphite's tree leave.
STATSD_PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z")
STATSD_NAME = Kind("NAME", "letters, digits, _ and -, with dots between them", _parse_statsd_prefix)
_METRICS = Needs(("metrics",))


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class MetricsSettings(EngineSettings):
    """Its settings."""

    # fmt: off
    metrics: str | None = row(
        None, "Metrics", "--metrics", LISTENING,
        "address at which GET /metrics tells Prometheus how requests, threads, connections and workers are; see docs/metrics.md",
        "An address of its own: what it tells is not for clients, and it answers while every thread is busy. Counting costs each request a "
        "microsecond or two.",
        fixed=True,
    )
    metrics_app: str = row(
        "on", "Metrics", "--metrics-app", choice("on", "off"),
        "whether --metrics also tells what the app counts by prometheus_client, added up over all workers",
        "One address to be scraped. It takes prometheus_client in the app's environment; without it, nothing is done.",
        needs=_METRICS,
        fixed=True,
    )
    statsd: str | None = row(
        None, "Metrics", "--statsd", STATSD,
        "where statsd hears once a second of requests, their times, threads and workers, by UDP or a unix socket; see docs/metrics.md",
        "Counting costs what it does for --metrics. A name is looked up once, at the start.",
        fixed=True,
    )
    statsd_prefix: str = row(
        "aserve", "Metrics", "--statsd-prefix", STATSD_NAME,
        "what the names of --statsd begin with",
        "gunicorn's begin with its name: to go on with what its names are used for, give gunicorn, or PREFIX.gunicorn.",
        needs=Needs(("statsd",)),
        fixed=True,
    )
    stats: str | None = row(
        None, "Metrics", "--stats", LISTENING,
        "address at which whoever connects gets JSON as uWSGI's stats server has it, for uwsgitop and its like; see docs/metrics.md",
        "For those who have such tools. It counts requests, as --metrics does.",
        fixed=True,
    )
    status_page: str = row(
        "local", "Metrics", "--status-page", choice("local", "all", "off"),
        "who may see the status page at the address of --metrics: this machine, whoever reaches the address, nobody",
        "It shows the paths of requests at work, and settings: more than numbers, and nothing for strangers.",
        needs=_METRICS,
    )
    agent_check: str | None = row(
        None, "Health checks", "--agent-check", LISTENING,
        "address at which HAProxy's agent check is told a weight by what is free, or drain, maint, stopped; see docs/balancers.md",
        "An address of its own: it is answered while every worker hangs. Who does not use HAProxy has no use for it.",
        fixed=True,
    )
    # fmt: on


def settings_of(config: EngineSettings) -> MetricsSettings:
    """Return the settings of a server as those of metrics: it has the rows of all features."""
    assert isinstance(config, MetricsSettings)
    return config
