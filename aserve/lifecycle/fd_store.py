"""Listeners kept by systemd in the descriptor store from one process of a service to the next.

Owns:     names in the store; storing bound listeners, taking them back at the next start, and closing listeners without a setting.
Thread:   any, before serving.
Not here: binding (connections/listeners.py), systemd's protocol (core/systemd.py), the sockets of a socket unit, named by a bind (both).

A unit enables the store by FileDescriptorStoreMax=, and systemd announces the store by FDSTORE, from version 254 on. Clients during a restart of
the service, or after a kill, then wait for the next process. So a stored listener is treated as inherited: this process neither shuts the listener
down nor removes the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from ..connections.listeners import Listener, bind_listeners
from ..core.systemd import STORED, Notifier, store_size, stored_sockets
from ..settings import Bind, EngineSettings, parse_bind

logger = logging.getLogger("aserve")

MAX_NAME_LENGTH = 255  # sd_notify(3), FDNAME=


class FdStore:
    """The store of this process's service manager."""

    def __init__(self, size: int, kept: Mapping[str, list[int]], notifier: Notifier) -> None:
        """`size`: the store's capacity; `kept`: the descriptors passed to this process, by name."""
        self._size = size
        self._kept = kept
        self._notifier = notifier

    @classmethod
    def of_this_process(cls) -> FdStore:
        """Return the store announced by systemd to this process."""
        return cls(store_size(), stored_sockets(), Notifier.from_environ())

    def __bool__(self) -> bool:
        """Whether there is a store, or passed descriptors."""
        return bool(self._size or self._kept)

    def open(self, config: EngineSettings) -> list[Listener]:
        """
        Return the listeners of the settings: the kept ones, and new ones, now stored.

        Raises:
            BindError: see bind_listeners.
        """
        names = {_name_of(parse_bind(bind)) for bind in config.bind}
        taken = {name: fds for name, fds in self._kept.items() if name in names}
        for name in self._kept.keys() - names:  # first: one may hold an address of the next bind
            self._forget(name, self._kept[name])
        taken_count = sum(map(len, taken.values()))
        listeners = bind_listeners(
            config, lambda bind: taken.pop(_name_of(bind), [])
        )  # each once: port 0 may be there twice
        if taken_count:
            kept = ", ".join(listener.url for listener in listeners if listener.is_given)
            logger.info("listening on sockets that systemd has kept: %s", kept)
        return self._store(listeners, self._size - taken_count) if self._size else listeners

    def _store(self, listeners: list[Listener], room: int) -> list[Listener]:
        """Store new listeners; all of a bind, or none."""
        by_name: dict[str, list[Listener]] = {}
        for listener in listeners:
            if not listener.is_given:
                by_name.setdefault(_name_of(listener.bind), []).append(listener)
        stored: list[Listener] = []
        for name, group in by_name.items():
            if not name or len(group) > room:
                logger.warning(
                    "systemd cannot keep %s over a restart: %s",
                    ", ".join(listener.url for listener in group),
                    f"its store has room for {self._size} (FileDescriptorStoreMax=)"
                    if name
                    else "its path is too long",
                )
                continue
            room -= len(group)
            stored += group
            self._notifier.store(name, [listener.socket.fileno() for listener in group])
        return [each._replace(is_given=True, inode=None) if each in stored else each for each in listeners]

    def _forget(self, name: str, fds: Iterable[int]) -> None:
        """Shut down sockets without a bind, and remove their files."""
        for fd in fds:
            os.set_inheritable(fd, False)
            with socket.socket(fileno=os.dup(fd)) as sock, contextlib.suppress(OSError):  # another user's file
                place = sock.getsockname()
                logger.info("closing a socket that systemd has kept, as no bind names it any more: %s", place)
                sock.shutdown(socket.SHUT_RDWR)  # for all copies at once: systemd may close the store's copy much later
                if isinstance(place, str) and _name_of(Bind("unix", path=place)) == name:
                    os.unlink(place)
        self._notifier.forget(name)


def _name_of(bind: Bind) -> str:
    """
    Return the name of a bind's listeners in the store; "": not to be stored.

    The name has the address, but not the protocol, as a protocol may change. For a unix socket the name has the file, too: a socket with a removed
    file is out of reach.
    """
    if bind.is_given:
        return ""
    place = f"{bind.host}:{bind.port}"
    if bind.kind == "unix":
        place = f"unix:{bind.path}"
        if not bind.is_abstract:
            try:
                status = os.stat(bind.path)
            except OSError:
                return ""
            place += f":{status.st_dev}.{status.st_ino}"
    name = STORED + quote(place, safe="/@[]")  # the name must be ASCII, without colons
    return name if len(name) <= MAX_NAME_LENGTH else ""
