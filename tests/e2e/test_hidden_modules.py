"""Files beside an app with names of standard modules, such as `email.py` and `queue.py`: no import of aserve finds them."""

import importlib.util
import os
import pathlib

import pytest
from harness.interpreter import NEEDS_LINUX

APP = """\
def app(environ, start_response):
    if environ["PATH_INFO"] == "/raises":
        raise ValueError("as it should")
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (b"x" * 20000 for _ in range(2))
"""


@pytest.fixture
def tmp_path(tmp_path):
    """The folder of an app, with a file for each standard module that the interpreter's own start does not import."""
    library = pathlib.Path(os.__file__).parent
    for path in library.iterdir():
        name = path.stem if path.suffix == ".py" or (path / "__init__.py").exists() else ""
        if name.isidentifier() and name != "site":
            (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('the {name} of the app')\n")
    (tmp_path / "served.py").write_text(APP)
    return tmp_path


FLAGS = {
    "none": (),
    "no threads": ("--threads", "0", "--loop", "asyncio"),
    "files": ("--compress", "--static", "/files=.", "--x-sendfile", ".", "--maintenance", "no-such-file"),
    "logs": ("--access-log", "a.log", "--access-log-format", "json", "--slow-request", "1"),
    "counts": ("--statsd", "localhost:9", "--control", "c.sock", "--metrics", "unix:m.sock", "--stats", "unix:s.sock"),
    "limits": ("--request-timeout", "60", "--proxy-status", "web1", "--max-connection-requests", "9"),
}
if importlib.util.find_spec("opentelemetry.trace") and importlib.util.find_spec("setproctitle"):
    FLAGS["libraries"] = ("--tracing", "--process-titles")
if importlib.util.find_spec("httptools"):
    FLAGS["httptools"] = ("--http-parser", "httptools")
PROCESSES = [pytest.param((), id="alone"), pytest.param(("--workers", "1"), id="workers", marks=NEEDS_LINUX)]


@pytest.mark.parametrize(
    ("flags", "processes"),
    [
        pytest.param(
            flags,
            *processes.values,
            id=f"{name}-{processes.id}",
            marks=(*processes.marks, *([pytest.mark.long] if (row + column) % 2 else ())),
        )
        for row, (name, flags) in enumerate(FLAGS.items())
        for column, processes in enumerate(PROCESSES)
    ],
)
@pytest.mark.provokes("Traceback")
def test_what_settings_need_is_imported_before_the_app(start_process, raw_client, tmp_path, flags, processes):
    """Whatever the settings, all needed modules are imported before the app's folder comes first on sys.path."""
    process = start_process("served:app", *flags, *processes)
    upload = raw_client(process).fetch("/", "Accept-Encoding: br, gzip", method="POST", body=b"x" * 2_000_000)
    assert upload.status == 200
    assert raw_client(process).fetch("/files/served.py", "Accept-Encoding: gzip").status == 200
    assert raw_client(process).fetch("/raises").status == 500 and "ValueError: as it should" in process.log
    process.signal()
    assert process.wait() == 0 and "of the app" not in process.log


@pytest.mark.parametrize("processes", PROCESSES)
def test_tls_is_imported_before_the_app(start_process, raw_client, tls_settings, processes):
    """TLS needs no module of the app's folder."""
    flags = [word for name, value in tls_settings.items() for word in (f"--{name}", value)]
    process = start_process("served:app", *flags, *processes)
    process.url = process.wait_for_log(r"https://[^\s,]+")[0]
    host, _, port = process.url.rpartition("://")[2].rpartition(":")
    process.address = host, int(port)
    assert raw_client(process).fetch().status == 200
    process.signal()
    assert process.wait() == 0 and "of the app" not in process.log
