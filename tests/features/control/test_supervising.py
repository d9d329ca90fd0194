"""Whether a supervisor has a control socket; tests/processes/test_answers.py has its answers."""

import pytest

from aserve.core.errors import BindError
from aserve.features.control.supervising import ControlSocket


def test_a_socket_that_cannot_be_had(tmp_path, caplog):
    """At the start a missing socket is an error; new code of a supervisor with serving workers goes on without it."""
    socket = ControlSocket(str(tmp_path / "no" / "control"), lambda *_: None)
    with pytest.raises(BindError, match=r"the folder .* does not exist"):
        socket.answer({}, lambda *_: None, is_upgraded=False)
    socket.answer({}, lambda *_: None, is_upgraded=True)
    assert "`aserve status` cannot ask this server: cannot listen on" in caplog.text
    assert "does not exist; see --control" in caplog.text
    caplog.clear()
    socket = ControlSocket(str(tmp_path / "no" / "control"), lambda *_: None, is_asked_for=False)
    socket.answer({}, lambda *_: None, is_upgraded=False)
    assert caplog.text == ""  # only information: the socket was not asked for
    for is_end in (True, False):
        socket.close(is_end)


def test_one_socket_is_closed_in_children(tmp_path):
    watched = []
    socket = ControlSocket(str(tmp_path / "control"), lambda fd, call, events: watched.append(events))
    socket.answer({}, lambda *_: None, is_upgraded=False)
    assert (tmp_path / "control").exists() and len(watched) == 1
    socket.close(is_end=True)
    assert not (tmp_path / "control").exists() and watched[1:] == [0]
    socket.close(is_end=False)
    assert len(watched) == 2  # the selector is the parent's, too
