"""`aserve docs`: the list of pages, a page, and the pages with given words."""

import pytest

from aserve.command import pages
from aserve.command.pages import NAMED, show_pages
from aserve.settings import ConfigError

INDEX = "# All\n\n## One\n\n- [Files](files.md): what [a](b.md) is\n- [Out](../OUT.md): no page\n\n## Two\n\n- [TLS](tls.md): locks\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of three pages, as in a wheel."""
    for name, text in {
        "index": INDEX, "files": "# Files\n\nA [key](k.md) is a file.\n", "tls": f"# Keys\n\nA key and a lock.\n{'long ' * 40}end\n",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.md").write_text(text)
    monkeypatch.setattr(pages, "FOLDERS", ("/nowhere", str(tmp_path)))
    return tmp_path


def test_the_list_of_pages():
    """The list has the sections and words of the index; files besides the pages are left out."""
    said = show_pages([])
    assert said.startswith(f"One\n  {'files':27}what a is\n\nTwo\n  {'tls':27}locks\n\naserve docs NAME prints a page")


@pytest.mark.parametrize("name", ["tls", "tls.md", "TLS"])
def test_a_page_by_name(folder, name):
    """A page is printed unchanged, with or without the suffix of the file's name."""
    assert show_pages([name]) == (folder / "tls.md").read_text()


def test_a_search_for_words():
    """The page whose name or heading has a word comes first; a page without any of the words is left out."""
    assert show_pages(["key"]) == "tls\n    Keys\nfiles\n    A key is a file.\n"
    assert show_pages(["Key", "LOCK"]).startswith("tls\n    A key and a lock.\nfiles\n")
    assert show_pages(["long", "end"]).endswith("...\n") and len(show_pages(["end"]).splitlines()[1]) < 110
    with pytest.raises(ConfigError, match="no page has 'plugh' or 'ock'; `aserve docs` lists the pages"):
        show_pages(["plugh", "ock"])  # "lock" does not begin so


def test_a_search_for_words_of_the_table(monkeypatch):
    """A page comes first for the phrase of the table, also if the page has no such phrase."""
    monkeypatch.setattr(pages, "SEARCHED", {"files": ("lost key",)})
    assert show_pages(["a", "lost", "key"]).startswith("files\n    A key is a file.\ntls\n")


def test_an_installation_without_pages(monkeypatch):
    """An error says so."""
    monkeypatch.setattr(pages, "FOLDERS", ())
    with pytest.raises(ConfigError, match="this installation of aserve has no pages"):
        show_pages([])


def test_how_a_page_is_named():
    """The regular form knows the command with and without marks of code."""
    assert NAMED.sub(r"[\1.md](\1.md)", "see `aserve docs a-b`, aserve docs c") == "see [a-b.md](a-b.md), [c.md](c.md)"
