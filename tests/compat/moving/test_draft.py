"""Rows, and drafts of settings."""

import pytest

from aserve.compat.moving.draft import MAX_SHOWN, Draft, Given, Rows, always, is_number, maps, unlike
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def put_threads(draft, given):
    """A row's function."""
    draft.put("threads", given.value, given)


THREADS = maps("threads t", "threads", put_threads)
TABLE = Rows([THREADS, always("master", "it is"), unlike("http-*", "no proxy"), unlike("http-to-*", "nor that")])


def test_numbers_have_ascii_digits():
    assert [is_number(text) for text in ("0", "42", "", "²", "٣", "4x", "-1")] == [True, True, *[False] * 5]


def test_looking_up_finds_names_and_families():
    assert TABLE.find("t") is TABLE.find("threads") is THREADS
    assert TABLE.find("http-x").text == "no proxy" and TABLE.find("http-to-x").text == "nor that"
    assert TABLE.find("thread") is None


@pytest.mark.parametrize(("name", "near"), [("theads", "threads"), ("mastr", "master"), ("processes", None)])
def test_nearest_finds_a_typing_error(name, near):
    """A typing error has a nearest name, and another word has none."""
    assert TABLE.nearest(name) == near


def test_put_and_add():
    """The last value of a single setting counts, all of a list; each value knows the source."""
    draft, first, second = Draft("a.ini"), Given("t", 3, "a.ini:1"), Given("t", 4, "a.ini:2")
    draft.take(THREADS, first)
    draft.take(THREADS, second)
    draft.add("env", "A=1", first)
    draft.add("env", "B=2", second)
    draft.default("threads", 9, "because")
    draft.default("backlog", 9, "because")
    assert draft.settings == {"threads": 4, "env": ["A=1", "B=2"], "backlog": 9}
    assert draft.whence["threads"] == [second] and draft.whence["env"] == [first, second]
    draft.drop("env", "not here")
    draft.drop("env", "not here")
    assert "env" not in draft.settings and [str(note) for note in draft.notes] == [
        "a.ini:1: t = 3: not here", "a.ini:2: t = 4: not here",
    ]  # fmt: skip


def test_a_wrong_value():
    """The error has the line."""
    with pytest.raises(ConfigError) as caught:
        Draft("a.ini").take(THREADS, Given("t", "x", "a.ini:7"))
    assert str(caught.value) == (
        "a.ini:7: t = x: 'x' is not a whole number; accepted for threads: a whole number from 0 to 4096"
    )


def test_rows_without_effect():
    """A setting without a difference is silent; a setting without effect has advice, once."""
    draft = Draft("a.ini")
    draft.take(TABLE.find("master"), Given("master", "1", "a.ini:1"))
    for _ in range(2):
        draft.take(TABLE.find("http-x"), Given("http-x", "1", "a.ini:2"))
    assert [str(note) for note in draft.notes] == ["a.ini:2: http-x = 1: it has no effect here: no proxy"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a  b", "k = a b"), ("", "k"), ([1], "k = [1]"), (print, "k()"), ("x" * 200, f"k = {'x' * (MAX_SHOWN - 4)}...")],
)
def test_how_a_setting_is_shown(value, shown):
    """In a line."""
    assert str(Given("k", value, "")) == shown


@pytest.mark.parametrize(
    ("to", "value", "shown"),
    [
        ("env", ["PASSWORD=hunter2"], "a = ..."),
        ("attach", "celery --password hunter2", "a = ..."),
        ("threads", "hunter2", "a = hunter2"),
        ("", "bf-cbc:hunter2", "a = ..."),
        ("", "12", "a = 12"),
        ("", "/run/a.sock", "a = /run/a.sock"),
    ],
)
def test_secrets_are_shown_nowhere(to, value, shown):
    """A possible secret is shown nowhere, nor any text without effect here."""
    draft = Draft("x")
    row = maps("a", to, lambda draft, given: draft.note(given, "why")) if to else unlike("a", "why")
    draft.take(row, Given("a", value, "a.ini:1"))
    assert str(draft.notes[0]).startswith(f"a.ini:1: {shown}: ")


def test_a_line_without_its_equals_sign():
    """The text behind its first word may be a secret."""
    assert str(Given("route ^/ basicauth:R,u:p", "", "a.ini:1", is_secret=True)) == "route ..."
    assert str(Given("static-map /a", "", "a.ini:1")) == "static-map /a"
