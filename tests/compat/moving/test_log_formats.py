"""Formats of log lines of other servers."""

from __future__ import annotations

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.log_formats import take_log_format


def taken(take, value, key="key"):
    """Return the draft after one setting."""
    draft = Draft("a.ini")
    take(draft, Given(key, value, "a.ini:1"))
    return draft


def test_log_formats():
    """uWSGI's names; what is not known is no error."""
    assert taken(take_log_format, "%(addr) %(uri)").settings == {"access-log-format": "%(addr) %(uri)"}
    draft = taken(take_log_format, "%(addr) %(cpu) %(vszM)secs %(cpu)")
    assert draft.settings == {"access-log-format": "%(addr) - -secs -"}
    assert draft.notes[0].text == "lines have a hyphen for what is not known: cpu, vszM"
    assert taken(take_log_format, "%(h)s %(nope)s").settings == {"access-log-format": "%(h)s -"}  # gunicorn's
    draft = taken(take_log_format, "%(addr) %(customer)s %(metric.a)", "log-format")
    assert draft.settings == {"access-log-format": "%(addr) %(logvar.customer) -"} and len(draft.notes) == 1
    draft = taken(take_log_format, "%(cpu)")
    assert not draft.settings and draft.notes[0].text.endswith("lines are in the default format")
    assert taken(take_log_format, "%(ftime) %(vars)").settings == {"access-log-format": "%(ltime) %(vars)"}
    assert not taken(take_log_format, 3).settings  # of a file that is code
