"""The threads and files opened by an app during the import, and the choice of unshareable threads and files.

Owns:     threads and descriptors of this process, by readable names.
Thread:   the main thread of a mold.
Spec:     proc(5): /proc/PID/fd, /proc/net.
Not here: the decision (mold.py).

A fork has one thread, and the same open files as the parent (fork(2)). A thread of the app would be missing in each worker, and a lock held by
the thread would stay locked. Workers with a shared connection read one another's answers; an epoll set belongs to all of them.
Files and datagram sockets are no reason against a fork, as they are mostly logs, syslog and statistics; but for SQLite's, whose locks
are missing in a fork (https://sqlite.org/howtocorrupt.html, "Carrying an open database connection across a fork()"). Neither are threads without
Python code: they belong to libraries in C (OpenBLAS), and most libraries start threads anew (pthread_atfork(3)).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import stat
import sys
import threading

from ...core.descriptors import list_open
from ...core.named_tuple import NamedTuple

FD_FOLDER = "/proc/self/fd"
TASK_FOLDER = "/proc/self/task"
NET_FOLDER = "/proc/net"
TCP_LISTEN = "0A"  # tcp_states.h
UNIX_DATAGRAM = "0002"  # net.h: SOCK_DGRAM

A_FILE = "a file"
SQLITE = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html, "The Database Header"
# By number, the target of the link in /proc; without /proc, from fstat(2), in the same form.
Fds = dict[int, str]


class Opened(NamedTuple):
    """Threads and files, by name."""

    unfit: list[str]  # two processes cannot share these
    shared: list[str]  # processes can share these, if the app allows sharing
    threads_in_c: (
        list[str] | None
    )  # missing after a fork, but started anew by libraries; None: not known, without /proc


def list_fds() -> Fds:
    """Return the descriptors of this process."""
    links = {fd: _link_of(fd) for fd in list_open()}
    return {fd: link for fd, link in links.items() if link}


def _link_of(fd: int) -> str:
    """Return the kind of a descriptor; "": closed."""
    with contextlib.suppress(OSError):
        return os.readlink(f"{FD_FOLDER}/{fd}")
    try:
        status = os.fstat(fd)
    except OSError:  # the descriptor of the listing
        return ""
    kind = stat.S_IFMT(status.st_mode)
    named = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "pipe"}
    if kind in named:
        return f"{named[kind]}:[{status.st_ino}]"
    if kind == stat.S_IFCHR:
        return f"/dev/{status.st_rdev}"
    return A_FILE if kind else "an epoll set, a timer or the like"


def find_opened(before: Fds, net_folder: str = NET_FOLDER) -> Opened:
    """Return the descriptors of this process beyond `before`, and the threads beyond the main thread."""
    unfit, threads_in_c = _threads()
    shared: list[str] = []
    sockets: dict[str, str] | None = None
    for fd, link in sorted(list_fds().items()):
        if before.get(fd) == link:
            continue
        inode = re.fullmatch(r"socket:\[(\d+)\]", link)
        if inode:
            sockets = sockets if sockets is not None else _sockets(net_folder)
            name = sockets.get(inode[1], "a socket")
            (shared if name.startswith(DATAGRAM) else unfit).append(f"{name} (descriptor {fd})")
        elif link.startswith("/dev/"):
            pass
        elif link.startswith("/"):
            is_database = _begins_with(fd, SQLITE)
            (unfit if is_database else shared).append(
                f"the SQLite database {link} (descriptor {fd})" if is_database else link
            )
        elif link == A_FILE:
            shared.append(f"{link} (descriptor {fd})")
        else:
            kind = re.search(r"\[(\w+)\]", link)
            what = "a pipe" if link.startswith("pipe:") else f"an {kind[1]}" if kind else link
            unfit.append(f"{what} (descriptor {fd})")
    return Opened(unfit, shared, threads_in_c)


def _begins_with(fd: int, octets: bytes) -> bool:
    """Look by this descriptor: if a second descriptor of the file is closed, all locks of this process on the file are gone (fcntl(2))."""
    with contextlib.suppress(OSError):  # not readable, or a folder
        return os.pread(fd, len(octets), 0) == octets
    return False


# Threads


def _threads() -> tuple[list[str], list[str] | None]:
    """Return the threads beside this thread: threads of Python, and the rest; None: the rest is not known."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    names = [f"thread {thread.name}" for ident, thread in known.items() if ident != threading.get_ident()]
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident not in known}
    names += [f"a thread at {frame.f_code.co_filename}:{frame.f_lineno}" for frame in frames.values()]
    # After a fork PyPy's main thread has the number of the parent's main thread.
    native = {str(os.getpid()), *(str(thread.native_id) for thread in known.values())}
    try:
        tasks = os.listdir(TASK_FOLDER)
    except OSError:  # there is no /proc
        return sorted(names), None
    in_c = [_comm_of(task) for task in tasks if task not in native]
    return sorted(names), sorted(in_c)[: len(in_c) - len(frames)]


def _comm_of(task: str) -> str:
    try:
        with open(f"{TASK_FOLDER}/{task}/comm") as file:
            return file.read().strip()
    except OSError:
        return "?"  # the thread has just ended


# Sockets

DATAGRAM = "a datagram socket"


def _sockets(folder: str) -> dict[str, str]:
    """Return the names of the sockets of this network namespace, by inode."""
    found: dict[str, str] = {}
    for protocol in ("tcp", "tcp6"):
        for fields in _rows(f"{folder}/{protocol}"):
            local, peer, state, inode = fields[1], fields[2], fields[3], fields[9]
            is_listening = state == TCP_LISTEN
            what = f"a listening TCP socket, {_address(local)}" if is_listening else f"a connection to {_address(peer)}"
            found[inode] = what
    for protocol in ("udp", "udp6"):
        for fields in _rows(f"{folder}/{protocol}"):
            found[fields[9]] = f"{DATAGRAM} to {_address(fields[2])}"
    for fields in _rows(f"{folder}/unix"):
        path = f", {fields[7]}" if len(fields) > 7 else ""
        found[fields[6]] = f"{DATAGRAM if fields[4] == UNIX_DATAGRAM else 'a unix socket'}{path}"
    return found


def _rows(path: str) -> list[list[str]]:
    try:
        with open(path) as file:
            return [line.split() for line in file][1:]
    except OSError:
        return []


def _address(text: str) -> str:
    """Return host and port: /proc/net has words of 32 bits, in this machine's byte order."""
    host, _, port = text.partition(":")
    words = [int(host[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(host), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    shown = str(mapped or address)
    return f"[{shown}]:{int(port, 16)}" if ":" in shown else f"{shown}:{int(port, 16)}"
