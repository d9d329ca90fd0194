"""The meaning of a difference between another server and aserve for a deployment: no harm, a line of the log, or neither.

A difference is a text of `differences` in compare.py, as "exit: -3 -> 0".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

SAME, HARMLESS, WARNED, DIFFERENT = KINDS = ("same", "harmless", "warned", "different")
# The form of a difference, and the reason for no harm.
WITHOUT_HARM = {
    r"exit: -?\d+ -> 0": "the exit status is 0 after a signal that ends the server",
    r"left: \[.*\] -> \[\]": "aserve removes its pid file, socket and FIFO at the end",
    r"starts: False -> True": "aserve starts with a file with which the other server does not",
    r"(get: status: 500 -> 200|at once: 0 -> \d+)": "aserve serves an app that the other server does not find",
    r"get: group: 0 -> \d+": "a user without a group has the user's own, in place of root's",
    r"get: groups: \[\] -> \[\d+\]": "the process has the groups of its user, in place of those of the process that starts the server",
    r"get: groups: \[60\] -> \[33, 60\]": "the user's own groups, too",
    r"get: wsgi\.multithread: True -> False": "`wsgi.multithread` is false where one thread runs the app",
    r"get: REMOTE_ADDR: ::ffff:([\d.]+) -> \1": "at `[::]` a client of IPv4 has its address without `::ffff:`",
    r"sockets: \S+: 777 (\S+) -> 666 \1": "a unix socket has 666 in place of 777: nothing executes a socket",
    r"static: fields: \[.*'expires'.*\] -> \[.*'cache-control'.*\]": "files have Cache-Control in place of Expires, with the same time; and more fields",
    r"static: fields: \[(.*)\] -> \[.*\]": "files have more fields: browsers ask whether their copy is fresh, and may ask for a part",
}
# gunicorn does not find ::ffff:127.0.0.1 in `forwarded_allow_ips`, where 127.0.0.1 is.
OF_MAPPED = (
    r"proxied: wsgi\.url_scheme: http -> https",
    "at `[::]` a proxy of IPv4 is one that `forwarded_allow_ips` names",
)
# The form of a difference, and the line of the log with the difference.
BY_LINES = {
    r"(logs|line): .*": r"messages go to standard error|it is not written|nothing is written there|logger|hyphen for what|has the form of",
    r"(sockets|left): .*stats.*": r"stats = ",
    r"at once: .*": r"gevent|worker_class|cheaper-initial",
    r"static: .*": r"static-|route = |route-",
    r"starts: True -> False": r"aserve: error: |fastcgi-socket = ",
}


class Classed(NamedTuple):
    """A difference, the kind, and the reason for the kind."""

    text: str
    kind: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}" if self.why else self.kind


def classed(differences: Mapping[str, str], said: Collection[str]) -> list[Classed]:
    """Return each difference with a kind; `said`: the lines of aserve's log."""
    texts = list(differences.values())
    is_mapped = any("::ffff:" in text for text in texts)
    harmless = dict([*WITHOUT_HARM.items(), *([OF_MAPPED] if is_mapped else [])])
    return [_class_of(text, harmless, said) for text in texts]


def _class_of(text: str, harmless: Mapping[str, str], said: Collection[str]) -> Classed:
    for pattern, why in harmless.items():
        if re.fullmatch(pattern, text) and _has_all_fields(text):
            return Classed(text, HARMLESS, why)
    for pattern, line in BY_LINES.items():
        if re.fullmatch(pattern, text) and any(re.search(line, each) for each in said):
            return Classed(text, WARNED, "the log says it")
    return Classed(text, DIFFERENT)


def _has_all_fields(text: str) -> bool:
    """
    Whether no field of the other server's response is missing, if the difference is in fields.

    Cache-Control stands for Expires (RFC 9111 5.3); whether both say the same time is a further difference, `fresh`.
    """
    match = re.fullmatch(r"\w+: fields: \[(.*)\] -> \[(.*)\]", text)
    if match is None:
        return True
    theirs, ours = (set(names.split(", ")) for names in match.groups())
    return theirs - ({"'expires'"} if "'cache-control'" in ours else set()) <= ours


def worst(found: Iterable[Classed]) -> str:
    """Return the kind of a case with these differences."""
    return max((one.kind for one in found), key=KINDS.index, default=SAME)
