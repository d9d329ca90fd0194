"""Large bodies take a bounded part of disk and descriptors: a clear answer beyond, and nothing lost within."""

import os
import sys

import pytest
from harness import apps, sidecars
from harness.combining import long
from harness.process import run_command
from harness.rules import rule

pytestmark = [pytest.mark.any_parser, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, mounts")]

KIB, MIB = 1 << 10, 1 << 20
LANES = ["auto", "off"]


def upload(client, size, sent, *fields):
    """Begin an upload of this size with so many octets sent."""
    client.request("/", f"Content-Length: {size}", *fields, method="POST")
    client.send(b"x" * sent)


def lines_of(log, mark):
    return [line for line in log.splitlines() if mark in line]


# Disk: request bodies


@rule(
    "RFC 9110 15.6.4",
    "503 for a lack that passes, with Retry-After",
    "for a request body that finds no room on the disk",
)
@pytest.mark.also_inline
def test_the_disk_of_request_bodies(start_server, raw_client, wait_until, caplog):
    """A body without room is answered 503; accepted bodies are finished, and then there is room again."""
    server = start_server(apps.count_body, body_memory_bytes=KIB, body_spool_total_bytes=100 * KIB)
    budgets = server.server._commons.budgets
    first = raw_client(server)
    upload(first, 60 * KIB, 50 * KIB)
    wait_until(lambda: budgets.body_spool_bytes == 50 * KIB)
    for _ in range(3):
        late = raw_client(server)
        upload(late, 60 * KIB, 10)
        reply = late.recv_response()
        assert (reply.status, reply.get("Retry-After")) == (503, "10") and b"no room" in reply.body
        assert late.recv_to_end() == b""
    small = raw_client(server)
    assert small.fetch(method="POST", body=b"x" * 40 * KIB).status == 200
    first.send(b"x" * 10 * KIB)
    assert first.recv_response().body.startswith(b"%d " % (60 * KIB))
    wait_until(lambda: budgets.body_spool_bytes == budgets.files.count == 0)
    assert first.fetch(method="POST", body=b"x" * 100 * KIB).status == 200
    assert len(lines_of(caplog.text, "(--body-spool-total)")) == 1 and "answered 503:" not in caplog.text


def test_a_body_that_never_fits(start_server, raw_client):
    """A body too large for even an empty disk gets 413: by its length before it comes, in chunks at the limit."""
    server = start_server(apps.count_body, body_memory_bytes=KIB, body_spool_total_bytes=10 * KIB)
    by_length, in_chunks = raw_client(server), raw_client(server)
    upload(by_length, 10 * KIB + 1, 0, "Expect: 100-continue")
    in_chunks.request("/", "Transfer-Encoding: chunked", method="POST")
    in_chunks.send(b"2801\r\n" + b"x" * 0x2801 + b"\r\n")
    for client in (by_length, in_chunks):
        reply = client.recv_response()
        assert reply.status == 413 and b"--body-spool-total" in reply.body


@pytest.mark.parametrize("bind", ["uwsgi://127.0.0.1:0", "scgi://127.0.0.1:0"])
def test_front_servers_are_told(start_server, raw_client, bind):
    """Over uwsgi and SCGI the answer is the same."""
    server = start_server(
        apps.count_body,
        bind=bind,
        body_memory_bytes=KIB,
        body_spool_total_bytes=MIB,
        spool_files=1,
        is_checked=False,
    )
    server.server._commons.budgets.files.reserve(1)
    vars = {"CONTENT_LENGTH": "200000", "REQUEST_METHOD": "POST", "PATH_INFO": "/"}
    client = raw_client(server)
    client.send(sidecars.encode(bind.partition(":")[0], vars, b"x" * 200_000))
    head = client.recv_until(b"\r\n\r\n")
    assert b" 503 " in head and b"Retry-After: 10\r\n" in head
    server.server._commons.budgets.files.release(1)


def test_the_response_before_it_is_finished(start_server, raw_client):
    """A pipelined upload without room costs itself alone: the request before has its response, then comes the 503."""
    gate = apps.Gate(apps.hello)
    server = start_server(gate, body_memory_bytes=KIB, body_spool_total_bytes=100 * KIB, spool_files=1, lane="off")
    server.server._commons.budgets.files.reserve(1)
    client = raw_client(server)
    client.request("/")
    gate.wait_entered()
    upload(client, 50 * KIB, 50 * KIB)
    gate.open()
    assert client.recv_response().status == 200
    assert client.recv_response().status == 503
    server.server._commons.budgets.files.release(1)


# Disk: responses


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("lack", ["disk", "files"])
def test_the_disk_of_responses(start_server, raw_client, wait_until, lack, caplog):
    """A response without room waits for its client, as without a spool; every octet of all arrives."""
    block, count = b"0123456789abcdef" * 4096, 256
    app = apps.Streamer(lambda: (block for _ in range(count)))
    settings = {"response_spool_total_bytes": MIB} if lack == "disk" else {"spool_files": 1}
    server = start_server(app, **settings)
    budgets = server.server._commons.budgets
    if lack == "files":
        budgets.files.reserve(1)
    clients = [raw_client(server, receive_buffer_bytes=4096) for _ in range(3)]
    for client in clients:
        client.request()
        client.recv_head()
    wait_until(lambda: budgets.refused_count >= 3)
    assert budgets.response_spool_bytes <= MIB
    assert not any(stream.closed.is_set() for stream in app.made)
    for client in clients:
        assert b"".join(client.recv_chunks()) == block * count
    if lack == "files":
        budgets.files.release(1)
    wait_until(lambda: budgets.response_spool_bytes == budgets.files.count == 0)
    mark = "(--response-spool-total)" if lack == "disk" else "(--spool-files)"
    assert len(lines_of(caplog.text, mark)) == 1


@pytest.mark.long_on_pypy
@pytest.mark.also_inline
def test_files_that_are_sent(start_server, raw_client, wait_until, tmp_path):
    """Beyond --spool-files a file is read by its worker, and arrives whole."""
    (tmp_path / "file").write_bytes(os.urandom(8 * MIB))
    app = apps.file_sender(lambda: open(tmp_path / "file", "rb"))
    server = start_server(app, is_checked=False, spool_files=3)
    budgets = server.server._commons.budgets
    clients = [raw_client(server, receive_buffer_bytes=4096) for _ in range(3)]
    for client in clients:
        client.request("/")
        client.recv_until(b"\r\n\r\n")
    wait_until(lambda: budgets.files.count >= 2)
    for client in clients:
        assert client.recv_exactly(8 * MIB) == (tmp_path / "file").read_bytes()
    wait_until(lambda: budgets.files.count == 0)


# Descriptors


# The app lowers the limit of its process before there is a server: here the limit would be the tests' own.
LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
sys.path.append({os.path.dirname(apps.__file__)!r})
from apps import opens_a_file
"""


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("lane", LANES)
def test_uploads_leave_descriptors_to_the_app(start_process, raw_client, wait_until, lane, tmp_path):
    """With `ulimit -n 256` and 124 uploads at once an app still opens its files, and accepted uploads are answered."""
    (tmp_path / "limited.py").write_text(LIMITED)
    process = start_process(f"{tmp_path}/limited.py:opens_a_file", "--lane", lane, "--body-memory", "1k")
    other = raw_client(process)
    assert other.fetch().status == 200
    clients = [raw_client(process) for _ in range(124)]
    for client in clients:
        upload(client, 4000, 3000)
    process.wait_for_log(r"64 temporary files .*\(--spool-files\)")
    refused = []
    wait_until(
        lambda: refused.extend(c for c in clients if c not in refused and not c.is_quiet()) or len(refused) == 60
    )
    assert len(process.open_files()) < 256
    for _ in range(3):
        assert other.fetch().status == 200
    for client in clients:
        if client in refused:
            reply = client.recv_response()
            assert (reply.status, reply.get("Retry-After")) == (503, "10")
        else:
            client.send(b"x" * 1000)
            assert client.recv_response().body == b"4000"
    assert other.fetch(method="POST", body=b"x" * 4000).body == b"4000"
    assert len(lines_of(process.log, "(--spool-files)")) == 1 and "Traceback" not in process.log


# A full disk


def free_bytes(folder):
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def fill(folder):
    """Leave no room, as another program does."""
    with open(folder / "others", "ab") as file:
        file.write(b"x" * free_bytes(folder))


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("budget", ["1g", "0"])
def test_uploads_and_a_small_disk(start_process, raw_client, small_disk, wait_until, lane, budget):
    """A disk full by its own or by our limit gives 503; after other uploads end, an upload is kept again."""
    flags = ("--lane", lane, "--body-memory", "1k", "--body-spool-total", budget, "--min-rate", "0")
    process = start_process("count_body", *flags, TMPDIR=str(small_disk))
    first, second = raw_client(process), raw_client(process)
    size = 3 * MIB if budget == "1g" else MIB + MIB // 2
    upload(first, size, size - 1000)
    upload(second, size, size - 1000)
    process.wait_for_log(
        r"cannot keep a request body in a temporary file: .*No space left"
        if budget == "1g"
        else r"\(--body-spool-total\)"
    )
    wait_until(lambda: not (first.is_quiet() and second.is_quiet()))
    loser, winner = (second, first) if not second.is_quiet() else (first, second)
    reply = loser.recv_response()
    assert (reply.status, reply.get("Retry-After")) == (503, "10")
    winner.send(b"x" * 1000)
    assert winner.recv_response().body.startswith(b"%d " % size)
    winner.close()
    # The file is let go of when the response is out already.
    wait_until(lambda: raw_client(process).fetch(method="POST", body=b"x" * size).body.startswith(b"%d " % size))
    assert "Traceback" not in process.log


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("flags", [("--lane", "auto"), long((("--lane", "off"),)), ("--workers", "2")])
def test_space_that_comes_and_goes(start_process, raw_client, small_disk, wait_until, tmp_path, flags):
    """A full disk, before the start or later, gives 503 and a warning of `aserve status`; a free disk neither."""
    fill(small_disk)
    process = start_process("count_body", *flags, "--control", f"{tmp_path}/control", TMPDIR=str(small_disk))

    def answers(status):
        reply = raw_client(process).fetch(method="POST", body=b"x" * MIB)
        return reply.status == status and (status == 200 or reply.get("Retry-After") == "10")

    def warnings():
        return lines_of(run_command("status", "--control", tmp_path / "control").stdout, "no room for request bodies")

    assert answers(503) and answers(503)
    process.wait_for_log(rf"no room for request bodies .* in {small_disk}")
    count = 2 if "--workers" in flags else 1
    for _ in range(2):
        wait_until(lambda: fill(small_disk) or len(warnings()) == count)  # a body's file may have just been closed
        os.truncate(small_disk / "others", 0)
        wait_until(lambda: answers(200) and not warnings())
        fill(small_disk)
        wait_until(lambda: answers(503))
    assert raw_client(process).fetch(method="POST", body=b"x" * 1000).status == 200
    assert "Traceback" not in process.log


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("lane", LANES)
def test_the_disk_fills_while_a_body_comes(start_process, raw_client, small_disk, wait_until, lane):
    """An accepted body whose room is taken gets 503 and an end, and the next body is kept."""
    process = start_process("count_body", "--lane", lane, TMPDIR=str(small_disk))
    client = raw_client(process)
    upload(client, MIB + MIB // 2, MIB)
    wait_until(lambda: free_bytes(small_disk) <= 3 * MIB)
    fill(small_disk)
    client.send(b"x" * (MIB // 2))
    reply = client.recv_response()
    assert (reply.status, reply.get("Retry-After")) == (503, "10") and client.recv_to_end() == b""
    (small_disk / "others").unlink()
    wait_until(lambda: raw_client(process).fetch(method="POST", body=b"x" * MIB).status == 200)
    assert "Traceback" not in process.log


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("lane", LANES)
def test_responses_and_a_small_disk(start_process, raw_client, small_disk, lane):
    """The app waits for a client whose response no longer fits; other clients are served, and each gets every octet."""
    process = start_process(
        "site", "--lane", lane, "--response-spool-total", "1g", "--threads", "4", TMPDIR=str(small_disk)
    )
    client = raw_client(process, receive_buffer_bytes=4096)
    size = 32 * MIB
    client.request(f"/stream?{size // 4096}")
    process.wait_for_log("cannot keep a response in a temporary file: .*No space left")
    assert raw_client(process).fetch("/").status == 200
    client.recv_head()
    assert sum(map(len, client.recv_chunks())) == size
    assert len(lines_of(process.log, "cannot keep")) == 1 and "Traceback" not in process.log
