"""What a client would find wrong in a file of key and chain."""

import re

import pytest

pytest.importorskip("cryptography", reason="comes with the extra acme")

from harness.chains import Signer, key_pem, new_key, pem_of

from aserve.tls.chain import chain_of, find_fault

NAME = "shop.example.org"
ROOT = Signer("root")
MIDDLE = Signer("middle", ROOT)
NEAR = Signer("near", MIDDLE)
IMPOSTOR = Signer("near")  # it has the name of the one that has signed, and another key
KEY, OTHER_KEY = new_key(), new_key()
LEAF = NEAR.sign(KEY.public_key(), NAME, "www.example.org")
RIGHT = pem_of(LEAF, *NEAR.chain)
GARBAGE = "-----BEGIN CERTIFICATE-----\nTm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"
NOT_PEM = "it is not certificates in PEM, and nothing else"
DAMAGED = "it is damaged"
DISORDER = "certificate 1 of its chain is not issued by the next one"
NOT_FOR_IT = f".*certificate is not valid for '{NAME}'"


ROWS = {
    "whole": (RIGHT, ""),
    "without the root, as most have it": (pem_of(LEAF, *NEAR.chain[:2]), ""),
    "line ends of Windows": (RIGHT.replace("\n", "\r\n"), ""),
    "alone, as of a private root": (pem_of(LEAF), ""),
    "a wildcard": (pem_of(NEAR.sign(KEY.public_key(), "*.example.org"), *NEAR.chain), ""),
    "out of date, which others look at": (pem_of(NEAR.sign(KEY.public_key(), NAME, end=-1), *NEAR.chain), ""),
    "empty": ("", NOT_PEM),
    "a page": ("<html>out of order</html>", NOT_PEM),
    "cut": (RIGHT[:-60], NOT_PEM),
    "words behind": (RIGHT + "by the authority", NOT_PEM),
    "a second key": (RIGHT + key_pem(OTHER_KEY), NOT_PEM),
    "garbage": (GARBAGE, DAMAGED),
    "garbage behind": (pem_of(LEAF) + GARBAGE, DAMAGED),
    "base64 that is none": (pem_of(LEAF) + GARBAGE.replace("Tm90IGEg", "Tm90IGE"), DAMAGED),
    "another key": (pem_of(NEAR.sign(OTHER_KEY.public_key(), NAME), *NEAR.chain), "it is for another key"),
    "the authority first": (pem_of(*NEAR.chain), "it is for another key"),
    "wrong order": (pem_of(LEAF, MIDDLE.certificate, NEAR.certificate), DISORDER),
    "a gap": (pem_of(LEAF, NEAR.certificate, ROOT.certificate), "certificate 2 of its chain is not issued by the next one"),
    "an impostor": (pem_of(LEAF, IMPOSTOR.certificate), "certificate signature failure"),
    "another name": (pem_of(NEAR.sign(KEY.public_key(), "other.example"), *NEAR.chain), NOT_FOR_IT),
    "names below": (pem_of(NEAR.sign(KEY.public_key(), f"*.{NAME}"), *NEAR.chain), NOT_FOR_IT),
    "a common name, which browsers do not look at": (
        pem_of(NEAR.sign(KEY.public_key(), subject=Signer(NAME).name), *NEAR.chain), NOT_FOR_IT
    ),
    "too long": (pem_of(ROOT.sign(KEY.public_key(), NAME), *[ROOT.certificate] * 500), "excessive message size"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_faults_of_a_chain(tmp_path, row):
    """A chain that a client would take has none; each other has a reason."""
    text, fault = ROWS[row]
    (tmp_path / "file.pem").write_bytes((key_pem(KEY) + text).encode())
    assert re.fullmatch(fault, find_fault(str(tmp_path / "file.pem"), NAME))


def test_a_file_without_a_key(tmp_path):
    """No server could use it."""
    (tmp_path / "file.pem").write_text(RIGHT)
    assert find_fault(str(tmp_path / "file.pem"), NAME) == NOT_PEM


def test_a_missing_file_is_an_error(tmp_path):
    """That is an error of the system, and says nothing of a certificate."""
    with pytest.raises(FileNotFoundError):
        find_fault(str(tmp_path / "file.pem"), NAME)


def test_the_certificates_of_a_text():
    """They are there in their order, all or none."""
    assert [one.subject == one.issuer for one in chain_of(RIGHT.encode())] == [False, False, False, True]
    assert chain_of((RIGHT + GARBAGE).encode()) == chain_of(b"") == []
