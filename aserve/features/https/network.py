"""The sender of requests to an authority, with bounds for the cost of an answer.

Owns:     new_network, BoundedAnswers.
Thread:   the child's only one, and one more for each answer.
Spec:     RFC 8555 section 6.1 (HTTPS alone).
Not here: the questions (account.py, order.py).
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Mapping
from concurrent import futures
from typing import Any

import requests
from acme import client, errors
from josepy.jwa import ES256
from josepy.jwk import JWKEC
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from ...settings import VERSION

# Of a whole order: the reads before, the authority's checks, and the signature. The child ends a minute later.
ORDER_SECONDS = 240.0
# Of one whole answer, and from one octet to the next.
ANSWER_SECONDS, SILENT_SECONDS = 60.0, 30.0
# Guess: forty times a chain of Let's Encrypt.
MAX_OCTETS = 1 << 18
CHUNK_OCTETS = 1 << 14


def new_network(job: Mapping[str, Any], key: JWKEC, answers: BoundedAnswers) -> client.ClientNetwork:
    """Return a sender of requests signed by the account's key."""
    network = client.ClientNetwork(
        key, alg=ES256, user_agent=f"aserve/{VERSION}", timeout=SILENT_SECONDS, verify_ssl=job["ca"] or True
    )
    for scheme in ("http://", "https://"):
        network.session.mount(scheme, answers)
    network.session.headers["Accept-Encoding"] = "identity"  # a few octets could become very many
    return network


class BoundedAnswers(HTTPAdapter):  # type: ignore[misc]
    """Gets the answers of one order, each within bounds."""

    def __init__(self) -> None:
        super().__init__()
        self._until = time.monotonic() + ORDER_SECONDS
        self.retry_after = ""  # of the last answer, if a refusal

    @property
    def seconds(self) -> float:
        """How many are left for the order."""
        return self._until - time.monotonic()

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        """
        Return a whole answer, read by a thread: a peer with an octet now and then is never late for a socket.

        Raises:
            errors.ClientError: the answer is too long, or asked for without TLS.
            errors.TimeoutError: the answer takes too long.
            requests.RequestException: there is no answer.
        """
        if not request.url.startswith("https://"):
            raise errors.ClientError(f"{request.url} is no URL of HTTPS")
        answer: futures.Future[requests.Response] = futures.Future()
        seconds = min(ANSWER_SECONDS, self.seconds)
        if seconds <= 0:
            raise errors.TimeoutError
        threading.Thread(target=self._receive, args=(answer, request, args, kwargs), daemon=True).start()
        try:
            response = answer.result(seconds)
        except futures.TimeoutError:
            raise errors.TimeoutError(f"no whole answer within {seconds:.0f} s") from None
        self.retry_after = "" if response.ok else response.headers.get("Retry-After", "")
        return response

    def _receive(self, answer: futures.Future[requests.Response], request: Any, args: Any, kwargs: Any) -> None:
        try:
            response = super().send(request, *args, **kwargs)
            response.raw = io.BytesIO(_read(response.raw))
            answer.set_result(response)
        except HTTPError as exc:
            answer.set_exception(requests.ConnectionError(exc))
        except BaseException as exc:
            answer.set_exception(exc)


def _read(raw: Any) -> bytes:
    octets = b""
    for chunk in raw.stream(CHUNK_OCTETS, decode_content=False):
        octets += chunk
        if len(octets) > MAX_OCTETS:
            raw.close()
            raise errors.ClientError(f"an answer has more than {MAX_OCTETS} octets")
    return octets
