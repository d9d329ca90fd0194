"""Scrapes turned by a test, and their clients."""

import socket

from aserve.features import Config
from aserve.features.metrics import scrapes as module
from aserve.features.metrics.balance import Balance, Host, Reading
from aserve.features.metrics.pages import MetricsPages
from aserve.features.metrics.scrapes import Scrapes, open_metrics

BALANCE = Balance(lambda: Host([Reading(0, 0.0, 0.0)], 1, 4, 10.0))
GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
EVENTS = b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n"


class Answering:
    """Scrapes whose loop turns when a test calls it, and whose time the test sets."""

    def __init__(self, monkeypatch, path):
        self.now = 0.0
        self.text, self.made = b"a 1\n", 0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        self.address = str(path)
        self.listeners = open_metrics(Config(metrics=f"unix:{path}"))
        self.event, self.events = b"{}", 0
        self.pages = MetricsPages(self._render, self._make_event, lambda: b"{}" * 200_000, lambda: "local", BALANCE)
        self.scrapes = Scrapes(self.listeners, self.pages)
        self.clients = []

    def _render(self):
        self.made += 1
        if self.text is None:
            raise ZeroDivisionError
        return self.text

    def _make_event(self):
        self.events += 1
        return self.event

    def connect(self):
        """Return a client, which does not wait."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(30)
        client.connect(self.address)
        self.clients.append(client)
        return client

    def turn(self, count=20):
        """Do all possible steps."""
        for _ in range(count):
            self.scrapes.on_ready()

    def ask(self, octets=GET):
        """Return the status, the fields and the body of an answer."""
        client = self.connect()
        client.sendall(octets)
        self.turn()
        return self.read(client)

    def read(self, client):
        """Return a client's octets, to their end."""
        received = b""
        while octets := client.recv(1 << 20):
            received += octets
            self.turn()
        head, _, body = received.partition(b"\r\n\r\n")
        first, *fields = head.decode().split("\r\n")
        return int(first.split()[1]), dict(field.split(": ") for field in fields), body

    def close(self):
        for client in self.clients:
            client.close()
        self.scrapes.close()
