"""The taken challenge, and its answer as a file."""

import pytest

pytest.importorskip("acme", reason="needs the extra acme")

from acme import messages

from aserve.features.https.account import key_of
from aserve.features.https.challenges import choose, put_answer
from aserve.features.https.folder import Folder

# Some releases of the library know TLS-ALPN-01, and warn of it.
pytestmark = pytest.mark.filterwarnings("ignore:TLSALPN01:DeprecationWarning")
TOKEN = "DGyRejmCefe7v4NfDGDKfA_and-more-of-it-0"


def bodies(*kinds, token=TOKEN):
    """Return challenges in an authority's form."""
    return [
        messages.ChallengeBody.from_json(
            {"type": kind, "url": "https://ca.example/c", "status": "pending", "token": token}
        )
        for kind in kinds
    ]


def test_the_first_kind_wins():
    """The order is ours, not the authority's; unknown kinds, and tokens that are paths, are none."""
    offered = bodies("dns-01", "http-01", "tls-alpn-01")
    assert choose(offered, ["tls-alpn-01", "http-01"]).kind == "tls-alpn-01"
    assert choose(offered, ["http-01"]).token == TOKEN
    assert choose(offered[:1], ["http-01"]) is None
    without = messages.ChallengeBody.from_json(
        {"type": "dns-persist-01", "url": "https://ca.example/c", "status": "pending"}
    )
    assert choose([without], ["http-01"]) is None


def test_no_token_is_a_path():
    assert choose(bodies("other-01", token="../../etc/passwd"), ["other-01"]) is None


@pytest.mark.parametrize(("kind", "file"), [("http-01", TOKEN), ("tls-alpn-01", "a.example.pem")])
def test_an_answer_stands_in_the_folder(kind, file, tmp_path):
    """The answer has the account's thumbprint, and stands where every process looks."""
    folder = Folder(str(tmp_path / "https"))
    folder.make(None)
    challenge = choose(bodies(kind), [kind])
    put_answer(folder, "a.example", challenge, key_of(folder))
    with open(folder.challenge(file), "rb") as found:
        octets = found.read()
    assert octets.startswith(TOKEN.encode() + b"." if kind == "http-01" else b"-----BEGIN PRIVATE KEY")
    assert challenge.response.to_json() == {}
