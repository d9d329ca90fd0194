"""What our own Python costs a request of hello: from the vars block to the octets of the response.

Use:      python benchmarks/bench_respond.py
Rows:     environ: build_environ; response: start_response and complete; respond: all of Gateway.respond,
          so these two, the app, and what is between them.
Columns:  http: wrk's bare head; browser: a dozen fields more; front: what nginx sends by uwsgi_params.
Numbers:  the best of several runs, in microseconds a request, without reading and writing.
"""

from __future__ import annotations

import platform
import timeit
from collections.abc import Callable

import apps

from aserve.core.exchange import Exchange
from aserve.wsgi import FileWrapper, Gateway
from aserve.wsgi.environ import build_base_environ, build_environ
from aserve.wsgi.response import CommonFields, Response

RUNS = 15
BARE = {
    "REQUEST_METHOD": "GET", "REQUEST_URI": "/", "PATH_INFO": "/", "QUERY_STRING": "",
    "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "127.0.0.1:8000",
}  # fmt: skip
BROWSER = {
    **BARE, "HTTP_CONNECTION": "keep-alive", "HTTP_CACHE_CONTROL": "max-age=0", "HTTP_DNT": "1",
    "HTTP_UPGRADE_INSECURE_REQUESTS": "1", "HTTP_USER_AGENT": "a browser's, of " + "some length " * 8,
    "HTTP_ACCEPT": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "HTTP_SEC_FETCH_SITE": "none",
    "HTTP_SEC_FETCH_MODE": "navigate", "HTTP_SEC_FETCH_USER": "?1", "HTTP_SEC_FETCH_DEST": "document",
    "HTTP_ACCEPT_ENCODING": "gzip, deflate, br", "HTTP_ACCEPT_LANGUAGE": "en-GB,en;q=0.9",
}  # fmt: skip
FRONT = {
    **BARE, "CONTENT_TYPE": "", "CONTENT_LENGTH": "", "DOCUMENT_ROOT": "/usr/share/nginx/html",
    "REQUEST_SCHEME": "http", "REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": "40000", "SERVER_PORT": "80",
    "SERVER_NAME": "",
}  # fmt: skip


class Client:
    """What build_environ asks of a connection."""

    base_environ = build_base_environ(
        "localhost", "8000", server_software="aserve", multithread=True, file_wrapper=FileWrapper
    )
    remote_addr, remote_port = "127.0.0.1", "40000"


COMMON_FIELDS = CommonFields("aserve")
GATEWAY = Gateway(apps.hello, COMMON_FIELDS, has_sendfile=True)


def new_exchange(vars: str, own_count: int, is_from_front: bool) -> Exchange:
    exchange = Exchange(vars, own_count)
    exchange.connection = Client
    if is_from_front:
        exchange.is_from_front = True
    return exchange


def make_response(exchange: Exchange) -> object:
    """Do with a response what hello makes the server do."""
    response = Response(exchange, COMMON_FIELDS)
    response.start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "19")])
    return response.complete(b"My Own Hello World!")


def measure(function: Callable[[Exchange], object], vars: dict[str, str]) -> float:
    """Return microseconds a call, without those for the exchange itself."""
    text = "".join(f"{name}\0{value}\0" for name, value in vars.items())
    is_from_front = vars is FRONT

    def run() -> None:
        function(new_exchange(text, len(vars), is_from_front))

    def run_nothing() -> None:
        new_exchange(text, len(vars), is_from_front)

    return best_of(run) - best_of(run_nothing)


def best_of(function: Callable[[], None]) -> float:
    count = 20_000
    return min(timeit.repeat(function, number=count, repeat=RUNS)) / count * 1e6


def main() -> None:
    """Print the table."""
    print(f"{platform.python_implementation()} {platform.python_version()}, us a request")
    print(f"{'':10}{'http':>10}{'browser':>10}{'front':>10}")
    rows = {"environ": build_environ, "response": make_response, "respond": GATEWAY.respond}
    for name, function in rows.items():
        figures = [measure(function, vars) for vars in (BARE, BROWSER, FRONT)]
        print(f"{name:10}" + "".join(f"{figure:10.2f}" for figure in figures))


if __name__ == "__main__":
    main()
