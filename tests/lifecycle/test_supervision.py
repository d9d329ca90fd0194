"""An extension that does nothing in a supervisor."""

from aserve.lifecycle.supervision import HandedDown, Supervision, WorkerEnd


def test_nothing_happens_unless_overridden():
    nothing = Supervision()
    assert (nothing.words(), nothing.share(), nothing.hand_down()) == ({}, {}, HandedDown({}))
    assert nothing.programs(None) == ()
    nothing.on_second()
    nothing.on_end(WorkerEnd(5, 1, (), 0))
    nothing.take_over({}, has_children=True)
    nothing.close(is_end=True)
