"""Bind specs to listening sockets.

Owns:     binding, taking given sockets, socket options inherited by connections.
Thread:   event loop only, before serving.
Not here: the spec's grammar (settings/bind.py), addresses and their errors (addresses.py), the sockets of systemd (core/systemd.py), accepting
          (acceptor.py, the lane).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import socket
from collections.abc import Iterable, Sequence
from typing import Callable, Union

from ..core.descriptors import accept
from ..core.errors import BindError
from ..core.named_tuple import NamedTuple
from ..core.systemd import passed_sockets
from ..settings import PROXIED, Bind, EngineSettings, parse_bind
from .addresses import binds_beside, is_loopback, is_v6_only, look_up, remedy, remove_stale

# The unsent octets of a response in the kernel. Without a limit the kernel takes 2.7 MiB for a client on the loopback address that does not read,
# and the app makes as much before the server sees the client behind. Measured 2026-11-22, reading clients on that address: 0.8 to 1.0 times the
# requests a CPU second for bodies of 5 MB, no difference for 100 KB; with 128 KiB less.
UNSENT_BYTES = 1 << 18
_NOTSENT_LOWAT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)

logger = logging.getLogger("aserve")
Socket = socket.socket  # a Listener's field has the module's name
Address = Union[tuple[str, int], str]


class Listener(NamedTuple):
    """One listening socket."""

    socket: socket.socket
    bind: Bind
    inode: tuple[int, int] | None = None  # of a unix socket's file: device and number
    is_given: bool = False  # bound by another program, maybe shared: closed here, but never shut down
    is_stats: bool = False  # each client gets statistics at once (features/metrics/stats.py)
    is_http_stats: bool = False  # each request gets the numbers
    is_agent: bool = False  # each client gets this host's share of the load at once (features/metrics/balance.py)

    @property
    def address(self) -> Address:
        """(host, port), or the path of a unix socket; of an abstract one, the name after a NUL."""
        if self.bind.kind == "unix":
            return self.bind.unix_address
        host, port = self.socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """
        The listener's URL: for http and https in a browser's form.

        For any other protocol, 0.0.0.0 stays 0.0.0.0: no reader of the log must take the bind for private.
        """
        if self.bind.kind == "unix":
            return str(self.bind)
        return _url(self.bind, *self.socket.getsockname()[:2])

    @property
    def server_name_and_port(self) -> tuple[str, str]:
        """SERVER_NAME and SERVER_PORT of the environ, for a client without a Host field."""
        if self.bind.kind == "unix":
            return "localhost", "443" if self.bind.protocol == "https" else "80"
        host, port = self.socket.getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        return host, str(port)

    @property
    def is_exposed(self) -> bool:
        """Whether other machines may connect, and are believed like a front server: REMOTE_USER, HTTPS."""
        return self.bind.kind != "unix" and _is_exposed(self.bind, self.socket.getsockname()[0])

    def take_queued(self) -> list[Socket]:
        """
        Stop listening; return the connections not accepted yet.

        On a unix socket none is lost: later ones are refused. On TCP a connection within these few microseconds is reset. The connections of a
        given socket are left to the other processes, and none is returned.
        """
        if self.is_given:
            self.socket.close()
            return []
        self.remove_file()
        if self.bind.kind == "unix":
            try:
                self.socket.shutdown(socket.SHUT_RD)  # Linux: connect() is refused, accept() goes on
            except OSError:
                pass  # elsewhere a listening socket cannot be shut down
        queued = []
        while True:
            try:
                queued.append(accept(self.socket)[0])
            except OSError:  # the queue is empty, or no descriptor is left
                break
        if self.bind.kind != "unix":
            with contextlib.suppress(OSError):  # elsewhere than on Linux a listening socket cannot be shut down
                self.socket.shutdown(socket.SHUT_RDWR)  # a program forked in C may still hold the socket
        self.socket.close()
        return queued

    def close(self) -> None:
        """Stop listening; remove the file of a unix socket, if the file is still ours."""
        self.remove_file()
        self.socket.close()

    def remove_file(self) -> None:
        """Remove the file of a unix socket, unless replaced by another file."""
        if self.inode is not None and self.inode == _inode(self.bind.path):
            try:
                os.unlink(self.bind.path)
            except OSError:
                pass  # no permission any more; the next server finds and reports a stale file


class UnixRights(NamedTuple):
    """The users of a unix socket: the rights of the file."""

    mode: int | None = 0o666  # None: 777 less the umask
    owner: str | None = None  # a name or a number; None: unchanged
    group: str | None = None


def bind_listeners(config: EngineSettings, kept: Callable[[Bind], list[int]] = lambda bind: []) -> list[Listener]:
    """
    Open the listeners of the settings; see open_listeners. `kept`: returns descriptors already bound for a bind.

    Raises:
        BindError: an address could not be bound; then none is.
    """
    rights = UnixRights(config.unix_mode, config.unix_owner, config.unix_group)
    placed: list[Bind] = []
    new: list[Bind] = []
    for bind in map(parse_bind, config.bind):
        fds = kept(bind)
        placed += [bind._replace(kind="fd", name=str(fd)) for fd in fds] or [bind]
        new += [] if fds else [bind]
    try:
        return open_listeners(placed, rights, config.backlog, binds_beside(config, new))
    except BindError as fault:
        raise BindError(f"{fault}; see --bind") from None


def open_listeners(
    binds: list[Bind],
    rights: UnixRights = UnixRights(),  # noqa: B008
    backlog: int = 128,
    beside: list[Bind] = [],  # noqa: B006
) -> list[Listener]:
    """
    Bind all addresses, or none, and listen; warn of exposed listeners.

    The kernel keeps up to `backlog` connections waiting for accept. `beside`: further addresses of the configuration.

    Raises:
        BindError: an address could not be bound; the earlier ones are closed again.
    """
    listeners: list[Listener] = []
    try:
        for number, bind in enumerate(binds):
            others = [*binds[:number], *binds[number + 1 :], *beside]
            if bind.is_given:
                listeners += [_open_given(fd, bind) for fd in _given_fds(bind)]
            elif bind.kind == "unix":
                listeners.append(_open_abstract(bind, others) if bind.is_abstract else _open_unix(bind, rights, others))
            else:
                listeners += _open_tcp(bind, others)
        for listener in listeners:
            listener.socket.listen(backlog)  # listening since the bind: this only sets the length
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    _warn_of_exposed([listener.url for listener in listeners if listener.is_exposed])
    return listeners


def warn_of_exposed(binds: Iterable[Bind]) -> None:
    """
    Warn, without binding, of addresses of exposed listeners; those of inherited sockets are not known.

    Raises:
        BindError: a host is not found.
    """
    _warn_of_exposed([url for bind, host, url in places_of(binds) if _is_exposed(bind, host)])


def places_of(binds: Iterable[Bind]) -> list[tuple[Bind, str, str]]:
    """
    Return the address and the URL of each listener on TCP for these binds, without binding.

    Raises:
        BindError: a host is not found.
    """
    found = [(bind, address[4]) for bind in binds if bind.kind == "tcp" for address in look_up(bind)]
    return [(bind, place[0], _url(bind, *place[:2])) for bind, place in found]


def _is_exposed(bind: Bind, host: str) -> bool:
    return bind.protocol in ("uwsgi", "scgi") and not is_loopback(host)


def _warn_of_exposed(urls: Sequence[str]) -> None:
    if urls:
        logger.warning(
            "%s: every peer that connects is believed, REMOTE_USER and HTTPS included; let only the front server through, or "
            "bind 127.0.0.1 or a unix socket",
            ", ".join(urls),
        )


def _url(bind: Bind, host: str, port: int) -> str:
    """Return the URL of an address on TCP; see Listener.url."""
    if bind.protocol in ("http", "https") and not bind.is_proxied:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    host = f"[{host}]" if ":" in host else host
    return f"{PROXIED if bind.is_proxied else ''}{bind.protocol}://{host}:{port}"


def limit_unsent(sock: Socket, most_bytes: int) -> None:
    """Limit the unsent octets of the kernel; 0: the kernel's own limit (tcp(7), TCP_NOTSENT_LOWAT)."""
    if _NOTSENT_LOWAT is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):  # a closed socket, or a kernel without the option
            sock.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, most_bytes)


def _open_tcp(bind: Bind, others: list[Bind]) -> list[Listener]:
    listeners: list[Listener] = []
    port = bind.port
    for family, kind, protocol, _, address in look_up(bind):
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError:
            continue  # the kernel has no such family, as in a container without IPv6
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and is_v6_only(address[0], bind, others):
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            limit_unsent(sock, UNSENT_BYTES)  # inherited by each connection
            # With port 0 every family gets the port of the first one.
            sock.bind((address[0], port, *address[2:]))
            sock.listen()  # SO_REUSEADDR lets two programs bind, but only one listen: find out here
        except OSError as exc:
            sock.close()
            if exc.errno == errno.EADDRNOTAVAIL and listeners:
                continue  # a name such as localhost with an IPv6 address foreign to this machine
            for listener in listeners:
                listener.close()
            raise BindError(f"cannot listen on {bind}: {remedy(exc, bind, others)}") from None
        port = sock.getsockname()[1]
        sock.setblocking(False)
        listeners.append(Listener(sock, bind))
    if not listeners:
        raise BindError(f"cannot listen on {bind}: this machine has no such address family")
    return listeners


def _open_unix(bind: Bind, rights: UnixRights, others: list[Bind]) -> Listener:
    remove_stale(bind, others)
    listener = _bind_unix(bind, others)
    try:
        # No client can connect before listen(), so the mode of the file till then never has an effect.
        _set_rights(bind, rights)
        listener.socket.listen()  # now, or another program would take the file for a dead server's
    except BaseException:
        listener.close()
        raise
    return listener


def _open_abstract(bind: Bind, others: list[Bind]) -> Listener:
    listener = _bind_unix(bind, others)
    listener.socket.listen()
    return listener


def _bind_unix(bind: Bind, others: list[Bind]) -> Listener:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(bind.unix_address)
    except OSError as exc:
        sock.close()
        raise BindError(f"cannot listen on {bind}: {remedy(exc, bind, others)}") from None
    sock.setblocking(False)
    return Listener(sock, bind, None if bind.is_abstract else _inode(bind.path))


def _set_rights(bind: Bind, rights: UnixRights) -> None:
    who = [int(name) if name is not None and name.isdigit() else name for name in (rights.owner, rights.group)]
    try:
        if who != [None, None]:
            shutil.chown(bind.path, *who)  # type: ignore[arg-type]
        if rights.mode is not None:
            os.chmod(bind.path, rights.mode)
    except LookupError as exc:
        raise BindError(f"cannot listen on {bind}: {exc}; see --unix-owner and --unix-group") from None
    except OSError as exc:
        raise BindError(
            f"cannot set the rights of {bind}: {exc.strerror}; only root may give a socket to another user, or to a "
            "group that it is no member of (--unix-owner, --unix-group)"
        ) from None


def _given_fds(bind: Bind) -> list[int]:
    if bind.kind == "fd":
        return [int(bind.name)]
    try:
        passed = passed_sockets()
    except ValueError as fault:
        raise BindError(f"cannot listen on {bind}: {fault}") from None
    if bind.name not in passed:
        names = (
            f"only {', '.join(sorted(passed))}" if passed else "none at all; is there a socket unit, and is it started?"
        )
        raise BindError(f"cannot listen on {bind}: systemd has passed no socket of this name, {names}")
    return passed[bind.name]


def _open_given(fd: int, bind: Bind) -> Listener:
    """
    Listen on a socket bound by another program.

    Use a copy, closed in the end: the descriptor stays open for a later server. Other programs share the socket: neither shut the socket down, nor
    remove the file.
    """
    sock = _copy_socket(fd, bind)
    try:
        os.set_inheritable(fd, False)  # sd_listen_fds(3): programs of the app do not need the socket
        place = _place_of(sock, bind)
        limit_unsent(sock, UNSENT_BYTES)
        sock.listen()
        sock.setblocking(False)
    except BindError:
        sock.close()
        raise
    except OSError as exc:
        sock.close()
        raise BindError(f"cannot listen on {bind}: {remedy(exc, bind, ())}") from None
    return Listener(sock, place, is_given=True)


def _copy_socket(fd: int, bind: Bind) -> Socket:
    try:
        copy = os.dup(fd)
    except OSError as exc:
        missing = "there is no such descriptor; the program that starts this process must pass it, open and inheritable"
        why = missing if exc.errno == errno.EBADF else exc.strerror
        raise BindError(f"cannot listen on {bind}: {why}") from None
    try:
        return Socket(fileno=copy)
    except OSError as exc:
        os.close(copy)
        why = "it is not a socket" if exc.errno == errno.ENOTSOCK else exc.strerror
        raise BindError(f"cannot listen on {bind}: {why}") from None


def _place_of(sock: Socket, bind: Bind) -> Bind:
    """Return the bind with the address of the socket."""
    if sock.type != socket.SOCK_STREAM:
        raise BindError(f"cannot listen on {bind}: it is not a stream socket; a socket unit says ListenStream=")
    try:
        sock.getpeername()
    except OSError:
        pass  # not connected, as is right
    else:
        raise BindError(f"cannot listen on {bind}: it is one connection; a socket unit says Accept=no")
    address = sock.getsockname()
    if sock.family == socket.AF_UNIX and address:
        path = "@" + os.fsdecode(address[1:]) if isinstance(address, bytes) else address
        return bind._replace(kind="unix", path=path)
    if sock.family in (socket.AF_INET, socket.AF_INET6) and address[1]:
        return bind._replace(kind="tcp", host=address[0], port=address[1])
    raise BindError(f"cannot listen on {bind}: it is bound to no address")


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
