"""The platform's own variables: systemd's sockets, PORT and WEB_CONCURRENCY of a PaaS are settings; Kubernetes' variables are ignored.

Owns:     these variables, and their settings, below every other source; sockets left out then.
Thread:   any; pure, but systemd's variables are for one process.
Not here: the order of sources (sources.py), the sockets themselves (core/systemd.py).

Heroku and other platforms choose the port (https://12factor.net/port-binding), and set WEB_CONCURRENCY to the number of processes that fit into
memory.

Kubernetes describes each service of a namespace to the containers, as Docker's links did; of a service named aserve by variables such as
ASERVE_PORT=tcp://10.0.0.1:80 and ASERVE_SERVICE_HOST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern
from ..core.systemd import passed_sockets
from .bind import parse_bind

_SERVICE_HOST = "_SERVICE_HOST"  # the end of a variable, behind the service's name
_URL = lazy_pattern(r"(tcp|udp|sctp)://")
# Behind the service's name: SERVICE_PORT and SERVICE_PORT_HTTP, PORT and PORT_80_TCP_ADDR.
_OF_SERVICE = lazy_pattern(r"_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")


class Said(NamedTuple):
    """The setting from one variable."""

    variable: str
    value: str | tuple[str, ...]  # of the setting
    note: str  # for the log


def platform_settings(environ: Mapping[str, str]) -> dict[str, Said]:
    """Return the settings of the environment, by name."""
    found = {}
    port, workers = environ.get("PORT"), environ.get("WEB_CONCURRENCY")
    names = _sockets(environ)
    if names:
        binds = tuple(f"systemd:{name}" for name in names)
        found["bind"] = Said("LISTEN_FDS", binds, "no --bind: listening on the sockets that systemd has passed")
    elif port:
        note = f"no --bind, and PORT is {port}: listening on all IPv4 interfaces"
        found["bind"] = Said("PORT", (f"0.0.0.0:{port}",), note)
    if workers:
        found["workers"] = Said("WEB_CONCURRENCY", workers, f"WEB_CONCURRENCY is {workers}")
    return found


def unbound_sockets(environ: Mapping[str, str], binds: Sequence[str]) -> list[str]:
    """Return the names of systemd's sockets without a bind: the kernel lets clients connect, and no client gets an answer."""
    taken = {(bind.kind, bind.name) for bind in map(parse_bind, binds)}
    return [
        name
        for name, fds in _sockets(environ).items()
        if ("systemd", name) not in taken and any(("fd", str(fd)) not in taken for fd in fds)
    ]


def service_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the names of Kubernetes' variables for services with names beginning with aserve."""
    hosts = [name for name in environ if name.startswith("ASERVE") and name.endswith(_SERVICE_HOST)]
    services = [name[: -len(_SERVICE_HOST)] for name in hosts]
    return [
        name
        for service in services
        if _URL.match(environ.get(f"{service}_PORT", ""))
        for name in environ
        if name.startswith(service) and _OF_SERVICE.fullmatch(name[len(service) :])
    ]


def _sockets(environ: Mapping[str, str]) -> dict[str, list[int]]:
    try:
        return passed_sockets(environ)
    except ValueError:
        return {}  # the sockets are another process's; a bind to one is an error later
