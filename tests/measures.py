"""How the parts are tied, as numbers: python tests/measures.py; `make lint` prints them.

Each number has a bound and a goal. The bound is the reached number: `tests/test_measures.py` fails if a number is worse, and if a number is better by
more than a twentieth and the bound has not followed. ENGINE and OPTIONS have the rooms of either; a module of neither is shared by both, or above, as
aserve/server/ is, where the options of a server are put together.
"""

from __future__ import annotations

import ast
import collections
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from harness.modules import MODULES, PACKAGE, ROOT, all_imports, room_of, tree_of

# A process serves, and the supervisor keeps several.
_ENGINE = "core connections lifecycle proxies protocols processes tls workers wsgi"
# Both do without.
_OPTIONS = "compat contrib features rpc"
ENGINE, OPTIONS = frozenset(_ENGINE.split()), frozenset(_OPTIONS.split())
# In place of nouns; h11 has 37 in 1,000 words of docstrings and comments, gunicorn 13.
PRONOUN = re.compile(r"\b(?:it|its|that|which|what|ones?|others?|those|they|them|who|whom)\b", re.IGNORECASE)
PROSE = re.compile(r'^ *r?"""(.*?)"""|(?:^ *|  )# ([^\n]*)', re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[A-Za-z']+")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
DECIDES = ("fleet/facts", "fleet/fleet", "fleet/decide", "acts")


class Measure(NamedTuple):
    """A number, and how far the number is to come down."""

    name: str
    count: Callable[[], int]
    bound: int
    goal: int


def entries() -> int:
    """Count our files as `ls aserve` shows."""
    return len(
        {
            path.relative_to(PACKAGE).parts[0]
            for path in PACKAGE.rglob("*")
            if path.suffix in (".py", ".pyi", ".html", ".typed")
        }
    )


def our_imports() -> set[tuple[str, str]]:
    """Return pairs of importing and imported module, for types and inside functions, too."""
    return {(name, found.name) for name, found in all_imports() if found.is_ours}


def imports_of_options() -> int:
    """Count imports of an option by the engine."""
    return sum(room_of(name) in ENGINE and room_of(found) in OPTIONS for name, found in our_imports())


def imports_by_command() -> int:
    """Count imports of a single option by the command; features/__init__.py is for all options."""
    return sum(
        room_of(name) == "command" and room_of(found) in OPTIONS and found != "features"
        for name, found in our_imports()
    )


def hooks() -> int:
    """Count the gifts of an option to the engine: members of Extension, of a Reader and of a Supervision; events in the life of a process."""
    places = {
        "Extension": "extension",
        "Life": "extension",
        "Supervision": "lifecycle.supervision",
        "Reader": "core.ends",
    }
    found = [
        node for name, place in places.items() for node in tree_of(place).body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]  # fmt: skip
    return sum(
        isinstance(one, (ast.FunctionDef, ast.Assign, ast.AnnAssign)) and getattr(one, "name", "") != "__init__"
        for node in found for one in node.body
    )  # fmt: skip


def fan_out() -> int:
    """Return the largest number of our modules imported by a module; the list of all features is left out."""
    return max(collections.Counter(name for name, _ in our_imports() if name != "features").values())


def classes() -> Iterator[ast.ClassDef]:
    for name in MODULES:
        yield from (node for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef))


def names_of_several_classes() -> int:
    """Count names of classes in several modules."""
    found = collections.Counter(
        one
        for name in MODULES
        for one in {node.name for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef)}
    )
    return sum(count > 1 for count in found.values())


def methods_of(node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the methods defined by a class."""
    return {one.name: one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}


def files_of_a_folder() -> int:
    """Return how many modules the fullest folder of connections and processes has, __init__ apart."""
    folders = [(PACKAGE / room).rglob("*.py") for room in ("connections", "processes")]
    return max(
        collections.Counter(path.parent for paths in folders for path in paths if path.stem != "__init__").values()
    )


def constructor_arguments() -> int:
    """Return how many arguments the constructor takes that takes most."""
    found = [methods_of(node).get("__init__") for node in classes()]
    return max(len(one.args.args) + len(one.args.kwonlyargs) - 1 for one in found if one is not None)


def methods() -> int:
    """Return how many methods the largest class has, with those of its bases among ours."""
    by_name = {node.name: node for node in classes()}

    def all_of(node: ast.ClassDef) -> set[str]:
        bases = [
            base.id for base in node.bases if isinstance(base, ast.Name) and base.id in by_name and base.id != node.name
        ]
        return set(methods_of(node)).union(*[all_of(by_name[base]) for base in bases])

    return max(len(all_of(node)) for node in by_name.values())


def rows_of(heading: str) -> list[str]:
    """Return the rows of the table below a heading of docs/design.md, without its first two lines."""
    section = (ROOT / "docs/design.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]


def private_words() -> int:
    """Count the words of our own that docs/design.md explains."""
    return len(rows_of("Words"))


def places() -> int:
    """Count the entries of "Where is what?"; a row has two."""
    return sum(len([cell for cell in row.split("|")[1:6:3] if cell.strip()]) for row in rows_of("Where is what?"))


def lines_that_decide() -> int:
    """Count the lines of the supervisor's facts, decisions and acts."""
    return sum(len((PACKAGE / f"processes/{name}.py").read_text().splitlines()) for name in DECIDES)


def pronouns(folder: str, suffix: str = "py") -> int:
    """Count PRONOUN in 1,000 words of prose, rounded."""
    texts = [path.read_text() for path in (ROOT / folder).rglob(f"*.{suffix}")]
    prose = [CODE.sub("", text) if suffix == "md" else "\n".join(map("".join, PROSE.findall(text))) for text in texts]
    return round(
        1000 * sum(len(PRONOUN.findall(text)) for text in prose) / sum(len(WORD.findall(text)) for text in prose)
    )


MEASURES = (
    Measure("entries at the top of aserve/", entries, 23, 15),
    Measure("imports of options by the engine", imports_of_options, 0, 0),
    Measure("imports of single options by aserve/command", imports_by_command, 9, 5),
    Measure("what an option may give to the engine", hooks, 49, 35),
    Measure("own modules that one module imports", fan_out, 22, 15),
    Measure("modules in a folder of connections, processes", files_of_a_folder, 17, 12),
    Measure("arguments of a constructor", constructor_arguments, 9, 8),
    Measure("names that classes of several modules have", names_of_several_classes, 9, 5),
    Measure("methods of a class", methods, 40, 40),
    Measure("private words in docs/design.md", private_words, 20, 20),
    Measure('entries of "Where is what?"', places, 30, 30),
    Measure("lines of the supervisor's facts, decisions and acts", lines_that_decide, 900, 850),
    Measure("pronouns in 1,000 words of aserve", lambda: pronouns("aserve"), 39, 30),
    Measure("pronouns in 1,000 words of aserve/processes", lambda: pronouns("aserve/processes"), 12, 12),
    Measure("pronouns in 1,000 words of the tests", lambda: pronouns("tests"), 40, 40),
    Measure("pronouns in 1,000 words of the docs", lambda: pronouns("docs", "md"), 24, 20),
)


def main() -> int:
    """Print them all; return 1 if one is worse than its bound."""
    found = [(measure.count(), measure) for measure in MEASURES]
    for count, measure in found:
        print(f"{count:5d}  bound {measure.bound:4d}  goal {measure.goal:4d}  {measure.name}")
    return 1 if any(count > measure.bound for count, measure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
