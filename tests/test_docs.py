"""The pages for people: what they point to is there."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.checkout

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("cparsers", "tests", "benchmarks", "benchmarks/results")),
]
TO_COME: set[str] = set()  # pages that others point to already


def prose_of(page: pathlib.Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors_of(page: pathlib.Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(page: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yield the target and the anchor of each link inside the repository."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if not re.match(r"[a-z]+:", link):
            target, _, anchor = link.partition("#")
            yield target, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    """Each link leads to a file that is there, and to a heading of it."""
    for target, anchor in links_of(page):
        path = page.parent / target if target else page
        if path.name in TO_COME and not path.exists():
            continue
        assert path.exists(), target
        assert not anchor or anchor in anchors_of(path), f"{target}#{anchor}"


def test_the_tests_of_each_promise():
    """Each test that SECURITY.md names is there."""
    text = prose_of(ROOT / "SECURITY.md")
    sources = {path.name: path for path in (ROOT / "tests").rglob("*.py")}
    files = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", text))
    assert len(files) > 20 and files <= {*sources}
    functions = set(re.findall(r"`(test_\w+)`", text))
    source = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert functions and functions <= set(re.findall(r"^def (test_\w+)", source, re.M))


def test_the_users_page():
    """README.md is short, names the two commands, and its first app answers what it says."""
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 150
    assert {"make serve", "make test"} <= set(re.findall(r"^(make \w+)", text, re.M))
    block = re.search(r"^```python\n# hello.py\n(.*?)^```", text, re.M | re.S)
    names: dict[str, object] = {}
    exec(block[1], names)
    body = b"".join(names["app"]({}, lambda status, headers: None))
    assert f"# {body.decode()}" in text
