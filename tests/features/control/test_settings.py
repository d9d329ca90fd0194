"""The settings of the control socket."""

import contextlib
import os
import socket

from aserve.features.control import settings
from aserve.features.control.settings import ControlSettings, running


def test_where_the_socket_is(monkeypatch, tmp_path):
    """A name wins over the folder of a unit, and that over the user's folder; another user's folder is no place."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    config = ControlSettings(bind=["127.0.0.1:8000", ":80"])
    assert config.control_socket is None
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert config.control_socket == f"{tmp_path}/aserve-127.0.0.1-8000.control"
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert config.control_socket is None
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/aserve/shop:/run/more")
    assert config.control_socket == "/run/aserve/shop/control"
    assert ControlSettings(control="/named").control_socket == "/named"


def test_servers_of_one_long_folder_have_different_sockets(monkeypatch, tmp_path):
    """The end of a long address counts, without the options of the bind."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    binds = [f"unix:/srv/{'long-' * 9}name/{name}.sock" for name in "ab"]
    found = {ControlSettings(bind=[bind]).control_socket for bind in binds}
    assert len(found) == 2 and max(map(len, found)) < len(str(tmp_path)) + 60
    bind = f"https://127.0.0.1:8443?certificate=/srv/{'long-' * 9}name.pem"
    assert ControlSettings(bind=[bind]).control_socket == f"{tmp_path}/aserve-https-127.0.0.1-8443.control"


def test_which_servers_are_found(monkeypatch, tmp_path):
    """Listening servers of units and of the user are found; the file of a killed server is none."""
    monkeypatch.setattr(settings, "UNITS", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    paths = [tmp_path / "aserve-a.control", tmp_path / "aserve/b/control", tmp_path / "run/c/control"]
    with contextlib.ExitStack() as stack:
        for path in [*paths, tmp_path / "aserve-killed.control"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.bind(str(path))
            if path in paths:
                sock.listen(1)
        assert sorted(running()) == sorted(map(str, paths))
        with contextlib.suppress(BlockingIOError):
            while True:  # a server that hangs does not take its connections
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(paths[2]))
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        assert list(running()) == [str(paths[2])]
