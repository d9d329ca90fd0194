"""The authority of the tests (harness/pebble.py), asked by the library that aserve asks authorities with."""

from __future__ import annotations

import functools
import http.server
import ssl
import threading

import pytest
from harness.certificates import openssl
from harness.pebble import needs_pebble, on_linux

acme = pytest.importorskip("acme", reason="the library acme is not installed")

from acme import challenges, client, crypto_util, messages  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402
from josepy import ES256, JWKEC  # noqa: E402

pytestmark = [
    pytest.mark.checkout,
    needs_pebble,
    on_linux,
    pytest.mark.filterwarnings("ignore:TLSALPN01 is deprecated"),  # by certbot
]


@pytest.fixture
def account(pebble):
    """Return a client with an account at the authority."""
    key = JWKEC(key=ec.generate_private_key(ec.SECP256R1()))
    network = client.ClientNetwork(key, alg=ES256, verify_ssl=str(pebble.ca))
    made = client.ClientV2(client.ClientV2.get_directory(pebble.url, network), network)
    made.new_account(messages.NewRegistration.from_data(email="a@shop.example", terms_of_service_agreed=True))
    return made


def order(account, pebble, folder, name):
    """Have a certificate for the name issued by HTTP-01; return it with its chain, in PEM."""
    key = openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout")
    made = account.new_order(crypto_util.make_csr(key, [name]))
    [challenge] = [each for each in made.authorizations[0].body.challenges if isinstance(each.chall, challenges.HTTP01)]
    response, text = challenge.response_and_validation(account.net.key)
    path = folder / challenge.path.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer((pebble.host, pebble.http_port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            account.answer_challenge(challenge, response)
            return account.poll_and_finalize(made).fullchain_pem
        finally:
            server.shutdown()
            thread.join()


def test_it_issues(account, pebble, tmp_path):
    """A certificate that it issues leads to its root, and to no other."""
    chain = order(account, pebble, tmp_path / "site", "shop.example")
    for name, text in (("root", pebble.root), ("chain", chain)):
        (tmp_path / name).write_text(text)
    openssl(
        "verify",
        "-verify_hostname",
        "shop.example",
        "-CAfile",
        tmp_path / "root",
        "-untrusted",
        tmp_path / "chain",
        tmp_path / "chain",
    )


def test_it_refuses(account, pebble, tmp_path):
    """A name that leads elsewhere gets none; the authority says why."""
    pebble.lead("shop.example", "127.0.0.254")
    with pytest.raises(Exception, match="connection refused"):
        order(account, pebble, tmp_path / "site", "shop.example")


def test_it_forgets(pebble):
    """While it is stopped its port is closed; started again it is another authority."""
    root = pebble.root
    pebble.stop()
    with pytest.raises(ConnectionRefusedError):
        pebble.ask("GET", pebble.url)
    pebble.start()
    assert b"newOrder" in pebble.ask("GET", pebble.url) and pebble.root != root
    assert ssl.PEM_cert_to_DER_cert(pebble.root)
