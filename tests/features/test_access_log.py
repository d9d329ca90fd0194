"""The extension of the access log: the time of its writes, and its needs."""

import os
import pwd
import types

import pytest
from harness.extensions import new_context, new_exchange

from aserve.core.errors import BindError, RequestRefused
from aserve.extension import REOPEN_LOGS, Extensions, Life, LifeContext, Lost
from aserve.features import Config
from aserve.features.access_log import AccessLogging
from aserve.features.access_log import log as log_module
from aserve.workers.inline import InlineExecutor


@pytest.fixture
def start(tmp_path):
    """start(**settings): the extensions of a server with an access log, and the ends of its requests."""

    def start(**settings):
        extensions = Extensions([AccessLogging(Config(access_log=str(tmp_path / "log"), **settings))])
        extensions.start(new_context(slot=3))
        return extensions, extensions.new_ends(InlineExecutor())

    return start


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_log_of_roots(tmp_path, caplog):
    """Before root is given up, the user gets the files; --check, as that user, has no warning about them."""
    logs = [str(tmp_path / name) for name in ("log", "copy")]
    config = Config(user="nobody", access_log=logs[0], access_log_copy=(logs[1], "-"))
    AccessLogging(config).on_life(Life.STARTS, LifeContext(None))
    uid = pwd.getpwnam("nobody").pw_uid
    assert [os.stat(log).st_uid for log in logs] == [uid, uid]


def test_a_check_of_a_log(tmp_path, caplog, monkeypatch):
    """A file that a start by root gives to the user has no warning; any other unwritable one has."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for name, is_given in (("given", True), ("other", False)):
        monkeypatch.setattr(log_module, "can_give", lambda path, is_given=is_given: is_given)
        AccessLogging(Config(user="nobody", access_log=str(tmp_path / name))).on_life(Life.CHECKS, LifeContext(None))
    assert [record.getMessage().split("'")[1] for record in caplog.records] == [str(tmp_path / "other")]


def test_each_second_lines_are_written(start, tmp_path):
    """The log is written once a second, and goes on in a new file at the order."""
    extensions, ends = start()
    assert AccessLogging.is_on(Config(access_log="-")) and not AccessLogging.is_on(Config())
    ends.write_refused(types.SimpleNamespace(remote_addr="10.0.0.1"), None, RequestRefused(400, "why"))
    extensions.on_second()
    assert "10.0.0.1" in (tmp_path / "log").read_text()
    (tmp_path / "log").unlink()
    extensions.obey(REOPEN_LOGS)
    assert (tmp_path / "log").exists()
    extensions.stop()


def test_the_end_writes_waiting_lines(start, tmp_path):
    extensions, ends = start()
    ends.write(new_exchange())
    assert extensions.ask("access_log_lines_lost") == 0 and ends.parts[-1] is not None
    extensions.stop()
    assert (tmp_path / "log").read_text().count("10.0.0.1") == 1


@pytest.mark.parametrize(
    ("line_format", "wants"),
    [
        ("%(status)", (False, False, False)),
        ("%(duration)", (True, False, False)),
        ("%(request_id)", (False, True, False)),
        ("%({x}o)s", (False, False, True)),
    ],
)
def test_what_it_wants(start, line_format, wants):
    """Only values of its format are looked up, and anew for each start."""
    extensions, ends = start(access_log_format=line_format)
    assert (extensions.wants_times, extensions.wants_ids, ends.parts[5]) == wants
    extensions.stop()


def test_the_number_of_the_process(start, tmp_path):
    extensions, ends = start(access_log_format="process %(worker)")
    ends.write(new_exchange())
    extensions.stop()
    assert (tmp_path / "log").read_text() == "process 3\n"


def test_a_file_that_cannot_be(tmp_path):
    """The server does not start."""
    log = AccessLogging(Config(access_log=str(tmp_path / "no" / "log")))
    with pytest.raises(BindError, match="no/log"):
        log.start(new_context())


def test_a_worker_that_died(tmp_path):
    """The supervisor writes the lines of a dead worker's requests, with modules imported at its own beginning."""
    log = AccessLogging(Config(access_log=str(tmp_path / "log"), access_log_format="%(path) %(worker) %(end)"))
    for event in Life:
        log.on_life(event, LifeContext(None, lost=Lost(7, 4711, [(2.0, "GET /a")]) if event is Life.DIED else None))
    assert (tmp_path / "log").read_text() == "/a 7 worker_died\n"


def test_check_of_a_file(tmp_path, caplog):
    """--check names a file unwritable for a start by this user, and no other."""
    for name, lines in (("log", 0), ("no/log", 1)):
        caplog.clear()
        AccessLogging(Config(access_log=str(tmp_path / name))).on_life(Life.CHECKS, LifeContext(None))
        assert len(caplog.messages) == lines and all(str(tmp_path / name) in line for line in caplog.messages)
    assert not (tmp_path / "log").exists()
