"""The pages for people: what they point to is there."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from aserve.metrics.table import METRICS

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


METRIC = re.compile(r"\b(?:aserve|process)(?:_[a-z]+)+")


def names_of(text: str) -> set[str]:
    """Return the metrics that a text names; those of a histogram's samples are its own."""
    found = {re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name) for name in METRIC.findall(text)}
    return found - {"aserve_saturation"}  # made of others, by a rule on the page


def test_metrics():
    """The page has every metric, and no other; its blocks of YAML, and the alerts to begin with, can be read."""
    page, alerts = (ROOT / "docs/metrics.md").read_text(), (ROOT / "examples/prometheus/alerts.yml").read_text()
    assert names_of(page) == {*METRICS}
    assert names_of(alerts) <= {*METRICS}
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S):
        assert isinstance(yaml.safe_load(block), dict)
    (group,) = yaml.safe_load(alerts)["groups"]
    assert len(group["rules"]) > 5
    for rule in group["rules"]:
        assert {"alert", "expr", "labels", "annotations"} <= {*rule} and names_of(rule["expr"])
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_dashboard():
    """Every metric that it asks for is there, its panels are apart, and its first are about saturation."""
    board = json.loads((ROOT / "examples/grafana/aserve.json").read_text())
    names = {variable["name"] for variable in board["templating"]["list"]}
    ids, cells, asked = set(), set(), set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert panel["id"] not in ids and not own & cells and place["x"] + place["w"] <= 24, panel["title"]
        ids.add(panel["id"])
        cells |= own
        assert panel["type"] == "row" or (panel["description"].endswith(".") and panel["targets"])
        for target in panel.get("targets", ()):
            expr = target["expr"]
            assert names_of(expr) and names_of(expr) <= {*METRICS}, expr
            assert all(expr.count(one) == expr.count(other) for one, other in ("()", "{}", "[]")), expr
            assert set(re.findall(r"\$(\w+)", expr)) <= {*names, "__rate_interval"}
            asked |= names_of(expr)
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert "Saturation" in board["panels"][0]["title"]
    assert {"aserve_threads", "aserve_request_queue_seconds", "aserve_workers"} < asked and len(asked) > 20
    assert names_of(json.dumps([board["templating"], board["annotations"]])) <= {*METRICS}


def test_the_example_with_types():
    """It serves itself a request; `make lint` and `make release-check` look at its types."""
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "examples" / "typed.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "/hello\n"), done.stderr


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
