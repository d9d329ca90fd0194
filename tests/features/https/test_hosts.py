"""The shared state of a site's hosts, over a real store."""

import pytest

from aserve.features.https.hosts import SharingHosts
from aserve.features.https.issued import GivenCertificate
from aserve.features.sharing import store as store_module
from aserve.features.sharing.leases import Leases
from aserve.features.sharing.store import StoreError

NAME = "shop.example.org"


@pytest.fixture
def new(store_server, monkeypatch):
    """Make one of the hosts: new() -> SharingHosts; no thread renews its leases."""
    monkeypatch.setattr(Leases, "_run", lambda self: None)
    made = []

    def new_():
        made.append(SharingHosts(store_server.url, None))
        return made[-1]

    yield new_
    for hosts in made:
        hosts._leases.end()
        hosts._store.end()


def test_answers_are_found_by_all_hosts(new, store_server):
    """All hosts find an answer put by one, for as long as an order takes."""
    one, two = new(), new()
    one.put_answer("token", b"token.thumbprint")
    assert two.answer("token") == b"token.thumbprint" and two.answer("other") is None
    assert 0 < int(store_server.ask("TTL", "https:https:answer:token")[1:]) <= 900


def test_certificates_come_back_unchanged(new, store_server):
    """Certificates come back unchanged; a value of another form is not taken for one."""
    one, two = new(), new()
    assert two.get(NAME) is None
    one.put(NAME, GivenCertificate("https://ca.example", b"key and chain"))
    assert two.get(NAME) == GivenCertificate("https://ca.example", b"key and chain")
    for text in ("{", "[]", '{"directory": "d"}', '{"directory": "d", "pem": 1}'):
        store_server.ask("SET", f"https:https:certificate:{NAME}", text)
        assert two.get(NAME) is None


def test_turns_are_one_hosts(new):
    """One host orders a name at a time, and none after a failure, until its time is over."""
    one, two = new(), new()
    with one.turn(NAME) as first:
        with two.turn(NAME) as second, two.turn("other.example") as other:
            assert (first, second, other) == (True, False, True)
        one.wait(NAME, 600.0)
    with two.turn(NAME) as after_failure:
        assert not after_failure
    two.wait_no_more(NAME)
    with two.turn(NAME) as again:
        assert again


@pytest.mark.provokes("is away")
def test_a_store_that_is_away(new, store_server, monkeypatch):
    """Requests are answered without the store; orders wait."""
    monkeypatch.setattr(store_module.Store, "_wait", lambda self: None)
    hosts = new()
    store_server.kill()
    assert hosts.answer("token") is None
    hosts.wait(NAME, 1.0)
    hosts.wait_no_more(NAME)
    with pytest.raises(StoreError), hosts.turn(NAME):
        pass
    store_server.start()
