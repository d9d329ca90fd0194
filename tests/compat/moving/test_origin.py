"""The flags of other servers' settings."""

import logging

import pytest

from aserve.compat.moving.gunicorn_hooks import GunicornHooks
from aserve.compat.moving.origin import read_origin
from aserve.features import Config

pytestmark = pytest.mark.long_on_pypy


def test_reading_tells_each_source(folder, monkeypatch, caplog):
    assert read_origin({}, {}) is None
    monkeypatch.setattr("aserve.compat.moving.origin.is_root", lambda: False)
    origin = read_origin({"uwsgi_ini": "app.ini"}, {})
    assert origin.draft.app == "a:b" and origin.settings["threads"] == 2 and "user" not in origin.settings
    assert origin.options["module"] == b"a:b" and origin.extensions == ()
    with caplog.at_level(logging.WARNING, "aserve"):
        origin.log_notes()
    assert caplog.messages == [
        "app.ini:3: uid = nobody: only root may become another; as in uWSGI, it has no effect",
        "app.ini:4: vaccum: aserve does not know it, and it has no effect; is vacuum meant?",
    ]
    monkeypatch.setattr("aserve.compat.moving.origin.is_root", lambda: True)
    assert read_origin({"uwsgi_ini": "app.ini"}, {}).settings["user"] == "nobody"
    (folder / "http.ini").write_text("[uwsgi]\nhttp-socket = 127.0.0.1:8000\nmodule = a:b\n")
    for settings, count in ({"trusted_proxies": "127.0.0.1"}, 0), ({}, 0), ({"environ_as": "uwsgi"}, 1):
        origin = read_origin({"uwsgi_ini": "http.ini"}, {})
        origin.note_proxies(Config(**settings))
        assert len(origin.draft.notes) == count
    assert "http.ini:2: http-socket = 127.0.0.1:8000: X-Forwarded-* of any client reach the app" in str(
        origin.draft.notes[0]
    )
    origin = read_origin({"gunicorn_conf": "conf.py"}, {})
    assert origin.settings["workers"] == 2 and origin.options == {}
    assert [type(one) for one in origin.extensions] == [GunicornHooks]


def test_development_imports_in_each_worker(folder):
    """--reload imports the app in each worker; a file without lazy-apps would import it once for all."""
    (folder / "two.ini").write_text("[uwsgi]\nmodule = a:b\nprocesses = 2\n")
    origin = read_origin({"uwsgi_ini": "two.ini"}, {})
    assert origin.settings_beside({})["preload"] is True and "preload" not in origin.settings_beside({"reload": True})
    (folder / "said.py").write_text("preload_app = True\n")
    assert read_origin({"gunicorn_conf": "said.py"}, {}).settings_beside({"reload": True})["preload"] is True


def test_command_lines_stand_in_for_files(folder):
    assert read_origin({"uwsgi_line": ["-w", "c:d", "app.ini:x"]}, {}).settings["threads"] == 3
    origin = read_origin({"gunicorn_line": ["-c", "conf.py", "a:b"]}, {})
    assert origin.draft.app == "a:b" and origin.settings["workers"] == 2
    assert [type(one) for one in origin.extensions] == [GunicornHooks]
