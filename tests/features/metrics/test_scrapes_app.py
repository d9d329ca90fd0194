"""Answers with the app's own counts, read by another process."""

import pytest
from harness.scraping import GET

from aserve.features import Config
from aserve.features.metrics.pages import FRESH_SECONDS
from aserve.features.metrics.scrapes import APP_SECONDS, MAX_CONNECTIONS, Scrapes, open_metrics


class App:
    """Reads the app's metrics on demand."""

    def __init__(self, answering):
        self.asked, self.has_any = 0, True
        self.scrapes = answering.scrapes = Scrapes(answering.listeners, answering.pages, self._ask)
        self.answering = answering

    def _ask(self):
        self.asked += 1
        return self.has_any

    def send(self, octets=GET):
        """Return a client with its request sent."""
        client = self.answering.connect()
        client.sendall(octets)
        self.answering.turn()
        return client

    def tell(self, text, fault=""):
        """Let the text be read."""
        self.scrapes.on_app_metrics(text, fault)
        self.answering.turn()


@pytest.fixture
def app(answering):
    """An app with counts."""
    answering.scrapes.close(is_end=False)
    answering.listeners[0] = open_metrics(Config(metrics=f"unix:{answering.address}2"))[0]
    answering.address += "2"
    return App(answering)


def test_with_the_apps(app, answering):
    """The app's text stands behind ours; it is read once for all callers meanwhile, and not again for a moment."""
    clients = [app.send(), app.send(GET.replace(b"GET", b"HEAD")), app.send()]
    assert app.asked == 1
    app.tell(b"b 2\n")
    assert [answering.read(client)[2] for client in clients] == [b"a 1\nb 2\n", b"", b"a 1\nb 2\n"]
    assert answering.ask()[2] == b"a 1\nb 2\n" and (app.asked, answering.made) == (1, 1)
    app.tell(b"c 3\n")  # nobody waits
    answering.now = FRESH_SECONDS
    app.has_any = False
    assert answering.ask()[2] == b"a 1\n"


def test_the_apps_cannot_be_read(app, answering, caplog):
    """Ours are told all the same; the reason is told once, until a read succeeds."""
    for number, fault in enumerate(["ValueError: no", "ValueError: no", "", "ValueError: no"]):
        answering.now = float(number)
        client = app.send()
        app.tell(b"", fault)
        assert answering.read(client)[2] == b"a 1\n"
    assert [record.getMessage() for record in caplog.records] == [
        "the app's own metrics are left out: ValueError: no"
    ] * 2


def test_the_apps_take_too_long(app, answering, caplog):
    """Then nobody waits for the app's any more."""
    client = app.send()
    answering.now = APP_SECONDS - 0.1
    app.scrapes.on_second()
    assert client in answering.clients and not caplog.records
    answering.now = APP_SECONDS
    app.scrapes.on_second()
    answering.turn()
    assert answering.read(client)[2] == b"a 1\n" and "could not be read within 3 s" in caplog.text


def test_waiting_for_the_apps(app, answering):
    """Of many waiting clients the oldest makes room; an exec and the end let none hang."""
    clients = [app.send() for _ in range(MAX_CONNECTIONS + 1)]
    assert clients[0].recv(1) == b"" and len(app.scrapes._waiting) == MAX_CONNECTIONS
    app.scrapes.finish()
    assert answering.read(clients[1])[2] == b"a 1\n"
    answering.now = 1.0
    app.scrapes.on_second()
    last = app.send()
    app.scrapes.close()
    assert last.recv(1) == b""
    app.scrapes.on_app_metrics(b"late", "")


@pytest.mark.provokes("internal error")
def test_ours_cannot_be_made(app, answering):
    answering.text = None
    client = app.send()
    app.tell(b"b 1\n")
    assert answering.read(client)[0] == 500
