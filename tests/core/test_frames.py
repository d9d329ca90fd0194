"""A walk along a stack."""

import os
import sys
from types import SimpleNamespace

import pytest

import aserve
from aserve.core import frames as module
from aserve.core.frames import Call, calls_of, library_of, outer_frames, show_calls, where_of


def test_outer_frames_go_up_to_the_first():
    frames = list(outer_frames(sys._getframe()))
    assert frames[0].f_code is test_outer_frames_go_up_to_the_first.__code__ and frames[-1].f_back is None
    assert list(outer_frames(None)) == []


def test_a_frame_that_cannot_be_told():
    """PyPy cannot always tell the caller of compiled code: the told part is shown."""

    class Compiled:
        @property
        def f_back(self):
            raise SystemError("unexpected internal exception")

    compiled = Compiled()
    inner = SimpleNamespace(f_back=compiled)
    assert list(outer_frames(inner)) == [inner, compiled]


DJANGO = "/srv/site/.venv/lib/python3.11/site-packages/django/core/handlers/base.py"
SOCKET = os.path.join(os.path.dirname(os.__file__), "socket.py")


def calls(*text):
    """Return calls of missing files, whose lines so cannot be shown: "VIEW 3" is in view, in line 3."""
    paths = {
        "view": "/srv/site/views.py",
        "django": DJANGO,
        "socket": SOCKET,
        "asgi": DJANGO.replace("django", "asgiref"),
    }
    return [Call(paths[word], number, word) for number, word in enumerate(text)]


@pytest.mark.parametrize(
    ("path", "library"),
    [
        (DJANGO, "django"),
        ("/usr/lib/python3/dist-packages/six.py", "six"),
        (SOCKET, "socket"),
        (os.path.join(os.path.dirname(os.__file__), "json", "decoder.py"), "json"),
        (os.path.join(os.path.dirname(aserve.__file__), "features/mounts.py"), "aserve"),
        ("<frozen importlib._bootstrap>", "frozen importlib._bootstrap"),
        ("/srv/site/views.py", ""),
    ],
)
def test_whose_code_is_told_by_its_file(path, library):
    assert library_of(path) == library


def shown(found):
    """Return the lines of a stack, without sources, and of files only their library."""
    lines = [line for line in show_calls(found).splitlines() if not line.startswith("    ")]
    return [line.rpartition(", in ")[2] if line.startswith("  File") else line.strip() for line in lines]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ((), []),
        (("view",), ["view"]),
        (("socket", "view"), ["socket", "view"]),
        (("view", *["django"] * 20), ["view", "(20 calls of django)"]),
        (("django", "view", *["django"] * 3, "asgi", "view", "django"),
         ["django", "view", "(4 calls of django, asgiref)", "view", "(1 call of django)"]),
        (["socket"] * 5 + ["view"], ["socket", "socket", "socket", "(2 calls of socket)", "view"]),
        (["socket"] * 40, ["socket"] * 30 + ["(10 calls of socket)"]),
        (["view"] * 40, ["view"] * 30 + ["(10 calls of the app)"]),
    ],
)  # fmt: skip
def test_a_stack_leaves_foreign_code_out(found, lines):
    """The last call is first. Of foreign code the awaited call is shown, and a count; without the app's code all is."""
    assert shown(calls(*found)) == lines


def test_of_many_libraries_four_are_named(monkeypatch):
    monkeypatch.setattr(module, "library_of", lambda path: path)
    assert module._show_left_out([Call(name, 1, "f") for name in "abcdefa"]) == "  (7 calls of a, b, c, d, others)\n"


def test_where_is_the_apps_last_call():
    assert where_of(calls("socket", "django", "view", "view")) == 'File "/srv/site/views.py", line 2, in view'
    assert where_of(calls("socket", "django")) == f'File "{SOCKET}", line 0, in socket'
    assert where_of([]) == ""


def test_calls_stay_while_the_thread_goes_on():
    frame = sys._getframe()
    (call,) = calls_of([frame])
    assert call == Call(__file__, call.line, "test_calls_stay_while_the_thread_goes_on") and call.line < frame.f_lineno
