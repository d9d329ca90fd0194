"""Fixtures that several behaviours share."""

import os
import subprocess

import pytest
from harness import apps
from harness.acme_front import Front
from harness.front import fronts
from harness.https_site import HTTPSSite

__all__ = ["fronts"]


@pytest.fixture
def serve_tls(start_server, tls_settings):
    """Start servers with TLS: serve_tls(app, **settings) -> RunningServer."""
    return lambda app=apps.hello, **settings: start_server(app, **{**tls_settings, **settings})


@pytest.fixture
def serve_http2(serve_tls):
    """Start servers with HTTP/2, the default with TLS: serve_http2(app, **settings) -> RunningServer."""
    return serve_tls


@pytest.fixture
def serve_https(request, pebble, tmp_path):
    """Start servers with --https: serve_https(*names, flags=(), **more) -> HTTPSSite."""
    running = []

    def serve(*names, folder=tmp_path, **more):
        running.append(HTTPSSite(pebble, folder, *names, **more))
        return running[-1]

    yield serve
    for site in running:
        site.end()
    assert not [text for site in running if (text := site.faults())]


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("mount is not installed")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def acme_front(pebble):
    """Return a front of the authority that can refuse in its place."""
    front = Front(pebble)
    yield front
    front.end()


@pytest.fixture
def reads(monkeypatch):
    """Return the list of octets read from a sent file, read by read."""
    counts = []
    real = os.pread

    def counting(*arguments):
        octets = real(*arguments)
        counts.append(len(octets))
        return octets

    monkeypatch.setattr(os, "pread", counting)
    return counts
