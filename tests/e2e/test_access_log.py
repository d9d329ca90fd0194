"""The access log has a line for each request, whatever became of the request."""

import contextlib
import json
import os
import re

import pytest
from harness import apps, sidecars
from harness.client import RawClient
from harness.extensions import extension_of
from harness.interpreter import NEEDS_LINUX

from aserve.features.metrics import Metrics
from aserve.features.metrics.counting import read_words
from aserve.features.metrics.table import PLACES

LINE = re.compile(
    r'127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] '
    r'"(?P<request>[^"]*)" (?P<status>\d+) (?P<bytes>\d+|-) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)"'
)  # fmt: skip

# Each round of 100 requests has 100 threads; the response names the thread of its request.
CROWD = """\
import threading
ALL_INSIDE = threading.Barrier(100)
def app(environ, start_response):
    ALL_INSIDE.wait(30)
    start_response("200 OK", [])
    return [threading.current_thread().name.encode()]
"""


def read_lines(path):
    """Return the lines of an access log, taken apart."""
    lines = path.read_text(encoding="latin-1").splitlines()
    matches = [LINE.match(line) for line in lines]
    assert all(matches), lines
    return [match.groupdict() for match in matches]


@pytest.mark.long_on_pypy
@pytest.mark.also_inline
@pytest.mark.one_way
def test_a_reader_that_stops(start_server, raw_client, tmp_path, caplog, wait_until):
    """No request waits for a stopped reader; lost lines are told once, and counted in the metrics."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    metrics = f"unix:{tmp_path}/metrics"
    server = start_server(apps.hello, access_log=str(path), access_log_format="x" * 4000 + "%(status)", metrics=metrics)
    client = raw_client(server)
    for _ in range(700):  # of pages, more than 1 MiB and the lines in memory
        client.fetch("/")
    found = bytearray()

    def lost():
        return read_words(extension_of(server.server, Metrics).memory)[PLACES["aserve_access_log_lines_lost_total"]]

    def all_known():
        """Tell whether each line is read or counted; the last may be made behind its response."""
        server.pass_seconds(1)
        with contextlib.suppress(BlockingIOError):
            while True:
                found.extend(os.read(reader, 1 << 20))
        return found.count(b"\n") + lost() == 700

    server.pass_seconds_until(lost)
    assert caplog.text.count("its reader does not keep up; its lines are lost until that is over") == 1
    wait_until(all_known)
    assert 0 < lost() < 700
    assert found == (b"x" * 4000 + b"200\n") * (700 - lost())
    server.stop()
    os.close(reader)


@pytest.mark.also_inline
def test_each_response_has_its_line(start_server, raw_client, way, tmp_path):
    """Each response has its line, with the target and the octets sent; lines of one thread are in order."""
    path = tmp_path / "access.log"

    def app(environ, start_response):
        return getattr(apps, environ["PATH_INFO"][1:])(environ, start_response)

    server = start_server(app, access_log=str(path), threads=min(way.threads, 1))
    client = raw_client(server)
    client.fetch("/hello?a=b", "User-Agent: test/1", "Referer: http://a/")
    client.fetch("/lazy_generator")
    client.fetch("/hello", method="HEAD")
    client.fetch("/no_chunks")
    client.fetch("/raises")
    client.fetch("/echo", method="POST", body=b"12345")
    client.send(b"GET /hello HTTP/1.0\r\n\r\n")
    client.recv_response()
    client.close()
    server.stop()
    lines = read_lines(path)
    assert [(line["request"], line["status"], line["bytes"]) for line in lines[:4]] == [
        ("GET /hello?a=b HTTP/1.1", "200", "6"),
        ("GET /lazy_generator HTTP/1.1", "201", "9"),
        ("HEAD /hello HTTP/1.1", "200", "-"),
        ("GET /no_chunks HTTP/1.1", "200", "-"),
    ]
    assert lines[4]["status"] == "500"
    assert [line["request"] for line in lines[5:]] == ["POST /echo HTTP/1.1", "GET /hello HTTP/1.0"]
    assert (lines[0]["referer"], lines[0]["agent"]) == ("http://a/", "test/1")
    assert (lines[1]["referer"], lines[1]["agent"]) == ("-", "-")


@pytest.mark.long_on_pypy
def test_names_of_a_hundred_threads(start_process, raw_client, tmp_path):
    """Each line has the name of the thread that served its request, however many threads there are."""
    (tmp_path / "crowd.py").write_text(CROWD)
    flags = "--access-log", "log", "--access-log-format", "json", "--threads", "100"
    process = start_process(f"{tmp_path / 'crowd.py'}:app", *flags)
    clients = [raw_client(process) for _ in range(100)]
    served = {}
    for turn in range(2):
        for number, client in enumerate(clients):
            client.request(f"/{turn}-{number}")
        for number, client in enumerate(clients):
            served[f"/{turn}-{number}"] = client.recv_response().body.decode()
    process.signal()
    assert process.wait() == 0
    lines = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert {line["url.path"]: line["thread.name"] for line in lines} == served
    assert len(set(served.values())) == 100


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_the_error_log_can_be_forged_as_little(start_server, raw_client, caplog, lane):
    """A target from a client or a front server is escaped in the log of an app's failure."""
    http = start_server(apps.raises, lane=lane)
    status = raw_client(http).fetch("/\x9b31mRED\x85forged").status
    front = start_server(apps.raises, lane=lane, bind="scgi://127.0.0.1:0")
    client = raw_client(front)
    client.send(sidecars.scgi({"REQUEST_METHOD": "GET", "PATH_INFO": "/\x1b[31m\nforged"}))
    assert client.recv_to_end().startswith(b"Status: 500")
    messages = [record.getMessage() for record in caplog.records if "forged" in record.getMessage()]
    assert all(message.isascii() and message.isprintable() for message in messages)
    assert r"/\x1b[31m\x0aforged" in messages.pop()
    if status != 400:  # llhttp refuses such a target
        assert r"/\x9b31mRED\x85forged" in messages.pop()


@pytest.mark.long_on_pypy
@NEEDS_LINUX
def test_an_app_that_goes_elsewhere(start_workers, tmp_path):
    """The log stays in the folder of the command's start, also when a supervisor of workers writes."""
    app = (
        "import os\nos.chdir('/')\ndef app(environ, start_response):\n    start_response('204 No', [])\n    return []\n"
    )
    process = start_workers("--workers", "1", "--access-log", "log", app=app)
    process.wait_for_workers(1)
    client = RawClient(process.address)
    client.fetch("/here")
    client.close()
    assert process.stop() == 0
    assert "GET /here" in (tmp_path / "log").read_text()
