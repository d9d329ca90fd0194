"""The app behind nginx: replace it by yours."""


def app(environ, start_response):
    """Greet the client that nginx has told of."""
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"Hello {environ['REMOTE_ADDR']}!\n".encode()]
