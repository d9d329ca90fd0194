"""PREFIX=WHAT, as in a TOML file; the grammar is tried by its settings."""

from aserve.features import Config


def test_a_table_says_the_same_as_text():
    assert Config(mount={"/a": "a:app", "/b": "b"}).mount == ("/a=a:app", "/b=b")
