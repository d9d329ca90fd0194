"""The names of users, for messages.

Owns:     name_user.
Thread:   any.
Not here: becoming another user (lifecycle/privileges.py).
"""

from __future__ import annotations

import pwd


def name_user(uid: int) -> str:
    """Return "user www-data", or "user 54321" where this machine has no name for the number."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
