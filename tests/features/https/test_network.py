"""A hostile authority: none of its answers costs the present certificate."""

import json
import logging
import re
import time
import types

import pytest

pytest.importorskip("acme", reason="needs the extra acme")

from acme import client, errors
from harness.chains import key_pem, new_key, pem_of
from harness.hostile_authority import ROWS, HostileAuthority

from aserve.features import Config
from aserve.features.https import network as network_module
from aserve.features.https import renewal as renewal_module
from aserve.features.https.notes import MAX_RETRY_SECONDS, Notes
from aserve.features.https.order import order
from aserve.features.https.renewal import Renewal
from aserve.tls.chain import find_fault

# As in the child, whose library has some words for its own future.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NAME = "shop.example"


@pytest.fixture
def authority(tmp_path):
    """Return an authority whose answers are right until a test says otherwise."""
    made = HostileAuthority(tmp_path)
    yield made
    made.end()


class Site:
    """A site with a due certificate; its orders run in this process."""

    def __init__(self, authority, folder, caplog):
        caplog.set_level(logging.INFO, "aserve")
        self.caplog, self.directory = caplog, f"{authority.base}/directory"
        config = Config(
            https=NAME, bind="https://:443", acme_terms="accept", https_folder=str(folder), acme_ca=str(authority.ca),
            acme_directory=self.directory,
        )  # fmt: skip
        self.renewal = Renewal(config)
        self.folder = self.renewal._folder
        self.folder.make(None)
        key = new_key()
        chain = pem_of(authority.signer.sign(key.public_key(), NAME, begin=-80, end=10), *authority.signer.chain)
        self.old = (key_pem(key) + chain).encode()

    @property
    def file(self):
        with open(self.folder.certificate(NAME), "rb") as file:
            return file.read()

    def order(self):
        """Order; return whether there is a new certificate, and check all promises if not."""
        self.folder.write(self.folder.certificate(NAME), self.old)
        Notes(self.directory).write(self.folder, NAME)
        self.caplog.clear()
        self.renewal._logged.clear()
        self.renewal.look()
        assert find_fault(self.folder.certificate(NAME), NAME) == ""
        notes, lines = Notes.of(self.folder, NAME), [record.getMessage() for record in self.caplog.records]
        if self.file != self.old:
            assert notes == Notes(self.directory) and "has a certificate until" in lines[-1]
            return True
        assert (
            len(lines) == 2 and lines[1].startswith(f"https: no certificate for {NAME}: ") and "localhost" in lines[1]
        ), lines
        assert "\n" not in lines[1] and "the present one is valid until" in lines[1]
        assert notes.failures == 1 and notes.has_certificate
        assert 0 < notes.again - time.time() <= 1.1 * MAX_RETRY_SECONDS
        return False


@pytest.fixture
def site(authority, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    sleep = lambda seconds: time.sleep(min(seconds, 0.05))  # noqa: E731
    monkeypatch.setattr(client, "time", types.SimpleNamespace(sleep=sleep))

    class Child:
        """Does the job in this process, and gives its result as the real child does."""

        def __init__(self, job, keep):
            self.job = json.loads(json.dumps(job))

        def wait(self):
            return json.loads(json.dumps(order(self.job)))

    monkeypatch.setattr(renewal_module, "OrderProcess", Child)
    return Site(authority, tmp_path / "https", caplog)


def test_right_answers_give_a_certificate(site, authority):
    """Right answers give a certificate: so a failure below comes from the wrong answer."""
    assert site.order() and authority.asked == [
        *("directory", "nonce", "account", "order", "authorization", "challenge"),
        *("authorization", "finalize", "status", "certificate"),
    ]


def cases():
    """Return each row at each of its steps, all but one marked long: the steps take turns."""
    for place, (name, row) in enumerate(ROWS.items()):
        for step in row.steps:
            marks = [] if step == row.steps[place % len(row.steps)] else [pytest.mark.long]
            yield pytest.param(row, step, id=f"{name} at {step}", marks=marks)


@pytest.mark.parametrize(("row", "step"), [*cases()])
def test_wrong_answers_cost_no_certificate(site, authority, monkeypatch, row, step):
    """Each answer ends within its bounds, leaves the present files, has one line with the reason, and another try comes."""
    if row.lasts:
        monkeypatch.setattr(network_module, "ANSWER_SECONDS", 1.0)
        if "no whole" not in row.reason:  # the limit of the answer is to come first there, on a busy machine, too
            monkeypatch.setattr(network_module, "ORDER_SECONDS", 2.0)
    authority.wrong = {step: row.wrong}
    assert not site.order()
    assert re.search(f"localhost:[0-9]+ ({row.reason})", site.caplog.records[-1].getMessage())
    assert authority.sent < 32 << 20  # the buffers of systems for an unread answer


@pytest.mark.parametrize(
    ("row", "least"),
    [("down for hours", 7200), ("down for a year", MAX_RETRY_SECONDS), ("down for ages", MAX_RETRY_SECONDS)],
)
def test_how_long_to_wait(site, authority, row, least):
    """The authority's word counts, whatever the form of the refusal, up to eight days."""
    authority.wrong = {"order": ROWS[row].wrong}
    assert not site.order()
    notes = Notes.of(site.folder, NAME)
    assert notes.is_asked and least <= notes.again - notes.at <= 1.1 * least


def test_an_authority_that_nobody_vouches_for(site, authority):
    """Nothing is sent to an authority without a trusted certificate."""
    site.renewal._ca = None
    assert not site.order()
    assert "the certificate of localhost" in site.caplog.records[-1].getMessage() and authority.asked == []


def test_an_order_whose_time_is_over():
    """Nothing more is asked."""
    answers = network_module.BoundedAnswers()
    answers._until = 0.0
    with pytest.raises(errors.TimeoutError):
        answers.send(types.SimpleNamespace(url="https://localhost/"))
