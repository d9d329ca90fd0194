"""Apache in front of a server that speaks uwsgi or SCGI on a unix socket.

Owns:     its configuration: the event module, on the client's CPU, as Debian builds it but for logs and limits.
Not here: the server behind it (servers.py), nginx (nginx.py).
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import procs
from procs import BenchmarkError

MODULES = "/usr/lib/apache2/modules"  # Debian's
START_SECONDS = 10.0  # Guess
# One connection to the server for each request: uwsgi and SCGI have no other way.
CONFIGURATION = """\
ServerRoot {home}
PidFile {home}/apache.pid
ErrorLog {home}/apache.log
LogLevel error
Listen 127.0.0.1:{port}
ServerName localhost
{modules}
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadLimit 256
ThreadsPerChild 256
MaxRequestWorkers 256
MaxKeepAliveRequests 0
ProxyPass "/" "unix:{sock}|{protocol}://localhost/"
"""


@contextlib.contextmanager
def running(protocol: str, sock: str, cpu: int, home: str) -> Iterator[int]:
    """
    Run Apache before the unix socket; give the port on which it takes HTTP.

    Raises:
        BenchmarkError: it is not there, or did not start.
    """
    procs.need_tools("apache2")
    port = procs.free_port()
    names = ["mpm_event", "authz_core", "proxy", f"proxy_{protocol}"]
    modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in names)
    path = pathlib.Path(home, "apache.conf")
    path.write_text(CONFIGURATION.format(home=home, port=port, sock=sock, protocol=protocol, modules=modules))
    for each in (home, str(pathlib.Path(home).parent)):  # its workers are nobody in particular
        pathlib.Path(each).chmod(0o755)
    pathlib.Path(sock).chmod(0o777)
    command = ["apache2", "-DFOREGROUND", "-f", str(path)]
    env = {"PATH": procs.SEARCH_PATH}
    with open(f"{home}/apache-output", "wb") as output, procs.running(command, cpu, env, home, output) as process:
        procs.wait_until(lambda: process.poll() is not None or procs.is_listening(port), START_SECONDS)
        if process.poll() is not None or not procs.is_listening(port):
            text = pathlib.Path(home, "apache-output").read_text() + last_complaint(home)
            raise BenchmarkError(f"Apache did not start: {' '.join(text.split())[-300:]}")
        yield port


def last_complaint(home: str) -> str:
    """Return the last line of its log: why a request could not be answered; empty: none."""
    try:
        lines = pathlib.Path(home, "apache.log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
