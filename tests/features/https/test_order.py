"""One order: an authority's words, and the outcome."""

import os
import re
import types

import pytest

pytest.importorskip("acme", reason="needs the extra acme")

import requests
from acme import errors, messages
from cryptography import x509
from harness.chains import Signer, pem_of
from josepy.errors import DeserializationError

from aserve.features.https import order as order_module
from aserve.features.https.folder import Folder
from aserve.features.https.notes import Notes
from aserve.features.https.order import order

NAME = "shop.example.org"
SIGNER = Signer("an authority", end=365)
DATES = "certificate 1 of its chain is valid from .* until .*, and here it is"
TOKEN = "DGyRejmCefe7v4NfDGDKfA_and-more-of-it-0"


def authorization(status="pending", kind="http-01", error=None):
    """Return an authorization in the library's form."""
    challenge = {
        "type": kind,
        "url": "https://ca.example/c",
        "status": status,
        "token": TOKEN,
        **({"error": error} if error else {}),
    }
    body = messages.Authorization.from_json(
        {"identifier": {"type": "dns", "value": NAME}, "status": status, "challenges": [challenge]}
    )
    return messages.AuthorizationResource(body=body, uri="https://ca.example/a")


class Authority:
    """Answers as a test wants."""

    def __init__(self, folder):
        self.folder, self.authorizations, self.faults, self.answered, self.served = (
            folder,
            [authorization()],
            {},
            [],
            [],
        )
        self.names, self.dates = [NAME], {}

    def _say(self, what):
        fault = self.faults.get(what)
        if isinstance(fault, list):
            fault = fault.pop(0) if fault else None
        if fault is not None:
            raise fault

    def new_order(self, request):
        self._say("order")
        self.key = x509.load_pem_x509_csr(request).public_key()
        return types.SimpleNamespace(authorizations=self.authorizations, fullchain_pem="")

    def answer_challenge(self, body, response):
        self.served.append(os.listdir(self.folder.challenges))
        self.answered.append(body)

    def poll_authorizations(self, made, until):
        self._say("check")
        return made

    def finalize_order(self, made, until):
        self._say("sign")
        made.fullchain_pem = pem_of(SIGNER.sign(self.key, *self.names, **self.dates), SIGNER.certificate)
        return made


@pytest.fixture
def authority(tmp_path, monkeypatch):
    """Return a sound authority."""
    folder = Folder(str(tmp_path / "https"))
    folder.make(None)
    found = Authority(folder)
    monkeypatch.setattr(order_module, "connect", lambda job, folder, network: found)
    return found


def run(authority, challenges=("http-01",), shared=None):
    return order(
        {
            "name": NAME,
            "folder": authority.folder.path,
            "directory": "https://ca.example/dir",
            "ca": None,
            "shared": shared,
            "email": None,
            "challenges": challenges,
        }
    )


def error(code, **more):
    return messages.Error.from_json({"type": f"urn:ietf:params:acme:error:{code}", "detail": "its words", **more})


def test_a_done_order_leaves_key_and_chain(authority):
    """The file has key and chain, the notes name the authority, and no answer stays."""
    authority.folder.write(authority.folder.challenge("old"), b"")
    assert run(authority) == {}
    with open(authority.folder.certificate(NAME), "rb") as file:
        octets = file.read()
    assert octets.startswith(b"-----BEGIN PRIVATE KEY") and octets.endswith(pem_of(SIGNER.certificate).encode())
    assert Notes.of(authority.folder, NAME) == Notes("https://ca.example/dir")
    assert authority.served == [[TOKEN]] and os.listdir(authority.folder.challenges) == []


@pytest.mark.parametrize(
    ("names", "dates", "detail"),
    [
        (["other.example"], {}, "Hostname mismatch"),
        ([NAME], {"begin": 1}, DATES),
        ([NAME], {"begin": -2, "end": -1}, DATES),
        ([NAME], {"begin": -60, "end": 1}, DATES),  # the present one is better
    ],
)
def test_a_certificate_that_clients_refuse(authority, names, dates, detail):
    """Such a certificate is a failed order, and the present one stays."""
    assert run(authority) == {}
    with open(authority.folder.certificate(NAME), "rb") as file:
        octets = file.read()
    authority.names, authority.dates = names, dates
    found = run(authority)
    assert found["kind"] == "unusable" and re.match(detail, found["detail"])
    with open(authority.folder.certificate(NAME), "rb") as file:
        assert file.read() == octets


def test_a_clock_that_is_wrong(authority):
    """A clock minutes behind refuses no certificate; a clock months ahead takes a certificate already due, if it ends later."""
    authority.dates = {"begin": 1 / 24 / 60, "end": 90}
    assert run(authority) == {}
    os.remove(authority.folder.certificate(NAME))
    authority.dates = {"begin": -60, "end": 1}
    assert run(authority) == {}


def test_a_name_checked_before_needs_no_answer(authority):
    authority.authorizations = [authorization("valid")]
    assert run(authority) == {} and authority.answered == []


def test_no_challenge_for_us(authority):
    """The offered kinds are told."""
    assert run(authority, ["tls-alpn-01"]) == {"kind": "no-challenge", "detail": "it offers http-01", "challenge": ""}
    authority.authorizations[0] = authority.authorizations[0].update(
        body=authority.authorizations[0].body.update(challenges=())
    )
    assert run(authority)["detail"] == "it offers nothing"


@pytest.mark.parametrize(
    ("failed", "kind", "detail"),
    [
        (
            [authorization("invalid", error={"type": "urn:ietf:params:acme:error:connection", "detail": "refused"})],
            "connection",
            "refused",
        ),
        ([authorization("invalid")], "unexpected", "no reason was given"),
    ],
)
def test_a_refused_check_has_its_challenge(authority, failed, kind, detail):
    """The result has the authority's reason, and its challenge."""
    authority.faults["check"] = errors.ValidationError(failed)
    assert run(authority) == {"kind": kind, "detail": detail, "challenge": "http-01"}
    assert not os.path.exists(authority.folder.certificate(NAME)) and os.listdir(authority.folder.challenges) == []


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (error("rateLimited"), {"kind": "rateLimited", "detail": "its words", "subproblems": ""}),
        (error("compound", subproblems=[{"type": "x", "detail": "for a.example"}]), {"kind": "compound", "detail": "its words", "subproblems": "for a.example"}),
        (errors.IssuanceError(error("caa")), {"kind": "caa", "detail": "its words", "subproblems": ""}),
        (errors.TimeoutError(), {"kind": "timeout", "detail": "no decision within 240 s"}),
        (requests.exceptions.SSLError("untrusted"), {"kind": "directory-tls", "detail": "untrusted"}),
        (requests.ConnectionError("refused"), {"kind": "unreachable", "detail": "refused"}),
        (DeserializationError("odd"), {"kind": "unexpected", "detail": "DeserializationError: Deserialization error: odd"}),
        (errors.ClientError("odd"), {"kind": "unexpected", "detail": "ClientError: odd"}),
        (OSError(28, "No space left on device"), {"kind": "folder", "detail": "[Errno 28] No space left on device"}),
    ],
)  # fmt: skip
def test_faults_have_a_kind_each(authority, fault, result):
    authority.faults["sign"] = fault
    assert run(authority) == result


def test_nonces_refused_five_times_are_a_failure(authority):
    authority.faults["order"] = [error("badNonce") for _ in range(4)]
    assert run(authority) == {}
    authority.faults["order"] = [error("badNonce") for _ in range(5)]
    assert run(authority)["kind"] == "badNonce"


def test_a_damaged_account(authority):
    """Nothing is asked without the account's key."""
    authority.folder.write(authority.folder.account, b"damaged")
    assert run(authority)["kind"] == "account-key"


def test_several_hosts_have_the_answer_first(authority, monkeypatch):
    put = []

    class FakeHosts:
        """Notes the answers for all hosts."""

        def __init__(self, url, prefix):
            put.append((url, prefix))

        def put_answer(self, token, octets):
            put.append((token, octets.partition(b".")[0].decode(), len(authority.answered)))

    monkeypatch.setattr("aserve.features.https.hosts.SharingHosts", FakeHosts)
    assert run(authority, shared=("redis://localhost", "shop")) == {}
    assert put == [("redis://localhost", "shop"), (TOKEN, TOKEN, 0)]
