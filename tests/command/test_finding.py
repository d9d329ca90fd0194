"""The servable apps of a folder."""

import sys

import pytest

from aserve.command import cli
from aserve.command.finding import describe_found, find_apps

pytestmark = pytest.mark.long_on_pypy

MANAGE = """\
import os
def main():
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
"""
SETTINGS = 'DEBUG = True\nWSGI_APPLICATION = "shop.wsgi.application"\n'
WSGI = "from django.core.wsgi import get_wsgi_application\napplication = get_wsgi_application()\n"
FLASK = "from flask import Flask\napp = Flask(__name__)\n"


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "specs"),
    [
        ({}, []),
        ({"manage.py": MANAGE, "shop/settings.py": SETTINGS, "shop/wsgi.py": WSGI}, ["shop.wsgi:application"]),
        ({"manage.py": MANAGE, "shop/settings.py": "", "shop/wsgi.py": WSGI}, ["shop.wsgi:application"]),
        (
            {
                "manage.py": MANAGE,
                "shop/settings/__init__.py": 'WSGI_APPLICATION: str\nWSGI_APPLICATION = "web.app"',
                "web.py": "",
            },
            ["web:app"],
        ),
        ({"manage.py": MANAGE, "app.py": FLASK}, ["app:app"]),  # no settings, and so no app of Django's
        ({"manage.py": "f('DJANGO_SETTINGS_MODULE', 3)\ng()"}, []),
        ({"app.py": FLASK}, ["app:app"]),
        ({"app.py": FLASK, "wsgi.py": "from app import app as application"}, ["wsgi:application", "app:app"]),
        ({"main.py": "app: object = make()"}, ["main:app"]),
        ({"main.py": "app: object\na.app = b, c = 1, 2"}, ["main:app"]),
        ({"main.py": "def application(environ, start_response): pass"}, ["main:application"]),
        ({"main.py": "async def app(scope, receive, send): pass"}, []),
        ({"main.py": "app = FastAPI()"}, [""]),
        ({"main.py": "app = web.Starlette()"}, [""]),
        ({"main.py": "def create_app(): pass"}, ["main:create_app()"]),
        ({"main.py": "def create_app(mode='x'): pass"}, ["main:create_app()"]),
        ({"main.py": "def create_app(mode, x, y=1): pass"}, ["main:create_app(..., ...)"]),
        ({"main.py": "create_app = 3"}, []),
        ({"shop/__init__.py": "def create_app(): pass", "no-name/__init__.py": FLASK}, ["shop:create_app()"]),
        ({"shop/app.py": FLASK}, ["shop.app:app"]),
        ({"app.py": "app = ("}, []),
        ({"app.py": "x = 1"}, []),
        ({"hello.py": FLASK, "world.py": "app = make()"}, ["hello:app", "world:app"]),  # as in docs/start.md
        ({"hello.py": FLASK, "app.py": FLASK}, ["app:app"]),
        ({"test_a.py": FLASK, "conftest.py": "def app(): pass", "no-name.py": FLASK}, []),
    ],
)
def test_what_is_found(tmp_path, files, specs):
    """By reading: apps, factories, Django's settings; the likeliest first."""
    write(tmp_path, files)
    assert [one.spec for one in find_apps(str(tmp_path))] == specs


def test_what_is_said(tmp_path):
    """The found app, and the command to type, in a shell's form."""
    write(tmp_path, {"app.py": FLASK})
    text = describe_found(str(tmp_path), "aserve")
    assert "app.py  app = Flask(...)\nTo serve it:\n  aserve app:app\n" in text
    assert text.endswith("\nTo write its settings and a unit of systemd: aserve init\n")
    write(tmp_path, {"main.py": "def create_app(mode): pass", "server.py": "app = Quart()"})
    text = describe_found(str(tmp_path), "aserve")
    assert "To serve one of them:\n  aserve app:app\n  aserve 'main:create_app(...)'\nWith --reload" in text
    assert "main.py    create_app(), a factory, which takes 1 argument: write literals\n" in text
    assert "server.py  app = Quart(...): an ASGI app, and aserve serves WSGI\n" in text
    (tmp_path / "app.py").unlink()
    (tmp_path / "main.py").unlink()
    assert "To serve" not in describe_found(str(tmp_path), "aserve")


def test_the_command_without_an_app_imports_nothing(tmp_path, monkeypatch, capsys):
    """Without an APP the command lists the apps found, and ends with status 2."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"app.py": FLASK + "1/0"})
    before = set(sys.modules)
    assert cli.main([]) == 2
    assert " app:app\n" in capsys.readouterr().err and "app" not in set(sys.modules) - before
