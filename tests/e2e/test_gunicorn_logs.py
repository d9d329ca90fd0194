"""gunicorn's settings of logging, unchanged and without gunicorn: `logger_class`, `logconfig_dict`, `errorlog`, `syslog`."""

import json
import pathlib

import pytest
from harness.client import RawClient
from harness.interpreter import NEEDS_LINUX
from harness.process import ServerProcess
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.one_way]

APP = """\
def application(environ, start_response):
    if environ["PATH_INFO"] == "/raise":
        raise ValueError("of the app")
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Shop", "seven")])
    return [b"hello"]
"""
LOGGERS = """\
import logging
from aserve.compat.gunicorn.glogging import Logger

class Quiet(Logger):
    \"\"\"Sends both logs to a file of its own, and leaves out health checks.\"\"\"

    def setup(self, cfg):
        super().setup(cfg)
        handler = logging.FileHandler("own.log")
        handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
        for log in (self.error_log, self.access_log):
            log.addHandler(handler)

    def access(self, resp, req, environ, request_time):
        if req.path != "/health":
            super().access(resp, req, environ, request_time)

    def atoms(self, resp, req, environ, request_time):
        found = super().atoms(resp, req, environ, request_time)
        found["shop"] = dict(resp.headers).get("X-Shop")
        return found
"""
DICT = """\
bind = "127.0.0.1:0"
workers = 2
access_log_format = "%(m)s %(U)s %(s)s %(b)s"
logconfig_dict = {
    "formatters": {"json": {"format": '{"logger": "%(name)s", "message": "%(message)s"}'}},
    "handlers": {"file": {"class": "logging.FileHandler", "filename": "all.log", "formatter": "json"}},
    "loggers": {name: {"handlers": ["file", *also], "level": "INFO"} for name, also in (("gunicorn.error", ["error_console"]), ("gunicorn.access", []))},
    "root": {"level": "WARNING", "handlers": []},
}
"""


@pytest.fixture
def start(tmp_path):
    """Start aserve with a configuration of gunicorn's: start(text) -> ServerProcess."""
    running = []
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "shop_loggers.py").write_text(LOGGERS)

    def start(text):
        (tmp_path / "conf.py").write_text(text)
        running.append(ServerProcess(["--gunicorn-conf", "conf.py", "shop"], tmp_path, {}, ["env"]))
        return running[-1]

    yield start
    for process in running:
        process.end()


def ask(process, *targets):
    for target in targets:
        client = RawClient(process.address)
        client.fetch(target, "Connection: close")
        client.close()


def stop(process):
    """Stop the process; check its exit status and log."""
    process.signal()
    assert process.wait(30) == 0, process.log


def lines_of(path: pathlib.Path, word: str) -> list[str]:
    """Return a file's lines with a word."""
    return [line for line in path.read_text().splitlines() if word in line] if path.exists() else []


def test_a_logger_class(start, tmp_path):
    """The class's handlers get messages and requests; its `access` and `atoms` decide the requests and the text."""
    process = start(
        "bind = '127.0.0.1:0'\nworkers = 2\naccesslog = '-'\naccess_log_format = '%(m)s %(U)s %(s)s %(B)s %(shop)s %({host}i)s'\n"
        "logger_class = 'shop_loggers.Quiet'\n"
    )
    ask(process, "/one", "/health", "/raise", "/two")
    path = tmp_path / "own.log"
    wait_until(lambda: len(lines_of(path, "gunicorn.access")) == 3, explain=path.read_text)
    stop(process)
    # Two workers write the lines, each when its client has the response.
    assert sorted(lines_of(path, "gunicorn.access")) == [
        "gunicorn.access INFO GET /one 200 5 seven test",
        "gunicorn.access INFO GET /raise 500 0 None test",
        "gunicorn.access INFO GET /two 200 5 seven test",
    ]
    assert lines_of(path, "serving on http://127.0.0.1:")


def test_a_class_in_the_file(start, tmp_path):
    """The file's class derives from gunicorn's, without gunicorn."""
    process = start(
        "from gunicorn.glogging import Logger\nbind = '127.0.0.1:0'\naccesslog = '-'\n\nclass Own(Logger):\n    def access(self, resp, req, environ, passed):\n"
        "        open('seen', 'a').write(req.uri + chr(10))\n\nlogger_class = Own\n"
    )
    ask(process, "/one?a=b")
    stop(process)
    assert (tmp_path / "seen").read_text() == "/one?a=b\n"


def test_an_app_that_logs_by_gunicorns_handlers(start, tmp_path):
    """Many a Flask app takes handlers and level of gunicorn.error; without settings of logging, these are those of aserve's log."""
    (tmp_path / "shop.py").write_text(
        "import logging\nlog, of_gunicorn = logging.getLogger('shop'), logging.getLogger('gunicorn.error')\n"
        f"log.handlers = of_gunicorn.handlers\nlog.setLevel(of_gunicorn.level)\nlog.info('imported')\n{APP}"
    )
    process = start("bind = '127.0.0.1:0'\nworkers = 2\n")
    wait_until(lambda: process.log.count(": imported\n") == 2, explain=lambda: process.log)
    assert " INFO     worker 2: imported\n" in process.log
    stop(process)


def test_a_hook_that_filters_lines_about_requests(start, tmp_path):
    """Many a configuration leaves health checks out so."""
    process = start(
        "import logging\nbind = '127.0.0.1:0'\nworkers = 2\naccesslog = 'access.log'\naccess_log_format = '%(U)s'\n\nclass NoHealth(logging.Filter):\n"
        "    def filter(self, record):\n        return '/health' not in record.getMessage()\n\ndef on_starting(server):\n"
        "    server.log.access_log.addFilter(NoHealth())\n    server.log.error_log.info('filtered')\n"
    )
    ask(process, "/health", "/one", "/health", "/two")
    process.wait_for_log("filtered")
    stop(process)
    assert sorted(lines_of(tmp_path / "access.log", "/")) == ["/one", "/two"]


def test_a_dictionarys_loggers_get_messages_and_requests(start, tmp_path):
    """The dictionary's loggers gunicorn.error and gunicorn.access get aserve's messages, and the lines of its access log."""
    process = start(DICT)
    ask(process, "/one", "/two")
    path = tmp_path / "all.log"
    wait_until(lambda: len(lines_of(path, "gunicorn.access")) == 2, explain=path.read_text)
    stop(process)
    found = [json.loads(line) for line in lines_of(path, "gunicorn.access")]
    assert sorted(each["message"] for each in found) == ["GET /one 200 5", "GET /two 200 5"]
    assert lines_of(path, "serving on")


@pytest.mark.parametrize("where", ["chdir", "pythonpath"])
def test_a_dictionary_with_classes_of_the_app(start, tmp_path, where):
    """A formatter, a filter and a handler import from where gunicorn would: from the folder of chdir, or of pythonpath."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "shop.py").write_text(APP)
    (site / "form.py").write_text(
        "import logging\nclass Form(logging.Formatter): pass\nclass Only(logging.Filter): pass\nclass To(logging.FileHandler): pass\n"
    )
    process = start(
        f"bind = '127.0.0.1:0'\n{where} = 'site'\naccess_log_format = '%(U)s'\n"
        "logconfig_dict = {'formatters': {'own': {'()': 'form.Form', 'format': 'own %(message)s'}}, 'filters': {'own': {'()': 'form.Only'}},\n"
        f"'handlers': {{'own': {{'class': 'form.To', 'filename': '{tmp_path}/own.log', 'formatter': 'own', 'filters': ['own']}}}},\n"
        "'loggers': {'gunicorn.error': {'handlers': ['error_console']}, 'gunicorn.access': {'level': 'INFO', 'handlers': ['own']}}}\n"
    )
    ask(process, "/one")
    stop(process)
    assert (tmp_path / "own.log").read_text() == "own /one\n"


def test_a_log_of_errors(tmp_path):
    """errorlog is a file; a file renamed by logrotate is opened anew."""
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "conf.py").write_text("bind = 'unix:s'\nerrorlog = 'e.log'\n")

    class InFile(ServerProcess):
        """A server whose messages are in a file."""

        @property
        def log(self):
            return (tmp_path / "e.log").read_text() if (tmp_path / "e.log").exists() else ""

    process = InFile(["--gunicorn-conf", "conf.py", "shop"], tmp_path, {}, ["env"])
    try:
        (tmp_path / "e.log").rename(tmp_path / "e.log.1")
        process.signal()
        assert process.wait(30) == 0
        assert "serving on" in (tmp_path / "e.log.1").read_text() and "SIGTERM" in process.log
    finally:
        process.end()
