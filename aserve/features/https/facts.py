"""The facts of one name, and what to do next for it: facts in, one action out.

Owns:     Facts, Do, decide; fault_of.
Thread:   any; pure: no clock, file, store or log.
Not here: gathering the facts and acting (renewal.py), which challenge (attempts.py), notes (notes.py), dates (issued.py).

`decide` is called with facts that are gathered at each look, and if something is due, anew behind the locks: so it does not matter what another
process or host has done meanwhile. One action follows from it; the next look finds what is due then.
"""

from __future__ import annotations

import enum
from typing import Any

from ...core.named_tuple import NamedTuple
from .issued import Given, Issued, show_time
from .notes import Notes


class Do(enum.Enum):
    """What is to be done for a name."""

    NOTHING = "its certificate is good for some time, or a failure forbids an order now"
    TAKE = "serve the certificate that another host has got, which is valid for longer"
    GIVE = "let the other hosts have ours, which is valid for longer"
    ORDER = "ask the authority for a certificate"


class Facts(NamedTuple):
    """What is known of one name at one time."""

    name: str
    now: float  # by the wall clock
    directory: str  # of the configured authority
    notes: Notes
    issued: Issued | None  # the dates of the certificate that is served, be it a placeholder; None: none can be used
    is_shared: bool = False  # there are other hosts
    given: Given | None = None  # what the last host has given to all; None: none has, or it has no form
    theirs: Issued | None = None  # its dates; None: it is damaged
    is_held: bool = False  # another host orders, or its order has failed lately

    @property
    def ours(self) -> Issued | None:
        """The certificate that is served, if the configured authority has signed it."""
        return self.issued if self.notes.directory == self.directory else None

    @property
    def is_comparable(self) -> bool:
        """Whether ours and theirs are for the same use: hosts with two authorities would replace each other's without end."""
        return self.is_shared and (self.given is None or self.given.directory == self.directory)

    @property
    def is_due(self) -> bool:
        """Whether the certificate is to be ordered, if nothing forbids it."""
        return self.ours is None or self.now >= self.ours.renew_at or not self.ours.is_valid(self.now)

    @property
    def is_waiting(self) -> bool:
        """Whether an order is forbidden now, by a failure here or at another host, or by another host's order."""
        return self.is_held or self.notes.for_authority(self.directory).is_waiting(self.now)


def decide(facts: Facts) -> Do:
    """
    Return what is to be done next. A certificate that is there already comes before an order.

    One that is due is not given: a store that loses what it is given would put the order off until it has expired.
    """
    if facts.is_comparable and _is_worth_having(facts.theirs, facts.ours, facts.now):
        return Do.TAKE
    if facts.is_due and not facts.is_waiting:
        return Do.ORDER
    return Do.GIVE if facts.is_comparable and _is_worth_having(facts.ours, facts.theirs, facts.now) else Do.NOTHING


def fault_of(facts: Facts) -> dict[str, Any]:
    """
    Return the fault of an order that has succeeded, as order.py does; an empty one: it has none.

    A certificate that is due as soon as it is there would have the authority asked with each look, until it refuses.
    """
    if not facts.is_due:
        return {}
    dates = f"it is valid until {show_time(facts.ours.until)}" if facts.ours is not None else "its dates cannot be read"
    return {"kind": "due", "detail": dates}


def _is_worth_having(one: Issued | None, other: Issued | None, now: float) -> bool:
    """Whether it is valid, and for longer than the other. One that has expired would have clients sent to TLS, where they refuse it."""
    return one is not None and one.is_valid(now) and (other is None or one.until > other.until)
