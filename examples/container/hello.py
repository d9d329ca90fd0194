"""The app of the container: replace it by yours."""


def app(environ, start_response):
    """Greet."""
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"Hello from a container!\n"]
