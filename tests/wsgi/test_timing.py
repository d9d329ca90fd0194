"""When a worker began a request: noted before the app is called."""

import threading
import time

from harness.fakes import FakeConnection

from aserve.core.exchange import Exchange
from aserve.wsgi import Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import CommonFields
from aserve.wsgi.timing import Timing


def test_the_time_of_the_beginning():
    """The app runs after it; the answer is passed on."""
    called_at = []

    def app(environ, start_response):
        called_at.append(time.monotonic())
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    exchange = Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/\0PATH_INFO\0/\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1")
    base = build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=None)
    exchange.connection = FakeConnection(base)
    before = time.monotonic()
    gateway = Gateway(app, CommonFields(""), True, [Timing()])
    assert gateway.respond(exchange).endswith(b"\r\n\r\nok")
    assert before <= exchange.began_at <= called_at[0]
    assert exchange.thread_id == threading.get_ident()
