"""The rights of unix sockets, where another server's settings do not name them.

Owns:     put_rights, drop_accounts, is_account, present_umask.
Thread:   the main thread.
Spec:     gunicorn/sock.py: bind under the setting `umask`, then chown to `user` and `group`. uWSGI 2.0.31, core/uwsgi.c: bind as `uid` and `gid`,
          under the process's umask.
Not here: the options that name a mode or an owner (uwsgi_values.py), setting rights (connections/listeners.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...lifecycle.privileges import find_account
from ...settings import ConfigError
from .draft import Draft, Given

ALL_RIGHTS = 0o777
OWNERS = {"unix-owner": "user", "unix-group": "group"}  # of a socket, by the setting of the process's


def put_rights(draft: Draft, mask: int, whence: Given, owners: Mapping[str, str] = OWNERS) -> None:
    """
    Give unix sockets the mode and the owner that the other server would; rights that are named stay.

    Without such a socket they are a fact, for one that aserve's own sources may name.
    """
    rights: dict[str, tuple[Any, Given]] = {"unix-mode": (f"{ALL_RIGHTS & ~mask:03o}", whence)} if mask else {}
    for key, source in owners.items():
        if source in draft.settings:
            rights[key] = draft.settings[source], draft.whence[source][0]
    paths = [place.partition("unix:")[2] for place in draft.settings.get("bind", ()) if "unix:" in place]
    if all(path.startswith("@") for path in paths):
        draft.facts["rights"] = rights if whence.where else {}
        return
    for key, (value, given) in rights.items():
        if key not in draft.settings:
            draft.put(key, value, given)


def drop_accounts(draft: Draft, why: str) -> None:
    """Remove user and group, and the owners of sockets that come from them."""
    for key, source in OWNERS.items():
        draft.facts.get("rights", {}).pop(key, None)
        if draft.whence.get(key) == draft.whence.get(source):
            draft.drop(key, why)
        draft.drop(source, why)


def is_account(draft: Draft) -> bool:
    """Whether this process, which is not root, is the user and group of the draft: at a reload, root had become it at the start."""
    try:
        account = find_account(draft.settings.get("user"), draft.settings.get("group"))
    except ConfigError:
        return False
    return account is not None and 0 != os.geteuid() == account.uid and os.getegid() == account.gid


def present_umask() -> int:
    """Return the umask of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
