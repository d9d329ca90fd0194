"""docs/moving-table.md has every difference from uWSGI and gunicorn; `make moving` compares with the real servers."""

import json
import os
import pathlib
import re
import shutil
import sys

import pytest
from harness.combining import long
from harness.interpreter import ONCE
from moving import classes, compare, pages

RECORDED = json.loads(compare.RECORDED.read_text())
# One or two of each kind: files, sockets with rights, logs, static files, command lines, programs.
SHORT = [
    "d02_letters.cmd", "d03_file.cmd", "d04_file_last.cmd", "d05_placeholder.cmd", "d07_threads.cmd", "g03_threads.py", "g05_preload.py",
    "u02_nginx_socket.ini", "u18_sections.ini", "u13_chdir.ini", "p04_json.py", "p06_hooks.py", "p07_arguments.py", "p09_command.py", "p12_child.py",
]  # fmt: skip


@ONCE
@pytest.mark.skipif(sys.platform != "linux", reason="worker processes need Linux")
@pytest.mark.parametrize("name", SHORT)
def test_no_more_differs(name):
    """Each case differs from the other server by the table's rows alone."""
    aserve = shutil.which("aserve", path=os.path.dirname(sys.executable))
    ours = compare.run(compare.Case(compare.CASES / name), [aserve])
    theirs, recorded = RECORDED[name]["theirs"], RECORDED[name]["ours"]
    assert ours["starts"], ours
    ours["at once"] = recorded["at once"]  # a busy machine may change this
    now = compare.differences(theirs, ours)
    assert {what: text for what, text in now.items() if what not in compare.differences(theirs, recorded)} == {}


@ONCE
@pytest.mark.skipif(sys.platform != "linux", reason="worker processes need Linux")
@pytest.mark.parametrize(
    "name",
    [name if name in SHORT else long(name) for name in RECORDED if not compare.Case(compare.CASES / name).is_program],
)
def test_a_translation_is_the_same_server(name):
    """The output of `aserve translate`, once started, serves as the case here; only logs differ, where the comments tell an omission."""
    aserve = shutil.which("aserve", path=os.path.dirname(sys.executable))
    found = compare.run(compare.Case(compare.CASES / name), [aserve], is_translated=True)
    recorded = RECORDED[name]["ours"]
    assert found["starts"] == recorded["starts"], found
    found["at once"] = recorded.get("at once")  # a busy machine may change this
    is_said = re.search(r"^# (Hooks are called with|Done with|gunicorn's loggers)", found["printed"], re.M)
    assert compare.differences(recorded, found).keys() - ({"logs", "line"} if is_said else set()) == set()


def test_the_table_is_of_the_records():
    """Each case has a row, written by `make moving`."""
    assert compare.table_of(RECORDED) == compare.TABLE.read_text()
    assert compare.text_of(RECORDED) == compare.RECORDED.read_text()
    assert {path.name for path in compare.CASES.iterdir()} == set(RECORDED)
    assert all(pathlib.Path(name).suffix in (*compare.UWSGI_FILES, ".py", ".cmd") for name in RECORDED)


def test_the_pages_are_of_the_records():
    """The moving pages of both servers have the records' state: each setting named in a log, and each harmless difference."""
    cases = compare.compared(RECORDED)
    for server, page in pages.PAGES.items():
        text = page.read_text()
        assert pages.build_page(text, server, cases) == text
        text += compare.TABLE.read_text()  # has the rows beyond the page
        own = [case for case in cases if case.server == server]
        settings = {
            pages.PLACE.sub("", line).partition(": ")[0].partition(" = ")[0]
            for case in own
            for line in filter(pages.PLACE.match, case.said)
        }
        reasons = {one.why for case in own for one in case.found if one.kind == classes.HARMLESS}
        assert settings and {name for name in ", ".join(settings).split(", ") if f"`{name}`" not in text} == set()
        assert reasons and {why for why in reasons if f"- {why} (" not in text} == set()


def test_what_is_not_known_to_be_harmless():
    """The table counts such differences, if any."""
    assert "differ in something else" not in compare.table_of(RECORDED)
    name, record = next(iter(RECORDED.items()))
    text = compare.table_of({**RECORDED, name: {**record, "ours": {**record["ours"], "exit": 7}}})
    assert "\n1 differ in something else.\n" in text


@pytest.mark.parametrize(
    ("text", "said", "kind"),
    [
        ("exit: -3 -> 0", [], classes.HARMLESS),
        ("exit: 0 -> 1", [], classes.DIFFERENT),
        ("left: ['a.pid'] -> []", [], classes.HARMLESS),
        ("left: [] -> ['a.pid']", [], classes.DIFFERENT),
        ("static: fields: ['etag'] -> ['etag', 'vary']", [], classes.HARMLESS),
        ("static: fields: ['etag', 'x'] -> ['etag', 'vary']", [], classes.DIFFERENT),
        ("static: fields: ['expires'] -> ['cache-control']", [], classes.HARMLESS),
        ("static: fields: ['expires'] -> ['etag']", [], classes.DIFFERENT),
        ("static: fresh: 3600 -> None", [], classes.DIFFERENT),
        ("get: groups: [60] -> [33, 60]", [], classes.HARMLESS),
        ("get: groups: [60] -> [33]", [], classes.DIFFERENT),
        ("at once: 1 -> 4", [], classes.DIFFERENT),
        ("at once: 1 -> 4", ["case.py:7: worker_class = shop.Worker: aserve has workers of one kind"], classes.WARNED),
        ("proxied: wsgi.url_scheme: http -> https", [], classes.DIFFERENT),
        ("get: user: 33 -> 0", ["case.ini:7: stats = x"], classes.DIFFERENT),
    ],
)
def test_kinds_of_differences(text, said, kind):
    """Each difference has a kind; a difference not known to be harmless is not harmless."""
    assert classes.worst(classes.classed({"x": text}, said)) == kind
    assert classes.worst([]) == classes.SAME


def test_mapped_addresses_are_a_harmless_difference():
    """gunicorn does not see 127.0.0.1 in ::ffff:127.0.0.1, and so does not believe the proxy; aserve does."""
    found = classes.classed(
        {
            "REMOTE_ADDR": "get: REMOTE_ADDR: ::ffff:127.0.0.1 -> 127.0.0.1",
            "wsgi.url_scheme": "proxied: wsgi.url_scheme: http -> https",
        },
        [],
    )
    assert classes.worst(found) == classes.HARMLESS


def test_what_differs_is_harmless_or_said():
    """No recorded case has a difference that is harmful, perhaps, and not told in the log."""
    found = {
        name for name, record in RECORDED.items() if classes.worst(compare.classed_of(record)) == classes.DIFFERENT
    }
    assert found == set()
