"""Other files of aserve are put in place, as by `pip install -U`, while aserve serves."""

import os
import re
import signal

import pytest
from harness.client import RawClient
from harness.http1 import PARSERS
from harness.http2_client import HTTP2Client
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until
from harness.workers import Copied

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

LONG = """\
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"again and " * 1000]
"""


@pytest.mark.parametrize("flags", [["--preload"], *(["--http-parser", parser] for parser in PARSERS)])
def test_an_installation_under_a_running_server(start_workers, tmp_path, localhost, authority, monkeypatch, flags):
    """Before SIGUSR2 no file of another release is read: the successor of a killed worker serves, with each option."""
    monkeypatch.setattr(HTTP2Client, "authority", str(authority.certificate))
    (tmp_path / "file.txt").write_text("of a folder")
    process = start_workers(
        "--workers", "1", "--compress", "--static", f"/s={tmp_path}", "--x-sendfile", str(tmp_path), "--access-log", "log",
        "--access-log-format", "%(logvar.x)s", "--metrics", "127.0.0.1:0", "--slow-request", "9", "--control", str(tmp_path / "control"),
        "--agent-check", "127.0.0.1:0", "--uwsgi-module", "on", "--warm-up", "/", "--websockets", "1", "--request-timeout", "60",
        "--healthcheck-path", "/health", *localhost.flags, *flags, kind=Copied, app=LONG,
    )  # fmt: skip
    process.wait_for_log("worker 1 .* is ready")
    process.break_all()
    for pid in process.workers:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: process.count("worker 1 .* is ready") > 1, 40, lambda: process.log)
    client = RawClient(process.address)
    assert client.fetch("/", "Accept-Encoding: gzip").get("Content-Encoding") == "gzip"
    assert client.fetch("/s/file.txt", "Range: bytes=0-1").body == b"of"
    client.close()
    port = int(re.search(r"https://127.0.0.1:(\d+)", process.log)[1])
    client = HTTP2Client(("127.0.0.1", port))
    assert client.fetch("/").status == 200
    client.close()
    assert process.stop() == 0
