"""The settings of metrics, of the status page, and of the answers to balancers and to statsd.

Owns:     MetricsSettings; `settings_of`.
Thread:   any; pure.
"""

from __future__ import annotations

from ...core.patterns import lazy_pattern
from ...settings import EngineSettings, Needs, parse_bind, row, whole_address
from ...settings.kinds import HTTP, LISTENING, MODE, STATS, Kind, choice, matching, optional, show_text
from ...settings.paths import Base


@optional
def _parse_statsd(value: object) -> str:
    if not isinstance(value, str) or "://" in value:
        raise ValueError(f"{value!r} is no such address")
    bind = parse_bind(value)
    if bind.is_given or (bind.kind == "tcp" and not bind.port):
        raise ValueError(f"{value!r} is no such address")
    return bind.spec


def _whole_stats(text: str, base: Base) -> str:
    scheme = HTTP if text.startswith(HTTP) else ""
    return scheme + whole_address(text[len(scheme) :], base)


METRICS_MODE = Kind(
    "MODE",
    MODE.accepts,
    optional(MODE.parse),
    lambda mode: "what the umask leaves of 777" if mode is None else MODE.show(mode),
)
STATSD = Kind("ADDRESS", "host:port, [v6]:port, unix:/path, unix:@name", _parse_statsd, show_text)
# The characters that have no meaning in statsd's grammar (":", "|", "@", "#") and Graphite's tree.
STATSD_PREFIX = lazy_pattern(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z")
STATSD_NAME = Kind(
    "NAME", "letters, digits, _ and -, with dots between them", matching(STATSD_PREFIX, "is not such a name")
)
_METRICS = Needs(("metrics",))


class MetricsSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    metrics: str | None = row(
        None, "Metrics", "--metrics", LISTENING,
        "address for Prometheus, with metrics of requests, threads, connections and workers by GET /metrics; see `aserve docs metrics`",
        "A separate address: metrics are not for clients, and the address answers while every thread is busy. Counting costs "
        "each request a microsecond or two.",
        fixed=True,
        path=whole_address,
    )
    metrics_app: str = row(
        "on", "Metrics", "--metrics-app", choice("on", "off"),
        "whether --metrics includes the app's own metrics of prometheus_client, added up over all workers",
        "So there is a single address to scrape. Without prometheus_client in the app's environment this has no effect.",
        needs=_METRICS,
        fixed=True,
    )
    statsd: str | None = row(
        None, "Metrics", "--statsd", STATSD,
        "statsd for metrics of requests, their times, threads and workers, once a second, by UDP or a unix socket; see `aserve docs metrics`",
        "Counting costs the same as for --metrics. A host name is looked up once, at the start.",
        fixed=True,
        path=whole_address,
    )
    statsd_prefix: str = row(
        "aserve", "Metrics", "--statsd-prefix", STATSD_NAME,
        "prefix of the names for --statsd",
        "gunicorn's names begin with gunicorn: to keep such dashboards, give gunicorn, or PREFIX.gunicorn.",
        needs=Needs(("statsd",)),
        fixed=True,
    )
    stats: str | None = row(
        None, "Metrics", "--stats", STATS,
        "address with the JSON of uWSGI's stats server for every client, for uwsgitop and the like; see `aserve docs metrics`",
        "Of use only with such tools. Requests are counted, as for --metrics.",
        fixed=True,
        path=_whole_stats,
    )
    status_page: str = row(
        "local", "Metrics", "--status-page", choice("local", "all", "off"),
        "clients with access to the status page at the address of --metrics: on this machine, all, or none",
        "The page shows the paths of running requests, and settings: more than numbers, and nothing for strangers.",
        needs=_METRICS,
    )
    metrics_mode: int | None = row(
        None, "Metrics", "--metrics-mode", METRICS_MODE,
        "mode of the files of the unix sockets of --metrics, --stats and --agent-check; users with write access may connect",
        "As with other servers: under umask 022 only root and the user of aserve may connect. The status page shows the paths "
        "of requests, not meant for every user of this machine.",
        needs=Needs(("metrics", "stats", "agent_check")),
        fixed=True,
    )
    agent_check: str | None = row(
        None, "Health checks", "--agent-check", LISTENING,
        "address for HAProxy's agent check, answered with a weight by free threads, or drain, maint, stopped; see `aserve docs balancers`",
        "A separate address answers while every worker hangs. Of use only with HAProxy.",
        fixed=True,
        path=whole_address,
    )
    # fmt: on


def settings_of(config: EngineSettings) -> MetricsSettings:
    """Return the settings of a server as those of metrics: it has the rows of all features."""
    assert isinstance(config, MetricsSettings)
    return config
