"""The field of a response that tells the wait for a thread."""

import pytest
from harness import apps
from harness.gateways import new_exchange

from aserve.core.exchange import HTTP_1_0, HTTP_1_1, SCGI_STATUS_FIELD, UWSGI
from aserve.features.queue_wait import QueueWaitField
from aserve.wsgi import Gateway
from aserve.wsgi.response import CommonFields, error_response

COMMON_FIELDS = CommonFields("")  # one for all compared responses: each has the second of its start as Date


def respond(form=HTTP_1_1, app=apps.hello, arrived_at=100.0, keep_alive=True):
    """Return an exchange and the octets of its response, to a request begun after 12.54 ms."""
    exchange = new_exchange()
    exchange.form, exchange.arrived_at, exchange.began_at = form, arrived_at, 100.01254
    exchange.keep_alive = keep_alive
    reply = Gateway(app, COMMON_FIELDS, True, [QueueWaitField("X-Wait")]).respond(exchange)
    return exchange, reply if isinstance(reply, bytes) else b"".join(reply)


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("form", [HTTP_1_1, HTTP_1_0, UWSGI, SCGI_STATUS_FIELD])
def test_forms_differ_by_one_line(form, keep_alive):
    """The field is one line more, whatever the head."""
    exchange, octets = respond(form, keep_alive=keep_alive)
    head, _, body = octets.partition(b"\r\n\r\n")
    assert head.count(b"\r\nX-Wait: 12.5") == 1 and body == b"hello\n"
    exchange.form = form
    plain = Gateway(apps.hello, COMMON_FIELDS, has_sendfile=True).respond(exchange)
    assert sorted(octets.replace(b"X-Wait: 12.5\r\n", b"").split(b"\r\n")) == sorted(plain.split(b"\r\n"))


@pytest.mark.provokes("raised")
@pytest.mark.parametrize("app", [apps.lazy_generator, apps.raises])
def test_pieces_and_failures(app):
    """A response in pieces has the field, and so has our own, also from the event loop."""
    exchange, octets = respond(app=app)
    assert octets.count(b"\r\nX-Wait: 12.5\r\n") == 1
    assert error_response(504, "late", exchange, CommonFields("")).count(b"\r\nX-Wait: 12.5\r\n") == 1


def test_no_wait_is_told_as_zero():
    assert b"\r\nX-Wait: 0.0\r\n" in respond(arrived_at=0.0)[1]
