"""The clause held by a test; docs/conformance.md is made of these and of corpus/desync.

@rule("RFC 9112 3.2", "a request without Host is answered 400", "400, then closed")

tells the clause's demand and our act. docs/make_conformance.py reads the arguments out of the source, so they are literals.
"""

import re
from typing import Any

import pytest

KINDS = ("as asked", "stricter", "lenient")
SPECIFICATIONS = (
    "PEP 3333",
    "RFC 9110",
    "RFC 9112",
    "RFC 3986",
    "RFC 3875",
    "RFC 6265",
    "RFC 6585",
    "RFC 8297",
    "uwsgi",
    "SCGI",
)
CLAUSE = re.compile(rf'({"|".join(SPECIFICATIONS)}) ([0-9]+(\.[0-9]+)*|"[^"]+")')


def rule(clause: str, asks: str, does: str, kind: str = "as asked", why: str = "") -> Any:
    """Mark a test, or a row of its table; where we are stricter or more lenient, with the reason."""
    assert CLAUSE.fullmatch(clause), clause
    assert kind in KINDS, kind
    assert (kind == "as asked") == (not why), f"{clause}: {kind}, because {why!r}"
    return pytest.mark.rule(clause)
