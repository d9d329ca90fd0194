"""gunicorn's Logger, for its subclasses."""

import base64
import datetime
import json
import logging
import os
import socket
import sys
import types

import pytest

from aserve.compat.moving.gunicorn_cfg import Cfg
from aserve.compat.moving.gunicorn_logger import ACCESS, ERROR, Logger, SafeAtoms, parse_syslog_address

pytestmark = pytest.mark.usefixtures("gunicorn_loggers")

ENVIRON = {
    "REQUEST_METHOD": "GET", "REQUEST_URI": "/a?b=c", "PATH_INFO": "/a", "QUERY_STRING": "b=c", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "192.0.2.1",
    "HTTP_USER_AGENT": 'say "hi"', "HTTP_AUTHORIZATION": f"Basic {base64.b64encode(b'alice:secret').decode()}",
}  # fmt: skip
RESPONSE = types.SimpleNamespace(status="200 OK", headers=[("X-Id", "7")], sent=0)
REQUEST = types.SimpleNamespace(headers=[("HOST", "shop.example")])
TIME = datetime.timedelta(seconds=2, microseconds=3004)


def make(kind=Logger, **settings):
    """Return a Logger with these settings of gunicorn's."""
    cfg = Cfg()
    for name, value in settings.items():
        cfg.set(name, value)
    return kind(cfg)


def test_messages_go_to_standard_error(capsys):
    logger = make(loglevel="warning")
    logger.debug("no")
    logger.info("no")
    for method in (logger.warning, logger.error, logger.critical):
        method("it is %s", "so")
    logger.log("error", "by name")
    logger.log(logging.ERROR, "by number")
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("raised")
    said = capsys.readouterr().err
    assert f"[{os.getpid()}] [WARNING] it is so\n" in said and said.count("it is so") == 3 and "no\n" not in said
    assert "by name" in said and "by number" in said and "ValueError: why" in said


def test_requests_are_logged_in_gunicorns_format(capsys):
    """The default format, and gunicorn's own values; quotes cannot end a text."""
    make(accesslog="-").access(RESPONSE, REQUEST, ENVIRON, TIME)
    line = capsys.readouterr().out
    assert line.startswith("192.0.2.1 - alice [") and line.endswith(
        '] "GET /a?b=c HTTP/1.1" 200 0 "-" "say \\"hi\\""\n'
    )
    form = "%(m)s %(U)s %(q)s %(H)s %(B)s %(T)s %(D)s %(M)s %(L)s %(p)s %({host}i)s %({X-Id}o)s %({path_info}e)s %({none}i)s %(nothing)s"
    make(accesslog="-", access_log_format=form).access(RESPONSE, REQUEST, ENVIRON, TIME)
    assert (
        capsys.readouterr().out
        == f"GET /a b=c HTTP/1.1 0 2 2003004 2003 2.003004 <{os.getpid()}> shop.example 7 /a - -\n"
    )
    make().access(RESPONSE, REQUEST, ENVIRON, TIME)
    assert capsys.readouterr().out == ""
    assert SafeAtoms({"{a}i": "1"})["{A}i"] == "1"


def test_a_format_that_is_wrong(capsys):
    """A wrong format is logged, and the request is answered all the same."""
    make(accesslog="-", access_log_format="%(D)z").access(RESPONSE, REQUEST, ENVIRON, TIME)
    assert "Logging error" in capsys.readouterr().err

    class Raising(Logger):
        def atoms(self, *arguments):
            raise RuntimeError("mine")

    make(Raising, accesslog="-").access(RESPONSE, REQUEST, {**ENVIRON, "HTTP_AUTHORIZATION": "Basic !"}, TIME)
    assert "RuntimeError: mine" in capsys.readouterr().err
    assert make()._get_user({"HTTP_AUTHORIZATION": "Basic /w=="}) is None is make()._get_user({})


def test_files_are_opened_anew_by_themselves(tmp_path):
    """A renamed file is opened anew, without a signal; gunicorn's methods for it are there."""
    logger = make(errorlog=str(tmp_path / "e"), accesslog=str(tmp_path / "a"))
    logger.error("one")
    (tmp_path / "e").rename(tmp_path / "e.1")
    logger.error("two")
    logger.reopen_files()
    logger.close_on_exec()
    assert "one" in (tmp_path / "e.1").read_text() and "two" in (tmp_path / "e").read_text()
    logger._set_handler(logger.error_log, None, logging.Formatter())
    assert logger._get_gunicorn_handler(logger.error_log) is None


def test_files_of_a_dictionary(tmp_path, monkeypatch):
    """The files are opened anew, too; where this user may make no new file, lines go on into the old file."""
    path = tmp_path / "d"
    handlers = {"file": {"class": "logging.FileHandler", "filename": str(path)}}
    logger = make(logconfig_dict={"handlers": handlers, "loggers": {ERROR: {"handlers": ["file"], "level": "INFO"}}})
    for number, may_make in enumerate((True, False)):
        logger.error("before %d", number)
        path.rename(tmp_path / f"d.{number}")
        monkeypatch.setattr(os, "access", lambda *_, may_make=may_make: may_make)
        logger.error("after %d", number)
    assert (tmp_path / "d.1").read_text() == "after 0\nbefore 1\nafter 1\n" and not path.exists()
    assert handlers["file"]["class"] == "logging.FileHandler"  # the user's own dictionary is unchanged


def test_captured_output_goes_to_errorlog(tmp_path, monkeypatch):
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        logger = make(errorlog=str(tmp_path / "e"), capture_output=True)
        print("printed", flush=True)
        os.write(err.fileno(), b"written\n")
        logger.logfile.close()
    assert (tmp_path / "e").read_text() == "printed\nwritten\n"


def test_configurations_of_every_form_are_laid_over(tmp_path, capsys):
    handlers = {"all": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "brief"}}
    loggers = {name: {"handlers": ["all"], "level": "INFO", "propagate": False} for name in (ERROR, ACCESS)}
    config = {
        "formatters": {"brief": {"format": "%(name)s: %(message)s"}},
        "handlers": handlers,
        "loggers": loggers,
        "root": {},
    }
    make(logconfig_dict=config).info("one")
    (tmp_path / "log.json").write_text(json.dumps(config))
    make(logconfig_json=str(tmp_path / "log.json")).info("two")
    (tmp_path / "log.ini").write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=all\n[formatters]\nkeys=brief\n[logger_root]\nhandlers=all\n[handler_all]\nclass=StreamHandler\n"
        "args=(sys.stdout,)\nformatter=brief\n[formatter_brief]\nformat=root %(message)s\n"
    )
    make(logconfig=str(tmp_path / "log.ini"))
    logging.getLogger().warning("three")
    out = capsys.readouterr().out
    assert out.startswith(f"{ERROR}: one\n{ERROR}: two\n") and out.endswith("root three\n")


def test_syslog_gets_messages_and_requests():
    """Messages and lines of requests go to syslog, with gunicorn's prefix; the second may stay out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        address = f"udp://127.0.0.1:{server.getsockname()[1]}"
        logger = make(syslog=True, syslog_addr=address, syslog_prefix="shop", syslog_facility="local0")
        logger.access(RESPONSE, REQUEST, ENVIRON, TIME)
        assert b"gunicorn.shop.access: [" in server.recv(4096)
        quiet = make(syslog=True, syslog_addr=address, disable_redirect_access_to_syslog=True)
        assert not quiet.cfg.asks_for_access
        quiet.error("it is so")
        assert server.recv(4096).endswith(b"it is so\0")


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("udp://a:1", socket.SOCK_DGRAM, ("a", 1)), ("tcp://A", socket.SOCK_STREAM, ("a", 514)), ("udp://", socket.SOCK_DGRAM, ("localhost", 514)),
        ("udp://[::1]:5", socket.SOCK_DGRAM, ("::1", 5)), ("udp://[::1]", socket.SOCK_DGRAM, ("::1", 514)), ("unix:///dev/log", None, "/dev/log"),
        ("unix:///dev/log#dgram", socket.SOCK_DGRAM, "/dev/log"), ("unix:///l#stream", None, "/l"),
    ],
)  # fmt: skip
def test_addresses_of_syslog_have_gunicorns_forms(text, kind, address):
    assert parse_syslog_address(text) == (kind, address)


@pytest.mark.parametrize(
    ("text", "why"), [("a:1", "is neither udp"), ("http://a", "is neither udp"), ("udp://a:b", "'b' in .* is no port")]
)
def test_wrong_addresses_are_errors_at_the_start(text, why):
    with pytest.raises(ValueError, match=why):
        parse_syslog_address(text)
