"""The pages in a browser, with --reload, about an app that cannot be imported, and about an app's exception.

Owns:     FaultPages, the extension; FaultPage, a WSGI app in front of the app; the pages; the clients allowed to see them.
Thread:   `fault` is set on the event loop, as a whole, and read in worker threads.
Spec:     proc(5), /proc/net/tcp.
Not here: importing code, and describing a fault (processes/, lifecycle/); the log of exceptions, and the responses with one (wsgi/gateway.py).

The page of code that cannot be imported is for developers, after saving a file: so the page answers requests for HTML. The previous app, still
loaded, answers all others: scripts, fetch(), curl.

A page shows source code. So by default (--reload-page auto) pages appear only where all binds are on loopback, and for clients with a Host of
loopback: an attacker's page under a name for 127.0.0.1 of a moment (DNS rebinding) sends another Host. Clients of tunnels and proxies on this
machine may be anywhere, and a proxy may send any fields, and any Host: nginx sends the Host `127.0.0.1` by default. So the peer must be a process
of this user, as a browser is; front servers run as users of their own. A developer's tunnel passes on the client's Host, unless configured
otherwise.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from collections.abc import Iterable
from typing import Any

from ..core.errors import Fault
from ..core.escaping import escape_html
from ..core.exchange import IS_FORWARDED, Exchange
from ..extension import Extension
from ..lifecycle.load_error import app_raised
from ..lifecycle.loading import not_loaded
from ..settings import EngineSettings, Needs, parse_bind, row
from ..settings.kinds import choice
from ..wsgi import WSGIApp
from ..wsgi.environ import build_bodyless_environ
from ..wsgi.head import Headers
from ..wsgi.wrapping import named_as

STATUS = "500 Internal Server Error"
MARK = "X-Aserve-Fault"  # for the page's script: the number of the fault, while there is one

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; max-width: 60rem; padding: 2rem 1rem; font: 1rem/1.5 system-ui, sans-serif;
  background: #fff; color: #1b1b1b; }}
h1 {{ font-size: 1.4rem; margin: 0 0 .5rem; }}
.why {{ color: #b00020; font-weight: 600; overflow-wrap: anywhere; }}
pre {{ padding: 1rem; overflow: auto; background: #f4f4f4; border-radius: .4rem; font: .9rem/1.5 ui-monospace, monospace; }}
.note {{ color: #5a5a5a; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #161616; color: #ececec; }} .why {{ color: #ff8a80; }} pre {{ background: #242424; }}
  .note {{ color: #a8a8a8; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="why">{why}</p>
{trace}
<p class="note">{note}</p>
{script}</body>
</html>
"""
LOOKS_AGAIN = """<script>
const shown = "{number}";
setInterval(async () => {{
  try {{
    const answer = await fetch(location.href, {{method: "HEAD", headers: {{Accept: "text/html"}}, cache: "no-store"}});
    if (answer.headers.get("{mark}") !== shown) location.reload();
  }} catch {{ /* the server is away for a moment */ }}
}}, 1000);
</script>
"""
AGAIN = "Save a file, and this page looks again by itself."
BEFORE = "The previous code still answers all other requests; this page takes the place of its HTML pages."
NOTHING_BEFORE = "Nothing has been served yet."
# Without a script: to ask again may change something.
RAISED = "The terminal shows it, too. --reload-page off hides this page."


class FaultPageSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    reload_page: str = row(
        "auto", "Development", "--reload-page", choice("auto", "on", "off"),
        "whether --reload shows tracebacks in the browser; auto: to this user's programs, where only this machine can connect, by a name of loopback",
        "A traceback shows source code and paths, for developers only.",
        needs=Needs(("reload",)),
        fixed=True,
    )
    # fmt: on


class FaultPage:
    """A WSGI app that answers with the fault while there is one, and otherwise calls the app."""

    def __init__(self, app: WSGIApp | None, config: FaultPageSettings, fault: Fault | None = None) -> None:
        """Wrap an app; None: there is no app, and `fault` must be given."""
        self._app = app
        self._is_checked = config.reload_page == "auto"  # the client's Host, first
        self._is_shown = all(map(_is_on_loopback, config.bind)) if self._is_checked else config.reload_page == "on"
        self.fault = fault
        named_as(self, app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        fault = self.fault
        if fault is None:
            assert self._app is not None
            return self._app(environ, start_response)
        may_see = self.may_see(environ)
        if self._app is not None and not (may_see and _wants_page(environ)):
            return self._app(environ, start_response)
        number = f"{hash(fault) & 0xFFFFFFFF:08x}"
        fields, body = _plain("The app does not start; its server's terminal says why.\n")
        if may_see:
            note = f"{BEFORE if self._app is not None else NOTHING_BEFORE} {AGAIN}"
            script = LOOKS_AGAIN.format(mark=MARK, number=number)
            fields, body = describe(fault, "The app does not start", note, script, environ)
        start_response(STATUS, [*fields, (MARK, number)])
        return [body]

    def may_see(self, environ: dict[str, Any]) -> bool:
        """Whether a client may see source code; remove the mark of the client's proxy."""
        is_marked = environ.pop(IS_FORWARDED, None) is not None
        if not self._is_checked:
            return self._is_shown
        # No browser sends HTTP/1.0, and nginx does by default.
        is_direct = not is_marked and environ.get("SERVER_PROTOCOL") != "HTTP/1.0"
        return self._is_shown and is_direct and is_loopback_name(environ.get("HTTP_HOST", "")) and is_ours(environ)


def describe(fault: Fault, title: str, note: str, script: str, environ: dict[str, Any]) -> tuple[Headers, bytes]:
    """Return fields and body about a fault: a page, or text for clients without a wish for HTML."""
    if not _wants_page(environ):
        return _plain(f"{fault.why}\n\n{fault.app_traceback}")
    trace = f"<pre>{escape_html(fault.app_traceback)}</pre>" if fault.app_traceback else ""
    return _encode(
        "text/html", PAGE.format(title=title, why=escape_html(fault.why), trace=trace, note=note, script=script)
    )


def _wants_page(environ: dict[str, Any]) -> bool:
    return "text/html" in environ.get("HTTP_ACCEPT", "")


def _plain(text: str) -> tuple[Headers, bytes]:
    return _encode("text/plain", text)


def _encode(kind: str, text: str) -> tuple[Headers, bytes]:
    body = text.encode("utf-8", "backslashreplace")
    fields = [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(body)))]
    return [*fields, ("Cache-Control", "no-store")], body


def is_ours(environ: dict[str, Any]) -> bool:
    """Whether the peer of a connection on loopback is a process of this user; False: also if unknown to the kernel."""
    try:
        packed = ipaddress.ip_address(environ["REMOTE_ADDR"]).packed
        port, own_port = int(environ["REMOTE_PORT"]), int(environ["SERVER_PORT"])
    except (KeyError, ValueError):  # changed by a layer in front
        return False
    words = struct.unpack(f"={len(packed) // 4}I", packed)  # the tables have them in this machine's byte order
    # An address of IPv4 stands at the end of the address's form in IPv6.
    peer = "".join(f"{word:08X}" for word in words) + f":{port:04X}"
    here, user = f":{own_port:04X}", str(os.getuid())
    for path in _TABLES:
        with contextlib.suppress(OSError), open(path, encoding="ascii") as table:
            for _, local, remote, state, _, _, _, uid, *_ in map(str.split, table):
                if local.endswith(peer) and remote.endswith(here) and state == _ESTABLISHED:
                    return uid == user
    return False


def _is_on_loopback(text: str) -> bool:
    """Whether only this machine connects there, and without a front server, whose clients may be anywhere."""
    bind = parse_bind(text)
    is_direct = bind.protocol in ("http", "https") and not bind.is_proxied
    return is_direct and bind.kind == "tcp" and is_loopback_name(f"[{bind.host}]")


def is_loopback_name(text: str) -> bool:
    """Whether this host, with or without a port, is a name or an address of loopback."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 6.3
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class FaultPages(Extension[FaultPageSettings]):
    """--reload's pages."""

    switches = ("reload",)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        self._page = FaultPage(None if app is not_loaded else app, self._config)
        return self._page

    def show_fault(self, fault: Fault) -> None:
        """See Extension."""
        self._page.fault = fault

    def explain(self, exchange: Exchange, fault: BaseException) -> tuple[str, Headers, bytes] | None:
        """See Extension."""
        environ = build_bodyless_environ(exchange)
        if not self._page.may_see(environ):
            return None
        raised = app_raised(exchange.summary, "answering", fault)
        shown = Fault(str(raised), raised.app_traceback)
        return (STATUS, *describe(shown, "The app has raised an exception", RAISED, "", environ))
