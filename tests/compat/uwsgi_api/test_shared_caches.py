"""A cache shared by hosts: each host's values are all hosts'; without a server the cache is empty, and nothing raises."""

import pytest

from aserve.compat.uwsgi_api import shared_caches as module
from aserve.compat.uwsgi_api.caches import octets_of
from aserve.compat.uwsgi_api.settings import parse_cache
from aserve.compat.uwsgi_api.shared_caches import SharedCache
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import Store


@pytest.fixture
def new(store_server):
    """Make the cache of one host: new(text) -> SharedCache."""
    stores = []

    def new_(text="items=10,blocksize=64,keysize=8"):
        stores.append(Store(Shared(store_server.url, "shop")))
        return SharedCache(parse_cache(text), stores[-1])

    yield new_
    for store in stores:
        store.end()


def test_shared_values_reach_all_hosts(new, store_server):
    """A host's value is another's; further caches and their values are not touched."""
    one, two, other = new(), new(), new("items=1,name=other")
    store_server.ask("SET", "shop:cache:defaultx:k", "theirs")
    assert one.set(b"k", b"\x00\xff") and other.set(b"k", b"other")
    assert two.get(b"k") == b"\x00\xff" and two.has(b"k") and two.get(b"l") is None and not two.has(b"l")
    assert two.keys() == [b"k"] and two.clear() and one.keys() == [] and one.clear()
    assert other.get(b"k") == b"other" and store_server.ask("GET", "shop:cache:defaultx:k").endswith(b"theirs\r\n")


def test_setting_a_present_key_changes_nothing(new):
    cache = new()
    assert cache.set(b"k", b"1") and not cache.set(b"k", b"2") and cache.get(b"k") == b"1"
    assert cache.set(b"k", b"2", is_update=True) and cache.get(b"k") == b"2"
    assert cache.delete(b"k") and not cache.delete(b"k")


def test_a_value_expires_after_its_seconds(new, store_server, wait_until):
    cache = new()
    assert cache.set(b"k", b"1", 100) and cache.set(b"for ever", b"1") and cache.set(b"soon", b"1", 0.0001)
    assert store_server.ask("TTL", "shop:cache:default:k") in (b":100\r\n", b":99\r\n")
    assert store_server.ask("TTL", "shop:cache:default:for ever") == b":-1\r\n"
    wait_until(lambda: cache.get(b"soon") is None)


@pytest.mark.parametrize("seconds", [10**11, 10**30, float("inf")])
def test_a_very_long_time_has_no_end(new, caplog, seconds):
    cache = new()
    assert cache.set(b"k", b"1", seconds) and cache.set(b"k", b"2", seconds, is_update=True)
    assert cache.change(b"n", lambda number: 1, seconds) and cache.get(b"k") == b"2" and not caplog.records


def test_too_long_values_are_not_kept(new, caplog):
    cache = new()
    assert not cache.set(b"k", b"x" * 65) and not cache.set(b"123456789", b"") and not cache.set(b"", b"1")
    assert not cache.change(b"123456789", lambda number: 1)
    assert caplog.text.count("are not kept") == 1


def test_numbers_are_eight_octets(new, store_server):
    one, two = new(), new()
    assert one.change(b"n", lambda number: number + 2, 100) and two.change(b"n", lambda number: number + 3)
    assert one.number(b"n") == 5 and one.get(b"n") == octets_of(5) and one.number(b"none") == 0
    assert store_server.ask("TTL", "shop:cache:default:n") in (b":100\r\n", b":99\r\n")
    assert one.change(b"e", lambda number: number + 1) and store_server.ask("TTL", "shop:cache:default:e") == b":-1\r\n"
    for value in (b"", b"text"):
        one.set(b"t", value, is_update=True)
        assert not one.change(b"t", lambda number: 1) and one.get(b"t") == value


def test_numbers_at_once(new):
    """Other hosts' changes meanwhile are not lost; a removed number is begun anew."""
    one, two = new(), new()
    met = []

    def meet(number):
        met.append(number)
        if len(met) == 1:
            two.change(b"n", lambda other: 10)
        if len(met) == 2:
            two.delete(b"n")
        return number + 1

    assert one.change(b"n", meet) and met == [0, 10, 0] and one.number(b"n") == 1


def test_numbers_that_others_change_each_time(new, monkeypatch, caplog):
    monkeypatch.setattr(module, "MAX_TRIES", 3)
    one, two = new(), new()
    assert not one.change(b"n", lambda number: two.change(b"n", lambda other: other + 1) and 0)
    assert two.number(b"n") == 3 and "others have changed a number of 'default' each time" in caplog.text


def test_an_absent_store_is_an_empty_cache(new, store_server, caplog):
    cache = new()
    cache.set(b"k", b"1")
    store_server.kill()
    assert cache.get(b"k") is None and not cache.has(b"k") and cache.keys() == [] and cache.number(b"k") == 0
    assert not cache.set(b"k", b"1") and not cache.change(b"k", lambda number: 1)
    assert not cache.delete(b"k") and not cache.clear() and caplog.text.count("is away") == 1
