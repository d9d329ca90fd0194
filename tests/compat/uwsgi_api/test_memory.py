"""The memory that processes share: made once, found again by its descriptor."""

from __future__ import annotations

import os

import pytest

from aserve.compat.uwsgi_api import memory as module
from aserve.compat.uwsgi_api.memory import Memory, share, shared
from aserve.compat.uwsgi_api.settings import Extras
from aserve.features.sharing.settings import Shared


@pytest.fixture
def nothing_shared(monkeypatch):
    """As in a process that has no memory yet; what it makes is closed."""
    monkeypatch.setattr(module, "_memory", None)
    monkeypatch.setattr(module, "KEPT", {})
    yield
    if module._memory is not None:
        os.close(module._memory.fd)


def test_found_again(open_memory):
    """By its descriptor, with all that is in it, as new code of an upgrade has it."""
    before = open_memory("items=10", "items=5,name=b")
    before.caches["b"].set(b"k", b"v")
    after = open_memory("items=10", "items=5,name=b", fd=before.fd)
    assert after.fd == before.fd and after.caches["b"].get(b"k") == b"v" and list(after.caches) == ["default", "b"]


def test_other_caches(open_memory):
    """A file with something else in it is closed, and another made."""
    before = Memory.open(["items=10"])
    fd = os.dup(before.fd)
    after = open_memory("items=11", fd=fd)
    assert after.caches["default"].keys() == []
    os.close(before.fd)


def test_places(open_memory):
    """Nothing stands in another's place: the last octet of each is its own."""
    memory = open_memory("items=3,blocksize=8,keysize=8", "items=3,blocksize=8,keysize=8,name=b")
    for cache in memory.caches.values():
        for number in range(3):
            assert cache.set(b"%d" % number, b"x" * 8)
    assert memory.octets[memory.signals.offset : memory.signals.offset + memory.signals.size].strip(b"\0") == b""
    for cache in memory.caches.values():
        assert sorted(cache.keys()) == [b"0", b"1", b"2"] and cache.get(b"2") == b"x" * 8


def test_too_many(open_memory):
    """The names of caches have a limit."""
    with pytest.raises(OSError, match="caches are too many"):
        open_memory(*[f"items=1,name=cache-of-a-rather-long-name-{number}" for number in range(100)])


def test_joined(nothing_shared, store_server):
    """With other hosts it has no caches of its own, and no memory for them."""
    memory = share(["items=1000000"], shared=Shared(store_server.url, "shop"))
    assert memory.caches["default"].set(b"k", b"v") and memory.caches is memory.hosts.caches
    assert store_server.ask("GET", "shop:cache:default:k") == b"$1\r\nv\r\n" and len(memory.octets) < 1 << 20
    memory.hosts.store.close()


def test_shared(nothing_shared):
    """One for a process; an upgrade keeps its file."""
    with pytest.raises(RuntimeError, match="--uwsgi-module on"):
        shared()
    memory = share(["items=3"])
    assert shared() is memory is share(["items=4"])
    assert module.KEPT[module.NAME] == memory.fd


def test_extras(open_memory):
    """A queue, areas and metrics have places of their own, beside the caches; with others, new memory is made."""
    extras = Extras("items=2,blocksize=8", ("7", "16"), ("a", "b"))
    memory = open_memory("items=3,blocksize=8,keysize=8", extras=extras)
    memory.ring.set(1, b"x" * 8)
    for area in memory.areas:
        memory.octets[area.offset : area.offset + area.size] = b"y" * area.size
    for offset in memory.metrics.values():
        memory.octets[offset : offset + 8] = b"z" * 8
    assert memory.ring.get(0) is None and memory.ring.get(1) == b"x" * 8 and memory.caches["default"].keys() == []
    assert [memory.octets[area.offset : area.offset + area.size] for area in memory.areas] == [b"y" * 7, b"y" * 16]
    same = open_memory("items=3,blocksize=8,keysize=8", fd=memory.fd, extras=extras)
    assert same.fd == memory.fd and same.ring.get(1) == b"x" * 8 and list(same.metrics) == ["a", "b"]
