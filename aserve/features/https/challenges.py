"""Challenges of an authority: the choice, and the answer as a file, for every serving process.

Owns:     Challenge; choose; put_answer.
Thread:   the child's only one.
Spec:     RFC 8555 sections 8.1 and 8.3; RFC 8737.
Not here: serving the answers (answers.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from acme import challenges
from josepy.b64 import b64encode
from josepy.jwk import JWKEC

from ...core.named_tuple import NamedTuple
from .answers import TOKEN, pem_name
from .folder import Folder
from .keys import new_answer
from .settings import HTTP_01, TLS_ALPN_01

if TYPE_CHECKING:
    from .hosts import SharingHosts


class Challenge(NamedTuple):
    """One challenge."""

    kind: str
    token: str
    body: Any  # messages.ChallengeBody

    @property
    def response(self) -> challenges.ChallengeResponse:
        """The answer's announcement, an empty object for both kinds (RFC 8555 7.5.1)."""
        return challenges.HTTP01Response(key_authorization="")


def choose(bodies: Iterable[Any], kinds: Sequence[str]) -> Challenge | None:
    """Return the challenge of the first kind in `kinds`; None: none of them is offered."""
    found = {}
    for body in bodies:
        fields = body.chall.to_json()  # the library knows not all kinds, in no release
        token = fields.get("token", "")
        if TOKEN.fullmatch(token):
            found[fields.get("type")] = Challenge(fields["type"], token, body)
    return next((found[kind] for kind in kinds if kind in found), None)


def put_answer(folder: Folder, name: str, challenge: Challenge, key: JWKEC, hosts: SharingHosts | None = None) -> None:
    """
    Write the file of an answer; for HTTP-01 let all hosts have the answer.

    Raises:
        OSError: a failed write, or an absent store of the hosts.
    """
    authorization = f"{challenge.token}.{b64encode(key.thumbprint()).decode()}"
    if challenge.kind == HTTP_01:
        folder.write(folder.challenge(challenge.token), authorization.encode())
        if hosts is not None:
            hosts.put_answer(challenge.token, authorization.encode())
    else:
        assert challenge.kind == TLS_ALPN_01
        folder.write(folder.challenge(pem_name(name)), new_answer(name, authorization))
