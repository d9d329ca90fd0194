"""Packets to statsd, over real sockets."""

import re
import socket

import pytest

from aserve.features import Config
from aserve.features.metrics import statsd as module
from aserve.features.metrics.statsd import MAX_DATAGRAM_BYTES, Statsd
from aserve.features.metrics.table import BOUNDS, PLACES, SUM, WORDS
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


class Heard:
    """A statsd."""

    def __init__(self, sock):
        self.socket = sock
        sock.setblocking(False)

    def lines(self):
        """Return the received lines, by name."""
        found = []
        while True:
            try:
                found += self.socket.recv(65536).decode().split("\n")
            except BlockingIOError:
                return found

    def numbers(self):
        """Return the received numbers, by name, of one time each."""
        return dict(line.split(":") for line in self.lines())


@pytest.fixture(params=["udp", "udp6", "unix"])
def heard(request, tmp_path):
    """One on each kind of socket; `address` is the setting's form."""
    family = {"udp": socket.AF_INET, "udp6": socket.AF_INET6, "unix": socket.AF_UNIX}[request.param]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind({"udp": ("127.0.0.1", 0), "udp6": ("::1", 0), "unix": str(tmp_path / "s")}[request.param])
        except OSError:
            pytest.skip("no IPv6 here")
        heard = Heard(sock)
        name = sock.getsockname()
        heard.address = (
            f"unix:{name}" if request.param == "unix" else f"{'[::1]' if name[0] == '::1' else name[0]}:{name[1]}"
        )
        yield heard


def words(**counts):
    """Return the words of a worker: by metric, and then cell or bucket."""
    made = [0] * WORDS
    for name, by_place in counts.items():
        for place, count in by_place.items():
            made[PLACES[f"aserve_{name}"] + place] = count
    return made


def test_a_second_tells_rises_and_values(heard):
    """Counters tell their rise, in all workers; gauges their value; names have the prefix."""
    statsd = Statsd.of(Config(statsd=heard.address, statsd_prefix="shop.gunicorn"))
    first = words(
        requests_total={4: 10, 5: 1, 10: 2}, threads={0: 3000, 3: 1000}, threads_limit={0: 8}, connections={0: 1, 2: 4}
    )
    second = words(
        requests_total={4: 5},
        app_exceptions_total={0: 2},
        response_body_bytes_total={0: 99},
        threads_limit={0: 8},
        requests_refused_total={0: 1, 11: 1},
    )
    statsd.send({1: first, 2: second}, 2)
    assert heard.numbers() == {
        f"shop.gunicorn.{name}": value
        for name, value in {
            "workers": "2|g", "requests": "18|c", "request.status.2xx": "16|c", "request.status.5xx": "2|c",
            "requests.cut": "1|c", "requests.refused": "2|c", "response.bytes": "99|c", "app.exceptions": "2|c",
            "threads.limit": "16|g", "threads.busy": "3|g", "threads.stuck": "1|g", "requests.waiting": "0|g",
            "requests.in_flight": "0|g", "connections": "5|g",
        }.items()
    }  # fmt: skip
    first[PLACES["aserve_requests_total"] + 4] += 7
    statsd.send({1: first, 2: second}, 1)
    numbers = heard.numbers()
    assert numbers["shop.gunicorn.requests"] == "7|c" and "shop.gunicorn.app.exceptions" not in numbers
    assert numbers["shop.gunicorn.workers"] == "1|g"
    statsd.send({}, 0)
    assert heard.numbers()["shop.gunicorn.threads.limit"] == "0|g"
    statsd.close()
    statsd.send({1: first}, 1)
    statsd.close()
    assert heard.lines() == []


def test_times_keep_number_and_sum(heard):
    """The number and sum are right, each within its bucket by a factor of two; a single one is exact."""
    statsd = Statsd(heard.address, "a")
    statsd.send({1: words(request_duration_seconds={3: 1, SUM: 5_100})}, 1)
    assert [line for line in heard.lines() if "duration" in line] == ["a.request.duration:5.1|ms"]
    statsd.begin_at({1: words(request_duration_seconds={3: 1, SUM: 5_100})})
    real = {0: 300, 4: 30, 17: 1}
    seconds = 300 * 0.0004 + 30 * 0.015 + 70
    now = {number: count + (number == 3) for number, count in {**real, 3: 0}.items()}
    statsd.send({1: words(request_duration_seconds={**now, SUM: int(seconds * 1e6) + 5_100})}, 1)
    found = [line.split(":")[1] for line in heard.lines() if "duration" in line]
    assert len(found) == 3
    total, count = 0.0, 0.0
    for text, bucket in zip(found, real):
        value, rate = re.fullmatch(r"([\d.e+-]+)\|ms(?:\|@([\d.e+-]+))?", text).groups()
        count += 1 / float(rate or 1)
        total += float(value) / float(rate or 1)
        bound = BOUNDS[min(bucket, len(BOUNDS) - 1)] * 1000
        assert bound / 4 <= float(value) <= bound * 2
    assert count == pytest.approx(331) and total == pytest.approx(seconds * 1000, rel=1e-4)
    statsd.close()


def test_datagrams_fit_into_packets(heard, monkeypatch):
    statsd = Statsd(heard.address, "p" * 200)
    statsd.send({1: words()}, 1)
    sizes = []
    while True:
        try:
            octets = heard.socket.recv(65536)
        except BlockingIOError:
            break
        sizes.append(len(octets))
        assert all(re.fullmatch(rb"p{200}\.[\w.]+:\d+\|g", line) for line in octets.split(b"\n"))
    assert len(sizes) > 1 and max(sizes) <= MAX_DATAGRAM_BYTES
    statsd.close()


def test_nobody_there_is_told_once(tmp_path, caplog):
    """An absence is told once, and tried again: a socket may come."""
    statsd = Statsd(f"unix:{tmp_path}/s", "a")
    for _ in range(2):
        statsd.send({1: words()}, 1)
    assert caplog.text.count("cannot send statistics to statsd: No such file") == 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"{tmp_path}/s")
        statsd.send({1: words()}, 1)
        assert "a.workers:1|g" in Heard(sock).lines()
        for _ in range(1000):  # until it is full
            statsd.send({1: words()}, 1)
    statsd.close()
    assert caplog.text.count("cannot send statistics to statsd") == 1


def test_a_name_that_nobody_knows(monkeypatch, caplog):
    """An unknown name is told once, and nothing is sent."""

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(module.socket, "getaddrinfo", unknown)
    statsd = Statsd("nowhere:8125", "a")
    statsd.send({1: words()}, 1)
    statsd.close()
    assert caplog.text.count("cannot send to statsd at nowhere:8125: Name or service not known") == 1


@pytest.mark.parametrize("address", ["a", "a:0", "http://a:1", "fd:3", 5])
def test_wrong_addresses_are_refused(address):
    with pytest.raises(ConfigError, match="statsd"):
        Config(statsd=address)
    assert Statsd.of(Config(statsd="")) is None


@pytest.mark.parametrize("prefix", ["", "a:b", "a.", ".a", "a|c", 5])
def test_unreadable_prefixes_are_refused(prefix):
    with pytest.raises(ConfigError, match="statsd_prefix"):
        Config(statsd_prefix=prefix)
