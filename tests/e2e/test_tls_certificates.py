"""Certificates change while connections come: by a signal, by the clock, without a failing client."""

import os
import shutil
import signal
import socket
import ssl
import threading
import time
import types

import pytest
from harness.tls_clients import SECONDS

pytestmark = [pytest.mark.any_parser, pytest.mark.long_on_pypy]
also_inline = pytest.mark.also_inline
one_way = pytest.mark.one_way
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def put(source, certificate, key):
    """Copy certificate and key over the old files, each at once."""
    for path, name in ((certificate, "certificate"), (key, "key")):
        temporary = path.with_suffix(".new")
        shutil.copy(getattr(source, name), temporary)
        os.replace(temporary, path)


@pytest.fixture
def files(localhost, tmp_path):
    """Return the paths of a certificate and key for changes."""
    paths = tmp_path / "used.pem", tmp_path / "used.key"
    put(localhost, *paths)
    return paths


def serial_of(server, authority):
    """Return the serial number of a new connection's certificate."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    sock = socket.create_connection(server.address, SECONDS)
    with context.wrap_socket(sock, server_hostname="localhost") as secure:
        return secure.getpeercert()["serialNumber"]


def test_reload_under_load(serve_tls, authority, localhost, files, raw_client):
    """While certificates change, good and bad, no request fails, on old connections and new."""
    server = serve_tls(certificate=files[0], key=files[1])
    others = [authority.issue("localhost", "127.0.0.1") for _ in range(3)]
    is_over = threading.Event()
    counts, faults = [0] * 4, []

    def load(number):
        try:
            old = raw_client(server)
            while not is_over.is_set():
                new = raw_client(server)
                for client in (old, new):
                    assert client.fetch().body == b"hello\n"
                    counts[number] += 1
                new.close()
            assert old.fetch().body == b"hello\n"
            old.close()
        except BaseException as exc:
            faults.append(exc)

    threads = [threading.Thread(target=load, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    serials = set()
    for number in range(12):
        put(others[number % 3], *files)
        if number % 4 == 3:
            files[1].write_text("broken")
        assert server.call(server.server.reload_certificates) == (number % 4 != 3)
        serials.add(serial_of(server, authority))
        floor = sum(counts) + 8
        deadline = time.monotonic() + SECONDS
        while sum(counts) < floor and not faults and time.monotonic() < deadline:
            time.sleep(0.002)
    is_over.set()
    for thread in threads:
        thread.join(SECONDS)
    assert not faults and all(counts)
    assert len(serials) == 3


def test_reload_by_signal_and_by_change(start_process, authority, files, wait_until):
    """SIGHUP loads anew at once, and a change of the files by itself; a mistake leaves all as it is."""
    process = start_process(
        "hello", f"--bind=https://127.0.0.1:0?certificate={files[0]}&key={files[1]}", "--log-level=info"
    )
    server = types.SimpleNamespace(address=("127.0.0.1", int(process.wait_for_log(r"https://127.0.0.1:(\d+)\n")[1])))
    first = serial_of(server, authority)
    put(authority.issue("localhost", "127.0.0.1"), *files)
    process.signal(signal.SIGHUP)
    process.wait_for_log("certificates loaded anew")
    second = serial_of(server, authority)
    put(authority.issue("localhost", "127.0.0.1"), *files)
    third = wait_until(lambda: {serial_of(server, authority)} - {second}, SECONDS).pop()
    assert len({first, second, third}) == 3
    files[1].unlink()
    process.signal(signal.SIGHUP)
    process.wait_for_log(r"ERROR +TLS: cannot read the key .*; keeping the certificates loaded before")
    assert serial_of(server, authority) == third
    process.signal()
    assert process.wait() == 0
    assert "Traceback" not in process.log
