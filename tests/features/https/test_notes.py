"""Notes of a name: what one process writes, each other one reads; an older file counts, a damaged one does not."""

from __future__ import annotations

import json

import pytest

from aserve.features.https.notes import MAX_RETRY_SECONDS, Notes

NAME = "shop.example.org"
DIRECTORY, OTHER = "https://ca.example/dir", "https://staging.example/dir"
FAILED = Notes(DIRECTORY, 2, 1000.0, 2200.0, "refused", True, DIRECTORY)


@pytest.mark.parametrize("notes", [Notes(), Notes(DIRECTORY), FAILED, FAILED._replace(is_asked=False)])
def test_written_and_read(folder, notes):
    """They come back as they were."""
    notes.write(folder, NAME)
    assert Notes.of(folder, NAME) == notes


def test_no_file(folder):
    """Nothing is noted of a new name."""
    assert Notes.of(folder, NAME) == Notes()


def test_a_file_to_be_read(folder):
    """A person can read it: each note has its name, and there is none without a meaning."""
    Notes(DIRECTORY).write(folder, NAME)
    with open(f"{folder.path}/names/{NAME}.json", encoding="ascii") as file:
        assert json.load(file) == {"directory": DIRECTORY}
    FAILED.write(folder, NAME)
    with open(f"{folder.path}/names/{NAME}.json", encoding="ascii") as file:
        assert json.load(file) == FAILED._asdict()


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        # Of an older release, whatever it has left out or added.
        ("{}", Notes()),
        ('{"failures": 1, "again": 1600, "at": 1000, "fault": "x", "is_asked": false}', Notes("", 1, 1000, 1600, "x")),
        ('{"directory": "d", "color": "red"}', Notes("d")),
        # A note that is none.
        ('{"directory": null, "fault": 7, "asked": []}', Notes()),
        ('{"directory": "d", "is_asked": 1}', Notes("d", is_asked=True)),
        # Times and numbers that are none make the file a damaged one.
        ('{"directory": "d", "again": "soon"}', Notes()),
        ('{"directory": "d", "at": null}', Notes()),
        ('{"directory": "d", "failures": NaN}', Notes()),
        ('{"directory": "d", "failures": Infinity}', Notes()),
        ('{"directory": "d", "again": 1e300}', Notes()),
    ],
)
def test_other_files(folder, text, notes):
    """What can be read counts; nothing in the file keeps the name from being ordered, or a status from being shown."""
    folder.write(f"{folder.path}/names/{NAME}.json", text.encode())
    assert Notes.of(folder, NAME) == notes


@pytest.mark.parametrize(
    ("now", "again", "is_waiting"),
    [
        (100, 0.0, False),
        (100, 150, True),
        (150, 150, False),
        (1000.0, 1600.0, True),
        # Once the clock is right, what it said before counts no more.
        (1e9, 1600.0, False),
        (0.0, 1e9, False),
        (100, 100 + MAX_RETRY_SECONDS, True),
        (100, 101 + MAX_RETRY_SECONDS, False),
    ],
)
def test_waiting(now, again, is_waiting):
    """A failure forbids an order for its delay, whatever the clock does."""
    assert Notes(again=again).is_waiting(now) is is_waiting


@pytest.mark.parametrize(
    ("notes", "again"),
    [
        (Notes(failures=1, at=1000, again=1600), 1060),
        (Notes(failures=3, at=1000, again=3400), 1060),
        (Notes(failures=4, at=1000, again=5800), 5800),  # a server that dies again and again
        (Notes(failures=1, at=1000, again=4600, is_asked=True), 4600),  # the authority's word
        (Notes(), 0),
    ],
)
def test_a_start(notes, again):
    """Its user has perhaps mended something: the next try is soon, but not at once."""
    assert notes.after_start().again == again


@pytest.mark.parametrize(
    ("notes", "directory", "those"),
    [
        (FAILED, DIRECTORY, FAILED),
        (FAILED._replace(asked=""), OTHER, FAILED._replace(asked="")),  # of a release that did not note it
        (FAILED, OTHER, Notes(DIRECTORY)),  # another one has refused nothing
    ],
)
def test_another_authority(notes, directory, those):
    """The failures of the one before do not hold it up; which authority has signed the certificate stays noted."""
    assert notes.for_authority(directory) == those
