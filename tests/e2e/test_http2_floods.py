"""Floods of HTTP/2: each connection is ended or costs little, good clients are served meanwhile, and memory is bounded (tests/http2_floods.py
measures the floods).
"""

import concurrent.futures
import sys
import threading

import pytest
from harness.client import RawClient
from harness.http2 import request
from harness.http2_client import HTTP2Client
from harness.http2_floods import ENDLESS, FLOODS, Flooder

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"), pytest.mark.long_on_pypy]
MIB = 1 << 20
# Far below the floods' sizes: one unpacks to 60 MB, another asks for 100 MB.
BOUND = (500 if sys.implementation.name == "pypy" else 250) * MIB
UNTAKEN_BOUND = BOUND // 2


@pytest.fixture
def process(start_process, authority, localhost):
    """A server of HTTP/2."""
    RawClient.authority = str(authority.certificate)
    return start_process("site", *localhost.flags, "--http2", "auto", "--threads", "4", launcher=["env"])


def test_floods_cost_no_other_client(process):
    """Nothing is logged as a fault, either."""
    is_served(process)
    before = process.memory_bytes("VmHWM")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for name in FLOODS:
            is_over = threading.Event()
            is_ended = pool.submit(Flooder(process.address, name).run, is_over.is_set)
            try:
                for _ in range(3):
                    assert is_served(process), name
                if name not in ENDLESS:
                    assert is_ended.result(60), name
            finally:
                is_over.set()
            assert is_ended.result(60) == (name not in ENDLESS), name
    assert is_served(process)
    assert process.memory_bytes("VmHWM") - before < BOUND


def test_responses_that_are_not_taken(start_process, authority, localhost):
    """All clients together hold --response-memory, however many their streams; the rest waits in files, and other clients are served."""
    RawClient.authority = str(authority.certificate)
    shell = ["sh", "-c", 'ulimit -n 4096; exec "$@"', "sh"]  # as many files as streams
    process = start_process("site", *localhost.flags, "--http2", "auto", "--response-memory", "16M", launcher=shell)
    assert is_served(process)
    before = process.memory_bytes("VmRSS")
    clients = [HTTP2Client(process.address) for _ in range(10)]
    for client in clients:
        for _ in range(100):
            client.ask(request(b"GET", b"/big?250000"))
    for client in clients:
        assert {client.recv_head().status for _ in range(100)} == {200}  # now the app has made 250 MB
    assert is_served(process)
    assert process.memory_bytes("VmRSS") - before < UNTAKEN_BOUND
    for client in clients:
        client.close()


def is_served(process):
    client = HTTP2Client(process.address)
    try:
        return client.fetch().body == b"hello\n"
    finally:
        client.close()
