"""nginx in front of a server that speaks uwsgi or SCGI on a unix socket.

Owns:     its configuration: one process on the client's CPU, as shipped but for logs, temporary
          files and limits that would end a connection or spool a body in the middle of a measurement.
Not here: the server behind it (servers.py).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

import procs
from procs import BenchmarkError

START_SECONDS = 10.0  # Guess
# One connection to the server for each request, which is nginx's way with uwsgi and SCGI. The 71,453
# octets of `echo` fit the buffers on both ways.
CONFIGURATION = """\
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/nginx.log warn; {user}
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 100000000; client_max_body_size 1m; client_body_buffer_size 256k;
    client_body_temp_path {home}/client; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
    {protocol}_buffers 32 8k;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{ include /etc/nginx/{protocol}_params; {protocol}_pass unix:{sock}; }}
    }}
}}
"""


@contextlib.contextmanager
def running(protocol: str, sock: str, cpu: int, home: str) -> Iterator[int]:
    """
    Run nginx before the unix socket; give the port on which it takes HTTP.

    Raises:
        BenchmarkError: it did not start.
    """
    port = procs.free_port()
    user = "user root;" if os.getuid() == 0 else ""  # whom the temporary folder belongs to
    path = pathlib.Path(home, "nginx.conf")
    path.write_text(CONFIGURATION.format(protocol=protocol, sock=sock, port=port, home=home, user=user))
    command = ["nginx", "-c", str(path), "-e", f"{home}/nginx.log"]
    env = {"PATH": procs.SEARCH_PATH}
    with open(f"{home}/nginx-output", "wb") as output, procs.running(command, cpu, env, home, output) as process:
        procs.wait_until(lambda: process.poll() is not None or procs.is_listening(port), START_SECONDS)
        if process.poll() is not None or not procs.is_listening(port):
            text = pathlib.Path(home, "nginx-output").read_text() + _read_log(home)
            raise BenchmarkError(f"nginx did not start: {' '.join(text.split())[-300:]}")
        yield port


def last_complaint(home: str) -> str:
    """Return the last line of nginx's log: why a request could not be answered; empty: none."""
    lines = _read_log(home).splitlines()
    return lines[-1] if lines else ""


def _read_log(home: str) -> str:
    try:
        return pathlib.Path(home, "nginx.log").read_text(errors="replace")
    except OSError:
        return ""


def version() -> str:
    """Return nginx's version; empty: it is not there."""
    try:
        done = subprocess.run(
            ["nginx", "-v"], env={"PATH": procs.SEARCH_PATH}, capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return ""
    match = re.search(r"nginx/(\S+)", done.stderr)
    return match[1] if match else ""
