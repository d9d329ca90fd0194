"""Lines: unforgeable text, and readable JSON."""

import json

import pytest
from harness.log_records import AT, NEVER, PAIRS, lines, record

from aserve.features.access_log import log_format
from aserve.features.access_log.log_format import LineFormat

pytestmark = pytest.mark.long_on_pypy

NASTY = 'a" 200 "b\\\n\r\x1b[31m\x7f\x85\xff\0'.replace("\0", "")


def line(text, *args, **changes):
    return lines(LineFormat(text, 2), record(*args, **changes))[0]


def test_text_formats_are_apaches():
    assert line("combined") == line("common")[:-1] + ' "http://a/" "curl/8"\n'
    assert line("%(s)s%% %(q)s", {}) == "201% \n"
    assert line("%(h)s") == "192.0.2.1\n" and line("%(m)s %({X}i)s") == "POST -\n"
    assert line("%(h)s %(h)s %(T)s %(h)s") == "192.0.2.1 192.0.2.1 1 192.0.2.1\n"


@pytest.mark.parametrize(
    "text", ["combined", "common", "json", "%({X}i)s %(U)s %(uri)s %(host)s", '{"a": "%(a)s", "u": "%(uri)s", "x": "%({X}i)s"}']
)  # fmt: skip
@pytest.mark.parametrize(
    "name", ["REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL", "HTTP_USER_AGENT", "HTTP_X", "HTTP_HOST"]
)
def test_nothing_can_be_forged(text, name):
    """Whatever a client sends: one line, of ASCII, with the same number of quotes."""
    found, plain = line(text, {**PAIRS, "HTTP_X": "x", name: NASTY}), line(text, {**PAIRS, "HTTP_X": "x"})
    assert found.isascii() and found.count("\n") == 1 and found.endswith("\n") and "\x1b" not in found
    if text == "json" or text[0] == "{":
        assert json.loads(found).keys() <= json.loads(plain).keys()
    else:
        assert found.count('"') == plain.count('"')


def test_json_has_opentelemetrys_names(monkeypatch):
    """Each name is OpenTelemetry's, where it has one; missing values are left out."""
    monkeypatch.setattr(log_format.socket, "gethostname", lambda: "web%s")
    found = json.loads(line("json", {**PAIRS, "HTTP_TRACEPARENT": "00-a-b-01"}))
    thread, pid = found.pop("thread.name"), found.pop("process.pid")
    assert thread and pid
    assert found == {
        "timestamp": "2027-01-15T08:00:00.250Z",
        "host.name": "web%s",
        "client.address": "192.0.2.1",
        "http.request.method": "POST",
        "url.path": "/a%20b",
        "url.query": "q=1",
        "network.protocol.version": "1.1",
        "http.response.status_code": 201,
        "http.response.body.size": 7,
        "http.server.request.duration": 1.5,
        "aserve.queue_wait": 0.25,
        "aserve.end": "answered",
        "aserve.worker": 2,
        "user_agent.original": "curl/8",
        "http.request.header.host": "example.com",
        "http.request.header.referer": "http://a/",
        "http.request.header.x-request-id": "abc",
        "http.request.header.traceparent": "00-a-b-01",
    }
    found = json.loads(line("json", {}, status=0, client="-", times=NEVER))
    assert found.keys() == {
        "timestamp", "host.name", "http.response.body.size", "aserve.end", "aserve.worker", "process.pid"
    }  # fmt: skip


def test_text_beyond_ascii_in_json():
    """UTF-8 is read as UTF-8; other octets as latin-1."""
    pairs = {**PAIRS, "HTTP_USER_AGENT": "na\u00efve".encode().decode("latin-1"), "HTTP_REFERER": "\xff"}
    found = json.loads(line("json", pairs))
    assert (found["user_agent.original"], found["http.request.header.referer"]) == ("na\u00efve", "\xff")


def test_what_is_asked_for():
    """Nothing is measured, named or kept that no line shows."""
    combined, whole = LineFormat("combined"), LineFormat("%(D)s %({a}o)s %(request_id)s")
    assert (combined.wants_times, combined.wants_head, combined.wants_id) == (False, False, False)
    assert (whole.wants_times, whole.wants_head, whole.wants_id) == (True, True, True)


def test_what_is_remembered(monkeypatch):
    """Repeated words of clients are read once; not credentials, nor long ones, and not for ever."""
    monkeypatch.setattr(log_format, "_KNOWN_MAX", 2)
    combined = LineFormat("combined")
    for agent in ("a%s", "b", "a%s", "c"):
        for status in (200, 404):
            (found,) = lines(combined, record({**PAIRS, "HTTP_USER_AGENT": agent}, status=status))
            assert f'" {status} 7 ' in found and f'"{agent}"\n' in found
        assert len(combined._lines) <= 2 and len(combined._fields) <= 2
    before = dict(combined._lines), dict(combined._fields)
    for more in ({"HTTP_AUTHORIZATION": "Basic x"}, {"HTTP_X": "x" * 2048}):
        lines(combined, record({**PAIRS, **more}))
    lines(combined, record(PAIRS, is_from_front=True))
    assert (combined._lines, combined._fields) == before


def test_the_time_is_made_once_a_second(monkeypatch):
    combined = LineFormat("%(epoch) %(ltime)")
    found = [lines(combined, record(at=AT + more))[0] for more in (0.0, 0.1, 1.0, 0.0)]
    assert found[0] == found[1] == found[3] != found[2]
