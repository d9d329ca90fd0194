"""Print docs/conformance.md, made from the tests: `make docs`."""

from __future__ import annotations

import ast
import json
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

TESTS = pathlib.Path(__file__).parent.parent / "tests"
PAIRS = TESTS / "corpus" / "desync"

INTRODUCTION = """\
# Conformance

<!-- Made by `make docs` from the `@rule(...)` of the tests and from tests/corpus/desync; edit those. -->

What the specifications ask of a WSGI server, and what aserve does. Each row is a test over a real
socket, and the test fails if the row is not true: with either HTTP parser (`--http-parser`), on asyncio and uvloop, with
worker threads and without, on CPython and PyPy, unless the test says that this does not matter. Most run over HTTP/2, too; there
a response that is cut short ends with a reset of its stream, and a refusal leaves the connection open.

**stricter** means that aserve refuses what a clause would let it accept; **more lenient**, that it accepts
what a clause would let it refuse. Each has its reason. [Parser differences](parser-differences.md)
compares our parser with llhttp, octet by octet.
"""
PAIRS_INTRODUCTION = """\
## Requests that two readers could tell apart

Request smuggling is possible where a front server and the server after it disagree on where a request
ends. Below is what a client sends on one connection, mostly with a second request after the first. The app
sees what it should and nothing else. Afterwards the connection is **open**, and the next request gets
its own answer, or the connection is **closed**. The tests send each file to each parser, whole and in pieces, with bodies
buffered and live; and through nginx, HAProxy and Apache, which must have sent each request that the
app sees. If llhttp (`--http-parser httptools`) reads a file differently, its
outcome follows "llhttp:". Over HTTP/2 each accepted request is a stream; a refused one is sent as fields, with all that follows its head as its
body, and is refused, too, while the connection stays open. An outcome that differs otherwise follows "HTTP/2:".
"""
KINDS = {"as asked": "", "stricter": "**stricter**", "lenient": "**more lenient**"}


class Row(NamedTuple):
    """One rule."""

    clause: str
    asks: str
    does: str
    kind: str
    why: str
    test: str


def collect_rules() -> Iterator[Row]:
    """Yield the rules of all tests, as they stand in the source."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "rule(" not in text:
            continue
        for node in ast.parse(text).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                for call in ast.walk(decorator):
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "rule":
                        words = [ast.literal_eval(word) for word in call.args]
                        words += ["as asked", ""][len(words) - 3 :]
                        yield Row(*words, f"{path.relative_to(TESTS).as_posix()}: {node.name}")


def collect_pairs() -> Iterator[Row]:
    """Yield the files of the corpus of request pairs."""
    for path in sorted(PAIRS.glob("*.json")):
        pair = json.loads(path.read_text())
        does = _outcome(pair)
        if "http2" in pair:
            does += "; HTTP/2: " + _outcome({**pair, **pair["http2"], "then": "open"})
        if "httptools" in pair:
            does += "; llhttp: " + _outcome({**pair, **pair["httptools"]})
        yield Row(pair["clause"], pair["about"], does, pair.get("kind", "as asked"), pair.get("why", ""), path.stem)


def _outcome(pair: dict[str, object]) -> str:
    answers, then = pair["answers"], pair["then"]
    assert isinstance(answers, list)
    said = ", ".join("cut short" if answer == "cut" else str(answer) for answer in answers) or "no answer"
    return f"{said}; {then}"


def order(row: Row) -> tuple[object, ...]:
    """Sort by specification, then by number of section."""
    specification, section = _split(row.clause)
    if section.startswith('"'):
        return specification, [], section
    return specification, [int(number) for number in section.split(".")], ""


def _split(clause: str) -> tuple[str, str]:
    match = re.fullmatch(r"((?:RFC|PEP) \d+|\w+) (.+)", clause)
    assert match is not None, clause
    return match[1], match[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _difference(row: Row) -> str:
    return f"{KINDS[row.kind]}: {row.why}" if row.why else ""


def build_page() -> str:
    """Return the whole page."""
    rules = sorted(collect_rules(), key=order)
    sections = [INTRODUCTION]
    for specification in dict.fromkeys(_split(row.clause)[0] for row in rules):
        lines = [
            f"## {specification}\n",
            "| Clause | What it asks | What aserve does | Difference | Test |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {_cell(_split(row.clause)[1])} | {_cell(row.asks)} | {_cell(row.does)} | {_cell(_difference(row))} | `{row.test}` |"
            for row in rules
            if _split(row.clause)[0] == specification
        ]
        sections.append("\n".join(lines) + "\n")
    lines = [
        PAIRS_INTRODUCTION,
        "| What is sent | Clause | What becomes of it | Difference | File |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {_cell(row.asks)} | {_cell(row.clause)} | {row.does} | {_cell(_difference(row))} | `{row.test}` |"
        for row in collect_pairs()
    ]
    return "\n".join([*sections, "\n".join(lines) + "\n"])


if __name__ == "__main__":
    print(build_page(), end="")
