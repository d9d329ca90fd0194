"""Apps of the frameworks that test_frameworks.py serves."""

from __future__ import annotations

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
            """Return a page."""
            return "Hello from CherryPy"

        @cherrypy.expose
        @cherrypy.tools.json_in()
        @cherrypy.tools.json_out()
        def json(self) -> Any:
            """Return the JSON that came."""
            return {"got": cherrypy.request.json}

        @cherrypy.expose
        def upload(self, file: Any) -> str:
            """Return the size of an upload."""
            return f"{file.filename} {len(file.file.read())}"

        @cherrypy.expose
        def stream(self) -> Any:
            """Return a body in pieces."""
            return (f"line {number}\n".encode() for number in range(1000))

        stream._cp_config = {"response.stream": True}  # CherryPy's own way

    cherrypy.config.update({"environment": "embedded", "log.screen": False})
    return cherrypy.Application(Root(), "")
