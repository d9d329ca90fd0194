"""One order for one name: from the authority's directory to the file of the certificate.

Owns:     order, the child's job; Refused.
Thread:   the child's only one.
Spec:     RFC 8555 section 7.4.
Not here: the time (schedule.py), words for faults (faults.py).
"""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import requests
from acme import client, errors, messages

from .account import connect, key_of
from .challenges import choose, put_answer
from .folder import Folder
from .issued import Issued, UnusableError, refuse_unusable
from .keys import new_key, new_request, pem_of
from .network import ORDER_SECONDS, BoundedAnswers, new_network
from .notes import Notes

if TYPE_CHECKING:
    from .hosts import SharingHosts

# The library tries a refused nonce once more; an order has some ten requests.
MAX_TRIES = 5
# The kind of a fault without a type of ACME, see faults.py. The first match counts.
KINDS: tuple[tuple[Any, str], ...] = (
    (UnusableError, "unusable"),
    (errors.TimeoutError, "timeout"),
    (requests.exceptions.SSLError, "directory-tls"),
    ((ValueError, requests.TooManyRedirects), "unexpected"),  # many of requests' errors are a ValueError, too
    (requests.RequestException, "unreachable"),
    (OSError, "folder"),
    (Exception, "unexpected"),
)


class Refused(Exception):
    """The authority has checked a name, and refused."""

    def __init__(self, kind: str, detail: str, challenge: str = "") -> None:
        super().__init__(detail)
        self.kind, self.detail, self.challenge = kind, detail, challenge


def order(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Order a certificate for `job["name"]`, and write the file.

    Return nothing after success, else "kind" (the last word of ACME's type of error, or one of faults.py), "detail" and, from the authority,
    "retry_after".
    """
    folder = Folder(job["folder"])
    folder.drop_challenges()  # of an order cut off
    try:
        key = key_of(folder)
    except (OSError, ValueError) as exc:
        return {"kind": "account-key", "detail": str(exc)}
    answers = BoundedAnswers()
    try:
        _try(job, folder, new_network(job, key, answers), answers)
        return {}
    except Exception as exc:  # the libraries raise errors of many kinds at a malformed answer
        return {**_describe(exc), **({"retry_after": answers.retry_after} if answers.retry_after else {})}
    finally:
        folder.drop_challenges()


def _describe(exc: Exception) -> dict[str, Any]:
    """Return "kind", "detail" and the further parts of a fault; see `order`."""
    if isinstance(exc, errors.IssuanceError):
        exc = exc.error
    if isinstance(exc, Refused):
        return {"kind": exc.kind, "detail": exc.detail, "challenge": exc.challenge}
    if isinstance(exc, messages.Error):
        subproblems = "; ".join(str(one.detail) for one in exc.subproblems or ())
        detail = str(exc.detail or exc.title or exc.typ)
        return {"kind": str(exc.typ).rpartition(":")[2], "detail": detail, "subproblems": subproblems}
    status = getattr(exc.args[0] if exc.args else None, "status_code", 0)  # of a malformed refusal
    if status == 429 or status >= 500:
        return {"kind": "rateLimited" if status == 429 else "serverInternal", "detail": f"status {status}"}
    kind = next(kind for classes, kind in KINDS if isinstance(exc, classes))
    detail = str(exc) or (f"no decision within {ORDER_SECONDS:.0f} s" if kind == "timeout" else "")
    return {"kind": kind, "detail": f"{type(exc).__name__}: {detail}" if kind == "unexpected" else detail}


def _try(
    job: Mapping[str, Any],
    folder: Folder,
    network: client.ClientNetwork,
    answers: BoundedAnswers,
    tries: int = MAX_TRIES,
) -> None:
    """Order; begin anew if the authority refuses a nonce."""
    try:
        _order(job, folder, network, answers)
    except messages.Error as exc:
        if exc.code != "badNonce" or tries == 1:
            raise
        _try(job, folder, network, answers, tries - 1)


def _order(job: Mapping[str, Any], folder: Folder, network: client.ClientNetwork, answers: BoundedAnswers) -> None:
    name = job["name"]
    network.account = None
    authority = connect(job, folder, network)
    key = new_key()
    made = authority.new_order(new_request(key, name))
    taken = _answer(job, folder, authority, made, network.key)
    until = datetime.datetime.now() + datetime.timedelta(seconds=answers.seconds)
    try:
        made = authority.poll_authorizations(made, until)
    except errors.ValidationError as exc:
        raise _refusal(exc, taken) from None
    made = authority.finalize_order(made, until)
    present = Issued.of(folder, name) if Notes.of(folder, name).has_certificate else None
    check = functools.partial(refuse_unusable, name=name, now=time.time(), present=present)
    folder.write(folder.certificate(name), pem_of(key) + made.fullchain_pem.encode(), check=check)
    Notes(job["directory"]).write(folder, name)


def _answer(
    job: Mapping[str, Any], folder: Folder, authority: client.ClientV2, made: messages.OrderResource, key: Any
) -> str:
    """Answer the challenge of each authorization not valid already; return the kind."""
    taken = ""
    for one in made.authorizations:
        if one.body.status == messages.STATUS_VALID:
            continue
        challenge = choose(one.body.challenges, job["challenges"])
        if challenge is None:
            offered = ", ".join(str(body.chall.to_json().get("type")) for body in one.body.challenges)
            raise Refused("no-challenge", f"it offers {offered or 'nothing'}")
        put_answer(folder, job["name"], challenge, key, _hosts(job))
        authority.answer_challenge(challenge.body, challenge.response)
        taken = challenge.kind
    return taken


def _hosts(job: Mapping[str, Any]) -> SharingHosts | None:
    if job["shared"] is None:
        return None
    from .hosts import SharingHosts  # imports redis

    return SharingHosts(*job["shared"])


def _refusal(exc: errors.ValidationError, taken: str) -> Refused:
    for one in exc.failed_authzrs:
        for body in one.body.challenges:
            if body.error is not None:
                return Refused(str(body.error.typ).rpartition(":")[2], body.error.detail or "", taken)
    return Refused("unexpected", "no reason was given", taken)
