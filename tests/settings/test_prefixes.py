"""PREFIX=WHAT, as a TOML file has it; its grammar is tried by the settings that have it."""

from __future__ import annotations

from aserve.features import Config


def test_a_table_says_the_same_as_text():
    assert Config(mount={"/a": "a:app", "/b": "b"}).mount == ("/a=a:app", "/b=b")
