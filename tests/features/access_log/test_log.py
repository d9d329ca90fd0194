"""The access log: one unforgeable line a request, written in batches."""

import io
import json
import os
import re
import sys
import time
import types

import pytest
from harness.ends import ended
from harness.fakes import FakeConnection

from aserve.core.errors import BindError, RequestRefused
from aserve.core.exchange import Exchange, refused_exchange
from aserve.features import Config
from aserve.features.access_log.log import AccessLog, append_unanswered


def new_exchange(*fields, uri="/x?y", code=200, sent_bytes=5, client="203.0.113.7"):
    pairs = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", uri),
        ("PATH_INFO", "/x"),
        ("QUERY_STRING", "y"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        *fields,
    ]
    exchange = Exchange("\0".join(text for pair in pairs for text in pair), len(pairs))
    exchange.connection = FakeConnection()
    exchange.connection.remote_addr = client
    if code:
        exchange.response = types.SimpleNamespace(code=code, sent_bytes=sent_bytes)
    return exchange


@pytest.fixture
def log(tmp_path):
    """An open log; log.text() is the file's content."""
    opened = AccessLog(str(tmp_path / "log"))
    opened.text = lambda: (tmp_path / "log").read_bytes().decode("latin-1")
    yield opened
    opened.close()


def line_of(log, *args, **kwargs):
    log.write([ended(new_exchange(*args, **kwargs))])
    log.flush()
    return log.text()


# Reopening


def test_reopening_writes_a_new_file(log, tmp_path, caplog):
    """After a move of the file, lines go to a new one of its name; none is lost, wherever the app has gone."""
    caplog.set_level("INFO", "aserve")
    log.write([ended(new_exchange(client="192.0.2.1"))])
    os.rename(tmp_path / "log", tmp_path / "log.1")
    log.reopen()
    log.write([ended(new_exchange(client="192.0.2.2"))])
    log.flush()
    assert (tmp_path / "log.1").read_text().startswith("192.0.2.1 ")
    assert log.text().startswith("192.0.2.2 ")
    assert "log' was reopened" in caplog.text


def test_reopening_that_fails(log, tmp_path, caplog):
    """When the new file cannot be opened, the old one goes on, and the log says so."""
    os.rename(tmp_path / "log", tmp_path / "log.1")
    (tmp_path / "log").mkdir()
    log.reopen()
    log.write([ended(new_exchange())])
    log.flush()
    assert (tmp_path / "log.1").read_text().count("\n") == 1
    assert "cannot reopen the access log" in caplog.text and "Is a directory; still writing" in caplog.text


def test_standard_output_is_not_reopened(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    log = AccessLog("-")
    log.reopen()
    log.write([ended(new_exchange())])
    log.close()
    assert file.getvalue()


# Lines made by C


def test_lines_that_c_has_made(log):
    """Lines of C stand among the others, and each counts."""
    log.write([ended(new_exchange(client="192.0.2.1"))])
    log.write_lines("a \xe9\n".encode())
    assert log.text() == ""
    log.write_lines(b"b" * (1 << 15) + b"\nc\n")
    assert log.text().count("\n") == 4 and log.text().endswith("b\nc\n")


def test_lines_that_are_lost(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    log = AccessLog("-")
    log.write_lines(b"a\nb\n")
    log.flush()
    file.close()
    log.write_lines(b"c\nd\n")
    log.flush()
    assert log.lost_count == 2


def test_formats_of_c():
    """Where some requests have no line, Python makes all."""
    assert AccessLog("/dev/null").program is not None and AccessLog("/dev/null", skip=["/healthz"]).program is None


# A dead process


def test_what_was_not_answered(log, tmp_path):
    """Each request has its line, behind other processes' lines: no status, no octets, no user."""
    line_of(log)
    append_unanswered(
        Config(access_log=str(tmp_path / "log")), [(3.0, "GET /a"), (0.5, r"PUT /b\x22")], worker=1, pid=4711
    )
    line_of(log)
    lines = [COMBINED.match(line).groups() for line in log.text().splitlines()]
    assert [(line[0], *line[2:]) for line in lines[1:3]] == [
        ("-", "GET /a -", "0", "-", "-", "-"),
        ("-", r"PUT /b\x22 -", "0", "-", "-", "-"),
    ]
    assert [line[2] for line in lines[::3]] == ["GET /x?y HTTP/1.1"] * 2


def test_what_was_not_answered_on_standard_output(capfd):
    """The line goes to standard output, if the log does."""
    append_unanswered(Config(access_log="-"), [(0.0, "GET /a")], worker=1, pid=4711)
    assert '"GET /a -" 0 - "-" "-"\n' in capfd.readouterr().out


def test_what_was_not_answered_in_another_format(tmp_path):
    """The line is in the log's own format, with its end, time and place."""
    config = Config(access_log=str(tmp_path / "log"), access_log_format="json")
    append_unanswered(config, [(3.5, r"GET /a\x22?q=1")], worker=7, pid=4711)
    found = json.loads((tmp_path / "log").read_text())
    assert found["url.path"] == '/a"' and found["url.query"] == "q=1" and found["aserve.worker"] == 7
    assert (found["aserve.end"], found["http.server.request.duration"]) == ("worker_died", 3.5)
    assert "http.response.status_code" not in found and found["process.pid"] == 4711


def test_what_was_not_answered_and_no_log():
    """Then there is nothing to be written to."""
    append_unanswered(Config(), [(3.5, "GET /a")], worker=7, pid=4711)


@pytest.mark.parametrize(("kind", "why"), [("fifo", "No such device or address"), ("dir", "Is a directory")])
def test_what_cannot_be_written(tmp_path, caplog, kind, why):
    """An unread pipe is not waited for; the log tells the fault."""
    path = tmp_path / "log"
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    append_unanswered(Config(access_log=str(path)), [(0.0, "GET /a")], worker=1, pid=4711)
    assert f"cannot write the lines of a dead worker's requests to the access log {str(path)!r}: {why}" in caplog.text


# As Apache's documentation of mod_log_config gives the combined format
COMBINED = re.compile(
    r'(\S+) - - \[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "([^"]*)" (\d+) (\d+|-) "([^"]*)" "([^"]*)"'
)


def test_the_format_is_combined(log):
    fields = (("HTTP_REFERER", "http://a/"), ("HTTP_USER_AGENT", "curl/8"))
    match = COMBINED.match(line_of(log, *fields))
    client, _, request, code, size, referer, agent = match.groups()
    assert (client, request) == ("203.0.113.7", "GET /x?y HTTP/1.1")
    assert (code, size, referer, agent) == ("200", "5", "http://a/", "curl/8")


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ({"client": ""}, "- - - ["),
        ({"sent_bytes": 0}, '" 200 - "'),
        ({"code": 0}, '" 0 - "'),
        ({}, '"-" "-"'),
    ],
)
def test_what_is_not_there_is_a_dash(log, kind, part):
    """No client (a unix socket), no octets, no response, no field: a dash each."""
    assert part in line_of(log, **kind)


@pytest.mark.parametrize(
    ("given", "logged"),
    [
        ('a"b', r"a\x22b"),
        ("a\\b", r"a\x5cb"),
        ("a\tb", r"a\x09b"),
        ("a\x7fb", r"a\x7fb"),
        ("a\x85b", r"a\x85b"),
        ("a\xe9b", r"a\xe9b"),
        ("a\xffb", r"a\xffb"),
        ("a b'c", "a b'c"),
    ],
)
def test_nothing_can_be_forged(log, given, logged):
    """Quotes, backslashes and controls cannot end a field, or a line; the log is plain ASCII."""
    text = line_of(log, ("HTTP_USER_AGENT", given), ("HTTP_REFERER", given), uri=f"/{given}")
    assert text.count("\n") == 1 and text.count('"') == 6
    assert f'"GET /{logged} HTTP/1.1"' in text and f'"{logged}" "{logged}"' in text


def test_the_time_is_of_the_second(log, monkeypatch):
    now = 1_800_000_000.9
    monkeypatch.setattr("aserve.features.access_log.log._time", lambda: now)
    monkeypatch.setattr("aserve.features.access_log.log._monotonic", lambda: 0.0)
    log.on_second()
    monkeypatch.setattr("harness.ends._monotonic", lambda: 0.0)
    for _ in range(2):
        log.write([ended(new_exchange())])
    now += 0.2
    log.on_second()  # somebody has set the clock
    log.write([ended(new_exchange())])
    log.flush()
    stamps = [COMBINED.match(line)[2] for line in log.text().splitlines()]
    assert stamps[0] == stamps[1] != stamps[2]
    expected = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(1_800_000_000))
    assert stamps[0] == expected


def test_a_refusal_has_its_known_parts(log):
    """A request unseen by the app is logged with its known parts."""
    why = RequestRefused(413, "large")
    request = new_exchange()
    connection = request.connection
    log.write_refused(connection, refused_exchange(why, request), why)
    log.write_refused(connection, refused_exchange(why, None), why)
    log.write_refused(connection, None, RequestRefused(408, "late"))
    log.flush()
    found = [COMBINED.match(line).group(3, 4, 5) for line in log.text().splitlines()]
    assert found == [("GET /x?y HTTP/1.1", "413", "-"), ("-", "413", "-"), ("-", "408", "-")]


def test_lines_are_written_in_batches(log):
    """A request costs no write: lines wait for the next flush, or until there are very many."""
    log.write([ended(new_exchange())])
    assert log.text() == ""
    log.flush()
    log.flush()
    assert log.text().count("\n") == 1
    for _ in range(256):
        log.write([ended(new_exchange())])
    assert log.text().count("\n") == 1
    for _ in range(256):
        log.write([ended(new_exchange())])
    assert log.text().count("\n") > 256


def test_very_long_lines_do_not_wait(log):
    """Lines kept until the next flush are bounded, however much clients send."""
    exchange = new_exchange(("HTTP_USER_AGENT", "\xe9" * 8192))
    log.write([ended(exchange)])
    assert log.text().count("\n") == 1
    log.write_refused(exchange.connection, exchange, RequestRefused(413, "large"))
    assert log.text().count("\n") == 2


def test_long_values_are_cut(log):
    """A line ends somewhere, whatever a client sends."""
    assert len(line_of(log, ("HTTP_USER_AGENT", "a" * 60_000))) < 8192 + 200


def test_close_writes_the_rest(tmp_path):
    """Nothing is lost at the end; and the file is appended to, not replaced."""
    for _ in range(2):
        log = AccessLog(str(tmp_path / "log"))
        log.write([ended(new_exchange())])
        log.close()
    assert (tmp_path / "log").read_text().count("\n") == 2
    log.close()


def test_standard_output_is_not_closed(monkeypatch):
    """A dash is standard output, not ours to close."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    log = AccessLog("-")
    log.write([ended(new_exchange())])
    log.close()
    assert '"GET /x?y HTTP/1.1" 200' in stream.getvalue() and not stream.closed


@pytest.mark.parametrize("error", [OSError(28, "No space left"), BrokenPipeError(), ValueError("closed")])
def test_a_full_disk_does_not_stop_the_service(error, monkeypatch):
    """Unwritable lines are lost; requests are served all the same."""

    class Full(io.StringIO):
        def write(self, text):
            raise error

    monkeypatch.setattr(sys, "stdout", Full())
    log = AccessLog("-")
    log.write([ended(new_exchange())])
    log.flush()
    log.close()


class FailingTarget:
    """Takes as many lines of each batch as `room` says; none: it raises."""

    why_in_part = "it has room for less"

    def __init__(self):
        self.room, self.lines = 1000, []

    def write(self, lines):
        if not self.room:
            raise OSError(28, "No space left on device")
        each = lines.splitlines(True)
        self.lines += each[: self.room]
        return len(each[self.room :])

    def reopen(self):
        return True

    def close(self):
        self.lines.append("closed")


@pytest.fixture
def failing(log, caplog):
    """The target of `log`, which fails on demand."""
    caplog.set_level("INFO", "aserve")
    log.close()
    log._target = FailingTarget()
    return log._target


def test_lost_lines_are_told_once_and_counted(log, failing, caplog):
    """A full disk does not fill the other log; when lines are written again, the number of lost ones is told."""
    for room in (1000, 0, 0, 1):
        failing.room = room
        for _ in range(3):
            log.write([ended(new_exchange())])
        log.on_second()
    log.on_second()
    assert len(failing.lines) == 4
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("cannot write the access log") and "No space left on device; its lines are lost" in line
    for _ in range(10):
        log.on_second()  # nothing is written: the target is not tried
    assert len(caplog.records) == 1
    failing.room = 1000
    for _ in range(6):
        log.write([ended(new_exchange())])
        log.on_second()
    assert "is written again; lines that were lost: 8 (it has room for less)" in caplog.records[1].getMessage()
    failing.room = 0
    log.write([ended(new_exchange())])
    log.flush()
    assert "cannot write" in caplog.records[2].getMessage()
    log.close()
    assert (
        "is closed; lines that were lost: 1 (No space left on device)" in caplog.records[3].getMessage()
        and failing.lines[-1] == "closed"
    )


# Requests without a line


@pytest.mark.parametrize(
    ("uri", "code", "has_line"),
    [("/x?y", 200, False), ("/x", 204, False), ("/x", 503, True), ("/x/y", 200, True), ("/%78", 200, False)],
)
def test_skipped_requests_have_no_line(tmp_path, uri, code, has_line):
    """Health checks and the like have no line, as long as all is well; the path is the app's, decoded."""
    log = AccessLog(str(tmp_path / "log"), skip=["/other", "/x 2xx"])
    path = "/x/y" if uri == "/x/y" else "/x"
    exchange = new_exchange(uri=uri, code=code)
    exchange.vars = exchange.vars.replace("PATH_INFO\0/x", f"PATH_INFO\0{path}")
    log.write([ended(exchange)])
    log.close()
    assert bool((tmp_path / "log").read_text()) is has_line


# Values of a format


def test_times_and_the_end(tmp_path):
    """A format with times and ends has them; for a refused request, as far as known."""
    log = AccessLog(str(tmp_path / "log"), "%(end) %(s)s %(duration) %(queue_wait) %({x}o)s")
    exchange = new_exchange()
    exchange.response.head = b"HTTP/1.1 200 OK\r\nX: y\r\n"
    exchange.arrived_at, exchange.began_at, exchange.end = time.monotonic() - 100, time.monotonic() - 50, "cut"
    log.write([ended(exchange)])
    log.write_refused(exchange.connection, exchange, RequestRefused(504, "late"))
    exchange.end = "answered"
    log.write_refused(exchange.connection, exchange, RequestRefused(413, "large"))
    log.write_refused(exchange.connection, None, RequestRefused(408, "late"))
    log.close()
    lines = [line.split(" ") for line in (tmp_path / "log").read_text().splitlines()]
    assert [line[:2] for line in lines] == [["cut", "200"], ["cut", "504"], ["refused", "413"], ["refused", "408"]]
    assert 100 <= float(lines[0][2]) < 1000 and 49 <= float(lines[0][3]) <= 51 and lines[0][4] == "y"
    assert float(lines[1][2]) >= 100 and lines[3][2:] == ["-", "-", "-"]


def test_a_stream_without_many_characters(monkeypatch):
    """Standard output in ASCII loses no line to a client's octets."""
    octets = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(octets, encoding="ascii"))
    log = AccessLog("-")
    log.write([ended(new_exchange(uri="/\xe9"))])
    log.write([ended(new_exchange(uri="/plain"))])
    log.flush()
    assert octets.getvalue().count(b"\n") == 2 and b"GET /plain" in octets.getvalue()


def test_a_file_that_cannot_be_written(tmp_path):
    """The message names the file, the fault, and the setting."""
    with pytest.raises(BindError, match=r"cannot write the access log .*No such file.*--access-log"):
        AccessLog(str(tmp_path / "no" / "log"))


def test_a_file_that_the_user_may_not_write_names_the_page(monkeypatch):
    """The page says in which folders root makes the file for that user."""

    def refuse(names):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("aserve.features.access_log.log.open_targets", refuse)
    with pytest.raises(BindError, match=r"Permission denied; see --access-log, and aserve docs deploy$"):
        AccessLog("/a")


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        (
            [("REMOTE_ADDR", "198.51.100.1"), ("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/a")],
            '198.51.100.1 - - "GET /a -"',
        ),
        ([("SERVER_PROTOCOL", 'x"'), ("REMOTE_ADDR", 'a"')], 'a\\x22 - - "- - x\\x22"'),
        ([("A", "1")], '- - - "- - -"'),
    ],
)
def test_from_a_front_server(log, pairs, line):
    """The client is the one named by the front server; missing vars are dashes."""
    exchange = Exchange("\0".join(text for pair in pairs for text in pair), len(pairs))
    exchange.is_from_front = True
    log.write_refused(FakeConnection(), exchange, RequestRefused(413, "no"))
    log.flush()
    assert re.sub(r"\[.*?\] ", "", log.text()).startswith(f'{line} 413 - "-" "-"')
