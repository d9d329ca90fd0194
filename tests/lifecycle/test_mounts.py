"""Several apps, each below a path."""

import sys

import pytest
from harness import apps
from harness.calling import call

from aserve.core.errors import AserveError
from aserve.lifecycle.mounts import Mounts, load_with_mounts, nothing_here
from aserve.settings.prefixes import Below


def named(name):
    """Return an app that tells its name and its place."""

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
def test_the_longest_prefix_wins(path, text):
    """The longest prefix of whole segments wins; both variables together are the path (PEP 3333)."""
    assert call(MOUNTS, path).body.decode("latin-1") == text


def test_below_a_mount_of_the_front_server():
    """A prefix goes behind the present SCRIPT_NAME."""
    assert call(MOUNTS, "/a/x", SCRIPT_NAME="/site").body == b"a /site/a|/x"


def test_a_mount_at_the_root():
    assert call(Mounts([("", named("root"))], named("main")), "/x").body == b"root |/x"


def test_loading_imports_all_apps(tmp_path, monkeypatch):
    assert load_with_mounts((), lambda: apps.hello) is apps.hello
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("one", "two"):
        (tmp_path / f"mounted_{name}.py").write_text(
            f"def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{name}']\n"
        )
    mounted = [Below(f"/{name}", f"{tmp_path}/mounted_{name}.py:app") for name in ("one", "two")]
    mounts = load_with_mounts(mounted, lambda: apps.hello)
    for name in ("one", "two"):
        assert call(mounts, f"/{name}/x").body == name.encode()
        del sys.modules[f"mounted_{name}"]
    assert call(mounts, "/").body == b"hello\n"
    with pytest.raises(AserveError, match="there is no file"):
        load_with_mounts([Below("/a", f"{tmp_path}/gone.py:app")], lambda: apps.hello)


def test_nothing_here_is_a_404():
    answer = call(nothing_here)
    assert (answer.status, answer.body) == ("404 Not Found", b"404: nothing is served at this path\n")
