"""One exchange: a request and what its protocol allows the response to be.

Owns:     Exchange, which crosses from the event loop to a worker and back; ResponseForm, the look of a response on a wire protocol; Client, the
          address named by a trusted proxy.
Thread:   built on the event loop, or by the lane's leader; then owned by a worker. docs/threads.md lists the touches by the loop (a drain, a lost
          client) and by threads of the app that call write() meanwhile.
Spec:     RFC 9110 section 3.4 ("exchange").
Not here: parsing (protocols/), building the response (wsgi/response.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .named_tuple import NamedTuple
from .patterns import lazy_pattern

if TYPE_CHECKING:
    from .body import RequestBody
    from .errors import RequestRefused
    from .spool import ResponseSpool


class ResponseForm(NamedTuple):
    """The form of a response's octets on one wire protocol."""

    status_prefix: str  # the text before "200 OK"
    may_chunk: bool  # RFC 9112 section 7.1: only towards an HTTP/1.1 client
    keep_alive_line: bytes  # the Connection field for a connection that stays open; or nothing
    close_line: bytes  # the same for a connection that closes
    may_inform: bool  # 1xx responses: RFC 9110 section 15.2, not to an HTTP/1.0 client

    def with_line(self, line: bytes) -> ResponseForm:
        prefix, may_chunk, keep_alive_line, close_line, may_inform = self
        return ResponseForm(prefix, may_chunk, keep_alive_line + line, close_line + line, may_inform)


_CLOSE = b"Connection: close\r\n"
HTTP_1_1 = ResponseForm("HTTP/1.1 ", may_chunk=True, keep_alive_line=b"", close_line=_CLOSE, may_inform=True)
# The stream's end is the body's: neither chunks nor a Connection field.
HTTP_2 = HTTP_1_1._replace(may_chunk=False, keep_alive_line=b"", close_line=b"")
# RFC 9112 appendix C.2.2: a response to a 1.0 client asking for keep-alive must name the open connection.
HTTP_1_0 = HTTP_1_1._replace(may_chunk=False, keep_alive_line=b"Connection: keep-alive\r\n", may_inform=False)
# A front server copies the body unchanged, until the length is reached or the connection closes.
UWSGI = ResponseForm("HTTP/1.1 ", may_chunk=False, keep_alive_line=b"", close_line=b"", may_inform=False)
SCGI_STATUS_LINE = UWSGI
SCGI_STATUS_FIELD = UWSGI._replace(status_prefix="Status: ")  # RFC 3875 section 6.3.3


# Characters able to forge a log line or a part of one (quotes, backslashes, controls), and octets above ASCII: the encoding is unknown, and
# terminals obey some. Apache and nginx escape the same characters.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), ord('"'), ord("\\"), *range(127, 256))}


# In targets with an authority at the start: of a proxy, and of CONNECT.
_USERINFO = lazy_pattern(r"^([^ ]* (?:[^:/?#]*://)?)[^/?#]*@")

# How an exchange has ended, for the access log (docs/logging.md).
ANSWERED = "answered"  # the response was given to the kernel, or to the transport
TIMED_OUT = "timed_out"  # the app, by --request-timeout, or a client that does not read
REFUSED = "refused"  # aserve has answered in the app's place, with an error
CLIENT_GONE = "client_gone"  # before the response, or in the middle
CUT = "cut"  # the app has failed behind its head, or the server has ended
WORKER_DIED = "worker_died"  # the process, with the exchange

# A client that stops sending (RFC 9112 9.6) before the response to a request of such length has left, unless --keep-half-closed says that the
# client may still read. The answer goes out all the same.
LEAVING_SECONDS = 2


# HTTP's vars begin with the request line's: method, target, path, query, version (cparsers/http1.h).
REQUEST_LINE_COUNT = 5


class RpcCall(NamedTuple):
    """A uwsgi RPC packet."""

    modifier2: int  # chooses the form of the reply
    items: list[bytes]  # function name, then arguments
    accept: str  # with modifier2 2: the media type wanted by the caller
    is_head: bool = False  # with modifier2 2: the caller wants the head alone


class Client(NamedTuple):
    """A request's client, as named by a trusted proxy."""

    remote_addr: str  # "" on a unix socket
    remote_port: str
    base_environ: dict[str, Any]  # the common part of every environ of this client


class Exchange:
    """
    One request, as far as the app needs the facts, and the form of the response.

    The class attributes are the values of most requests; a protocol sets only the differences.
    """

    form: ResponseForm = HTTP_1_1
    keep_alive = True  # may become False until the response's head is built
    is_head = False  # RFC 9110 section 9.3.2: the response has no body
    body: RequestBody | None = None
    is_from_front = False  # the vars come from a front server, in CGI form, not from a client
    is_mounted = False  # SCRIPT_NAME is to be taken off PATH_INFO
    is_for_loop = (
        False  # the event loop answers by itself, or looks first: a refusal, a ping, a request for a WebSocket
    )
    asks_websocket = False  # if the app agrees, the connection leaves HTTP
    websocket: Any = None  # set while the app may agree, and from then on (a WebSocket)
    refusal: RequestRefused | None = None  # set: the reply is this error, the app is not called
    is_probe = False  # a health check: answered by the event loop, and not logged
    is_silent = False  # the refusal goes to the log only: the client does not read HTTP
    ping: Callable[[str], bytes] | None = None  # set: the reply, made from a warning; healthy: ""
    rpc: RpcCall | None = None  # set: a function is called, not the app
    # The fields of proxies about their client, by CGI names; removed from `vars` (proxies/forwarded.py).
    forwarded: dict[str, str] | None = None
    # The fields of --underscore-fields, by CGI names, from any sender; trusted ones go into `vars` (features/underscore_fields.py).
    underscored: dict[str, str] | None = None
    connection: Any = None  # set at the exchange's turn (a Connection)
    client: Client | None = None  # set if a trusted proxy names a different client address
    response: Any = None  # set when the app is called (a Response)
    has_app_failed = False  # the app has raised an exception, or broken PEP 3333
    is_written = False  # the app has called write(), before any octets went out
    counted_bytes = 0  # of a large response in memory, counted in Budgets.memory
    counted_body: bytes | None = None  # the counted part of them, as an object
    entry: int | None = None  # the index in the table of connections/in_flight.py
    spool: ResponseSpool | None = None  # set when the response outruns its reader
    # By time.monotonic(), and only if Service.times_requests, in the lane also for Ends; 0.0: not reached yet.
    arrived_at: float = 0.0  # the request was whole (of a live body: the head), and waited for a worker from then on
    began_at: float = 0.0  # a worker began the request; or, without a thread_id, the client left before
    left_at: float = 0.0  # the worker was done, and the event loop sends the rest; 0.0, too: no rest
    thread_id = 0  # the thread of that worker
    # Looked at once a second, for a response sent in pieces: octets sent, and the time of the last growth (time.monotonic()).
    seen_bytes = 0
    grew_at: float = 0.0
    end = ANSWERED

    def __init__(self, vars: str, own_count: int = REQUEST_LINE_COUNT) -> None:
        self.vars = vars  # NAME NUL VALUE NUL ... , octets as latin-1
        # The number of pairs at the start of the request's own (cparsers/vars.h); a client repeats the rest in each request.
        self.own_count = own_count
        # Attributes read in every request are found sooner in the instance than in the class: 500 instructions fewer of 65,000 for hello
        # (2026-11-22, callgrind, CPython 3.11); with all of them set here 300 more.
        self.form = HTTP_1_1
        self.keep_alive = True
        self.is_head = False
        self.body = None
        self.is_from_front = False
        self.client = None

    @property
    def method_and_target(self) -> str:
        """Method and target as received. (A front server sends vars in any order, or none.)"""
        first = self.vars.split("\0", 4)
        if first[0] == "REQUEST_METHOD" and first[2:3] == ["REQUEST_URI"]:  # HTTP's
            return f"{first[1]} {first[3]}"
        parts = iter(self.vars.split("\0"))
        vars = dict(zip(parts, parts))
        return f"{vars.get('REQUEST_METHOD', '-')} {vars.get('REQUEST_URI') or vars.get('PATH_INFO', '-')}"

    @property
    def summary(self) -> str:
        """Method and target, escaped for a log; without userinfo; without the query, a place of secrets, unless --show-queries."""
        text, connection = without_userinfo(self.method_and_target), self.connection
        is_shown = connection is not None and connection.service.config.show_queries
        return escape(text if is_shown else without_query(text))


# With --reload, a key in the environ of a request with a field of a proxy about the client. No field can have this name.
IS_FORWARDED = "aserve.is_forwarded"


def escape(text: str) -> str:
    """Return a client's text escaped for a log: printable ASCII, with quotes, backslashes and all else escaped."""
    return (
        text
        if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
        else text.translate(_ESCAPES)
    )


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters of a text, and "..." in the place of the rest."""
    return text if len(text) <= most else f"{text[:most]}..."


def without_query(text: str) -> str:
    """Return "METHOD target" without the target's query."""
    target, mark, _ = text.partition("?")
    return f"{target}?..." if mark else target


def without_userinfo(text: str) -> str:
    """Return "METHOD target" without userinfo (before the host's @): RFC 9110 section 4.2.4 forbids userinfo, so only refused requests have it."""
    return _USERINFO.sub(r"\1...@", text) if "@" in text else text


def pairs_of(vars: str) -> dict[str, str]:
    """Return names and values; of a repeated name the last value."""
    # Measured with Debian's CPython 3.11: one split and a dict of pairs is 3 times as fast as slicing names and values one by one.
    parts = iter(vars.split("\0"))
    return dict(zip(parts, parts))


def refused_exchange(why: RequestRefused, request: Exchange | None) -> Exchange:
    """Return an exchange for the answer to a client's fault; `request` is the known part of the request, if any."""
    exchange = Exchange(request.vars, request.own_count) if request is not None else Exchange("", 0)
    exchange.is_head = request is not None and request.is_head
    exchange.is_from_front = request is not None and request.is_from_front
    exchange.forwarded = request.forwarded if request is not None else None
    exchange.keep_alive = False  # the place of the next request is unknown
    exchange.is_for_loop = True
    exchange.refusal = why
    return exchange


def _reserve_names() -> None:
    """
    Set once the attributes that are set after `__init__`, to tell CPython the names before many exchanges are made.

    From 3.11 on instances of a class share the table of attribute names, but only names set while the first 30 instances were made; a later name
    gives the instance a dict. A first batch of 50 requests with times cost each later one 1,900 instructions of 53,100, permanently (2026-11-23,
    callgrind, --threads 0, CPython 3.11).
    """
    first = Exchange("", 0)
    for name in ("connection", "response", "arrived_at", "began_at", "thread_id"):
        setattr(first, name, getattr(first, name))


_reserve_names()
