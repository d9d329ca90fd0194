"""A status about certificates."""

import pytest

from aserve.features import Config
from aserve.features.https import status
from aserve.features.https.folder import Folder
from aserve.features.https.issued import Issued
from aserve.features.https.notes import Notes
from aserve.features.https.status import StatusPart, describe

WAITING = {"name": "a.example", "until": None, "renewed_on": None, "fault": "refused", "again": "1970-01-01 00:16 UTC"}
THERE = {
    "name": "a.example",
    "until": "1970-01-02 00:00 UTC",
    "renewed_on": "1970-01-01 16:00 UTC",
    "fault": "",
    "again": None,
}
EMPTY = {"name": "a.example", "until": None, "renewed_on": None, "fault": "", "again": None}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return settings, and their folder."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    config = Config(https="a.example", bind="https://:443", acme_terms="accept", https_folder=str(tmp_path / "https"))
    folder = Folder(config.https_folder)
    folder.make(None)
    monkeypatch.setattr(status.Issued, "of", classmethod(lambda cls, folder, name: Issued(86400.0, 57600.0)))
    return config, folder


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        (Notes(), EMPTY),
        (Notes("d"), THERE),
        (Notes(again=1000, fault="refused"), WAITING),
        (
            Notes("d", again=1000, fault="refused"),
            {**THERE, "fault": "refused", "again": "1970-01-01 00:16 UTC"},
        ),
    ],
)
def test_certificates_are_told_with_dates_or_failures(site, notes, said):
    """A placeholder has no dates; a failure is told, with the time of the next try."""
    config, folder = site
    notes.write(folder, "a.example")
    assert describe(folder, config.https) == [said]


def test_in_a_supervisor(site):
    """After a reload the status is of the new names."""
    config, _ = site
    part = StatusPart(config)
    assert part.status() == {"certificates": [EMPTY]}
    assert part.programs(config.replace(https="b.example")) == ()
    assert part.status() == {"certificates": [{**EMPTY, "name": "b.example"}]}
