"""What hosts share takes the place of what processes do."""

from __future__ import annotations

from aserve.compat.uwsgi_api.hosts import join
from aserve.compat.uwsgi_api.settings import parse_cache
from aserve.features.sharing.settings import Shared


def test_joined(store_server):
    """The caches are there by their names, in their order; nothing is connected before it is used."""
    hosts = join([parse_cache("items=1,name=b"), parse_cache("items=1,name=a")], Shared(store_server.url, "shop"))
    assert list(hosts.caches) == ["b", "a"] and hosts.caches["a"].spec.name == "a"
    assert hosts.store.name == store_server.url
    assert store_server.ask("CLIENT", "LIST").count(b"id=") == 1
