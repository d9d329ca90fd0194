"""The user and group of the process: giving up root for --user and --group, and whether it is root.

Owns:     looking names up, the change, whether this is root.
Thread:   the main thread, before further threads: on some systems other threads would keep their user.
Not here: the order of things at the start (server/running.py), files of unix sockets (connections/listeners.py).
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import sys
from collections.abc import Sequence

from ..core.named_tuple import NamedTuple
from ..settings import ConfigError

logger = logging.getLogger("aserve")

# user_namespaces(7): first number inside, first outside, count. This is the map of the machine itself.
NO_NAMESPACE = ["0", "0", "4294967295"]


class Account(NamedTuple):
    """A user and group for the process."""

    uid: int
    gid: int
    name: str | None  # for the user's further groups; None: a user without a name
    added: tuple[int, ...] = ()  # groups beside these

    def __str__(self) -> str:
        return f"user {self.name or self.uid} and group {self.gid}"


def find_account(user: str | None, group: str | None, added: Sequence[str] = ()) -> Account | None:
    """
    Return the account of --user and --group, with the groups of --add-group, by names or numbers; None: neither is given.

    Raises:
        ConfigError: there is no such user or group.
    """
    if user is None and group is None:
        return None
    uid, gid, name = os.geteuid(), os.getegid(), None
    if user is not None:
        entry = _find_user(user)
        if entry is not None:
            uid, gid, name = entry.pw_uid, entry.pw_gid, entry.pw_name
        elif not user.isdigit():
            raise ConfigError(f"--user {user!r}: there is no such user on this machine")
        elif group is None:
            raise ConfigError(f"--user {user}: this machine has no name for it, and so no group; give --group, too")
        else:
            uid = int(user)
    if group is not None:
        gid = _find_group(group)
    return Account(uid, gid, name, tuple(map(_find_group, added)))


def become(account: Account) -> None:
    """
    Change to this account for good; warn if it may not read folders of sys.path.

    Raises:
        ConfigError: this is not root, or the kernel refuses, as in a container without the capabilities.
    """
    if os.geteuid() != 0:
        if (account.uid, account.gid) == (os.geteuid(), os.getegid()):
            return
        raise ConfigError(f"only root may become {account}; leave --user and --group out, or start aserve as root")
    places = [os.path.abspath(place) for place in (*sys.path, "") if os.path.exists(place or ".")]
    try:
        if account.name is not None:
            os.initgroups(account.name, account.gid)
        else:
            os.setgroups([account.gid])
        if account.added:
            os.setgroups([*dict.fromkeys([*os.getgroups(), *account.added])])
        os.setgid(account.gid)
        os.setuid(account.uid)  # last: the other calls need root
    except OSError as exc:
        raise ConfigError(f"cannot become {account}: {exc.strerror}; it takes CAP_SETUID and CAP_SETGID") from None
    closed = [place for place in dict.fromkeys(places) if not os.access(place, os.R_OK)]
    if closed:  # as with Python, or a virtual environment, below /root: later imports would fail
        text = "%s may not read %s: no module can be imported from there; have Python, aserve and the app where it may, as in /opt or /srv"
        logger.warning(text, account, ", ".join(closed))


def is_root(uid_map: str = "/proc/self/uid_map") -> bool:
    """Whether this process is root of the machine, and not of a user namespace, as in rootless containers."""
    if os.geteuid() != 0:
        return False
    try:
        with open(uid_map) as file:
            return file.read().split() == NO_NAMESPACE
    except OSError:
        return True  # a system without user namespaces


def _find_user(user: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        return None


def _find_group(group: str) -> int:
    try:
        return int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError(f"--group {group!r}: there is no such group on this machine") from None
