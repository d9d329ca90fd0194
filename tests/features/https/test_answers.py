"""The authority finds its answers at port 80, and nobody finds anything else of the folder."""

from __future__ import annotations

import pytest
from harness.gateways import new_exchange
from harness.responses import parse

from aserve.core.exchange import Exchange
from aserve.features.https.answers import PREFIX, HTTPAnswers, pem_name
from aserve.features.https.folder import Folder
from aserve.wsgi.response import CommonFields

TOKEN = "Token_of-the-authority"


@pytest.fixture
def ask(tmp_path):
    """Return a function that asks for a path, of a folder with an answer, a key and a file of an answer that has a key."""
    folder = Folder(str(tmp_path / "https"))
    folder.make(None)
    folder.write(folder.challenge(TOKEN), b"token.thumbprint")
    folder.write(folder.challenge(pem_name("a.example")), b"key")
    folder.write(folder.account, b"key")
    step = HTTPAnswers(folder, CommonFields("s"))

    def ask(path):
        exchange = new_exchange()
        asked = Exchange(
            f"REQUEST_METHOD\0GET\0REQUEST_URI\0{path}\0PATH_INFO\0{path}\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1", 5
        )
        asked.connection = exchange.connection
        return step.before(asked)

    return ask


def test_an_answer(ask):
    """It is the token and the account's thumbprint."""
    line, _, body = parse(ask(PREFIX + TOKEN))
    assert line == "HTTP/1.1 200 OK" and body.split() == [b"token.thumbprint"]


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
    """It may have answers of its own; nothing else of the folder is sent."""
    assert ask(path) is None
