"""One order for one name: from the authority's directory to the file of the certificate.

Owns:     order, the child's job; Refused.
Thread:   the child's only one.
Spec:     RFC 8555 section 7.4.
Not here: when (schedule.py), words for faults (faults.py).
"""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import requests
from acme import client, errors, messages
from josepy.errors import Error as JoseError

from .account import connect, key_of, new_network
from .challenges import choose, put_answer
from .folder import Folder
from .issued import Issued, UnusableError, refuse_unusable
from .keys import new_key, new_request, pem_of
from .notes import Notes

if TYPE_CHECKING:
    from .hosts import Hosts

# Of the authority's checks, and of its signature.
DEADLINE_SECONDS = 120
# The library tries a refused nonce once more; an order has some ten requests.
MAX_TRIES = 5


class Refused(Exception):
    """The authority has checked a name, and refused."""

    def __init__(self, kind: str, detail: str, challenge: str = "") -> None:
        super().__init__(detail)
        self.kind, self.detail, self.challenge = kind, detail, challenge


def order(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Order a certificate for `job["name"]`, and write it.

    Return nothing if it is there, else "kind" (the last word of ACME's type of error, or one of faults.py), "detail" and, if the authority
    said so, "retry_after".
    """
    folder = Folder(job["folder"])
    folder.drop_challenges()  # of an order that was cut off
    try:
        key = key_of(folder)
    except (OSError, ValueError) as exc:
        return {"kind": "account-key", "detail": str(exc)}
    network = new_network(job, key)
    waits: list[str] = []
    network.session.hooks["response"].append(
        lambda response, **_: waits.append(response.headers.get("Retry-After", ""))
    )
    try:
        _try(job, folder, network)
        return {}
    except Refused as exc:
        found = {"kind": exc.kind, "detail": exc.detail, "challenge": exc.challenge}
    except messages.Error as exc:
        found = {"kind": str(exc.typ).rpartition(":")[2], "detail": exc.detail or exc.title or str(exc.typ)}
        found["subproblems"] = "; ".join(str(one.detail) for one in exc.subproblems or ())
        found["retry_after"] = waits[-1] if waits else ""
    except UnusableError as exc:
        found = {"kind": "unusable", "detail": str(exc)}
    except errors.TimeoutError:
        found = {"kind": "timeout", "detail": f"no decision within {DEADLINE_SECONDS} s"}
    except requests.exceptions.SSLError as exc:
        found = {"kind": "directory-tls", "detail": str(exc)}
    except requests.RequestException as exc:
        found = {"kind": "unreachable", "detail": str(exc)}
    except (errors.Error, JoseError) as exc:
        found = {"kind": "unexpected", "detail": f"{type(exc).__name__}: {exc}"}
    except OSError as exc:
        found = {"kind": "folder", "detail": str(exc)}
    finally:
        folder.drop_challenges()
    return found


def _try(job: Mapping[str, Any], folder: Folder, network: client.ClientNetwork, tries: int = MAX_TRIES) -> None:
    """Order; begin anew if the authority refuses a nonce."""
    try:
        _order(job, folder, network)
    except messages.Error as exc:
        if exc.code != "badNonce" or tries == 1:
            raise
        _try(job, folder, network, tries - 1)


def _order(job: Mapping[str, Any], folder: Folder, network: client.ClientNetwork) -> None:
    name = job["name"]
    network.account = None
    authority = connect(job, folder, network)
    key = new_key()
    made = authority.new_order(new_request(key, name))
    taken = _answer(job, folder, authority, made, network.key)
    until = datetime.datetime.now() + datetime.timedelta(seconds=DEADLINE_SECONDS)
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
    """Answer the challenge of each authorization that is not valid already; return its kind."""
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


def _hosts(job: Mapping[str, Any]) -> Hosts | None:
    if job["shared"] is None:
        return None
    from .hosts import Hosts  # which knows redis

    return Hosts(*job["shared"])


def _refusal(exc: errors.ValidationError, taken: str) -> Refused:
    for one in exc.failed_authzrs:
        for body in one.body.challenges:
            if body.error is not None:
                return Refused(str(body.error.typ).rpartition(":")[2], body.error.detail or "", taken)
    return Refused("unexpected", "no reason was given", taken)
