"""Alert rules, dashboard and autoscaling, on series of a real server in each outage of docs/trouble.md.

`tests/record_outages.py` recorded the series; promtool replays them. Where a recording cannot be had, series are written here.
"""

import json
import pathlib
import re

import pytest
import yaml
from harness.interpreter import ONCE
from harness.promtool import HAS_PROMTOOL, RuleTest, raised, run
from harness.recordings import load, with_labels

ROOT = pathlib.Path(__file__).parents[2]
ALERTS = ROOT / "examples/prometheus/alerts.yml"
pytestmark = [
    pytest.mark.checkout,
    ONCE,
    pytest.mark.any_parser,
    pytest.mark.skipif(not HAS_PROMTOOL, reason="promtool is not installed: Debian has it in prometheus"),
]
LABELS = 'job="site",instance="a"'
SCRAPE_SECONDS = 15
PAGE, TICKET = "page", "ticket"
NIGHT_SECONDS = 355  # of the good day, after minutes without requests
PAGE_SECONDS = 120  # an outage is to page within this time

# Recording: severity, alert (a regular expression), other alerts that may be raised.
OUTAGES = {
    "stuck": (PAGE, "AserveNothingBegins", ""),
    "stuck-impatient": (PAGE, "AserveNothingBegins", "AserveAllThreadsBusy|AserveClientsGiveUp|AserveRequestsWait"),  # clients go after eight seconds
    "stuck-timeout": (PAGE, "AserveServerErrors", "AserveRequestsWait"),
    "hang-all": (PAGE, "AserveAllLoopsHang", "AserveClientsWaitInKernel|AserveLoopHangs|AserveRequestsLost|AserveWorkersCrash"),
    "hang-one": (TICKET, "AserveLoopHangs", "AserveRequestsLost"),  # the other worker serves
    "killed": (TICKET, "AserveRequestsLost", ""),  # its successor serves
    "crash-loop": (PAGE, "AserveWorkersCrash", "AserveRequestsLost|AserveWorkersMissing|AserveClientsWaitInKernel"),
    "errors": (PAGE, "AserveServerErrors", ""),
    "disk-full": (TICKET, "AserveLogLinesLost", ""),  # requests are served
    "connections": (PAGE, "AserveConnectionsAtLimit", "AserveClientsWaitInKernel"),
    "descriptors": (PAGE, "AserveClientsWaitInKernel", "AserveDescriptorsRunOut|AserveServerErrors"),
    "queue": (PAGE, "AserveRequestsWait", ""),
    "reload-refused": (TICKET, "AserveReloadRefused", ""),  # the code of before serves
    "gone": (PAGE, "AserveDown", ""),
    "starts-again": (PAGE, "AserveDown|AserveStartsAgain", ""),
}  # fmt: skip
NONE = {}
ONE = {"{}": 1}

# Alert: series, seconds until raised, and seconds when not yet. For series longer than a recording, or as root.
WRITTEN = {
    "AserveThreadsNearlyAllBusy": (
        {'aserve_threads_busy_seconds_total{worker="1"}': "0+30x80", 'aserve_requests_waiting{worker="1"}': "2x80",
         'aserve_threads_limit{worker="1"}': "4x80"}, 960, 500,
    ),
    "AserveRequestHangs": ({'aserve_oldest_request_seconds{worker="1"}': "0+15x40"}, 330, 290),
    "AserveAllThreadsBusy": ({"aserve_threads_all_busy_seconds": "0x10 10+15x20"}, 300, 265),
    "AserveClientsGiveUp": (
        {'aserve_request_queue_seconds_count{worker="1"}': "0+100x10 1000+100x30",
         'aserve_request_duration_seconds_count{worker="1"}': "0+100x10 1000+90x30"}, 360, 150,
    ),
    "AserveOutOfMemory": ({"aserve_oom_kills_total": "0x20 1x20"}, 330, 290),
    "AserveCertificateExpires": ({'aserve_certificate_not_after_timestamp_seconds{file="/a.pem"}': "605000x80"}, 840, 780),
    "AserveListenQueueFull": (
        {'aserve_listen_queue{listener="http://site"}': "0x20 2000x20", 'aserve_listen_queue_limit{listener="http://site"}': "2048x40"}, 390, 330,
    ),
}  # fmt: skip


def others(alerts, seconds):
    """Return the expression for all further raised alerts."""
    chosen = f'alertstate="firing",alertname!~"{alerts}"'
    return f"group by (alertname) (max_over_time(ALERTS{{{chosen}}}[{seconds}s]))"


def up_of(values):
    """Return Prometheus' own series of successful scrapes."""
    return {"series": f"up{{{LABELS}}}", "values": f"1x{len(values)}"}


def test_every_rule_is_raised():
    """Each rule has a test, and no outage names an unknown rule."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in group["rules"]}
    tried = {alert: severity for severity, must, _ in OUTAGES.values() for alert in must.split("|")}
    assert severities == {**severities, **tried}
    also = {alert for _, must, may in OUTAGES.values() for alert in f"{must}|{may}".split("|")} - {""}
    assert {*severities} == also | {*WRITTEN}


@pytest.mark.parametrize("interval", [15, 60])
def test_an_outage_raises_its_alert_in_time(tmp_path, interval):
    """Before an outage nothing is raised; within two minutes an alert pages, or makes a ticket, wherever between two scrapes the outage begins."""
    tests = []
    for name, (severity, must, may) in OUTAGES.items():
        recording = load(name)
        for offset in (0, 10) if interval == SCRAPE_SECONDS else (0,):
            test = RuleTest(recording.replay(interval, offset, LABELS), interval)
            at = recording.fault_at - offset
            test.expect(others("", at), at - 1, NONE)
            if interval == SCRAPE_SECONDS:
                test.expect(raised(must, PAGE_SECONDS, severity), at + PAGE_SECONDS, ONE)
                test.expect(others(f"{must}|{may}", PAGE_SECONDS), at + PAGE_SECONDS, NONE)
            elif severity == PAGE:  # the last of the recording goes on: two scrapes more
                test.expect(raised(".*", 300, severity), at + 240, ONE)
            tests.append(test)
    assert run(tests, ALERTS, tmp_path, interval) == ""


def test_connections_of_a_unix_socket(tmp_path):
    """The kernel does not tell the queue of a unix socket: no idle connection is enough."""
    recording = load("connections")
    series = [one for one in recording.replay(SCRAPE_SECONDS, 0, LABELS) if "listen_queue" not in one["series"]]
    test = RuleTest(series, SCRAPE_SECONDS)
    test.expect(raised("AserveConnectionsAtLimit", PAGE_SECONDS), recording.fault_at + PAGE_SECONDS, ONE)
    assert run([test], ALERTS, tmp_path) == ""


def test_a_good_day(tmp_path):
    """Traffic, a killed worker, a reload, seconds of a slow database, one failed request in a night, a restart: no page."""
    recording = load("good")
    series = recording.replay(SCRAPE_SECONDS, 0, LABELS)
    for one in series:  # and half an hour without any request
        one["values"] += f" {one['values'].split()[-1]}x120"
    test = RuleTest(series, SCRAPE_SECONDS)
    at = recording.seconds + 1800
    test.expect(others("AserveRequestsLost", at), at, NONE)
    assert run([test], ALERTS, tmp_path) == ""


@pytest.mark.parametrize("alert", WRITTEN)
def test_rules_without_a_recording_are_raised_in_time(tmp_path, alert):
    series, at, not_yet = WRITTEN[alert]
    written = [{"series": with_labels(name, LABELS), "values": values} for name, values in series.items()]
    test = RuleTest([*written, up_of(range(80))], SCRAPE_SECONDS)
    test.expect(others("", not_yet), not_yet, NONE)
    test.expect(raised(alert, 60), at, ONE)
    test.expect(others(f"{alert}|AserveClientsWaitInKernel", at), at, NONE)
    assert run([test], ALERTS, tmp_path) == ""


def test_a_job_of_another_name(tmp_path):
    """Where no job has the expected name, the rules page."""
    test = RuleTest([{"series": 'up{job="shop",instance="a"}', "values": "1x10"}], SCRAPE_SECONDS)
    test.expect(raised("AserveDown", 60, PAGE), 60, ONE)
    assert run([test], ALERTS, tmp_path) == ""


# How many threads are in use


def panel(title):
    """Return the first query of a panel."""
    board = json.loads((ROOT / "examples/grafana/aserve.json").read_text())
    (found,) = (panel["targets"][0]["expr"] for panel in board["panels"] if panel["title"] == title)
    return re.sub(r"\$(job|instance)", ".*", found).replace("$__rate_interval", "1m")


def in_docs(pattern):
    """Return an expression of docs/metrics.md."""
    return " ".join(re.search(pattern, (ROOT / "docs/metrics.md").read_text(), re.S)[1].split())


def adapters():
    """Return the query of the rule for prometheus-adapter, for one instance."""
    query = in_docs(r"metricsQuery: >-\n(.*?)```")
    return query.replace("<<.GroupBy>>", "instance").replace("<<.LabelMatchers>>", 'job="site"')


# The query, and its value when all threads are busy: as a share, or as a number.
IN_USE = {
    "the gauge of the dashboard": (lambda: panel("Threads in use"), 1),
    "by instance": (lambda: panel("Threads in use, by instance"), 1),
    "the page's own": (lambda: in_docs(r"```promql\n(.*?)\n"), 1),
    "the gauge": (lambda: 'sum(aserve_threads{state="busy"})', 8),
}
# These count waiting requests, too: computing threads wait for one another, and then half of the threads are idle in full load.
WANTED = {"an HPA": (adapters, 1), "KEDA": (lambda: in_docs(r"query: >-\n(.*?)threshold"), 8)}


def test_threads_in_use(tmp_path):
    """In a stall and in full load all threads are in use, also where clients give up; autoscalers see more; at rest the value is none."""
    in_use, wanted = ([(ask(), full) for ask, full in asked.values()] for asked in (IN_USE, WANTED))
    tests = []
    for name in ("stuck", "stuck-impatient", "queue", "full-load"):
        recording = load(name)
        tests.append(RuleTest(recording.replay(SCRAPE_SECONDS, 0, LABELS), SCRAPE_SECONDS))
        at = min(recording.fault_at + PAGE_SECONDS, recording.seconds - 1)
        for query, full in in_use if name != "full-load" else ():
            for bound in ("> bool 0.95", "< bool 1.05"):
                tests[-1].expect(f"sum({query}) / {full} {bound}", at, ONE)
        for query, full in wanted:
            tests[-1].expect(f"sum({query}) / {full} > bool 1.5", at, ONE)
    tests.append(RuleTest(load("good").replay(SCRAPE_SECONDS, 0, LABELS), SCRAPE_SECONDS))
    for query, _ in (*in_use, *wanted):
        tests[-1].expect(f"sum({query})", NIGHT_SECONDS, {"{}": 0})
    assert run(tests, None, tmp_path) == ""


def test_the_dashboard_in_a_stall(tmp_path):
    """The dashboard shows the waiting requests, the age of the oldest, and no begun one."""
    recording = load("stuck")
    test = RuleTest(recording.replay(SCRAPE_SECONDS, 0, LABELS), SCRAPE_SECONDS)
    at = recording.fault_at + PAGE_SECONDS
    for title in ("Requests that wait", "Oldest request"):
        test.expect(f"min({panel(title)}) > bool 3", at, ONE)
        test.expect(f"max({panel(title)}) > bool 3", recording.fault_at - 1, {"{}": 0})
    assert run([test], None, tmp_path) == ""
