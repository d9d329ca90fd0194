"""Apps that take the socket of a request for a WebSocket, and clients that ask for one; their words are no frames, as aserve reads none."""

import threading

from . import apps

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ASKING = ("Connection: Upgrade", "Upgrade: websocket")


def begin(client, target="/", *fields):
    client.request(target, *ASKING, *fields)
    assert client.recv_head().status == 101
    return client


class Switching:
    """An app that switches to `talk(sock)`. Without a socket, and below /plain, it answers over HTTP."""

    def __init__(self, talk=None, answer=apps.hello):
        self.talk = talk or echo
        self.answer = answer
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.environs = []

    def __call__(self, environ, start_response):
        self.environs.append(environ)
        sock = environ.get("werkzeug.socket")
        assert sock is environ.get("gunicorn.socket")
        if sock is None or environ["PATH_INFO"].startswith("/plain"):
            return self.answer(environ, start_response)
        sock.sendall(SWITCHING)
        self.began.release()
        try:
            self.talk(sock)
        finally:
            sock.close()
            self.ended.release()
        return apps.hello(environ, start_response)  # no client gets it


class Held:
    """An app that waits, with a request in it, until the test lets it go on."""

    def __init__(self, app):
        self.app = app
        self.is_in, self.may_begin = threading.Event(), threading.Event()

    def __call__(self, environ, start_response):
        self.is_in.set()
        self.may_begin.wait(30)
        return self.app(environ, start_response)


def echo(sock):
    """Send received octets back, up to the end."""
    while True:
        octets = sock.recv(65536)
        if not octets:
            return
        sock.sendall(octets)
