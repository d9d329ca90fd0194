"""The authority finds its answers at port 80, and the rest of the folder stays hidden."""

import contextlib
import ssl

import pytest
from harness.certificates import HAS_OPENSSL, Authority
from harness.gateways import new_exchange
from harness.responses import parse

from aserve.core.exchange import Exchange
from aserve.features.https.answers import ALPN_NAME, PREFIX, HTTPAnswers, new_context, pem_name
from aserve.features.https.folder import Folder
from aserve.wsgi.response import CommonFields

TOKEN = "Token_of-the-authority"


@pytest.fixture
def ask(tmp_path):
    """Return a function that asks for a path, of a folder with an answer, a key and a file of an answer with a key."""
    folder = Folder(str(tmp_path / "https"))
    folder.make(None)
    folder.write(folder.challenge(TOKEN), b"token.thumbprint")
    folder.write(folder.challenge(pem_name("a.example")), b"key")
    folder.write(folder.account, b"key")
    step = HTTPAnswers(folder, CommonFields("s"), {"Other-hosts_token": b"other.thumbprint"}.get)

    def ask(path):
        exchange = new_exchange()
        asked = Exchange(
            f"REQUEST_METHOD\0GET\0REQUEST_URI\0{path}\0PATH_INFO\0{path}\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1", 5
        )
        asked.connection = exchange.connection
        return step.before(asked)

    return ask


def test_an_answer_is_token_and_thumbprint(ask):
    line, _, body = parse(ask(PREFIX + TOKEN))
    assert line == "HTTP/1.1 200 OK" and body.split() == [b"token.thumbprint"]


def test_an_answer_of_another_host(ask):
    """The authority may ask any host."""
    assert parse(ask(f"{PREFIX}Other-hosts_token"))[2].split() == [b"other.thumbprint"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        f"/x{PREFIX}{TOKEN}",
        f"{PREFIX}other",
        PREFIX,
        f"{PREFIX}a.example.pem",
        f"{PREFIX}../account.pem",
        f"{PREFIX}..",
        f"{PREFIX}%2e",
    ],
)
def test_all_else_reaches_the_app(ask, path):
    """The app may have its own answers; nothing else of the folder is sent."""
    assert ask(path) is None


@pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
def test_a_handshake_is_answered_by_its_file(tmp_path):
    """TLS-ALPN-01 is answered while its file is there, for our names; the name is a client's word, and no path."""
    folder = Folder(str(tmp_path / "https"))
    folder.make(None)
    assert new_context(folder, ("a.example",), "a.example") is None
    issued = Authority(tmp_path / "authority").issue("a.example")
    for name in ("a.example", "b.example"):
        folder.write(folder.challenge(pem_name(name)), issued.key.read_bytes() + issued.certificate.read_bytes())
    client = ssl.create_default_context(cafile=str(tmp_path / "authority/authority.pem"))
    client.set_alpn_protocols([ALPN_NAME])
    ends = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    theirs = client.wrap_bio(ends[0], ends[1], server_hostname="a.example")
    ours = new_context(folder, ("a.example",), "A.example").wrap_bio(ends[1], ends[0], server_side=True)
    for session in (theirs, ours, theirs):
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
    assert theirs.selected_alpn_protocol() == ALPN_NAME
    assert new_context(folder, ("a.example",), "b.example") is None
    assert new_context(folder, ("a.example",), "../account") is None
    folder.write(folder.challenge(pem_name("a.example")), b"damaged")
    assert new_context(folder, ("a.example",), "a.example") is None
