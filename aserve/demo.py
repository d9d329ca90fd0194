"""The app that `aserve` serves if none was named: a page that shows the server working.

Owns:     the demo app: `/` the page, `/environ.json`, and `POST /echo`.
Thread:   a worker, as any app; it shows that thread's name.
Spec:     PEP 3333.
Not here: anything of the server; this is an ordinary app.
"""

from __future__ import annotations

import json
import platform
import string
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .core.escaping import escape_html
from .settings import VERSION

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ECHO_BLOCK_BYTES = 65536
SECURITY_HEADERS = [  # the page loads nothing from other origins
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
]


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer a request for one of the demo's three paths; otherwise list them."""
    path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
    if path == "/echo":
        if method != "POST":
            return _reply(start_response, "405 Method Not Allowed", "POST only\n", allow="POST")
        return _echo(environ, start_response)
    if path not in ("/", "", "/environ.json"):
        return _reply(start_response, "404 Not Found", "here are /, /environ.json and /echo\n")
    if method not in ("GET", "HEAD"):
        return _reply(start_response, "405 Method Not Allowed", "GET only\n", allow="GET, HEAD")
    if path == "/environ.json":
        text = json.dumps(_readable(environ), indent=2) + "\n"
        return _reply(start_response, "200 OK", text, "application/json")
    return _reply(start_response, "200 OK", _build_page(environ), "text/html; charset=utf-8")


def _reply(
    start_response: StartResponse,
    status: str,
    text: str,
    content_type: str = "text/plain; charset=utf-8",
    allow: str = "",
) -> list[bytes]:
    body = text.encode("utf-8", "backslashreplace")
    headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
    if allow:
        headers.append(("Allow", allow))  # RFC 9110 15.5.6
    start_response(status, headers + SECURITY_HEADERS)
    return [body]


def _echo(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    # Never the request's own type: an echoed page must not run in the server's origin.
    headers = [("Content-Type", "application/octet-stream"), *SECURITY_HEADERS]
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isdigit():
        start_response("200 OK", [*headers, ("Content-Length", length)])
        return _read_blocks(environ["wsgi.input"], int(length))
    start_response("200 OK", headers)
    # PEP 3333 promises an end only at CONTENT_LENGTH; this key promises one without it.
    is_terminated = environ.get("wsgi.input_terminated", False)
    return _read_blocks(environ["wsgi.input"], sys.maxsize if is_terminated else 0)


def _read_blocks(body: Any, length: int) -> Iterator[bytes]:
    while length > 0:
        block = body.read(min(length, ECHO_BLOCK_BYTES))
        if not block:
            return
        length -= len(block)
        yield block


def _readable(environ: WSGIEnvironment) -> dict[str, object]:
    """Return the environ sorted; values that JSON cannot express as their repr."""
    plain = (str, bool, int, float, type(None))
    return {name: value if isinstance(value, plain) else repr(value) for name, value in sorted(environ.items())}


# The page


def _build_page(environ: WSGIEnvironment) -> str:
    threads = "one of several" if environ.get("wsgi.multithread") else "the event loop's own"
    facts = {
        "version": VERSION,
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "loop": "uvloop" if "uvloop" in sys.modules else "asyncio",
        "protocol": environ.get("SERVER_PROTOCOL", "?"),
        "thread": threading.current_thread().name,
        "threads": threads,
        "client": _client(environ),
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "host": environ.get("HTTP_HOST") or "127.0.0.1:8000",
        "request": f"{environ['REQUEST_METHOD']} {_target(environ)}",
    }
    escaped = {name: escape_html(str(value)) for name, value in facts.items()}
    icon_url = "data:image/svg+xml," + ICON.replace("#", "%23").replace("'", "%27")
    return PAGE.substitute(escaped, rows=_build_rows(environ), icon=ICON, icon_url=icon_url)


def _client(environ: WSGIEnvironment) -> str:
    address, port = environ.get("REMOTE_ADDR", ""), environ.get("REMOTE_PORT", "")
    return f"{address} port {port}" if address and port else address or "a unix socket"


def _target(environ: WSGIEnvironment) -> str:
    raw = environ.get("REQUEST_URI") or environ.get("RAW_URI")
    if raw:
        return str(raw)
    query = environ.get("QUERY_STRING")
    return f"{environ.get('PATH_INFO', '')}{f'?{query}' if query else ''}"


def _build_rows(environ: WSGIEnvironment) -> str:
    return "".join(
        f"<tr><th scope=row>{escape_html(name)}</th><td>{_build_value(value)}</td></tr>\n"
        for name, value in sorted(environ.items())
    )


def _build_value(value: object) -> str:
    if value == "":
        return "<i>empty</i>"
    return escape_html(value if isinstance(value, str) else repr(value))


# The server in one picture: an event loop, the seam between threads, a worker.
ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 48 32' aria-hidden='true'>"
    "<circle cx='13' cy='16' r='9' fill='none' stroke='#e2703a' stroke-width='5'/>"
    "<path d='M29 3v26' stroke='#8a8f98' stroke-width='2' stroke-dasharray='3 3.4'/>"
    "<rect x='36' y='4' width='6' height='24' rx='3' fill='#3a7bd5'/></svg>"
)

PAGE = string.Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>aserve works</title>
<link rel="icon" href="$icon_url">
<style>
:root {
  --paper: #f6f5f1; --card: #ffffff; --ink: #1d2026; --soft: #5d636e; --line: #e0ded6;
  --loop: #c4551f; --worker: #2864b8; --code: #f1efe8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14161a; --card: #1c1f25; --ink: #e9e8e4; --soft: #9aa1ad; --line: #2e323a;
    --loop: #f0915f; --worker: #7fb0f2; --code: #14171c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 44px 24px 56px; }
header { display: flex; align-items: center; gap: 18px; margin-bottom: 30px; }
header svg { width: 84px; flex: none; }
h1 { margin: 0; font-size: 34px; line-height: 1.15; letter-spacing: -.02em; }
h2 { margin: 40px 0 14px; font-size: 19px; letter-spacing: -.01em; }
p { margin: 6px 0 0; color: var(--soft); }
code, pre, td, th { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono",
  monospace; font-size: 13.5px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.way { display: grid; grid-template-columns: repeat(4, 1fr); overflow: hidden; }
.way > div { padding: 18px 20px 20px; border-left: 1px solid var(--line); min-width: 0; }
.way > div:first-child { border-left: 0; }
.way > .seam { border-left: 2px dashed var(--soft); }
.way small { display: block; font-size: 12px; font-weight: 600; letter-spacing: .07em;
  text-transform: uppercase; color: var(--soft); }
.way b { display: block; margin: 5px 0 2px; font-size: 17px; overflow-wrap: anywhere; }
.way span { color: var(--soft); font-size: 14px; overflow-wrap: anywhere; }
.loop small { color: var(--loop); }
.worker small { color: var(--worker); }
.next { display: grid; grid-template-columns: 1fr 1fr; gap: 18px; }
.next > div { padding: 18px 20px 20px; min-width: 0; }
.next h3 { margin: 0 0 10px; font-size: 15px; }
.next p { font-size: 14px; margin: 12px 0; }
.next p:last-child { margin: 14px 0 0; padding-top: 12px; border-top: 1px solid var(--line); }
pre { margin: 0; padding: 12px 14px; background: var(--code); border: 1px solid var(--line);
  border-radius: 8px; overflow-x: auto; line-height: 1.6; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 8px 18px; margin: 0; font-size: 14px; }
dt code { color: var(--worker); white-space: nowrap; }
dd { margin: 0; color: var(--soft); }
.environ { overflow-x: auto; padding: 6px 20px; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: 7px 0; border-top: 1px solid var(--line); text-align: left;
  vertical-align: top; font-weight: 400; }
tr:first-child > * { border-top: 0; }
th { padding-right: 28px; white-space: nowrap; color: var(--worker); }
td { overflow-wrap: anywhere; width: 100%; }
td i { color: var(--soft); }
a { color: var(--worker); }
@media (max-width: 760px) {
  main { padding: 26px 16px 40px; }
  header svg { width: 60px; }
  h1 { font-size: 27px; }
  .way, .next { grid-template-columns: minmax(0, 1fr); }
  .way > div, .way > .seam { border-left: 0; border-top: 1px solid var(--line);
    padding: 14px 18px; }
  .way > div:first-child { border-top: 0; }
  .way > .seam { border-top: 2px dashed var(--soft); }
  dl { grid-template-columns: 1fr; gap: 2px; }
  dd { margin-bottom: 10px; }
  .environ { padding: 4px 16px; }
  th, td { display: block; padding: 0; border: 0; }
  th { padding-top: 9px; }
  td { padding-bottom: 9px; border-bottom: 1px solid var(--line); }
  tr:last-child td { border-bottom: 0; }
}
</style>
</head>
<body>
<main>
<header>$icon
<div><h1>aserve works</h1>
<p>Version $version on $interpreter. You see the demo app: it is served when no other is named.</p>
</div></header>

<section class="card way" aria-label="The way of this request">
<div><small>Client</small><b>$client</b><span>$request</span></div>
<div class="loop"><small>Wire protocol</small><b>$protocol</b><span>parsed in C</span></div>
<div class="loop"><small>Event loop</small><b>$loop</b><span>all connections</span></div>
<div class="worker seam"><small>Thread of the app</small><b>$thread</b><span>$threads</span></div>
</section>

<h2>What to type next</h2>
<section class="next">
<div class="card"><h3>Serve an app of your own</h3>
<pre>def app(environ, start_response):
    body = b"My own hello world!\\n"
    headers = [("Content-Type", "text/plain")]
    start_response("200 OK", headers)
    return [body]</pre>
<p>Save these five lines as <code>hello.py</code>, and in the same folder:</p>
<pre>aserve hello:app</pre>
</div>
<div class="card"><h3>Then</h3>
<dl>
<dt><code>aserve mysite.wsgi:application</code></dt><dd>a Django project</dd>
<dt><code>aserve "shop:create_app()"</code></dt><dd>a factory's app</dd>
<dt><code>aserve --bind :8080 hello:app</code></dt><dd>for other machines, too</dd>
<dt><code>aserve --threads 8 hello:app</code></dt><dd>at most 8 workers</dd>
<dt><code>aserve --check hello:app</code></dt><dd>look, do not serve</dd>
<dt><code>aserve --help</code></dt><dd>all flags and defaults</dd>
</dl>
<p>Each setting and why it is so: <code>aserve docs settings</code>.
To send this page a request body: <code>curl -d hi $scheme://$host/echo</code></p>
</div>
</section>

<h2>The environ of this request</h2>
<section class="card environ"><table>$rows</table></section>
<p>The same for programs: <a href="/environ.json">/environ.json</a></p>
</main>
</body>
</html>
""")
