"""Asking a server on its own event loop."""

import asyncio
import socket


def hello(environ, start_response):
    """Answer with a body without a line end."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


async def get(address, path="/", keep_alive=False):
    """Return the response's octets; with keep_alive, also the streams, still open."""
    if isinstance(address, str):
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*address)
    close = b"" if keep_alive else b"Connection: close\r\n"
    writer.write(b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (path.encode(), close))
    if keep_alive:
        octets = await reader.readuntil(b"\r\n\r\n")
        length = int(octets.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return octets + await reader.readexactly(length), reader, writer
    octets = await reader.read()
    writer.close()
    return octets


def is_open(address):
    """Return whether a program listens at this address."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else family) as client:
        return client.connect_ex(address) == 0
