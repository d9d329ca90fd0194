"""Each value of a line, from a record with literals."""

import base64
import os
import socket
import threading
import time

import pytest
from harness.log_records import AT, NEVER, PAIRS, lines, record

from aserve.features.access_log.log_format import LineFormat
from aserve.features.access_log.log_line import ATOMS
from aserve.features.access_log.log_values import Process, RequestTimes, died, record_of, request_path
from aserve.wsgi.request_id import MAX_REQUEST_ID

pytestmark = pytest.mark.long_on_pypy


def shown(text, *args, worker=None, **changes):
    """Return a format's text for a record."""
    return lines(LineFormat(text, worker), record(*args, **changes))[0][:-1]


STAMP = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(AT))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h", "192.0.2.1"), ("l", "-"), ("u", "-"), ("t", f"[{STAMP}]"), ("r", "POST /a%20b?q=1 HTTP/1.1"), ("m", "POST"),
        ("U", "/a%20b"), ("q", "q=1"), ("H", "HTTP/1.1"), ("s", "201"), ("B", "7"), ("b", "7"), ("f", "http://a/"),
        ("a", "curl/8"), ("T", "1"), ("D", "1500000"), ("M", "1500"), ("L", "1.500000"), ("p", "<PID>"),
        ("uri", "/a%20b?q=1"), ("host", "example.com"), ("wid", "0"), ("worker", "-"), ("pid", "PID"),
        ("time", "1800000000"), ("epoch", "1800000000"), ("ctime", time.ctime(AT)), ("ltime", STAMP), ("size", "7"),
        ("rsize", "7"), ("queue_wait", "0.250000"), ("request_id", "abc"), ("end", "answered"),
        ("thread", threading.current_thread().name),
        ("hostname", socket.gethostname()), ("{content-type}i", "text/plain"), ("{X-Request-ID}i", "abc"), ("{None}i", "-"), ("var.HTTP_HOST", "example.com"),
        ("{REMOTE_ADDR}e", "192.0.2.1"), ("{PATH_INFO}e", "/a b"), ("{SERVER_NAME}e", "-"),
    ],
)  # fmt: skip
def test_values_of_each_name(name, text):
    assert shown(f"%({name})s") == text.replace("PID", str(os.getpid()))


@pytest.mark.parametrize("name", sorted(ATOMS))
def test_every_name_has_a_value(name):
    """Whatever is known of a request: all, or nothing."""
    assert shown(f"%({name})s") or name == "remote_user"
    shown(f"%({name})s", {}, client="-", times=NEVER, status=0, size=0)


@pytest.mark.parametrize(
    ("name", "text"), [("wid", "3"), ("worker", "3")]
)  # fmt: skip
def test_the_worker_has_its_number(name, text):
    assert shown(f"%({name})s", worker=3) == text


@pytest.mark.parametrize(
    ("authorization", "user"),
    [
        ("Basic " + base64.b64encode(b"alice:secret").decode(), "alice"),
        ("basic " + base64.b64encode(b'a"\n:x').decode(), r"a\x22\x0a"),
        ("Basic !", "-"),
        ("Basic \xe9", "-"),
        ("Basic", "-"),
        ("Bearer abc", "-"),
    ],
)
def test_users_are_shown_without_passwords(authorization, user):
    """Who has signed in by HTTP's own way; never the password."""
    assert shown("%(u)s", {**PAIRS, "HTTP_AUTHORIZATION": authorization}) == user


def test_a_user_whom_a_front_server_names():
    """The front server's word is not the client's."""
    assert shown("%(user)", {"REMOTE_USER": "bob", "HTTP_AUTHORIZATION": "Basic x"}, is_from_front=True) == "bob"


def test_request_ids_are_bounded():
    """A client cannot make lines long by its request ids."""
    assert len(shown("%(request_id)", {**PAIRS, "HTTP_X_REQUEST_ID": "a" * 1000})) == MAX_REQUEST_ID


def test_fields_of_the_response():
    """Fields are the app's, in any case of the letters."""
    head = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nX-Big:  a b\r\n'
    assert shown("%({etag}o)s|%({x-big}o)s|%({x}o)s", head=head) == r"\x221\x22|a b|-"


HEAD = b"HTTP/1.1 200 OK\r\nETag: 1\r\nX-Big: a b\r\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("cl", "0"), ("vars", "10"), ("headers", "2"), ("hsize", "40"), ("sent", "47"), ("tmsecs", "1799999998750"), ("start.time", "1799999998"), ("switches", "1"), ("core", "0"), ("remote_user", "")],
)  # fmt: skip
def test_names_of_uwsgi(name, text):
    """Numbers of a request and of its response are uWSGI's."""
    assert shown(f"%({name})", head=HEAD) == text


def test_numbers_of_a_packet():
    """Variables have two lengths each; and the body's length, if there is one."""
    assert shown("%(pktsize)", {"A": "b"}) == "6" and shown("%(pktsize) %(vars)", {}) == "0 0"
    assert shown("%(cl)", {**PAIRS, "CONTENT_LENGTH": "5"}) == "5"


def test_cores_are_numbers_of_threads(monkeypatch):
    """The core is the number of a worker thread, from 0; an ended one's is unknown."""
    thread = threading.current_thread()
    monkeypatch.setattr(thread, "name", "aserve-worker-3")
    assert shown("%(core)") == "2"
    assert shown("%(core)", times=RequestTimes(100.0, 100.25, 101.5, 1 << 40)) == "0"


def test_lines_of_uwsgi():
    """The line is uWSGI's own, without log-format."""
    line = lines(LineFormat("uwsgi"), record(head=HEAD), record(head=HEAD))[1]
    assert line == (
        f"[pid: {os.getpid()}|app: 0|req: 2/2] 192.0.2.1 () {{10 vars in 234 bytes}} [{time.ctime(AT - 1.5)}] POST /a%20b?q=1 => "
        "generated 7 bytes in 1500 msecs (HTTP/1.1 201) 2 headers in 40 bytes (1 switches on core 0)\n"
    )


def test_threads_are_looked_up_once():
    """The name is kept."""
    name = threading.current_thread().name
    assert lines(LineFormat("%(thread)"), record(), record()) == [f"{name}\n"] * 2


def test_times_of_one_second():
    """Each line has its own milliseconds; the next second is another."""
    process = Process()
    times = [process.iso_time(AT + more) for more in (0, 0.5, 1)]
    assert times == ["2027-01-15T08:00:00.250Z", "2027-01-15T08:00:00.750Z", "2027-01-15T08:00:01.250Z"]


def test_a_thread_that_has_ended():
    assert shown("%(thread)", times=RequestTimes(1.0, 1.0, 2.0, 12345)) == "12345"


def test_a_thread_with_the_number_of_an_earlier_one(monkeypatch):
    """The system gives the number of an ended thread to the next: each line has the name of its own thread."""
    process, alive = Process(), []
    monkeypatch.setattr(threading, "enumerate", lambda: alive)

    class Numbered(threading.Thread):
        ident = 7

    threads = [Numbered(target=threading.Event().wait, name=name, daemon=True) for name in ("one", "two")]
    for thread in threads:
        thread.is_alive = lambda thread=thread: thread in alive
    alive.append(threads[0])
    assert [process.thread_name(7), process.thread_name(7)] == ["one", "one"]
    alive.clear()
    assert process.thread_name(7) == "one"
    alive.append(threads[1])
    assert [process.thread_name(7), process.thread_name(7)] == ["two", "two"]
    del threads[:], thread, alive[:]
    assert process.thread_name(7) == "two"


def test_from_a_front_server():
    """Variables come in any order, or not at all."""
    pairs = {"REMOTE_ADDR": "198.51.100.1", "PATH_INFO": "/p", "REQUEST_METHOD": "GET"}
    assert shown("%(h)s %(r)s %(U)s", pairs, is_from_front=True) == "198.51.100.1 GET /p - /p"
    assert request_path(record(pairs, is_from_front=True)) == "/p"


def test_without_fields_there_are_dashes():
    """A request of HTTP/1.0 may have no fields."""
    pairs = dict(list(PAIRS.items())[:5])
    assert shown("%(r)s %(a)s", pairs) == "POST /a%20b?q=1 HTTP/1.1 -" and request_path(record(pairs)) == "/a b"


def test_a_request_that_was_with_a_process_when_it_died():
    """Text escaped for the log is the original again."""
    found = record_of(died(r"GET /\x22\x5cx\x0a?a", 2.0), AT)
    assert request_path(found) == '/"\\x\n' and found.times.duration == 2.0 and found.times.queue_wait is None
