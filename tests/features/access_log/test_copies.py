"""One log in several places."""

import pytest
from harness.ends import ended

from aserve.core.errors import BindError
from aserve.core.log_target import FileTarget
from aserve.features import Config
from aserve.features.access_log.copies import CopiedTarget, open_targets, unwritable
from aserve.features.access_log.log import AccessLog, append_unanswered

from .test_log import new_exchange


class Full(FileTarget):
    """A file that takes no line, or all but some."""

    def __init__(self, path, lost=None):
        super().__init__(path)
        self.lost, self.why_in_part = lost, "no room"

    def write(self, lines):
        if self.lost is None:
            raise OSError(28, "No space left on device")
        return self.lost

    def reopen(self):
        raise OSError(13, "Permission denied")


@pytest.fixture
def paths(tmp_path):
    return [str(tmp_path / name) for name in "abc"]


def texts(paths):
    found = []
    for path in paths:
        with open(path) as file:
            found.append(file.read())
    return found


def test_the_same_lines(paths):
    """Each place has all lines, also of a dead worker; a log of one place has no copies."""
    log = AccessLog(paths[0], copies=paths[1:])
    log.write([ended(new_exchange())])
    log.close()
    append_unanswered(Config(access_log=paths[0], access_log_copy=paths[1:]), [(0.5, "GET /lost")], 1, 2)
    one, *others = texts(paths)
    assert one.count("\n") == 2 and "GET /x?y" in one and "GET /lost" in one and others == [one, one]
    assert isinstance(open_targets(paths[:1]), FileTarget)


def test_reopening_renews_all_files(paths, tmp_path):
    log = AccessLog(paths[0], copies=paths[1:2])
    for path in paths[:2]:
        (tmp_path / path).rename(f"{path}.1")
    log.reopen()
    log.write([ended(new_exchange())])
    log.close()
    assert [text.count("\n") for text in texts(paths[:2])] == [1, 1]


def test_one_that_takes_nothing(paths):
    """The other places have the lines, and are opened anew; lost lines are told, with the reason."""
    target = CopiedTarget([Full(paths[0]), FileTarget(paths[1])])
    with pytest.raises(OSError, match="No space left"):
        target.write("line\n")
    with pytest.raises(OSError, match="Permission denied"):
        target.reopen()
    assert texts(paths[1:2]) == ["line\n"]
    target.close()
    target = CopiedTarget([FileTarget(paths[0]), Full(paths[1], 2), Full(paths[2], 1)])
    assert target.write("1\n2\n") == 2 and target.why_in_part == "no room"
    target.close()


def test_one_that_cannot_be_opened(paths, tmp_path):
    """The message names the places, and open ones are closed."""
    with pytest.raises(BindError, match=r"cannot write the access log '.*/a' or '.*/no/log': No such file"):
        AccessLog(paths[0], copies=[str(tmp_path / "no" / "log")])


def test_unwritable_names_files_in_missing_folders(paths, tmp_path):
    """A file in a missing folder cannot be written; streams, loggers, and present or possible files can."""
    open(paths[0], "w").close()
    lost = str(tmp_path / "no/log")
    assert unwritable([*paths[:2], "-", "syslog:/no", "logger:app", lost]) == [lost]
