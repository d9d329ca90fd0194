"""Formats of other servers' log lines."""

from __future__ import annotations

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.log_formats import take_log_format


def taken(take, value, key="key"):
    """Return the draft after one setting."""
    draft = Draft("a.ini")
    take(draft, Given(key, value, "a.ini:1"))
    return draft


def test_log_formats_take_uwsgis_names():
    """uWSGI's names are taken; an unknown one is no error."""
    assert taken(take_log_format, "%(addr) %(uri)", "log-format").settings == {"access-log-format": "%(addr) %(uri)"}
    draft = taken(take_log_format, "%(addr) %(rss) %(vszM)secs %(rss)", "logformat")
    assert draft.settings == {"access-log-format": "%(addr) - -secs -"}
    assert draft.notes[0].text == "lines have a hyphen for what is not known: rss, vszM"
    assert taken(take_log_format, "%(h)s %(nope)s").settings == {"access-log-format": "%(h)s -"}  # gunicorn's
    draft = taken(take_log_format, "%(addr) %(customer)s %(metric.a)", "log-format")
    assert draft.settings == {"access-log-format": "%(addr) %(logvar.customer)s -"} and len(draft.notes) == 1
    draft = taken(take_log_format, "%(cpu)")  # of gunicorn's
    assert not draft.settings and draft.notes[0].text.endswith("lines are in the default format")
    assert not taken(take_log_format, 3).settings  # of a file that is code


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("%(secs) %(msecs)", "%(duration) %(msecs)"),
        ("%(size) %(rsize) %(hsize)", "%(sent) %(rsize) %(hsize)"),
        ("%(ftime) %(ltime) %(epoch)", "%(start.ltime) %(start.ltime) %(epoch)"),
        ("%(user) %(var.HTTP_X)", "%(var.REMOTE_USER) %(var.HTTP_X)"),
        ("%(modifier1)/%(modifier2) %(tmsecs)", "0/0 %(tmsecs)"),
        ("%(addr) %(request_id) %(h) %(x y)", "%(addr) %(logvar.request_id) %(logvar.h) %(logvar.x y)"),
        ("100% %(addr) 50%", "100%% %(addr) 50%%"),
        ("%%(addr)", "%%%(addr)"),
        ("took %(secs)s", "took %(duration)ss"),
    ],
)
def test_uwsgi_s_names_have_uwsgi_s_meaning(theirs, ours):
    """A name of ours, unknown to uWSGI, is the app's own; an s behind a name is text."""
    draft = taken(take_log_format, theirs, "log-format")
    assert draft.settings == {"access-log-format": ours} and not draft.notes


@pytest.mark.parametrize("name", ["vars", "pktsize", "var.SERVER_NAME"])
def test_variables_that_uwsgi_adds_are_told(name):
    """uWSGI's own ones are counted there, and shown."""
    assert taken(take_log_format, f"%({name})", "log-format").notes[0].text.startswith("lines are without")
