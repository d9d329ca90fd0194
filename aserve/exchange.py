"""One exchange: a request and what its protocol allows the response to be.

Owns:     Exchange, which crosses the seam between the event loop and a
          worker, and its reply back; ResponseForm, what a wire protocol wants a
          response to look like; Client, who asks.
Thread:   built on the event loop, or by the lane's leader, then its worker's; see docs/threads.md for what
          others touch meanwhile: the loop (a drain, a lost client) and threads of the app that write().
Spec:     RFC 9110 section 3.4 ("exchange").
Not here: parsing (protocols/), building the response (wsgi/response.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from .body import RequestBody
    from .errors import RequestRefused
    from .spool import ResponseSpool


class ResponseForm(NamedTuple):
    """What the response's octets look like on one wire protocol."""

    status_prefix: str  # what stands before "200 OK"
    may_chunk: bool  # RFC 9112 section 7.1: only towards an HTTP/1.1 client
    keep_alive_line: bytes  # the Connection field that says that the connection stays open; or nothing
    close_line: bytes  # the same, that it closes
    may_inform: bool  # 1xx responses: RFC 9110 section 15.2, not to an HTTP/1.0 client


_CLOSE = b"Connection: close\r\n"
HTTP_1_1 = ResponseForm("HTTP/1.1 ", may_chunk=True, keep_alive_line=b"", close_line=_CLOSE, may_inform=True)
# RFC 9112 appendix C.2.2: a 1.0 client that asked for keep-alive must be told that it got it.
HTTP_1_0 = HTTP_1_1._replace(may_chunk=False, keep_alive_line=b"Connection: keep-alive\r\n", may_inform=False)
# A front server copies the body as it is, until its length is reached or the connection closes.
UWSGI = ResponseForm("HTTP/1.1 ", may_chunk=False, keep_alive_line=b"", close_line=b"", may_inform=False)
SCGI_STATUS_LINE = UWSGI
SCGI_STATUS_FIELD = UWSGI._replace(status_prefix="Status: ")  # RFC 3875 section 6.3.3


# What could forge a line of a log or a field of it (quotes, backslashes, controls), and octets above ASCII: nobody knows
# their encoding, and terminals obey some. Apache and nginx write them like this, too.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), ord('"'), ord("\\"), *range(127, 256))}


class RpcCall(NamedTuple):
    """A uwsgi RPC packet."""

    modifier2: int  # chooses the form of the reply
    items: list[bytes]  # function name, then arguments
    accept: str  # with modifier2 2: the media type that the caller wants
    is_head: bool = False  # with modifier2 2: the caller wants the head alone


class Client(NamedTuple):
    """Who a request is from, as a trusted proxy tells: a value, never another connection."""

    remote_addr: str  # "" on a unix socket
    remote_port: str
    base_environ: dict[str, Any]  # what is the same in each environ of this client


class Exchange:
    """
    One request, as far as the app needs it, and the form of its response.

    The class attributes are those of the plain request that most are; a
    protocol sets only what differs (measured: 0.2 us less than setting all).
    """

    form: ResponseForm = HTTP_1_1
    keep_alive = True  # may become False until the response's head is built
    is_head = False  # RFC 9110 section 9.3.2: the response has no body
    body: RequestBody | None = None
    is_from_front = False  # the vars come from a front server, as CGI has them, not from a client
    is_mounted = False  # SCRIPT_NAME is to be taken off PATH_INFO
    is_for_loop = False  # the event loop answers by itself: a refusal, or a ping
    refusal: RequestRefused | None = None  # set: the reply is this error, the app is not called
    is_silent = False  # the refusal goes to the log only: who asked does not read HTTP
    ping: Callable[[str], bytes] | None = None  # set: the reply, made from a warning; healthy: ""
    rpc: RpcCall | None = None  # set: a function is called, not the app
    # What proxies tell of their client, by CGI names, and no longer in `vars` (proxies/forwarded.py).
    forwarded: dict[str, str] | None = None
    connection: Any = None  # set when it is the exchange's turn (a Connection)
    client: Client | None = None  # set where a trusted proxy tells of another than is connected
    response: Any = None  # set when the app is called (a Response)
    is_written = False  # the app has called write(), before any of its octets went out
    counted_bytes = 0  # of a large response in memory, counted in Budgets.memory
    spool: ResponseSpool | None = None  # set when the response outruns its reader

    def __init__(self, vars: str, nvars: int) -> None:
        self.vars = vars  # NAME NUL VALUE NUL ... , octets as latin-1
        self.nvars = nvars  # pairs in `vars`

    @property
    def summary(self) -> str:
        """Method and target, escaped for a log; a front server sends its vars in any order, or not at all."""
        parts = iter(self.vars.split("\0"))
        vars = dict(zip(parts, parts))
        return escape(f"{vars.get('REQUEST_METHOD', '-')} {vars.get('REQUEST_URI') or vars.get('PATH_INFO', '-')}")


def escape(text: str) -> str:
    """Return octets of the wire as a log may hold them: printable ASCII without quotes and backslashes of theirs."""
    return (
        text
        if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
        else text.translate(_ESCAPES)
    )


def refused_exchange(why: RequestRefused, request: Exchange | None) -> Exchange:
    """Return what answers a client's fault; `request` is what is known of the request, if anything."""
    exchange = Exchange(request.vars, request.nvars) if request is not None else Exchange("", 0)
    exchange.is_head = request is not None and request.is_head
    exchange.forwarded = request.forwarded if request is not None else None
    exchange.keep_alive = False  # where the next request would begin is not known
    exchange.is_for_loop = True
    exchange.refusal = why
    return exchange
