"""The settings of mules: processes beside the workers that wait for messages, or run a program with the module `uwsgi`.

Owns:     MuleSettings; the grammar of a farm.
Thread:   any; pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.patterns import lazy_pattern
from ....settings import REPLACED, ConfigError, Needs, row
from ....settings.kinds import Kind, show_texts, texts_of
from ..settings import UwsgiSettings

MULE_VARIABLE = "ASERVE_IS_MULE"  # for the process of a mule; see post.inherited
WAITS = "-"  # of --uwsgi-mule: a mule without a program, which waits for messages
MOST = 64
_PLACE = lazy_pattern(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
_FARM = lazy_pattern(r"([A-Za-z0-9_.-]{1,64}):([0-9]+(?:,[0-9]+)*)\Z")


def _parse_mules(value: object) -> tuple[str, ...]:
    texts = tuple(texts_of(value, str.splitlines))
    for text in texts:
        if text != WAITS and not text.endswith(".py") and not _PLACE.match(text):
            raise ValueError(
                f"{text!r} is no program of a mule: FILE.py, MODULE:FUNCTION, or {WAITS} for one that waits for messages"
            )
    if len(texts) > MOST:
        raise ValueError(f"{len(texts)} mules are too many; {MOST} is the most")
    return texts


def parse_farm(text: str) -> tuple[str, tuple[int, ...]]:
    """
    Parse `NAME:1,2`; return the name, and the numbers of the mules.

    Raises:
        ValueError: the text is not of that form.
    """
    match = _FARM.match(text)
    if not match:
        raise ValueError(f"{text!r} is no farm, such as mail:1,2: a name, and the numbers of its mules")
    return match[1], tuple(int(number) for number in match[2].split(","))


def _parse_farms(value: object) -> tuple[str, ...]:
    texts = tuple(texts_of(value, str.splitlines))
    names = [parse_farm(text)[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two farms are called {name}")
    return texts


MULES = Kind(
    "FILE.py|MODULE:FUNCTION|-",
    f"a file of Python, a function, or {WAITS} for a mule that waits for messages; in a variable one to a line",
    _parse_mules,
    show_texts,
)
FARMS = Kind(
    "NAME:1,2,...", "a name, and the numbers of its mules; in a variable one to a line", _parse_farms, show_texts
)


class MuleSettings(UwsgiSettings):
    """The settings of this feature."""

    # fmt: off
    uwsgi_mule: Sequence[str] = row(
        (), "Processes", "--uwsgi-mule", MULES,
        "a process beside the workers for messages of uwsgi.mule_msg and @mulefunc, or for a program, with a path relative to --chdir; repeatable; see `aserve docs uwsgi-api`",
        "For apps written for uWSGI. A task queue does more, and keeps tasks over the end of the server.",
        needs=REPLACED,
        fixed=True,
    )
    uwsgi_farm: Sequence[str] = row(
        (), "Processes", "--uwsgi-farm", FARMS,
        "mules of a common name; any of these gets a message of uwsgi.farm_msg; repeatable; see `aserve docs uwsgi-api`",
        "As for --uwsgi-mule.",
        needs=Needs(("uwsgi_mule",)),
        fixed=True,
    )
    # fmt: on

    def check(self) -> None:
        """See Settings."""
        if self.uwsgi_mule and self.uwsgi_module == "off":
            raise ConfigError("--uwsgi-mule is for apps that import uwsgi, which --uwsgi-module off prevents")
        for text in self.uwsgi_farm:
            for number in parse_farm(text)[1]:
                if self.uwsgi_mule and not 1 <= number <= len(self.uwsgi_mule):
                    raise ConfigError(
                        f"--uwsgi-farm {text}: there is no mule {number}; --uwsgi-mule makes {len(self.uwsgi_mule)}"
                    )
