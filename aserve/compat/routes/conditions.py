"""Conditions of routes: patterns of a variable, and uWSGI's tests of texts with placeholders.

Owns:     SUBJECTS; compile_condition.
Thread:   compiling: any; a Condition is called in a worker, several at once (with --threads 0: on the event loop).
Spec:     uWSGI 2.0.31, core/routing.c; compared with uWSGI itself.
Not here: placeholders (arguments.py), the routes (__init__.py).
"""

from __future__ import annotations

import ipaddress
import operator
import os
import re
from typing import Callable, Optional

from ...core.patterns import lazy_pattern
from ...wsgi.environ import Environ
from .arguments import compile_argument, fill

# The match fills $1 to $9 of the action.
Condition = Callable[[Environ], Optional["re.Match[str]"]]

# By the beginning of a condition, as in host:PATTERN; a pattern alone is for PATH_INFO.
SUBJECTS = {
    "host": "HTTP_HOST", "uri": "REQUEST_URI", "qs": "QUERY_STRING", "remote-addr": "REMOTE_ADDR", "remote-user": "REMOTE_USER",
    "user-agent": "HTTP_USER_AGENT", "referer": "HTTP_REFERER",
}  # fmt: skip
_SAME = {
    "isequal": "equal", "eq": "equal", "==": "equal", "contain": "contains", "re": "regexp",
    ">": "ishigher", "<": "islower", ">=": "ishigherequal", "<=": "islowerequal",
}  # fmt: skip
_NUMBER = lazy_pattern(rb"\s*([+-]?)([0-9]+)")
_LARGEST = 2**63 - 1
_TRUE = re.match("", "")


def compile_condition(text: str) -> tuple[Condition, re.Pattern[str] | None]:
    """
    Return a condition, and the pattern whose groups an action may use; such as ^/x, host:^shop, or if:equal:${HTTPS};on.

    Raises:
        ValueError: it is none; the text does not show what is compared, which may be a secret.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in ("if", "if-not"):
        return _compile_test(rest, is_wanted=kind == "if")
    subject = SUBJECTS.get(kind, "") if colon else ""
    pattern = _compile_pattern(rest if subject else text)
    name = subject or "PATH_INFO"
    return lambda environ: pattern.search(environ.get(name, "")), pattern


def _compile_pattern(text: str) -> re.Pattern[str]:
    # In the form of the environ, where a character stands for an octet (PEP 3333, "Unicode Issues"); of octets, as uWSGI's PCRE.
    try:
        return re.compile(text.encode("utf-8", "surrogateescape").decode("latin-1"), re.ASCII)
    except (re.error, ValueError) as fault:  # ValueError: (?u)
        raise ValueError(f"its pattern is no regular expression: {fault}") from None


def _compile_test(text: str, is_wanted: bool) -> tuple[Condition, re.Pattern[str] | None]:
    name, _, operands = text.partition(":")
    name = _SAME.get(name, name)
    left, semicolon, right = operands.partition(";")
    if name in _TESTS_OF_ONE:
        test_one, one = _TESTS_OF_ONE[name], compile_argument(operands, None)
        return _told(lambda environ: test_one(fill(one, environ, None)), is_wanted), None
    if not semicolon or name not in ("regexp", *_NETWORKS, *_TESTS):
        raise ValueError(
            f"there are the conditions {', '.join((*_TESTS, *_NETWORKS, 'regexp'))} (:TEXT;TEXT), {', '.join(_TESTS_OF_ONE)} (:TEXT)"
        )
    first = compile_argument(left, None)
    if name in _NETWORKS:
        test_one = _compile_network(name[2:4], right)
        return _told(lambda environ: test_one(fill(first, environ, None)), is_wanted), None
    if name != "regexp":
        test, second = _TESTS[name], compile_argument(right, None)
        return _told(lambda environ: test(fill(first, environ, None), fill(second, environ, None)), is_wanted), None
    pattern = _compile_pattern(right)

    def search(environ: Environ) -> re.Match[str] | None:
        return pattern.search(fill(first, environ, None).decode("latin-1"))

    return (search, pattern) if is_wanted else (_told(lambda environ: search(environ) is not None, False), None)


def _told(test: Callable[[Environ], bool], is_wanted: bool) -> Condition:
    def condition(environ: Environ) -> re.Match[str] | None:
        try:
            holds = test(environ)
        except ValueError:
            if is_wanted:
                raise
            holds = False  # what is no address is in no network
        return _TRUE if holds is is_wanted else None

    return condition


def _compile_network(version: str, text: str) -> Callable[[bytes], bool]:
    """
    Return the test whether an address is in this network; the test raises ValueError for what is no address.

    Raises:
        ValueError: the text is no network of this version of IP.
    """
    address_of, network_of = (getattr(ipaddress, f"IP{version}{kind}") for kind in ("Address", "Network"))
    try:
        network = network_of(text, strict=False)
    except ValueError:
        raise ValueError("a network was expected, such as 10.0.0.0/8") from None
    return lambda address: address_of(address.decode()) in network


def _contains(text: bytes, part: bytes) -> bool:
    """Whether uWSGI finds the part: an octet that ends an attempt does not begin another, and nothing is found nowhere."""
    count = 0
    for octet in text if part else b"":
        count = count + 1 if octet == part[count] else 0
        if count == len(part):
            return True
    return False


def _number(text: bytes) -> int:
    """Return the number at the beginning, as C's strtol; 0: there is none."""
    match = _NUMBER.match(text)
    # A client may send more digits than int() takes.
    number = min(int(match[2].lstrip(b"0")[:20] or b"0"), _LARGEST) if match else 0
    return -number if match and match[1] == b"-" else number


def _compares(compare: Callable[[int, int], bool]) -> Callable[[bytes, bytes], bool]:
    return lambda text, other: compare(_number(text), _number(other))


_TESTS: dict[str, Callable[[bytes, bytes], bool]] = {
    "equal": operator.eq, "startswith": bytes.startswith, "endswith": bytes.endswith, "contains": _contains,
    "ishigher": _compares(operator.gt), "islower": _compares(operator.lt),
    "ishigherequal": _compares(operator.ge), "islowerequal": _compares(operator.le),
}  # fmt: skip
_NETWORKS = ("ipv4in", "ipv6in")
_TESTS_OF_ONE: dict[str, Callable[[bytes], bool]] = {
    "empty": operator.not_, "exists": os.path.exists, "isfile": os.path.isfile, "isdir": os.path.isdir,
}  # fmt: skip
