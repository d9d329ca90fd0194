"""The content codings accepted by a client.

Owns:     ranked: Accept-Encoding, with weights.
Thread:   any; pure, with a cache.
Spec:     RFC 9110 sections 12.4.2 and 12.5.3.
Not here: compressed siblings of files (static.py), compressing (compressing.py).
"""

from __future__ import annotations

import functools
import re

_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\Z", re.IGNORECASE)
_LONGEST = 500  # Guess: browsers send 25 characters; a longer field is not worth a place in the cache


def ranked(field: str, offered: tuple[str, ...]) -> tuple[str, ...]:
    """
    Return the offered codings that a client accepts and weighs no lower than identity, highest weight first.

    Equal weights keep the order of the offer. Without the field return none: the client may not understand any.
    """
    return _ranked(field, offered) if 0 < len(field) <= _LONGEST else ()


@functools.lru_cache(256)
def _ranked(field: str, offered: tuple[str, ...]) -> tuple[str, ...]:
    weights: dict[str, float] = {}
    for item in field.split(","):
        name, _, parameter = (part.strip() for part in item.partition(";"))
        weight = _WEIGHT.match(parameter.replace(" ", "").replace("\t", "")) if parameter else None
        if name and (weight or not parameter):  # ignore an item without a valid form
            name = name.lower()
            weights["gzip" if name == "x-gzip" else name] = float(weight[1]) if weight else 1.0
    others = weights.get("*", 0.0)
    least = weights.get("identity", 0.0)
    found = [(weights.get(name, others), name) for name in offered]
    found = [(weight, name) for weight, name in found if weight > 0 and weight >= least]
    return tuple(name for _, name in sorted(found, key=lambda pair: -pair[0]))
