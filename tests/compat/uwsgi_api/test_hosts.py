"""Shared state of hosts takes the place of shared state of processes."""

from aserve.compat.uwsgi_api.hosts import join
from aserve.compat.uwsgi_api.settings import parse_cache
from aserve.features.sharing.settings import Shared


def test_joined_hosts_have_caches_by_name(store_server):
    """The caches are there by their names, in order; nothing is connected before its use."""
    hosts = join([parse_cache("items=1,name=b"), parse_cache("items=1,name=a")], Shared(store_server.url, "shop"))
    assert list(hosts.caches) == ["b", "a"] and hosts.caches["a"].spec.name == "a"
    assert hosts.store.name == store_server.url
    assert store_server.ask("CLIENT", "LIST").count(b"id=") == 1
