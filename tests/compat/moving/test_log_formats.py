"""Formats of other servers' log lines."""

import itertools

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.log_formats import take_log_format, take_time_form


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
    draft = taken(take_log_format, "%(b)s %(nope)s")
    assert draft.settings == {"access-log-format": "%(B)s -"} and "key = %(b)s %(nope)s: " in str(draft.notes[0])
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


def test_a_form_of_time_that_is_not_obeyed_is_told():
    """Only where uWSGI would obey the form, in any order; with fewer options %(ftime) is %(ltime) there, too."""
    options = [
        Given("log-date", "%Y", "a:1"),
        Given("log-format", "%(ftime)", "a:2"),
        Given("logformat-strftime", True, "a:3"),
    ]
    for order in itertools.permutations(options):
        draft = Draft("a.ini")
        for given in order:
            assert not draft.notes
            (take_log_format if given.key == "log-format" else take_time_form)(draft, given)
        assert [note.text for note in draft.notes] == ["%(ftime) has the form of %(ltime), and not this one"]
    draft = Draft("a.ini")
    for given in (Given("log-date", "true", "a:1"), *options[1:]):
        (take_log_format if given.key == "log-format" else take_time_form)(draft, given)
    assert not draft.notes


@pytest.mark.parametrize("name", ["vars", "pktsize", "var.SERVER_NAME"])
def test_variables_that_uwsgi_adds_are_told(name):
    """uWSGI's own ones are counted there, and shown."""
    assert taken(take_log_format, f"%({name})", "log-format").notes[0].text.startswith("lines are without")
