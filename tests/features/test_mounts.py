"""Several apps, each below a path."""

from __future__ import annotations

import sys

import pytest
from harness import apps
from harness.calling import call

from aserve.core.errors import AserveError
from aserve.features import Config
from aserve.features.mounts import Mounts, check_mounts, load_mounts, nothing_here
from aserve.lifecycle.loading import not_loaded
from aserve.settings import ConfigError


def named(name):
    """Return an app that tells its name, and where it is."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [f"{name} {environ['SCRIPT_NAME']}|{environ['PATH_INFO']}".encode("latin-1")]

    return app


MOUNTS = Mounts([("/a", named("a")), ("/a/b", named("ab")), ("/\u00c3\u00a9", named("accent"))], named("main"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "main |/"),
        ("", "main |"),
        ("*", "main |*"),
        ("/a", "a /a|"),
        ("/a/", "a /a|/"),
        ("/a/x/y", "a /a|/x/y"),
        ("/a//b", "a /a|//b"),
        ("/a/b", "ab /a/b|"),
        ("/a/b/c", "ab /a/b|/c"),
        ("/a/bc", "a /a|/bc"),
        ("/ab", "main |/ab"),
        ("/A", "main |/A"),
        ("/x/a", "main |/x/a"),
        ("/\u00c3\u00a9/x", "accent /\u00c3\u00a9|/x"),
    ],
)
def test_which(path, text):
    """The longest prefix of whole segments wins; both variables together are the path (PEP 3333)."""
    assert call(MOUNTS, path).body.decode("latin-1") == text


def test_below_a_mount_of_the_front_server():
    """A prefix goes behind what stands in SCRIPT_NAME already."""
    assert call(MOUNTS, "/a/x", SCRIPT_NAME="/site").body == b"a /site/a|/x"


def test_a_mount_at_the_root():
    """It stands for the main app."""
    assert call(Mounts([("", named("root"))], named("main")), "/x").body == b"root |/x"


def test_loading(tmp_path, monkeypatch):
    """The apps are imported; without any nothing stands in front of the main app."""
    assert load_mounts((), apps.hello) is apps.hello
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("one", "two"):
        (tmp_path / f"mounted_{name}.py").write_text(
            f"def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{name}']\n"
        )
    mounts = load_mounts([f"/{name}={tmp_path}/mounted_{name}.py:app" for name in ("one", "two")], apps.hello)
    for name in ("one", "two"):
        assert call(mounts, f"/{name}/x").body == name.encode()
        del sys.modules[f"mounted_{name}"]
    assert call(mounts, "/").body == b"hello\n"
    with pytest.raises(AserveError, match="there is no file"):
        load_mounts([f"/a={tmp_path}/gone.py:app"], apps.hello)


def test_mounts_of_a_program():
    """Mounts are loaded by the command; a program would wait for apps that nobody has imported."""
    with pytest.raises(ConfigError, match=r"^mount is the command's"):
        check_mounts(apps.hello, Config(mount="/a=b:c"))
    check_mounts(Mounts([], apps.hello), Config(mount="/a=b:c"))
    check_mounts(apps.hello, Config())
    check_mounts(not_loaded, Config(mount="/a=b:c"))  # with --reload, until the app can be imported


def test_nothing_here():
    """Who asks where nothing is gets a text that says so."""
    answer = call(nothing_here)
    assert (answer.status, answer.body) == ("404 Not Found", b"404: nothing is served at this path\n")
