"""Frameworks' own commands that serve by aserve: manage.py runaserve, flask aserve."""

import sys
import urllib.error
import urllib.request

import pytest
from harness.process import ServerProcess, save
from harness.waiting import wait_until

PATIENCE_SECONDS = 30.0
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="--reload needs Linux"), pytest.mark.long_on_pypy]

MANAGE = """\
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop_settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """\
SECRET_KEY, DEBUG, ALLOWED_HOSTS, ROOT_URLCONF, STATIC_URL = "x", True, ["*"], "shop_urls", "static/"
STATICFILES_DIRS = ["files"]
USE_TZ = True
INSTALLED_APPS = ["django.contrib.staticfiles", "aserve.contrib.django"]
"""
URLS = """\
from django.http import HttpResponse
from django.urls import path
urlpatterns = [path("", lambda request: HttpResponse("%s"))]
"""
FLASK = """\
from flask import Flask
def create_app(name="one", **settings):
    app = Flask(__name__)
    app.config.update(settings)
    app.add_url_rule("/", view_func=lambda: f"{name} %s")
    app.add_url_rule("/raises", "raises", lambda: {}["a key"])
    app.register_error_handler(500, lambda fault: ("our own page", 500))
    return app
"""


class Framework(ServerProcess):
    """A framework's command."""

    def __init__(self, words, folder, **env):
        self.command = (sys.executable, *words)
        super().__init__([], folder, env, launcher=("env",))

    def wait_for_text(self, part):
        """Wait until the front page is this."""
        wait_until(lambda: part in self.get("/"), PATIENCE_SECONDS, lambda: self.log)

    def get(self, path, **fields):
        request = urllib.request.Request(self.url + path, headers=fields)
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    def browse(self, path):
        """Return a browser's page, an error too."""
        try:
            return self.get(path, Accept="text/html")
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()


@pytest.fixture
def start(tmp_path):
    running = []

    def start(*words, **env):
        running.append(Framework(words, tmp_path, **env))
        return running[-1]

    yield start
    for process in running:
        process.end()


def test_django_is_served_by_runaserve(start, tmp_path):
    """The project is served, with its static files, and served anew after a save."""
    pytest.importorskip("django")
    (tmp_path / "files").mkdir()
    for name, text in (
        ("manage.py", MANAGE), ("shop_settings.py", SETTINGS), ("shop_urls.py", URLS % "one"), ("files/a.css", "a {}"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    process = start("manage.py", "runaserve", "127.0.0.1:0")
    assert process.get("/") == "one" and process.get("/static/a.css") == "a {}"
    save(tmp_path / "shop_urls.py", URLS % "two")
    process.wait_for_text("two")
    process.wait_for_log("shop_urls.py has changed: done in")  # a reload under way gives way to the next
    save(tmp_path / "shop_urls.py", "def x(:")
    wait_until(lambda: "SyntaxError" in process.browse("/"), PATIENCE_SECONDS, lambda: process.log)
    assert process.get("/") == "two", process.log  # for other clients the old code serves
    save(tmp_path / "shop_urls.py", URLS % "three")
    process.wait_for_text("three")


def test_flask_is_served_by_its_command(start, tmp_path):
    """The app is found as flask finds it; with --debug a save is served."""
    pytest.importorskip("flask")
    (tmp_path / "shop_flask.py").write_text(FLASK % "one")
    process = start("-m", "flask", "--debug", "--app", "shop_flask:create_app('a')", "aserve", "-b", "127.0.0.1:0")
    assert process.get("/") == "a one"
    save(tmp_path / "shop_flask.py", FLASK % "two")
    process.wait_for_text("a two")


@pytest.mark.parametrize(
    ("words", "call", "has_debugger"),
    [
        (["--debug"], "()", True),
        (["--debug"], "(PROPAGATE_EXCEPTIONS=False)", False),  # flask's own setting: its handlers come first
        ([], "()", False),
    ],
)
def test_an_exception_in_a_view_of_flask(start, tmp_path, words, call, has_debugger):
    """With --debug the client sees Werkzeug's debugger, as with flask run; without, the app's errorhandler(500) answers."""
    pytest.importorskip("flask")
    (tmp_path / "shop_flask.py").write_text(FLASK % "one")
    process = start("-m", "flask", *words, "--app", f"shop_flask:create_app{call}", "aserve", "-b", "127.0.0.1:0")
    page = process.browse("/raises")
    assert ("Werkzeug Debugger" in page and "KeyError" in page) == has_debugger, process.log
    assert (page == "our own page") != has_debugger
    process.wait_for_log("KeyError: 'a key'")
    assert process.get("/") == "one one"
