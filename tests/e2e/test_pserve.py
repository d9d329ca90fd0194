"""Pyramid's pserve with our server section: serves, and stops as the command does."""

import http.client
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from harness.combining import long
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess

pytestmark = pytest.mark.long_on_pypy

pytest.importorskip("pyramid", reason="pyramid is not installed")
PSERVE = pathlib.Path(sys.executable).with_name("pserve")

INI = """\
[app:main]
use = call:pages:make

[server:main]
use = egg:aserve-wsgi{name}
{settings}

[loggers]
keys = root

[handlers]
keys = console

[formatters]
keys = plain

[logger_root]
level = INFO
handlers = console

[handler_console]
class = StreamHandler
args = (sys.stderr,)
formatter = plain

[formatter_plain]
format = %(message)s
"""
SITE = """\
from pyramid.config import Configurator
from pyramid.response import Response

def make(global_conf, **settings):
    with Configurator() as config:
        config.add_route("hello", "/hello/{name}")
        config.add_view(lambda request: Response("Hello " + request.matchdict["name"]), route_name="hello")
        return config.make_wsgi_app()
"""


@pytest.fixture
def pserve(tmp_path):
    """Run pserve: pserve(settings, name) -> the process; its output is in the file `log` beside the ini file."""
    running = []

    def run(settings, name):
        (tmp_path / "pages.py").write_text(SITE)
        (tmp_path / "site.ini").write_text(INI.format(settings=settings, name=name))
        with open(tmp_path / "log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, PSERVE, "site.ini"],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=log,
            )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait(30)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("host = 127.0.0.1\nport = 0\nthreads = 3", "#main"),
        long(("listen = 127.0.0.1:0\nmax_body = 1M", "")),
    ],
)
def test_a_pyramid_site(pserve, wait_until, tmp_path, settings, name):
    """The ini file's server serves the ini file's app; SIGTERM drains."""
    process = pserve(settings, name)
    log = tmp_path / "log"

    def find_port():
        assert process.poll() is None, log.read_text()
        _, found, rest = log.read_text().partition("serving on http://127.0.0.1:")
        return int(rest.splitlines()[0]) if found and "\n" in rest else 0

    connection = http.client.HTTPConnection("127.0.0.1", wait_until(find_port, 60), timeout=20)
    connection.request("GET", "/hello/world")
    response = connection.getresponse()
    assert (response.status, response.read(), response.getheader("Server")) == (200, b"Hello world", "aserve")
    connection.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert "SIGTERM: draining" in log.read_text() and "Traceback" not in log.read_text()


def test_a_mistake_is_the_last_line(pserve, tmp_path):
    process = pserve("workers = 2\nport = 6543", "#main")
    assert process.wait(60) != 0
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert f"run aserve --paste {tmp_path}/site.ini --workers 2 --bind 127.0.0.1:6543, whose workers import it" in last


@NEEDS_LINUX
def test_aserve_serves_the_file_without_pserve(tmp_path, raw_client):
    """`aserve --paste` serves the file's app in workers, with its logging, and reads the file anew for each."""
    (tmp_path / "pages.py").write_text(SITE)
    (tmp_path / "site.ini").write_text(INI.format(name="#main", settings=""))
    process = ServerProcess(["--paste", "site.ini#main", "--workers", "1"], tmp_path, {})
    try:
        assert raw_client(process).fetch("/hello/you").body == b"Hello you"
        process.signal(signal.SIGTERM)
        assert process.wait() == 0 and process.faults() == ""
    finally:
        process.end()
