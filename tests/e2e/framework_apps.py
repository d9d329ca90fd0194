"""Apps of the frameworks in test_frameworks.py."""

import io
import urllib.parse
from typing import Any


def create_flask() -> Any:
    """Return a Flask app: routes, JSON, an upload, a stream, an error."""
    import flask

    app = flask.Flask("flask_app")

    @app.get("/hello/<name>")
    def hello(name: str) -> str:
        return f"Hello {name}!"

    @app.post("/json")
    def echo_json() -> Any:
        return flask.jsonify(got=flask.request.get_json(), args=flask.request.args)

    @app.post("/upload")
    def upload() -> Any:
        file = flask.request.files["file"]
        return flask.jsonify(name=file.filename, size=len(file.read()), title=flask.request.form["title"])

    @app.get("/stream")
    def stream() -> Any:
        return flask.Response((f"line {number}\n" for number in range(1000)), mimetype="text/plain")

    @app.get("/file")
    def file() -> Any:
        return flask.send_file(__file__, conditional=True)

    @app.get("/error")
    def error() -> Any:
        raise ValueError("on purpose")

    return app


def create_werkzeug() -> Any:
    """Return Werkzeug's own test app."""
    from werkzeug.testapp import test_app

    return test_app


def create_cherrypy() -> Any:
    """Return a CherryPy app without CherryPy's server."""
    import cherrypy

    class Root:
        """The root of the tree."""

        @cherrypy.expose
        def index(self) -> str:
            return "Hello from CherryPy"

        @cherrypy.expose
        @cherrypy.tools.json_in()
        @cherrypy.tools.json_out()
        def json(self) -> Any:
            return {"got": cherrypy.request.json}

        @cherrypy.expose
        def upload(self, file: Any) -> str:
            return f"{file.filename} {len(file.file.read())}"

        @cherrypy.expose
        def stream(self) -> Any:
            """Return a body in pieces."""
            return (f"line {number}\n".encode() for number in range(1000))

        stream._cp_config = {"response.stream": True}  # CherryPy's own way

    cherrypy.config.update({"environment": "embedded", "log.screen": False})
    return cherrypy.Application(Root(), "")


class InternalRedirects:
    """Middleware for any app: a response of 307 is followed within the request, and the client sees the last response alone.

    start_response is kept back until the status is known; for a 307 the app is called again with the new target in the environ.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        seen = {environ["PATH_INFO"]}
        while True:
            environ["wsgi.input"] = io.BytesIO(body)  # RFC 9110 15.4.8: the same method, and the same content
            status, fields, pieces = self._call(environ)
            location = dict(fields).get("Location")
            if not status.startswith("307") or location is None:
                start_response(status, fields)
                return pieces
            target = urllib.parse.urlsplit(location)
            environ["PATH_INFO"] = urllib.parse.unquote_to_bytes(target.path).decode("latin-1")
            environ["QUERY_STRING"] = target.query
            if environ["PATH_INFO"] in seen:
                raise RuntimeError(f"{location} redirects to itself")
            seen.add(environ["PATH_INFO"])

    def _call(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], list[bytes]]:
        """Call the app; return its whole response."""
        started: list[Any] = []
        pieces: list[bytes] = []

        def start_response(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Any:
            started[:] = [status, fields]
            return pieces.append

        answer = self._app(environ, start_response)
        try:
            pieces.extend(answer)
        finally:
            getattr(answer, "close", lambda: None)()
        return started[0], started[1], pieces


def create_cherrypy_redirecting() -> Any:
    """Return a CherryPy app that redirects by 307 with middleware around it, and by CherryPy's internal redirects."""
    import cherrypy

    class Root:
        """The root of the tree."""

        @cherrypy.expose
        def old(self, **_: str) -> str:
            """Send the client elsewhere."""
            raise cherrypy.HTTPRedirect("/new?from=old", 307)

        @cherrypy.expose
        def older(self) -> str:
            """Redirect by CherryPy's own middleware, part of every Application."""
            raise cherrypy.InternalRedirect("/new", "from=older")

        @cherrypy.expose
        def loop(self) -> str:
            """Send the client back here."""
            raise cherrypy.HTTPRedirect("/loop", 307)

        @cherrypy.expose
        def new(self, **query: str) -> str:
            """Return the received method, query and form."""
            request = cherrypy.request
            return f"{request.method} {request.path_info} {sorted(query.items())}"

    cherrypy.config.update({"environment": "embedded", "log.screen": False})
    return InternalRedirects(cherrypy.Application(Root(), ""))
