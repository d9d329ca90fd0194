"""What a browser is shown of code that cannot be imported, with --reload.

Owns:     FaultPages, the extension; FaultPage, a WSGI app before the app; the page; who may see it.
Thread:   `fault` is set on the event loop and read in workers; it is replaced as a whole.
Not here: when code is imported, and what its fault is (processes/, lifecycle/loading.py).

The page is for whoever has just saved a file, and looks at the browser for what has become of it: so it answers those who ask for
HTML. The app of before goes on to answer everything else: scripts, fetch(), curl.

It shows source code. So by default (--reload-page auto) it is shown only where all binds are on loopback, and to clients that call this
machine by a name of loopback: an attacker's page, whose name leads to 127.0.0.1 for a moment, calls it by another. What looks forwarded
by a front server on this machine is nobody's on this machine: tunnels and proxies have clients anywhere.
"""

from __future__ import annotations

import dataclasses
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
MARK = "X-Aserve-Fault"  # tells the page's script which fault this is, and that there is one

# Fields of proxies, CDNs and tunnels that reach the app; the others leave a mark (proxies/forwarded.py).
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
BEFORE = (
    "The code of before still answers whatever does not ask for HTML; its pages are not shown, so that you see this."
)
NOTHING_BEFORE = "Nothing has been served yet."


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class FaultPageSettings(EngineSettings):
    """Its settings."""

    # fmt: off
    reload_page: str = row(
        "auto", "Development", "--reload-page", choice("auto", "on", "off"),
        "whether --reload shows tracebacks in the browser; auto: where only this machine can connect, and calls it by a name of loopback",
        "A traceback shows source code and paths, which are for nobody else.",
        needs=Needs(("reload",)),
        fixed=True,
    )
    # fmt: on


class FaultPage:
    """An app that shows a fault while there is one, and is the app beside that."""

    def __init__(self, app: WSGIApp | None, config: FaultPageSettings, fault: Fault | None = None) -> None:
        """Stand before an app; None: there is none, and there must be a fault."""
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
    """Return whether the page is shown at all, and whether the name that a client calls us by is looked at."""
    if config.reload_page != "auto":
        return config.reload_page == "on", False
    return all(map(_is_on_loopback, config.bind)), True


def _is_from_proxy(environ: dict[str, Any]) -> bool:
    """
    Whether a front server has forwarded this, whose clients may be anywhere; the mark of it is taken out.

    Some send the Host `127.0.0.1`, as nginx does by default, in HTTP/1.0 and without a field about its client: no browser speaks that.
    """
    is_marked = environ.pop(IS_FORWARDED, None) is not None
    return is_marked or environ.get("SERVER_PROTOCOL") == "HTTP/1.0" or not _OF_PROXIES.isdisjoint(environ)


def _is_on_loopback(text: str) -> bool:
    """Whether only this machine connects there, and without a front server: that would be asked by anybody."""
    bind = parse_bind(text)
    is_direct = bind.protocol in ("http", "https") and not bind.is_proxied
    return is_direct and bind.kind == "tcp" and is_loopback_name(f"[{bind.host}]")


def is_loopback_name(text: str) -> bool:
    """Whether this host, with a port or without, is a name or an address of loopback."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 6.3
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class FaultPages(Extension[FaultPageSettings]):
    """--reload: what it shows."""

    @staticmethod
    def is_on(config: FaultPageSettings) -> bool:
        """See Extension."""
        return config.reload

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        self._page = FaultPage(None if app is not_loaded else app, self._config)
        return self._page

    def show_fault(self, fault: Fault) -> None:
        """See Extension."""
        self._page.fault = fault
