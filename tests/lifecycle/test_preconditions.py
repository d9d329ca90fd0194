"""What a process lacks of its surroundings: one line that says what to do; tests/e2e/test_surroundings.py has it whole."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from aserve.lifecycle import preconditions as lacking
from aserve.lifecycle.preconditions import LackError, check_descriptors, describe_lack


@pytest.mark.parametrize(
    ("limit", "taken", "is_enough"), [(30, 17, True), (30, 18, False), (255, 255, False), (256, 256, True)]
)
def test_descriptors(monkeypatch, limit, taken, is_enough):
    """Where few are allowed, so many must be left as an event loop takes."""
    monkeypatch.setattr(lacking.resource, "getrlimit", lambda which: (limit, limit))
    monkeypatch.setattr(lacking, "list_open", lambda: {*range(taken), 1000})
    if is_enough:
        check_descriptors()
        return
    with pytest.raises(
        LackError, match=rf"`ulimit -n` is {limit}, of which {limit - taken} are left.*LimitNOFILE="
    ) as caught:
        check_descriptors()
    assert caught.value.exit_status == 1


def test_no_limit(monkeypatch):
    """Nothing is counted where nothing is limited."""
    monkeypatch.setattr(lacking.resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    check_descriptors()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EMFILE, "too many open files: `ulimit -n` is"),
        (errno.ENFILE, "raise fs.file-max"),
        (errno.EACCES, None),
        (errno.ENOENT, None),
    ],
)
def test_words(number, words):
    """What is no lack is told as before."""
    found = describe_lack(OSError(number, os.strerror(number)))
    assert found is None if words is None else words in found


def test_a_folder_that_is_gone(monkeypatch, tmp_path):
    """It is told where nothing else is missing."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert describe_lack(FileNotFoundError(errno.ENOENT, "", "x.py")) is None
    found = describe_lack(FileNotFoundError(errno.ENOENT, ""))
    monkeypatch.chdir(tmp_path)
    assert found == "the working directory was removed: start aserve in one that stays"
