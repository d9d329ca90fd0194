"""The memory shared by processes: made once, found again by its descriptor."""

import os

import pytest

from aserve.compat.uwsgi_api import memory as module
from aserve.compat.uwsgi_api.memory import Memory, share, shared
from aserve.compat.uwsgi_api.settings import Extras
from aserve.features.sharing.settings import Shared


@pytest.fixture
def nothing_shared(monkeypatch):
    """Begin without memory in this process; new memory is closed."""
    monkeypatch.setattr(module, "_memory", None)
    monkeypatch.setattr(module, "KEPT", {})
    yield
    if module._memory is not None:
        os.close(module._memory.fd)


def test_memory_is_found_again_by_descriptor(open_memory):
    """The memory is found by descriptor, with all values, as by new code of an upgrade."""
    before = open_memory("items=10", "items=5,name=b")
    before.caches["b"].set(b"k", b"v")
    after = open_memory("items=10", "items=5,name=b", fd=before.fd)
    assert after.fd == before.fd and after.caches["b"].get(b"k") == b"v" and list(after.caches) == ["default", "b"]


def test_other_caches_mean_new_memory(open_memory):
    before = Memory.open(["items=10"])
    fd = os.dup(before.fd)
    after = open_memory("items=11", fd=fd)
    assert after.caches["default"].keys() == []
    os.close(before.fd)


def test_places_do_not_overlap(open_memory):
    """Nothing overlaps: the last octet of each is its own."""
    memory = open_memory("items=3,blocksize=8,keysize=8", "items=3,blocksize=8,keysize=8,name=b")
    for cache in memory.caches.values():
        for number in range(3):
            assert cache.set(b"%d" % number, b"x" * 8)
    assert memory.octets[memory.signals.offset : memory.signals.offset + memory.signals.size].strip(b"\0") == b""
    for cache in memory.caches.values():
        assert sorted(cache.keys()) == [b"0", b"1", b"2"] and cache.get(b"2") == b"x" * 8


def test_too_many_caches_are_refused(open_memory):
    with pytest.raises(OSError, match="caches are too many"):
        open_memory(*[f"items=1,name=cache-of-a-rather-long-name-{number}" for number in range(100)])


def test_joined_hosts_need_no_memory(nothing_shared, store_server):
    memory = share(["items=1000000"], shared=Shared(store_server.url, "shop"))
    assert memory.caches["default"].set(b"k", b"v") and memory.caches is memory.hosts.caches
    assert store_server.ask("GET", "shop:cache:default:k") == b"$1\r\nv\r\n" and len(memory.octets) < 1 << 20
    memory.hosts.store.close()


def test_shared_memory_is_one_for_a_process(nothing_shared):
    with pytest.raises(RuntimeError, match="--uwsgi-module on"):
        shared()
    memory = share(["items=3"])
    assert shared() is memory is share(["items=4"])
    assert module.KEPT[module.NAME] == memory.fd


def test_extras_have_their_own_places(open_memory):
    """A queue, areas and metrics have their own places, beside the caches; with others, new memory is made."""
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
