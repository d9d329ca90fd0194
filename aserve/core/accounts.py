"""The names of users, for messages.

Owns:     user_name, name_user.
Thread:   any.
Not here: becoming another user (lifecycle/privileges.py).
"""

from __future__ import annotations

import pwd


def user_name(uid: int) -> str:
    """Return "www-data", or "54321" where this machine has no name for the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def name_user(uid: int) -> str:
    """Return "user www-data", or "user 54321"."""
    return f"user {user_name(uid)}"
