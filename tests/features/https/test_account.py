"""The account: one key, known to the authority or made known."""

import types

import pytest

pytest.importorskip("acme", reason="needs the extra acme")

from acme import client, errors

from aserve.features.https.account import connect, key_of
from aserve.features.https.network import BoundedAnswers, new_network

JOB = {"directory": "https://ca.example/dir", "email": "me@example.org", "ca": None}


@pytest.fixture
def authority(monkeypatch):
    """Return an authority that knows accounts."""
    fake = types.SimpleNamespace(known=False, updates=[], registered=[])

    def new_account(self, wanted):
        fake.registered.append(wanted)
        if fake.known:
            raise errors.ConflictError("https://ca.example/account/1")

    monkeypatch.setattr(client.ClientV2, "get_directory", lambda url, network: {"url": url})
    monkeypatch.setattr(client.ClientV2, "new_account", new_account)
    monkeypatch.setattr(
        client.ClientV2, "update_registration", lambda self, regr, update: fake.updates.append(update.emails)
    )
    return fake


def test_a_key_is_made_once(folder):
    """The key is the account."""
    assert key_of(folder).thumbprint() == key_of(folder).thumbprint()


def test_a_damaged_key(folder):
    """A damaged key is not replaced: only its owner knows whether it matters."""
    folder.write(folder.account, b"damaged")
    with pytest.raises(ValueError):
        key_of(folder)


def test_a_new_account_accepts_the_terms(folder, authority):
    """The terms were accepted, or there were no order."""
    connect(JOB, folder, new_network(JOB, key_of(folder), BoundedAnswers()))
    [wanted] = authority.registered
    assert wanted.terms_of_service_agreed and wanted.emails == ("me@example.org",) and authority.updates == []


def test_a_known_account_is_used(folder, authority):
    """A known account is used unchanged; its mail address follows the setting."""
    authority.known = True
    network = new_network(JOB, key_of(folder), BoundedAnswers())
    connect(JOB, folder, network)
    assert network.account["uri"] == "https://ca.example/account/1" and authority.updates == [("me@example.org",)]
    connect(JOB, folder, network)
    assert len(authority.updates) == 1
