"""The queues of messages: each message is received once, as a whole, in order, and waits for its mule."""

import contextlib
import os
import sys

import pytest

from aserve.compat.uwsgi_api.mules import post as module
from aserve.compat.uwsgi_api.mules.post import ANY, Post, inherited, passed_on, wait_for
from aserve.lifecycle.termination import Termination

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mules need Linux")


def test_messages_are_whole_and_in_order(post):
    for message in (b"first", b"x" * 60000, b"last"):
        assert post.send("1", message) is True
    assert [wait_for(post.inbox(1), 65536) for _ in range(3)] == [b"first", b"x" * 60000, b"last"]
    assert wait_for(post.inbox(1), 65536, 0) is None


def test_a_mule_receives_from_its_queues(post):
    for name in ("1", ANY, "farm:f"):
        post.send(name, name.encode())
    assert [wait_for(post.inbox(2), 10, 0) for _ in range(3)] == [b"any", b"farm:f", None]
    assert wait_for(post.farm_inbox(1), 10, 0) is None and wait_for(post.inbox(1), 10, 0) == b"1"
    assert post.mules == 2


def test_a_short_buffer(post):
    """A message longer than the buffer is cut, as in uWSGI; the next message is whole."""
    post.send("1", b"longer")
    post.send("1", b"next")
    assert [wait_for(post.inbox(1), 4) for _ in range(2)] == [b"long", b"next"]


def test_a_full_queue_takes_no_more(post, caplog):
    """A full queue takes no more, with a single line in the log; no message is lost."""
    sent = 0
    while post.send("1", b"%07d" % sent + b"x" * 4000):
        sent += 1
    assert post.send("1", b"one more") is False
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "is full" in caplog.messages[0]
    found = [wait_for(post.inbox(1), 10, 0) for _ in range(sent)]
    assert sent > 10 and [int(each[:7]) for each in found] == [*range(sent)]


def test_too_long_messages_are_refused(post):
    with pytest.raises(ValueError, match=r"a message of \d+ octets is too long"):
        post.send("1", bytes(64 << 20))


def test_another_fault_is_told_unchanged(open_post):
    found = Post({"1": module.MessageQueue(-1, -1)}, {})
    with pytest.raises(OSError, match="Bad file descriptor"):
        found.send("1", b"m")


def test_the_end_of_a_wait(post):
    """A request to end ends the wait; a present message comes first."""
    with contextlib.closing(Termination()) as termination:
        termination.request()
        post.send("1", b"m")
        assert [wait_for(post.inbox(1), 10, -1, termination) for _ in range(2)] == [b"m", None]


def test_a_message_during_a_wait(post):
    """The message ends the wait; a signal that does not ask for the end has only woken it."""
    with contextlib.closing(Termination()) as termination:
        os.write(termination._writing, b"\0")
        clear = termination.clear
        termination.clear = lambda: (clear(), post.send("1", b"m"))
        assert wait_for(post.inbox(1), 10, -1, termination) == b"m"


def test_a_time_limit(post):
    assert wait_for(post.inbox(1), 10, 0.01) is None


def test_an_upgrade_finds_the_queues(post):
    """The next code of an upgrade finds the same queues, with waiting messages."""
    post.send("1", b"m")
    found = Post.open(2, ["f:2"], dict(module.KEPT))
    assert found.queues == post.queues and wait_for(found.inbox(1), 10) == b"m"


def test_inherited_queues_stay_in_the_mule(post):
    """The process of a mule has all queues, by a variable; the mule's programs do not inherit the queues."""
    for fd in post.fds:
        os.set_inheritable(fd, True)
    reading, writing = os.pipe()
    number, memory, found = inherited(passed_on(post, 2, reading))
    assert (number, memory, found.queues, found.farms) == (2, reading, post.queues, {"f": (2,)})
    assert not any(map(os.get_inheritable, post.fds))
    for fd in (reading, writing):
        os.close(fd)


def test_shared_queues_are_one_processs(open_post):
    assert module.shared() is None and module.own_number() == 0
    found = open_post(1)
    module.share(found, 1)
    assert module.shared() is found and module.own_number() == 1
