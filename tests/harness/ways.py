"""Connections on their way between three workers: processes of numbers alone."""

import os
import time

import pytest

from aserve.connections.drain.moved_request import write_request
from aserve.core.exchange import Exchange
from aserve.core.page import Field
from aserve.processes.children.children import SILENT_NS
from aserve.processes.fleet.fleet import Fleet
from aserve.processes.transfers.placement import Placement
from aserve.processes.transfers.request_file import RequestFile, take_request
from aserve.processes.transfers.transfers import Transfers

FILLING = {"do": "reopen logs"}
VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/cart?secret=1\0"


class Way:
    """Three serving workers, and requests of the first."""

    def __init__(self, new, system):
        self.new, self.system = new, system
        self.home, self.other, self.third = self.workers = [new(slot) for slot in (1, 2, 3)]
        self.fleet = Fleet(None, 0)
        self.fleet.workers = new.children
        self.moves = Transfers(new.children, Placement(new.children, self.fleet))
        for child, count in zip(self.workers, (5, 9, 7)):
            new.children.admit(child)
            child.page[Field.CONNECTIONS] = count
        self.clients = []

    def give(self, to, **message):
        """Let a request set out from home; return the client's end of its connection, a pipe."""
        client, connection = os.pipe()
        os.set_blocking(client, False)
        self.clients.append(client)
        file = RequestFile()
        file.write(write_request(Exchange(VARS, 2)))
        self.say(
            self.home, "request", [connection, file.detach()], to=to.page_number, giver=self.home.page_number, **message
        )
        return client

    def give_rest(self, sender, to=0, **message):
        """Let a connection at rest set out; return the client's end of it."""
        client, connection = os.pipe()
        os.set_blocking(client, False)
        os.set_blocking(connection, False)
        self.clients.append(client)
        self.say(sender, "idle", [connection], to=to, listener=0, **message)
        return client

    def rest_at(self, child):
        """Return the number and the descriptor of a worker's only connection at rest."""
        ((order, (fd,)),) = self.got(child)
        assert order["do"] == "adopt" and os.get_blocking(fd)
        return order["number"], fd

    def say(self, child, word, fds=(), **message):
        getattr(self.moves, f"on_{word}")(child, message, list(fds))

    def got(self, child, count=1):
        """Return a worker's orders, with descriptors; as many as that."""
        found = []
        while True:
            try:
                found.append(self.system.workers_ends[child.pid].receive())
            except BlockingIOError:
                if not child.channel.has_unsent:
                    break
                child.channel.flush()
        found = [each for each in found if each[0] != FILLING]
        assert len(found) == count, found
        return found

    def numbers_at(self, child, count):
        """Return the numbers of a worker's requests, which leaves them alone."""
        found = self.got(child, count)
        for order, fds in found:
            assert order["do"] == "adopt" and len(fds) == 2
            for fd in fds:
                os.close(fd)
        return [order["number"] for order, _ in found]

    def number_at(self, child):
        """Return the number of the only one."""
        return self.numbers_at(child, 1)[0]

    def fill(self, child):
        """Leave no room for messages to a worker, until it reads."""
        while not child.channel.has_unsent:
            child.channel.send(FILLING)

    def silence(self, child):
        child.page[Field.TICKED_AT] = time.monotonic_ns() - SILENT_NS - 1

    def end(self, child):
        """Let a worker be reaped."""
        self.new.children.kill(child)
        self.system.workers_ends[child.pid].close()
        self.system.ends.append((child.pid, 9))
        for ended, *_ in self.new.children.reap(lambda pid, how: None):
            self.moves.on_end(ended)

    def back(self, child, number):
        """Let a worker give a request back; with descriptors of its own."""
        file = RequestFile()
        file.write(b"octets")
        fds = [os.open(os.devnull, os.O_RDONLY), file.detach()]
        take_request(fds[1])
        self.say(child, "request", fds, to=0, giver=self.home.page_number, number=number)


def is_open(client):
    """Tell whether a process has the other end of a client's connection."""
    try:
        return os.read(client, 1) != b""
    except BlockingIOError:
        return True


@pytest.fixture
def moving(new, system):
    moving = Way(new, system)
    yield moving
    moving.moves.let_go()
    for client in moving.clients:
        os.close(client)
