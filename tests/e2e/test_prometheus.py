"""Prometheus on --metrics: the text, the alerts and the dashboard, by the real promtool."""

import contextlib
import http.client
import json
import pathlib
import re
import subprocess

import pytest
import yaml
from harness.interpreter import NEEDS_LINUX
from harness.promtool import HAS_PROMTOOL
from harness.waiting import wait_until
from prometheus_client.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).parents[2]
ALERTS, DASHBOARD = ROOT / "examples/prometheus/alerts.yml", ROOT / "examples/grafana/aserve.json"
pytestmark = [
    pytest.mark.checkout,
    pytest.mark.any_parser,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_PROMTOOL, reason="promtool is not installed"),
    NEEDS_LINUX,
    pytest.mark.long_on_pypy,
]
APP = """\
import os
from prometheus_client import Counter
hits = Counter("site_hits", "Hits.")
def app(environ, start_response):
    hits.inc()
    start_response("200 OK", [])
    return [b"one %d" % os.getpid()]
"""


# Label, operator, and pattern.
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
PROMETHEUS_OWN = {"job", "instance", "le"}


def queries_of_rules():
    """Return the expressions of the alerts."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule["expr"] for rule in group["rules"]]


def queries_of_docs():
    """Return the queries of docs/metrics.md, for people and for autoscalers."""
    page = (ROOT / "docs/metrics.md").read_text()
    blocks = re.findall(r"^```(?:promql|yaml)\n(.*?)^```", page, re.M | re.S)
    return [re.sub("<<.GroupBy>>", "instance", block).replace("<<.LabelMatchers>>", "") for block in blocks]


def unknown_in(query, labels_by_name):
    """Return a query's terms without a sample in a scrape: unmatched selectors, missing labels."""
    unknown, known = [], {*PROMETHEUS_OWN}
    for name, selector in re.findall(r"\b((?:aserve|process)_\w+)(\{[^}]*\})?", query):
        if name == "aserve_saturation":
            continue  # made by a rule
        found = labels_by_name.get(name, [])
        known |= {label for labels in found for label in labels}
        for label, how, pattern in MATCHER.findall(selector):
            if label in PROMETHEUS_OWN or pattern == "":
                continue
            does_match = re.compile(pattern if "~" in how else re.escape(pattern)).fullmatch
            found = [labels for labels in found if bool(does_match(labels.get(label, ""))) == (how[0] == "=")]
        if not found:
            unknown.append(name + selector)
    for names in re.findall(r"\b(?:by|ignoring|on|without) ?\(([^)]*)\)", query):
        unknown += [name for name in names.replace(" ", "").split(",") if name not in known]
    return unknown


def queries_of_dashboard():
    """Return each query, with its variables filled in."""
    board = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    found += [one["expr"] for one in board["annotations"]["list"]]
    return [re.sub(r"\$(job|instance)", ".*", expr).replace("$__rate_interval", "1m") for expr in found]


def test_promtool_finds_no_fault(start_workers, raw_client, tmp_path, localhost):
    """promtool finds no fault in the text, and the text has all series of the alerts, the dashboard and the docs."""
    flags = ("--workers", "2", "--metrics", "127.0.0.1:0", "--spooler", f"{tmp_path}/jobs")
    process = start_workers(*flags, "--bind", "http://127.0.0.1:0", *localhost.flags, app=APP)
    for slot in (1, 2):
        process.wait_for_log(rf"worker {slot} .* is ready")
    raw_client(process).fetch("/")
    address = re.search(r"metrics on http://(\S+)/metrics", process.log)[1]

    def scrape():
        with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read()
        is_whole = b"site_hits_total" in text and b"aserve_loop_silent_seconds" in text  # from a loop's first turn on
        return text if is_whole else b""

    scraped = wait_until(scrape)
    done = subprocess.run(["promtool", "check", "metrics"], input=scraped, capture_output=True, check=False)
    assert (done.returncode, done.stderr + done.stdout) == (0, b"")
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    labels_by_name = {}
    for family in text_string_to_metric_families(scraped.decode()):
        for sample in family.samples:
            labels_by_name.setdefault(sample.name, []).append(sample.labels)
    queries = [*queries_of_rules(), *queries_of_dashboard(), *queries_of_docs()]
    assert len(queries) > 50
    unknown = {query: found for query in queries if (found := unknown_in(query, labels_by_name))}
    assert unknown == {}
    assert unknown_in('sum by (queue) (aserve_threads{state="tired"})', labels_by_name) == [
        'aserve_threads{state="tired"}', "queue",
    ]  # fmt: skip
    assert process.stop() == 0
