"""Words for a failed order: whose fault, and the remedy.

Owns:     explain; the kinds of faults beside ACME's.
Thread:   any; pure.
Spec:     RFC 8555 section 6.7 (types of errors).
Not here: finding the fault (order.py), logging the fault (renewal.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.patterns import lazy_pattern
from .settings import PORTS, TLS_ALPN_01

MAX_DETAIL = 300
_REASON = lazy_pattern(r"\[Errno -?\d+\] ([^'\")]+)|(timed out)|certificate verify failed: ([^(']*[^(' ])")

# By kind: the fact, and the remedy. {authority}: its host; {name}; {port}, tried by the authority; {folder}.
FAULTS = {
    # The authority's checks of the name.
    "dns": ("{authority} finds no address of {name}: {detail}", "add a record A or AAAA for {name} that leads to this machine"),
    "dnssec": ("the signature of the DNS of {name} is wrong: {detail}", "mend DNSSEC at your DNS provider"),
    "connection": (
        "{authority} could not connect to {name} at port {port}: {detail}",
        "its DNS record must lead to this machine, and the firewall, or the port forwarding, let port {port} through",
    ),
    "unauthorized": (
        "{authority} did not find the answer of this server for {name} at port {port}: {detail}",
        "let every A and AAAA record of {name} lead to this machine, let the firewall let port {port} through, and let nothing stand in front that answers "
        "by itself",
    ),
    "tls": (
        "{authority} could connect to {name} at port {port}, but not by TLS: {detail}",
        "see that no other server and no proxy has that port",
    ),
    "caa": ("a CAA record of {name} forbids {authority}: {detail}", "add one that allows it, or remove it"),
    "no-challenge": (
        "{authority} offers no check that this server can answer: {detail}",
        "listen on port 80, too, with --bind :80 beside the one for TLS",
    ),
    # Requests.
    "rateLimited": (
        "{authority} has had too many requests: {detail}",
        "wait; and for experiments use the staging directory, see `aserve docs letsencrypt`",
    ),
    "rejectedIdentifier": ("{authority} gives no certificate for {name}: {detail}", "use another name, or another authority"),
    "userActionRequired": ("{authority} wants you to do something: {detail}", "do that, such as reading its new terms"),
    "externalAccountRequired": (
        "{authority} gives certificates to its customers only: {detail}",
        "aserve cannot send their credentials; let certbot get the certificate, and name its files",
    ),
    "account": (
        "{authority} refuses the account: {detail}",
        "if the account was deactivated, remove {folder}/account.pem: the next try makes a new account",
    ),
    "invalidContact": ("{authority} refuses the address in acme-email: {detail}", "give another, or none"),
    "unexpected": (
        "{authority} has given an answer that is none of ACME: {detail}",
        "see that acme-directory is the URL of a directory, and that no proxy changes answers",
    ),
    "serverInternal": ("{authority} has trouble of its own: {detail}", "nothing is to be done here"),
    "badNonce": ("{authority} refuses requests as replayed, again and again", "nothing is to be done here, unless a proxy keeps its answers"),
    "timeout": ("{authority} has come to no decision: {detail}", "nothing is to be done here"),
    "unusable": (
        "{authority} has given a certificate that clients would refuse, and the one that was there stays: {detail}",
        "see that the clock of this machine is right; otherwise the fault is the authority's",
    ),
    # This machine.
    "due": (
        "the certificate that {authority} has given is to be renewed already: {detail}",
        "see that the clock of this machine is right",
    ),
    "unreachable": (
        "{authority} cannot be reached from here: {detail}",
        "see that this machine finds its address, and may connect to it",
    ),
    "directory-tls": (
        "the certificate of {authority} itself is not trusted here: {detail}",
        "see that the clock is right; the root of a private authority is named by acme-ca",
    ),
    "account-key": (
        "the key of the account, {folder}/account.pem, cannot be used: {detail}",
        "put back the right file, or remove it, and the next try makes another account",
    ),
    "folder": ("a file in {folder} could not be written: {detail}", "see that there is room, and that this user may write there"),
    "child": ("the process that asks could not do it: {detail}", "see that Python and the packages of aserve-wsgi[acme] work for this user"),
}  # fmt: skip
SAME = {
    "incorrectResponse": "unauthorized", "unsupportedContact": "invalidContact", "invalidEmail": "invalidContact",
    "accountDoesNotExist": "account", "unknownHost": "dns",
}  # fmt: skip
UNCHECKED = (
    "{authority} could not check {name} at port {port}: {detail}",
    "let its DNS record lead to this machine, and the firewall let port {port} through",
)
OTHER = ("{authority} refuses: {detail}", "its documentation says more about '{kind}'")
# After one of these, a check by another challenge may succeed.
BY_WAY = ("connection", "unauthorized", "tls", "malformed")


def may_help(result: Mapping[str, Any]) -> bool:
    """Whether a check by another challenge could have another result."""
    kind = str(result.get("kind"))
    return bool(result.get("challenge")) and SAME.get(kind, kind) in BY_WAY


def explain(name: str, authority: str, folder: str, result: Mapping[str, Any]) -> str:
    """Return one line for the result of an order, see order.py."""
    kind, challenge = str(result.get("kind")), result.get("challenge")
    kind = SAME.get(kind, kind)
    if kind == "unauthorized" and not challenge:
        kind = "account"
    what, remedy = FAULTS.get(kind, UNCHECKED if challenge else OTHER)
    text = f"{what}; {remedy}"
    port = PORTS.get(str(challenge), PORTS[TLS_ALPN_01])
    return text.format(
        authority=authority, name=name, port=port, folder=folder, kind=kind, detail=_shorten(kind, result)
    )


def _shorten(kind: str, result: Mapping[str, Any]) -> str:
    """Return the detail as one line, within the length of a log line."""
    parts = [str(result[key]) for key in ("detail", "subproblems") if result.get(key)]
    detail = " ".join("; ".join(parts).split())
    if kind in ("unreachable", "directory-tls"):  # the library wraps the reason in three others
        found = _REASON.search(detail)
        detail = next((part for part in found.groups() if part), detail) if found else detail
    detail = detail.rstrip(".")
    return detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}..."
