"""Our own network on one machine: namespaces on a bridge, and events of the way there; Linux, as root.

Nothing is seen from outside: the bridge has its own addresses, and no route leads anywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

from .waiting import wait_until

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000  # linux/if_tun.h
FRAME_OCTETS = 65536
NOBODY = "02:00:00:00:00:01"  # an Ethernet address without a host


def ip(*words: str) -> None:
    """Run ip, which must succeed."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Place:
    """A namespace: its address, and the prefix of commands in it."""

    def __init__(self, space: str, outer: str, address: str) -> None:
        self.space, self.address = space, address
        self.launcher = ["ip", "netns", "exec", space]
        self._outer = outer

    def set_link(self, state: str) -> None:
        """Take the link "down", or "up": packets are lost in both directions, without an error."""
        ip("link", "set", self._outer, state)

    def lose(self, other: Place) -> None:
        """Drop packets for the other host, without an error."""
        ip("-n", self.space, "neigh", "replace", other.address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def find(self, other: Place) -> None:
        """Look again for the other host's place."""
        ip("-n", self.space, "neigh", "del", other.address, "dev", "eth0")


class Network:
    """A bridge, and namespaces on it."""

    def __init__(self) -> None:
        # Of this process alone: the same may run beside it.
        number = os.getpid()
        self._stem, self._net = f"as{number}", f"10.{200 + number % 50}.{number // 50 % 250}"
        self.bridge = f"{self._stem}b"
        self._places: list[Place] = []
        self._wires: list[Wire] = []

    def open(self) -> None:
        """Make the bridge, with an address for us."""
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self._net}.254/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def add(self, name: str) -> Place:
        """Make a namespace with an address."""
        place = self._new_place(name)
        ip("link", "add", place._outer, "type", "veth", "peer", "name", "eth0", "netns", place.space)
        self._set_up(place)
        return place

    def add_wired(self, name: str) -> tuple[Place, Wire]:
        """Make a namespace behind a bad wire; the wire is good until a test changes it."""
        place = self._new_place(name)
        inner = f"{place._outer}i"
        wire = Wire(place._outer, inner)
        self._wires.append(wire)
        ip("link", "set", inner, "netns", place.space)
        ip("-n", place.space, "link", "set", inner, "name", "eth0")
        self._set_up(place)
        wire.start()
        return place, wire

    def _new_place(self, name: str) -> Place:
        number = len(self._places) + 1
        place = Place(f"{self._stem}-{name}", f"{self._stem}v{number}", f"{self._net}.{number}")
        ip("netns", "add", place.space)
        self._places.append(place)
        return place

    def _set_up(self, place: Place) -> None:
        ip("link", "set", place._outer, "master", self.bridge, "up")
        for words in (
            ("addr", "add", f"{place.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", place.space, *words)

    def close(self) -> None:
        """Remove everything; processes in the namespaces have ended."""
        for wire in self._wires:
            wire.stop()
        # Links first: a namespace lives on for minutes, and its link too, where a connection to a gone host has octets to send.
        for name in self._links():
            with contextlib.suppress(AssertionError):  # a wire's is gone with the wire
                ip("link", "del", name)
        for place in self._places:
            ip("netns", "del", place.space)
        wait_until(lambda: not self._links(), 20, lambda: f"left behind: {self._links()}")

    def _links(self) -> list[str]:
        return [name for name in os.listdir("/sys/class/net") if name.startswith((f"{self._stem}v", self.bridge))]


class Wire:
    """Two Ethernet devices, and a thread that carries frames between them, late and not all of them.

    It stands for `tc qdisc ... netem`, which many kernels are built without.
    """

    def __init__(self, *names: str) -> None:
        self.delay_seconds = 0.0  # on each of both ways
        self.loss = 0.0  # the share of lost frames
        self.count, self.lost_count = 0, 0
        self._random = random.Random(1)
        self._ends = [self._open(name) for name in names]
        self._wake, self._woken = os.pipe()[::-1]
        self._thread = threading.Thread(target=self._carry, daemon=True)

    @staticmethod
    def _open(name: str) -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        return fd

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End; the devices are gone, too."""
        os.close(self._wake)
        if self._thread.ident:
            self._thread.join(30)
        for fd in (*self._ends, self._woken):
            os.close(fd)

    def _carry(self) -> None:
        waiting: list[tuple[float, int, int, bytes]] = []  # its due time, its number, its target, the frame
        while True:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            ready, _, _ = select.select([*self._ends, self._woken], [], [], pause)
            if self._woken in ready:
                return
            for fd in ready:
                with contextlib.suppress(OSError):  # the device is down
                    self._take(os.read(fd, FRAME_OCTETS), self._ends[fd == self._ends[0]], waiting)
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, fd, frame = heapq.heappop(waiting)
                with contextlib.suppress(OSError):
                    os.write(fd, frame)

    def _take(self, frame: bytes, other: int, waiting: list[tuple[float, int, int, bytes]]) -> None:
        self.count += 1
        if self._random.random() < self.loss:
            self.lost_count += 1
            return
        heapq.heappush(waiting, (time.monotonic() + self.delay_seconds, self.count, other, frame))
