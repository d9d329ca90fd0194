"""Responses waiting for clients in temporary files: the event loop sends them at the speed of the clients.

Owns:     reading a spool a piece at a time; the end of a response in a spool.
Thread:   event loop only; workers post these functions.
Not here: the file (core/spool.py), the choice of this way (sending.py).
"""

from __future__ import annotations

import functools
import logging
from typing import cast

from ...core.exchange import Exchange
from ...core.spool import ResponseSpool
from ..connection import tells_its_end
from .outbox import Outbox

logger = logging.getLogger("aserve")

# Each read from a spool makes a new object, and PyPy has a nursery for objects up to about this size. Measured 2026-11-21, 64 readers of 8 MiB
# each: PyPy grew by 350 MB with 256 KiB.
SPOOL_PIECE_BYTES = 1 << 16


def send_spooled(outbox: Outbox, exchange: Exchange) -> None:
    """Send a piece of the response's spool whenever there is room."""
    if not outbox.is_current(exchange):
        return  # cut short meanwhile
    spool = cast(ResponseSpool, exchange.spool)
    if outbox.is_lost:
        outbox.close_spool(spool)
        spool.has_reader = False
    elif outbox.is_write_paused:
        outbox.when_writable(functools.partial(send_spooled, outbox, exchange))
        return
    else:
        try:
            octets = spool.read(SPOOL_PIECE_BYTES)
        except OSError as exc:
            logger.error("%s: a response was lost in its temporary file: %s", outbox.service.name, exc)
            outbox.cut_lost(exchange, "its temporary file cannot be read")
            send_spooled(outbox, exchange)
            return
        if octets:
            outbox.transport.write(octets)
            outbox.service.loop.call_soon(send_spooled, outbox, exchange)  # other connections have a turn
    outbox.wake_waiter()
    if spool.is_ended and not spool.has_reader:
        _end(outbox, exchange)


def end_spooled(outbox: Outbox, exchange: Exchange, why: str | None) -> None:
    """End a response whose app is done, after the spool's last octet; `why`: the response was cut short."""
    spool = cast(ResponseSpool, exchange.spool)
    spool.is_ended, spool.end_error = True, why
    if not spool.has_reader:
        _end(outbox, exchange)


def _end(outbox: Outbox, exchange: Exchange) -> None:
    spool = cast(ResponseSpool, exchange.spool)
    outbox.close_spool(spool)
    if spool.end_error is None:
        outbox.end(exchange)
        return
    cut = functools.partial(outbox.cut, exchange, spool.end_error)
    if tells_its_end(exchange):
        cut()
    else:
        # The client gets everything made before the app's failure; cut when the transport is empty.
        outbox.when_empty(cut)
