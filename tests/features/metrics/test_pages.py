"""The answers at --metrics, and their readers."""

import base64
import hashlib
import re

import pytest

from aserve.features.metrics import pages as module
from aserve.features.metrics.balance import Balance, Host, Reading
from aserve.features.metrics.pages import FRESH_SECONDS, MetricsPages, Wanted, Whence

pytestmark = pytest.mark.long_on_pypy

HERE = Whence()  # from this machine, to its own address
HERE_EXPOSED = Whence(is_loopback=False)
AWAY = Whence(is_own=False, is_loopback=False)
UNIX = Whence(is_unix=True)


@pytest.fixture
def pages(monkeypatch):
    """Pages, with their parts: pages.reach, pages.event."""
    made = MetricsPages(
        lambda: b"a 1\n", lambda: made.event, lambda: made.told, lambda: made.reach, Balance(lambda: made.host)
    )
    made.host = Host([Reading(0, 0.0, 0.0)], 1, 4, 10.0)
    made.told = b"{}"
    made.event, made.reach = b'{"a":1}', "local"
    return made


def ask(pages, target="/", *, host="127.0.0.1:9100", method="GET", whence=HERE, has_room=True):
    """Return the status, the fields, the body, and whether events follow."""
    field = f"\r\nhost:{host}" if host is not None else ""
    reply = pages.answer(f"{method} {target} HTTP/1.1\r\nAccept: */*{field}".encode(), whence, has_room)
    if isinstance(reply, Wanted):
        (reply,) = pages.tell_metrics(b"", [reply.method])
    head, _, body = reply.octets.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in fields), body, reply.is_stream


@pytest.mark.parametrize("target", ["/", "/status", "/?a=b"])
def test_the_page_needs_nothing_from_elsewhere(pages, target):
    """The page is HTML, needs nothing from elsewhere, and its policy allows only its own parts."""
    status, fields, body, is_stream = ask(pages, target)
    assert (status, fields["Content-Type"], is_stream) == (200, "text/html; charset=utf-8", False)
    assert int(fields["Content-Length"]) == len(body) and fields["Cache-Control"] == "no-store"
    assert fields["X-Content-Type-Options"] == "nosniff" and fields["Cross-Origin-Resource-Policy"] == "same-origin"
    assert ask(pages, target, method="HEAD")[:3] == (200, fields, b"")
    policy = fields["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>".encode(), body, re.S)
        assert f"{directive} 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" in policy


def test_the_pages_source(pages):
    """The source names no other host, and makes no markup of foreign words; there are no styles or handlers in attributes, which the policy refuses."""
    source = ask(pages)[2].decode()
    assert re.findall(r"https?://[^\s\"'`]*", source) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", source)
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", source)


def test_the_page_before_the_first_event(pages):
    """The page claims nothing: no "Nothing." stands below the warnings, and the colour of "live" is for a heard stream."""
    markup = ask(pages)[2].decode().partition("<script>")[0]
    assert "Nothing." not in markup and '<p id="link" role="status">connecting</p>' in markup
    assert "#link.live { color: var(--good); }" in markup and "scripting: none" in markup


def test_events_begin_with_the_present(pages):
    """A stream begins with the present event, and tells when to come back; HEAD has its head alone."""
    status, fields, body, is_stream = ask(pages, "/events")
    assert (status, fields["Content-Type"], is_stream) == (200, "text/event-stream; charset=utf-8", True)
    assert body == b'retry: 2000\n\ndata: {"a":1}\n\n' and "Content-Length" not in fields
    assert ask(pages, "/events", method="HEAD") == (200, fields, b"", False)
    assert pages.next_event() == b'data: {"a":1}\n\n'


def test_those_who_come_in_the_same_moment(pages, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    ask(pages, "/events")
    pages.event = b"{}"
    assert b'"a":1' in ask(pages, "/events")[2]
    now[0] += FRESH_SECONDS
    assert b'"a":1' not in ask(pages, "/events")[2]


def test_no_room_means_503(pages):
    """One reader too many is told when to try again."""
    status, fields, body, is_stream = ask(pages, "/events", has_room=False)
    assert (status, fields["Retry-After"], is_stream) == (503, "5", False)


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [("/favicon.ico", "GET", 404), ("/events/", "GET", 404), ("/status", "POST", 405), ("/events", "DELETE", 405)],
)
def test_refusals_are_sentences(pages, target, method, status):
    found, fields, body, _ = ask(pages, target, method=method)
    assert found == status and fields["Content-Type"].startswith("text/plain") and body.endswith(b"\n")
    assert fields.get("Allow") == ("GET, HEAD" if status == 405 else None)


def test_probes_tell_why_not(pages):
    """A sentence tells the reason; with the status page off, and for any reader of the address."""
    pages.reach = "off"
    for target in ("/live", "/ready"):
        assert (ask(pages, target, whence=AWAY)[0], ask(pages, target)[2]) == (200, target[1:].encode() + b"\n")
    pages.host = pages.host._replace(is_draining=True)
    status, fields, body, _ = ask(pages, "/ready")
    assert (status, fields["Retry-After"], body) == (503, "5", b"draining\n")
    assert ask(pages, "/live")[0] == 200
    pages.host = pages.host._replace(readings=[])
    assert ask(pages, "/live")[::2] == (503, b"no worker serves\n")
    assert ask(pages, "/live", method="HEAD")[::2] == (503, b"")


@pytest.mark.provokes("internal error")
def test_the_agent_gets_a_line(pages, caplog):
    """The agent gets a line; none after a bug."""
    assert pages.agent_line() == b"up ready 100%\n"
    pages.host = None
    assert pages.agent_line() == b"" and "internal error" in caplog.text


@pytest.mark.parametrize(
    ("whence", "reach", "page", "metrics"),
    [
        (HERE, "local", 200, 200),
        (UNIX, "local", 200, 200),
        (HERE_EXPOSED, "local", 200, 200),
        (AWAY, "local", 403, 200),
        (AWAY, "all", 200, 200),
        (HERE, "off", 404, 200),
        (AWAY, "off", 404, 200),
        (UNIX, "off", 404, 200),
    ],
)
def test_who_sees_the_page(pages, whence, reach, page, metrics):
    """This machine sees the page, unless the setting says otherwise; metrics are for any reader of the address."""
    pages.reach = reach
    assert ask(pages, "/", whence=whence)[0] == ask(pages, "/events", whence=whence)[0] == page
    assert ask(pages, "/metrics", whence=whence)[0] == metrics


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1:9100", True), ("127.0.0.1", True), ("[::1]:9100", True), ("localhost:9100", True), ("LocalHost", True),
        ("a.localhost:1", True), ("10.0.0.1:9100", True), ("", True), (None, True),
        ("evil.example", False), ("evil.example:9100", False), ("localhost.evil.example", False), ("127.0.0.1.evil.example", False),
        ("[evil]:1", False), ("a:b:c", False), ("127.1", False), ("notlocalhost", False),
    ],
)  # fmt: skip
def test_names_of_strangers(pages, host, is_here):
    """A stranger's page in a browser on this machine cannot read ours by giving its own name our address."""
    expected = 200 if is_here else 421
    for target in ("/", "/events", "/metrics"):
        assert ask(pages, target, host=host)[0] == expected
    assert ask(pages, "/", host=host, whence=HERE_EXPOSED)[0] == expected
    # Scrapers of an open address may have a name for it; no browser can come by a unix socket.
    assert (
        ask(pages, "/metrics", host=host, whence=HERE_EXPOSED)[0] == ask(pages, "/", host=host, whence=UNIX)[0] == 200
    )


@pytest.mark.provokes("internal error")
def test_a_bug_of_ours(pages, caplog):
    """The caller is told, readers stay, and the log has the bug."""
    pages._event = pages._make_metrics = lambda: 1 / 0
    assert ask(pages, "/metrics")[0] == 500
    assert ask(pages, "/events")[2] == b"retry: 2000\n\n: no event\n\n"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.provokes("internal error")
def test_stats_are_made_once_a_moment(pages, monkeypatch, caplog):
    """Statistics are made once for callers of one moment; a bug of ours tells them nothing."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    assert pages.stats() == b"{}"
    pages.told = b"[]"
    assert pages.stats() == b"{}"
    now[0] += FRESH_SECONDS
    assert pages.stats() == b"[]"
    now[0] += FRESH_SECONDS
    pages._make_stats = lambda: 1 / 0
    assert pages.stats() == b"" and "ZeroDivisionError" in caplog.text
