"""A page in the place of all responses: its times, and its substitute when unreadable."""

import logging
import os
import threading

import pytest
from harness import apps
from harness.extensions import new_context
from harness.waiting import wait_until

from aserve.connections.monitoring.stacks import describe_stacks
from aserve.features import Config
from aserve.features import maintenance as maintenance_module
from aserve.features.maintenance import PLAIN, TEXT, Maintenance


@pytest.fixture
def path(tmp_path):
    """Return where the page will be."""
    return tmp_path / "down.html"


STARTED = []


@pytest.fixture(autouse=True)
def _no_looks_of_its_own(monkeypatch):
    """The tests look; their threads end with them."""
    monkeypatch.setattr(maintenance_module, "LOOK_SECONDS", 1000.0)
    yield
    while STARTED:
        STARTED.pop()()


@pytest.fixture
def maintenance(path):
    """Return a started extension, and `ask`, which calls its app."""
    return started(path)


def started(path):
    extension = Maintenance(Config(maintenance=str(path)))
    app = extension.wrap_app(apps.hello)

    def ask():
        """Return the status, the fields and the body of a response."""
        begun = []
        body = b"".join(app({}, lambda status, fields: begun.append((status, dict(fields)))))
        return (*begun[0], body)

    extension.ask = ask
    extension.start(new_context(at_stop=STARTED.append))
    return extension


def test_it_comes_and_goes(maintenance, path, caplog):
    """Requests have the page within a second, and reach the app again within a second; the log says both, once."""
    caplog.set_level(logging.INFO, "aserve")
    assert maintenance.ask()[0] == "200 OK"
    path.write_bytes(b"<p>Back soon.")
    assert maintenance.ask()[0] == "200 OK"  # a request does not look at the file
    maintenance.look()
    status, fields, body = maintenance.ask()
    assert (status, body) == ("503 Service Unavailable", b"<p>Back soon.")
    assert fields == {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": "13",
        "Cache-Control": "no-store",
        "Retry-After": "120",
    }
    path.write_bytes(b"<p>Back at five.")
    maintenance.look()
    maintenance.look()
    assert maintenance.ask()[2] == b"<p>Back at five."
    path.unlink()
    maintenance.look()
    assert maintenance.ask()[0] == "200 OK"
    first, last = caplog.messages
    assert f"there is {path}" in first and f"{path} is gone" in last


def test_it_is_there_at_the_start(path):
    """The first request has the page; a server that starts anew looks anew."""
    path.write_bytes(b"down")
    maintenance = started(path)
    assert maintenance.ask()[2] == b"down"
    STARTED.pop()()
    path.unlink()
    maintenance.start(new_context(at_stop=STARTED.append))
    assert maintenance.ask()[0] == "200 OK"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.json", "application/json"), ("a.HTM", "text/html; charset=utf-8"), ("a", TEXT), ("a.txt", TEXT)],
)
def test_its_type_is_by_the_name(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b"{}")
    assert started(tmp_path / name).ask()[1]["Content-Type"] == kind


def test_an_empty_file(maintenance, path):
    """`touch` is enough."""
    path.touch()
    maintenance.look()
    assert maintenance.ask()[2] == PLAIN


def test_a_file_that_cannot_be_read(path, caplog):
    """A folder of that name, a named pipe, or too large a file: requests have a line of text, and the log says why, once."""
    path.mkdir()
    maintenance = started(path)
    maintenance.look()
    assert maintenance.ask()[::2] == ("503 Service Unavailable", PLAIN)
    assert maintenance.ask()[1]["Content-Type"] == TEXT
    path.rmdir()
    os.mkfifo(path)
    maintenance.look()
    assert caplog.text.count("is no file") == 1
    path.unlink()
    path.write_bytes(bytes(maintenance_module.MAX_PAGE_BYTES + 1))
    maintenance.look()
    assert maintenance.ask()[2] == PLAIN and "more than 1 MiB" in caplog.text
    path.write_bytes(b"well")
    maintenance.look()
    assert maintenance.ask()[2] == b"well"


def test_a_read_that_fails_is_repeated(maintenance, path, monkeypatch, caplog):
    """A passing lack of descriptors, or a late right, does not matter for ever."""
    path.write_bytes(b"down")

    def refuse(*arguments, **options):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    maintenance.look()
    assert maintenance.ask()[2] == PLAIN
    monkeypatch.undo()
    maintenance.look()
    assert maintenance.ask()[2] == b"down" and caplog.text.count("Too many open files") == 1


def test_it_looks_by_itself(path, monkeypatch):
    """A thread does, from start to stop."""
    monkeypatch.setattr(maintenance_module, "LOOK_SECONDS", 0.001)
    before = {*threading.enumerate()}
    maintenance = started(path)
    path.write_bytes(b"down")
    wait_until(lambda: maintenance.ask()[2] == b"down")
    STARTED.pop()()
    wait_until(lambda: not {*threading.enumerate()} - before)


def test_a_file_that_cannot_be_seen(maintenance, path, monkeypatch, caplog):
    """The last state goes on; the log says so once, and again after the file was gone."""
    path.write_bytes(b"down")
    maintenance.look()
    stat = os.stat

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    for times in (1, 2):
        monkeypatch.setattr(os, "stat", refuse)
        maintenance.look()
        maintenance.look()
        assert caplog.text.count("Permission denied") == times and maintenance.ask()[2] == b"down"
        monkeypatch.setattr(os, "stat", stat)
        path.unlink()
        maintenance.look()
        path.write_bytes(b"down")
        maintenance.look()


def test_settings_name_a_file():
    assert Maintenance.is_on(Config(maintenance="/a")) and not Maintenance.is_on(Config())


def test_its_thread_is_left_out_of_stacks(maintenance):
    assert "aserve-maintenance" in {thread.name for thread in threading.enumerate()}
    assert "aserve-maintenance" not in describe_stacks()
