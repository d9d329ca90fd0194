"""--mount with the command: several apps in one server, also preloaded and replaced."""

import json
import signal

import pytest
from harness import apps, sidecars

from aserve.lifecycle.mounts import Mounts, nothing_here

OTHER = """\
def app(environ, start_response):
    start_response("200 OK", [])
    return [("%s %%s|%%s|%%s" %% (environ["SCRIPT_NAME"], environ["PATH_INFO"], environ["REQUEST_URI"])).encode()]
"""


@pytest.mark.long_on_pypy
def test_each_mounted_app_has_its_path(start_process, raw_client, tmp_path):
    """Each app has its path; files come first, and all other paths are the main app's."""
    (tmp_path / "other_app.py").write_text(OTHER % "other")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("file")
    server = start_process("hello", "--mount", "/other=other_app:app", "--static", f"/other/files={tmp_path / 'site'}")
    client = raw_client(server)
    for target, body in (
        ("/", b"hello\n"),
        ("/other?x=1", b"other /other||/other?x=1"),
        ("/other/a%20b", b"other /other|/a b|/other/a%20b"),
        ("/otherwise", b"hello\n"),
        ("/other/files/a.txt", b"file"),
        ("/other/files/b.txt", b"other /other|/files/b.txt|/other/files/b.txt"),
    ):
        assert client.fetch(target).body == body


def test_without_an_app(start_server, raw_client):
    """A path below no mount is 404, with a text, and no demo."""
    server = start_server(Mounts([("/a", apps.hello)], nothing_here), mount="/a=harness.apps:hello", is_checked=False)
    client = raw_client(server)
    assert client.fetch("/a/x").body == b"hello\n"
    reply = client.fetch("/b")
    assert (reply.status, reply.body) == (404, b"404: nothing is served at this path\n")


@pytest.mark.parametrize("protocol", sidecars.PROTOCOLS)
def test_behind_a_front_server(start_server, raw_client, protocol):
    """A mount stands below the front server's."""
    mounts = Mounts([("/a", apps.environ_json)], apps.hello)
    server = start_server(mounts, bind=f"{protocol}://127.0.0.1:0", is_checked=False)
    reply = sidecars.fetch(raw_client(server), protocol, "/a/x", SCRIPT_NAME="/site")
    environ = json.loads(reply.body)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/site/a", "/x")
    assert sidecars.fetch(raw_client(server), protocol, "/b").body == b"hello\n"


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("preload", [(), ("--preload",)])
def test_a_reload_renews_all_mounted_apps(start_workers, raw_client, tmp_path, wait_until, preload):
    (tmp_path / "other_app.py").write_text(OTHER % "first")
    server = start_workers("--workers", "1", "--mount", f"/other={tmp_path / 'other_app.py'}:app", *preload)
    assert raw_client(server).fetch("/other/x").body.startswith(b"first /other|/x|")
    (tmp_path / "other_app.py").write_text(OTHER % "the second")
    server.signal(signal.SIGHUP)
    wait_until(lambda: raw_client(server).fetch("/other/x").body.startswith(b"the second"), 30)
    assert raw_client(server).fetch("/").body.startswith(b"one")
    assert server.stop() == 0
