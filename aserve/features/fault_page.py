"""The page that shows in a browser why the app cannot be imported, with --reload.

Owns:     FaultPages, the extension; FaultPage, a WSGI app in front of the app; the page; which clients may see it.
Thread:   `fault` is set on the event loop and read in worker threads; it is replaced as a whole.
Not here: importing code, and describing its fault (processes/, lifecycle/loading.py).

The page is for developers, after saving a file: so it answers requests for HTML. The previous app,
still loaded, answers all others: scripts, fetch(), curl.

It shows source code. So by default (--reload-page auto) it is shown only where all binds are on loopback, and to clients whose Host is a
name of loopback: an attacker's page whose name resolves to 127.0.0.1 for a moment (DNS rebinding) sends another Host. A request that was
forwarded by a front server on this machine does not get it: clients of tunnels and proxies may be anywhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from ..core.errors import Fault
from ..core.escaping import escape_html
from ..core.exchange import IS_FORWARDED
from ..extension import Extension
from ..lifecycle.loading import not_loaded
from ..settings import EngineSettings, Needs, parse_bind, row
from ..settings.kinds import choice
from ..wsgi import WSGIApp
from ..wsgi.wrapping import named_as

STATUS = "500 Internal Server Error"
MARK = "X-Aserve-Fault"  # for the page's script: the number of the fault, while there is one

# Fields of proxies, CDNs and tunnels that are in the environ; for all others proxies/forwarded.py sets a mark.
_OF_PROXIES = frozenset(
    ("HTTP_VIA", "HTTP_CDN_LOOP", "HTTP_CF_CONNECTING_IP", "HTTP_TRUE_CLIENT_IP", "HTTP_X_CLIENT_IP", "HTTP_X_CLUSTER_CLIENT_IP")
)  # fmt: skip

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>The app does not start</title>
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
<h1>The app does not start</h1>
<p class="why">{why}</p>
{trace}
<p class="note">{note} Save a file, and this page looks again by itself.</p>
<script>
const shown = {number};
setInterval(async () => {{
  try {{
    const answer = await fetch(location.href, {{method: "HEAD", headers: {{Accept: "text/html"}}, cache: "no-store"}});
    if (answer.headers.get("{mark}") !== shown) location.reload();
  }} catch {{ /* the server is away for a moment */ }}
}}, 1000);
</script>
</body>
</html>
"""
BEFORE = "The previous code still answers requests for anything but HTML; this page stands in place of its pages."
NOTHING_BEFORE = "Nothing has been served yet."


class FaultPageSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    reload_page: str = row(
        "auto", "Development", "--reload-page", choice("auto", "on", "off"),
        "whether --reload shows tracebacks in the browser; auto: where only this machine can connect, and calls it by a name of loopback",
        "A traceback shows source code and paths, which are for developers only.",
        needs=Needs(("reload",)),
        fixed=True,
    )
    # fmt: on


class FaultPage:
    """A WSGI app that answers with the fault while there is one, and otherwise calls the app."""

    def __init__(self, app: WSGIApp | None, config: FaultPageSettings, fault: Fault | None = None) -> None:
        """Wrap an app; None: there is no app, and `fault` must be given."""
        self._app = app
        self._is_shown, self._is_checked = _who_may_see(config)
        self.fault = fault
        named_as(self, app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        fault = self.fault
        if fault is None:
            assert self._app is not None
            return self._app(environ, start_response)
        is_from_proxy = _is_from_proxy(environ)
        is_own = is_loopback_name(environ.get("HTTP_HOST", "")) and not is_from_proxy
        may_see = self._is_shown and (is_own or not self._is_checked)
        wants_page = "text/html" in environ.get("HTTP_ACCEPT", "")
        if self._app is not None and not (may_see and wants_page):
            return self._app(environ, start_response)
        kind = "text/html" if may_see and wants_page else "text/plain"
        text = "The app does not start; its server's terminal says why.\n"
        if may_see:
            text = self._page(fault) if wants_page else f"{fault.why}\n\n{fault.app_traceback}"
        body = text.encode("utf-8", "backslashreplace")
        fields = [
            ("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"),
            (MARK, _number(fault)),
        ]  # fmt: skip
        start_response(STATUS, fields)
        return [body]

    def _page(self, fault: Fault) -> str:
        trace = f"<pre>{escape_html(fault.app_traceback)}</pre>" if fault.app_traceback else ""
        note = BEFORE if self._app is not None else NOTHING_BEFORE
        return PAGE.format(why=escape_html(fault.why), trace=trace, note=note, mark=MARK, number=f'"{_number(fault)}"')


def _number(fault: Fault) -> str:
    return f"{hash(fault) & 0xFFFFFFFF:08x}"


def _who_may_see(config: FaultPageSettings) -> tuple[bool, bool]:
    """Return whether the page is shown at all, and whether the client's Host is checked first."""
    if config.reload_page != "auto":
        return config.reload_page == "on", False
    return all(map(_is_on_loopback, config.bind)), True


def _is_from_proxy(environ: dict[str, Any]) -> bool:
    """
    Whether a front server has forwarded this request, so that the client may be anywhere; remove the mark of it.

    nginx by default sends the Host `127.0.0.1`, in HTTP/1.0 and without a field about its client; no browser sends HTTP/1.0.
    """
    is_marked = environ.pop(IS_FORWARDED, None) is not None
    return is_marked or environ.get("SERVER_PROTOCOL") == "HTTP/1.0" or not _OF_PROXIES.isdisjoint(environ)


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
    """--reload's page for code that cannot be imported."""

    switches = ("reload",)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        self._page = FaultPage(None if app is not_loaded else app, self._config)
        return self._page

    def show_fault(self, fault: Fault) -> None:
        """See Extension."""
        self._page.fault = fault
