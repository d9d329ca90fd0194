"""Notes of a name: written by one process, read by each other; an older file counts, a damaged one does not."""

import json

import pytest

from aserve.features.https.notes import MAX_RETRY_SECONDS, Notes

NAME = "shop.example.org"
DIRECTORY, OTHER = "https://ca.example/dir", "https://staging.example/dir"
FAILED = Notes(DIRECTORY, 2, 1000.0, 2200.0, "refused", True, DIRECTORY)


@pytest.mark.parametrize("notes", [Notes(), Notes(DIRECTORY), FAILED, FAILED._replace(is_asked=False)])
def test_written_and_read(folder, notes):
    """Notes come back unchanged."""
    notes.write(folder, NAME)
    assert Notes.of(folder, NAME) == notes


def test_no_file_means_no_notes(folder):
    assert Notes.of(folder, NAME) == Notes()


def test_a_file_to_be_read(folder):
    """A person can read it: each note has its name, and meaningless ones are left out."""
    Notes(DIRECTORY).write(folder, NAME)
    with open(f"{folder.path}/names/{NAME}.json", encoding="ascii") as file:
        assert json.load(file) == {"directory": DIRECTORY}
    FAILED.write(folder, NAME)
    with open(f"{folder.path}/names/{NAME}.json", encoding="ascii") as file:
        assert json.load(file) == FAILED._asdict()


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        # Of an older release, whatever it left out or added.
        ("{}", Notes()),
        ('{"failures": 1, "again": 1600, "at": 1000, "fault": "x", "is_asked": false}', Notes("", 1, 1000, 1600, "x")),
        ('{"directory": "d", "color": "red"}', Notes("d")),
        # An unknown note
        ('{"directory": null, "fault": 7, "asked": []}', Notes()),
        ('{"directory": "d", "is_asked": 1}', Notes("d", is_asked=True)),
        # Wrong times and numbers make the file a damaged one.
        ('{"directory": "d", "again": "soon"}', Notes()),
        ('{"directory": "d", "at": null}', Notes()),
        ('{"directory": "d", "failures": NaN}', Notes()),
        ('{"directory": "d", "failures": Infinity}', Notes()),
        ('{"directory": "d", "again": 1e300}', Notes()),
    ],
)
def test_other_files_never_stop_an_order(folder, text, notes):
    """Readable notes count; nothing in the file keeps the name from an order, or a status from being shown."""
    folder.write(f"{folder.path}/names/{NAME}.json", text.encode())
    assert Notes.of(folder, NAME) == notes


@pytest.mark.parametrize(
    ("now", "again", "is_waiting"),
    [
        (100, 0.0, False),
        (100, 150, True),
        (150, 150, False),
        (1000.0, 1600.0, True),
        # Once the clock is right, its earlier word counts no more.
        (1e9, 1600.0, False),
        (0.0, 1e9, False),
        (100, 100 + MAX_RETRY_SECONDS, True),
        (100, 101 + MAX_RETRY_SECONDS, False),
    ],
)
def test_waiting_follows_a_failure(now, again, is_waiting):
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
def test_a_start_tries_again_soon(notes, again):
    """The user has perhaps mended something: the next try is soon, but not at once."""
    assert notes.after_start().again == again


@pytest.mark.parametrize(
    ("notes", "directory", "those"),
    [
        (FAILED, DIRECTORY, FAILED),
        (FAILED._replace(asked=""), OTHER, FAILED._replace(asked="")),  # of a release that did not note it
        (FAILED, OTHER, Notes(DIRECTORY)),  # of a release without this note
    ],
)
def test_another_authority_is_not_held_up(notes, directory, those):
    """Failures of the last authority do not count; the signer of the certificate stays noted."""
    assert notes.for_authority(directory) == those
