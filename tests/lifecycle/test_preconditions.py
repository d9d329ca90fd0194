"""A process's lacks in its surroundings: one line with a remedy; tests/e2e/test_surroundings.py has it whole."""

import errno
import os
import resource

import pytest

from aserve.lifecycle import preconditions as lacking
from aserve.lifecycle.preconditions import LackError, check_descriptors, describe_lack


@pytest.mark.parametrize(
    ("limit", "taken", "is_enough"), [(30, 17, True), (30, 18, False), (255, 255, False), (256, 256, True)]
)
def test_descriptors_must_be_enough_for_a_loop(monkeypatch, limit, taken, is_enough):
    """Under a low limit, enough must be left for an event loop."""
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


def test_no_limit_means_no_count(monkeypatch):
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
def test_words_are_for_lacks_alone(number, words):
    found = describe_lack(OSError(number, os.strerror(number)))
    assert found is None if words is None else words in found


def test_a_folder_that_is_gone(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert describe_lack(FileNotFoundError(errno.ENOENT, "", "x.py")) is None
    found = describe_lack(FileNotFoundError(errno.ENOENT, ""))
    monkeypatch.chdir(tmp_path)
    assert found == "the working directory was removed: start aserve in one that stays"
