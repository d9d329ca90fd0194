"""A walk along a stack."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from aserve.frames import outer_frames


def test_outer_frames():
    """This one, and whoever has called it; of nobody there are none."""
    frames = list(outer_frames(sys._getframe()))
    assert frames[0].f_code is test_outer_frames.__code__ and frames[-1].f_back is None
    assert list(outer_frames(None)) == []


def test_a_frame_that_cannot_be_told():
    """PyPy cannot always tell who has called code that it has compiled: what it has told is shown."""

    class Compiled:
        @property
        def f_back(self):
            raise SystemError("unexpected internal exception")

    compiled = Compiled()
    inner = SimpleNamespace(f_back=compiled)
    assert list(outer_frames(inner)) == [inner, compiled]
