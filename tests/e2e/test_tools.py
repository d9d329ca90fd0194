"""Tools from outside: a load generator and a browser."""

import re
import shutil
import subprocess
import sys

import pytest
from harness.interpreter import later_on_pypy

IS_PYPY = sys.implementation.name == "pypy"


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
@pytest.mark.parametrize(
    ("path", "flags"),
    [
        ("/", []),
        pytest.param("/", ["--threads", "0"], marks=pytest.mark.long),
        pytest.param("/", ["--access-log", "access.log"], marks=pytest.mark.long),
        pytest.param("/stream?3", [], marks=pytest.mark.long),
        later_on_pypy("/file?30000", []),
        pytest.param("/big?200000", [], marks=pytest.mark.long),
    ],
)
def test_wrk_finds_no_error(start_process, path, flags):
    """A second of wrk: many connections, not one error."""
    process = start_process("site", *flags)
    command = ["wrk", "--duration", "1", "--timeout", "20", "--threads", "1", "--connections", "32", process.url + path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Socket errors" not in done.stdout, done.stdout
    assert "Non-2xx" not in done.stdout, done.stdout
    assert int(re.search(r"(\d+) requests in", done.stdout)[1]) > 20
    process.signal()
    assert process.wait() == 0
    assert "Traceback" not in process.log


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.skipif(IS_PYPY, reason="the page is the same on PyPy; one look at it is enough")
def test_a_browser_shows_the_demo(start_process, tmp_path):
    """chromium shows the demo page, with all its parts."""
    process = start_process("aserve.demo:app")
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--no-first-run", "--disable-dev-shm-usage", "--no-proxy-server",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", process.url + "/",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "<h1>aserve works</h1>" in done.stdout
    assert "aserve-worker-1" in done.stdout
    assert "HTTP/1.1" in done.stdout
    assert re.search(r"<th[^>]*>HTTP_USER_AGENT</th><td>[^<]*Chrome", done.stdout)
