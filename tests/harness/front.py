"""Real web servers in front of aserve, with the configurations of docs/: nginx, Apache, lighttpd, HAProxy, Caddy.

`Page("nginx")` reads docs/nginx.md; a heading's fenced blocks are configurations for copying, and the tests run them unchanged, but for ports and
paths. A web server runs in the foreground, on its own port, below a temporary folder.
"""

from __future__ import annotations

import contextlib
import grp
import http.client
import json
import os
import pathlib
import pwd
import random
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from aserve.features import SETTINGS

from . import apps

DOCS = pathlib.Path(__file__).parents[2] / "docs"
SEARCH_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin"
START_SECONDS = 60.0
IS_ROOT = os.getuid() == 0

# A program for each web server, with arguments and the text around a block of the docs. As root the server works as nobody, for the rights of sockets
# and files to count.
NGINX = """\
daemon off; pid {folder}/pid; error_log {folder}/log info; worker_processes 1; {user}
events {{ worker_connections 256; }}
http {{
    access_log off; types {{ }} default_type application/octet-stream;
    client_body_temp_path {folder}/client; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    client_max_body_size 64m;
    {block}
}}
"""
NGINX_STREAM = """\
load_module {module};
daemon off; pid {folder}/pid; error_log {folder}/log info; worker_processes 1; {user}
events {{ worker_connections 256; }}
{block}
"""
APACHE = """\
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/log
DefaultRuntimeDir {folder}
Mutex file:{folder} default
Listen 127.0.0.1:{port}
StartServers 1
{modules}
{user}
{block}
"""
LIGHTTPD = """\
server.port = {port}
server.bind = "127.0.0.1"
server.document-root = "{folder}"
server.errorlog = "{folder}/log"
server.pid-file = "{folder}/pid"
server.upload-dirs = ( "{folder}" )
{user}
{block}
"""
HAPROXY = """\
global
    nbthread 1
    {user}
    log stdout format raw daemon
defaults
    log global
    timeout connect 5s
    timeout client 20s
    timeout server 20s
    timeout check 5s
{block}
"""
CADDY = """\
{{
    admin off
    auto_https off
    default_bind 127.0.0.1
}}
{block}
"""
APACHE_MODULES = [
    "mpm_event", "authz_core", "authz_host", "env", "headers", "unique_id", "proxy", "proxy_http", "proxy_uwsgi",
    "proxy_scgi", "proxy_http2",
]  # fmt: skip
NGINX_STREAM_MODULES = ["/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/lib64/nginx/modules/ngx_stream_module.so"]
APACHE_FOLDERS = ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"]

# HTTP in front of HTTP, for any number of requests on one connection. Each passes on as much as possible, for us to see, and gives every request a
# name in X-Front-Id, of the form beside the configuration.
HTTP_NGINX = """\
upstream app { server {address}; keepalive 1; }
server {
    listen 80;
    ignore_invalid_headers off;
    underscores_in_headers on;
    location / {
        proxy_pass http://app;
        proxy_http_version 1.1;
        proxy_request_buffering off;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Front-Id $request_id;
    }
}
"""
HTTP_HAPROXY = """\
frontend front
    mode http
    bind :80
    option accept-invalid-http-request
    http-request set-header X-Front-Id %[uuid]
    default_backend app
backend app
    mode http
    http-reuse always
    server app {address} maxconn 1
"""
HTTP_APACHE = """\
HttpProtocolOptions Unsafe
<VirtualHost *:80>
    RequestHeader set X-Front-Id "%{UNIQUE_ID}e"
    ProxyPreserveHost On
    ProxyPass "/" "http://{address}/" enablereuse=on max=1
</VirtualHost>
"""
HTTP_FRONTS = {
    "nginx": (HTTP_NGINX, re.compile(r"[0-9a-f]{32}")),
    "haproxy": (HTTP_HAPROXY, re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    "apache": (HTTP_APACHE, re.compile(r"[0-9A-Za-z@_-]{24,27}")),
}


def program(*names: str) -> str:
    """Return the path of the first installed program; else skip the test."""
    for name in names:
        found = shutil.which(name, path=SEARCH_PATH)
        if found:
            return found
    pytest.skip(f"{names[0]} is not installed")


# Below the kernel's ports for clients and for port 0: a test beside this may take such a port before the server is there.
PORTS = range(20000, 32000)


def free_port() -> int:
    """Return a port without a listener at the moment."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


class Page:
    """A page of docs/: fenced blocks, by heading."""

    def __init__(self, name: str) -> None:
        self.text = (DOCS / f"{name}.md").read_text()

    def block(self, heading: str, language: str) -> str:
        """Return the first block in this language under a heading."""
        section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", self.text, re.MULTILINE | re.DOTALL)
        assert section, f"no heading {heading!r}"
        found = re.search(rf"^```{language}\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
        assert found, f"no block of {language} under {heading!r}"
        return found[1]

    def settings(self, heading: str) -> dict[str, Any]:
        """Return the settings in the aserve command under a heading."""
        words = shlex.split(self.block(heading, "sh").replace("\\\n", " "), comments=True)
        assert words[0] == "aserve"
        by_flag = {setting.flag: setting.name for setting in SETTINGS}
        found: dict[str, Any] = {}
        for flag, value in zip(words[1:], words[2:]):
            if flag.startswith("--"):
                found[by_flag[flag]] = value
        return found


def replaced(text: str, changes: dict[str, str]) -> str:
    """Return the text with these changes; each must apply."""
    for old, new in changes.items():
        assert old in text, f"{old!r} is not in:\n{text}"
        text = text.replace(old, new)
    return text


class FrontServer:
    """A running web server."""

    def __init__(self, command: list[str], folder: pathlib.Path, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._logs = [folder / "output", folder / "log"]
        with open(self._logs[0], "wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"{command[0]} does not start:\n{self.log}")
            time.sleep(0.01)

    @property
    def log(self) -> str:
        """The text of the logs."""
        return "".join(path.read_text(errors="replace") for path in self._logs if path.exists())

    def stop(self) -> None:
        """End the server and all children, a separate session."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(START_SECONDS)

    def connect(self) -> http.client.HTTPConnection:
        """Return a client's connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def fetch(self, target: str, method: str = "GET", body: Any = None, **fields: str) -> tuple[int, Any, bytes]:
        """Return status, fields and body of one response."""
        connection = self.connect()
        try:
            connection.request(
                method, target, body=body, headers={name.replace("_", "-"): v for name, v in fields.items()}
            )
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()


class Fronts:
    """Start web servers, and stop all in the end."""

    def __init__(self) -> None:
        # Not pytest's folder: only the owner may enter, and the path of a socket is short.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="aserve-"))
        self.folder.chmod(0o755)
        self.socket = str(self.folder / "app.sock")
        self._running: list[FrontServer] = []

    def _start(self, command: list[str], name: str, config: str, port: int, **parts: str) -> FrontServer:
        folder = self.folder / name
        folder.mkdir()
        if IS_ROOT:
            os.chown(folder, *_nobody())
        path = folder / "conf"
        path.write_text(config.format(folder=folder, port=port, **parts))
        server = FrontServer([*command, str(path)], folder, port)
        self._running.append(server)
        return server

    def nginx(self, block: str, changes: dict[str, str] | None = None) -> FrontServer:
        """Start nginx with a server block on port 80."""
        command = program("nginx")
        port = free_port()
        params = {f"include {name};": f"include {_nginx_folder()}/{name};" for name in ("uwsgi_params", "scgi_params")}
        params = {old: new for old, new in params.items() if old in block}
        block = replaced(block, {"listen 80;": f"listen 127.0.0.1:{port};", **params, **(changes or {})})
        user = "user {} {};".format(*_nobody_names()) if IS_ROOT else ""
        return self._start([command, "-e", "stderr", "-c"], "nginx", NGINX, port, block=block, user=user)

    def nginx_stream(self, block: str, changes: dict[str, str] | None = None) -> FrontServer:
        command = program("nginx")
        found = [module for module in NGINX_STREAM_MODULES if os.path.exists(module)]
        if not found:
            pytest.skip("nginx's stream module is not installed (libnginx-mod-stream)")
        port = free_port()
        block = replaced(block, {"listen 80;": f"listen 127.0.0.1:{port};", **(changes or {})})
        user = "user {} {};".format(*_nobody_names()) if IS_ROOT else ""
        return self._start(
            [command, "-e", "stderr", "-c"], "nginx", NGINX_STREAM, port, block=block, user=user, module=found[0]
        )

    def haproxy(self, block: str, changes: dict[str, str] | None = None) -> FrontServer:
        """Start HAProxy with frontends and backends, one bound to a port of all interfaces."""
        command = program("haproxy")
        port = free_port()
        block, count = re.subn(r"\bbind :\d+", f"bind 127.0.0.1:{port}", block)
        assert count == 1, block
        user = "user {}\n    group {}".format(*_nobody_names()) if IS_ROOT else ""
        block = replaced(block, changes or {})
        return self._start([command, "-db", "-f"], "haproxy", HAPROXY, port, block=block, user=user)

    def apache(self, block: str, changes: dict[str, str] | None = None) -> FrontServer:
        """Start Apache with the content of a virtual host."""
        command = program("apache2", "httpd")
        found = [folder for folder in APACHE_FOLDERS if os.path.exists(f"{folder}/mod_proxy_uwsgi.so")]
        if not found:
            pytest.skip("Apache's mod_proxy_uwsgi is not installed")
        port = free_port()
        modules = "\n".join(f"LoadModule {name}_module {found[0]}/mod_{name}.so" for name in APACHE_MODULES)
        user = "User #{}\nGroup #{}".format(*_nobody()) if IS_ROOT else ""
        block = replaced(block, {"*:80": f"127.0.0.1:{port}", **(changes or {})})
        return self._start(
            [command, "-D", "FOREGROUND", "-f"], "apache", APACHE, port, block=block, user=user, modules=modules
        )

    def caddy(self, block: str, changes: dict[str, str] | None = None) -> FrontServer:
        """Start Caddy with a site of the Caddyfile on port 80; the port of administration is off."""
        command = program("caddy")
        port = free_port()
        block = replaced(block, {":80 {": f"http://:{port} {{", **(changes or {})})
        home = f"XDG_CONFIG_HOME={self.folder}"  # keeps the start there
        command_line = ["env", home, command, "run", "--adapter", "caddyfile", "--config"]
        return self._start(command_line, "caddy", CADDY, port, block=block)

    def lighttpd(self, block: str, changes: dict[str, str] | None = None) -> FrontServer:
        command = program("lighttpd")
        user = 'server.username = "{}"\nserver.groupname = "{}"'.format(*_nobody_names())
        block = replaced(block, changes or {})
        return self._start(
            [command, "-D", "-f"], "lighttpd", LIGHTTPD, free_port(), block=block, user=user if IS_ROOT else ""
        )

    def stop(self) -> None:
        """Stop all, remove the folder."""
        for server in self._running:
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _nobody() -> tuple[int, int]:
    account = pwd.getpwnam("nobody")
    return account.pw_uid, account.pw_gid


def _nobody_names() -> tuple[str, str]:
    return pwd.getpwuid(_nobody()[0]).pw_name, grp.getgrgid(_nobody()[1]).gr_name


def _nginx_folder() -> str:
    for folder in ("/etc/nginx", "/usr/local/etc/nginx", "/opt/homebrew/etc/nginx"):
        if os.path.exists(f"{folder}/uwsgi_params"):
            return folder
    pytest.skip("nginx's uwsgi_params are not installed")


@pytest.fixture
def fronts() -> Iterator[Fronts]:
    made = Fronts()
    yield made
    made.stop()


# The app behind the front servers


def octets(count: int) -> bytes:
    """Return octets to show a lost, doubled or exchanged piece; the same for the same count."""
    return random.Random(count).randbytes(count)


def dies(beginning: bytes) -> Iterator[bytes]:
    """Yield the beginning of a body, then fail."""
    yield beginning
    raise ValueError("on purpose")


def site(environ: Any, start_response: Any) -> Iterable[bytes]:
    """Answer by a path for each act of a front server; any unknown path shows the environ."""
    path = environ["PATH_INFO"]
    query = environ["QUERY_STRING"]
    if path == "/echo":
        return apps.echo(environ, start_response)
    if path == "/count":
        return apps.count_body(environ, start_response)
    if path == "/octets":
        start_response("200 OK", apps.PLAIN)
        return [octets(int(query))]
    if path == "/pieces":  # no length: the end of the connection is the end of the body
        start_response("200 OK", apps.PLAIN)
        data = octets(int(query))
        return (data[start : start + 50_000] for start in range(0, len(data), 50_000))
    if path == "/cut":
        start_response("200 OK", [*apps.PLAIN, ("Content-Length", "200000")])
        return dies(b"x" * 100_000)
    if path == "/cut-pieces":
        start_response("200 OK", apps.PLAIN)
        return dies(b"x" * 100_000)
    if path == "/accel":
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Accel-Redirect", "/files/" + query)])
        return [b"the front server replaces this"]
    if path == "/fail":
        raise ValueError("on purpose")
    if path == "/status":
        start_response(f"{query} Chosen", [*apps.PLAIN, ("Content-Length", "0")])
        return []
    return apps.environ_json(environ, start_response)


# A client's view through the front servers


def environ_of(front: Any, target: str, **fields: str) -> dict[str, Any]:
    """Return the environ of a request through a front server."""
    status, _, body = front.fetch(target, **fields)
    assert status == 200
    found: dict[str, Any] = json.loads(body)
    return found


def check_environ(front: Any) -> dict[str, Any]:
    """Check for the front server's words in the environ; return the environ."""
    environ = environ_of(front, "/a/b?c=d", X_Custom="1", Cookie="e=f")
    expected = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a/b",
        "QUERY_STRING": "c=d",
        "REQUEST_URI": "/a/b?c=d",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_PORT": str(front.port),
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_X_CUSTOM": "1",
        "HTTP_COOKIE": "e=f",
        "wsgi.url_scheme": "http",
    }
    assert {name: environ.get(name) for name in expected} == expected
    return environ


def check_bodies(front: Any, size: int) -> None:
    """Bodies arrive whole: down with and without a length, and there and back."""
    data = octets(size)
    for target in ("/octets", "/pieces"):
        status, _, body = front.fetch(f"{target}?{size}")
        assert status == 200 and body == data
    status, _, body = front.fetch("/echo", "PUT", data)
    assert status == 200 and body == data


def check_statuses(front: Any) -> None:
    """HEAD has no body, the app's status is the client's, and the client's connection stays."""
    connection = front.connect()
    for status in (201, 204, 304, 404, 503):
        for method in ("HEAD", "GET"):
            connection.request(method, f"/status?{status}")
            response = connection.getresponse()
            assert response.status == status and (method == "GET" or response.read() == b"")
            response.read()
    for target in ("/octets?5000", "/pieces?5000"):
        connection.request("HEAD", target)
        assert connection.getresponse().read() == b""
        connection.request("GET", target)
        assert connection.getresponse().read() == octets(5000)
    connection.close()
    assert front.fetch("/fail")[0] == 500
