"""The facts of one name, and the next step: facts in, one action out.

Owns:     Facts, Do, decide; fault_of.
Thread:   any; pure: no clock, file, store or log.
Not here: gathering the facts and acting (renewal.py), the choice of a challenge (attempts.py), notes (notes.py), dates (issued.py).

`decide` is called at each look; if a step is due, the facts are gathered anew under the locks, and `decide` is called again: so the work of another
process or host meanwhile does no harm. One action follows from the facts; the next look finds the next due step.
"""

from __future__ import annotations

import enum
from typing import Any

from ...core.named_tuple import NamedTuple
from .issued import GivenCertificate, Issued
from .notes import Notes
from .settings import show_time


class Do(enum.Enum):
    """The step to do for a name."""

    NOTHING = "its certificate is good for some time, or a failure forbids an order now"
    TAKE = "serve the certificate that another host has got, which is valid for longer"
    GIVE = "let the other hosts have ours, which is valid for longer"
    ORDER = "ask the authority for a certificate"


class Facts(NamedTuple):
    """The known facts of one name at one time."""

    name: str
    now: float  # by the wall clock
    directory: str  # of the configured authority
    notes: Notes
    issued: Issued | None  # the dates of the served certificate, be it a placeholder; None: no usable one
    is_shared: bool = False  # there are other hosts
    given: GivenCertificate | None = None  # given by the last host to all; None: nothing, or malformed
    theirs: Issued | None = None  # the dates of `given`; None: damaged
    is_held: bool = False  # another host orders, or has failed with an order lately

    @property
    def ours(self) -> Issued | None:
        """The served certificate, if signed by the configured authority."""
        return self.issued if self.notes.directory == self.directory else None

    @property
    def is_comparable(self) -> bool:
        """Whether ours and theirs are for the same use: hosts with two authorities would replace each other's without end."""
        return self.is_shared and (self.given is None or self.given.directory == self.directory)

    @property
    def is_due(self) -> bool:
        """Whether the certificate is to be ordered, if nothing forbids an order."""
        return self.ours is None or self.now >= self.ours.renew_at or not self.ours.is_valid(self.now)

    @property
    def is_waiting(self) -> bool:
        """Whether an order is forbidden now, by a failure here or at another host, or by another host's order."""
        return self.is_held or self.notes.for_authority(self.directory).is_waiting(self.now)


def decide(facts: Facts) -> Do:
    """
    Return the next step. A certificate that another host has got comes before an order.

    A due certificate is not given to the hosts: a store that loses certificates would put the order off until the certificate has expired.
    """
    if facts.is_comparable and _is_worth_having(facts.theirs, facts.ours, facts.now):
        return Do.TAKE
    if facts.is_due and not facts.is_waiting:
        return Do.ORDER
    return Do.GIVE if facts.is_comparable and _is_worth_having(facts.ours, facts.theirs, facts.now) else Do.NOTHING


def fault_of(facts: Facts) -> dict[str, Any]:
    """
    Return the fault of a successful order, in the form of order.py; empty: no fault.

    After a certificate that is due at once each look would order again, until the authority refuses.
    """
    if not facts.is_due:
        return {}
    dates = f"it is valid until {show_time(facts.ours.until)}" if facts.ours is not None else "its dates cannot be read"
    return {"kind": "due", "detail": dates}


def _is_worth_having(one: Issued | None, other: Issued | None, now: float) -> bool:
    """Whether the certificate is valid, and for longer than the other. With an expired one clients would be sent to TLS, and refuse
    it there."""
    return one is not None and one.is_valid(now) and (other is None or one.until > other.until)
