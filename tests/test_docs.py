"""The pages for people: all targets exist."""

import ast
import io
import json
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from types import ModuleType

import pytest
import yaml
from harness.benchmarks import load_module
from harness.commands import OTHERS, SHELL, SUBCOMMANDS, TOOLS, Command, split

from aserve.command.cli import main
from aserve.command.flags import build_parser, parse_args
from aserve.command.pages import NAMED
from aserve.command.subcommands import OWN
from aserve.compat.uwsgi_api.names import NAMES as UWSGI_NAMES
from aserve.connections.carrier import StreamConnection
from aserve.connections.lane.wire_fast import FastWire, StreamWire
from aserve.features import SETTINGS, Config, commands
from aserve.features.metrics.table import METRICS
from aserve.settings import VERSION

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("cparsers", "tests", "benchmarks", "benchmarks/results", "examples")),
]


def prose_of(page: pathlib.Path) -> str:
    """Return a page without blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors_of(page: pathlib.Path) -> set[str]:
    """Return the anchors of a page's headings, as made by GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(page: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yield the target and the anchor of each link inside the repository."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if not re.match(r"[a-z]+:", link):
            target, _, anchor = link.partition("#")
            yield target, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target, anchor in links_of(page):
        path = page.parent / target if target else page
        assert path.is_file(), target  # a folder is a page on GitHub, and nothing on the site
        assert not anchor or anchor in anchors_of(path), f"{target}#{anchor}"


def test_the_tests_of_each_promise():
    """Each test named in SECURITY.md is there."""
    text = prose_of(ROOT / "SECURITY.md")
    sources = {path.name: path for path in (ROOT / "tests").rglob("*.py")}
    files = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", text))
    assert len(files) > 20 and files <= {*sources}
    functions = set(re.findall(r"`(test_\w+)`", text))
    source = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert functions and functions <= set(re.findall(r"^def (test_\w+)", source, re.M))


# The index, also the menu of the site


def conf() -> ModuleType:
    """Return docs/conf.py, the configuration of Sphinx."""
    return load_module(ROOT / "docs/conf.py")


def menu_of(text: str) -> list[str]:
    """Return the documents in the toctrees put by docs/conf.py behind the lists of a text."""
    return re.findall(r"^[^`:\n]+ <(.+)>$", conf().add_menu(text), re.M)


def test_each_page_is_in_the_menu():
    """docs/index.md names every page of the site, each once; so does the menu."""
    index = ROOT / "docs/index.md"
    pages = re.findall(r"^- \[[^]]+\]\(([^)]+)\.md\): ", index.read_text(), re.M)
    assert menu_of(index.read_text()) == pages
    assert len(pages) == len({*pages})
    ours = {path for pattern in conf().include_patterns for path in ROOT.glob(pattern)} - {index}
    assert ours == {(index.parent / f"{name}.md").resolve() for name in pages}


def test_titles_stand_for_file_names():
    """On the site a link with the name of a file shows a title; all else stays."""
    text = "see [files.md](files.md#several-apps), [tls.md](https://tls.example/x), [all](settings.md)"
    assert conf().show_titles(text) == text.replace("[files.md]", "[]")


def test_each_example_is_told_of():
    """examples/README.md names each folder and file beside."""
    names = {path.name for path in (ROOT / "examples").iterdir()} - {"README.md", "__pycache__"}
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "examples/README.md").read_text(), re.M)
    assert names == {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def said_in(path: pathlib.Path) -> str:
    """Return the texts of a module visible to a user: all, without docstrings and comments."""
    tree = ast.parse(path.read_text())
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    }  # fmt: skip
    return "\n".join(
        str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in docstrings
    )


def test_how_messages_name_a_page():
    """A message or a help text names a page by the command for the page, and each such page is there."""
    said = {path: said_in(path) for path in (ROOT / "aserve").rglob("*.py") if path.name != "names.py"}
    assert [path for path, text in said.items() if re.search(r"[a-z]\.md\b", text) and path.name != "pages.py"] == []
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    named = {name for text in said.values() for name in NAMED.findall(text)}
    assert len(named) > 20 and named <= pages
    assert {name for row in UWSGI_NAMES.values() for name in re.findall(r"\(([\w-]+)\.md", row.text)} <= pages


def test_menu_has_sections_and_words_of_links():
    """The title of a section stands above the documents, each with the words of the link."""
    assert menu_of("# T\n\n[a](b.md)\n\n## One\n\n- [x, y](z.md): t\n- [u](../V.md)\n") == ["z", "../V"]


# The pages about the code


def words_of_code(path: pathlib.Path) -> set[str]:
    """Return the words of a source without comments and docstrings."""
    text = path.read_text()
    if path.suffix != ".py":
        return {*re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.S))}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME} | {*re.findall(r"\w+", said_in(path))}


SOURCES = [path for room in ("aserve", "cparsers", "native") for path in sorted((ROOT / room).rglob("*.*"))]
THREADS = prose_of(ROOT / "docs/threads.md")
MACHINES = (ROOT / "docs/design.md").read_text().partition("### How the state machines meet")[2].partition("\n## ")[0]


def test_each_name_about_threads_and_states_is_in_the_code():
    """Each name of code in docs/threads.md, and in "How the state machines meet", is in a source; so is each pair `Class.name`."""
    known = [words_of_code(path) for path in SOURCES if path.suffix in (".py", ".c", ".h")]
    spans = {span for span in re.findall(r"`([^`]+)`", THREADS + MACHINES) if "/" not in span and " -C" not in span}
    assert len(spans) > 150
    names = {name for span in spans for name in re.findall(r"[A-Za-z_]\w+", re.sub(r"\b\w+\.(py|c|h)\b", "", span))}
    assert names - set().union(*known) == set()
    pairs = {pair for span in spans for pair in re.findall(r"\b([A-Z]\w+)\.(\w+)", span)}
    assert [pair for pair in sorted(pairs) if not any({*pair} <= words for words in known)] == []


def test_each_attribute_of_a_wire_in_the_lane_has_a_row():
    """Each slot of a class shared by workers, the leader and the event loop is in the list of docs/threads.md."""
    listed = set()
    for cell in re.findall(r"^\| ([^|]+) \|", THREADS, re.M):
        of = ""
        for span in re.findall(r"`([^`]+)`", cell):
            found, _, name = span.rpartition(".")
            of = found or of
            listed.add((of, name))
    slots = {(each.__name__, name) for each in (FastWire, StreamWire, StreamConnection) for name in each.__slots__}
    assert len(slots) > 5 and slots - listed == set()


def test_each_file_about_threads_and_states_is_there():
    """Each file in docs/threads.md, and in "How the state machines meet", is there."""
    named = {*re.findall(r"(?<![\w/])[\w/]+[.](?:py|c|h)\b(?!\w)", THREADS + MACHINES)} - {"setup.py"}
    paths = [f"/{path.relative_to(ROOT)}" for path in SOURCES]
    assert len(named) > 50
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in paths)} == set()


# Text in blocks

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.M | re.S)
SITE_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Foreign configurations, unchanged on our own pages.
CONFIGURATIONS = ("app.ini", "app.ini:production")
NAMES = {setting.name for setting in SETTINGS}
TARGETS = {*re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M)}


def check_sh(text: str) -> None:
    """Each command of ours has existing flags, and accepted values, also together; every command is known."""
    for command in (Command("", line) for line in split(text)):
        unknown = {*command.tools} - {"aserve", *SHELL, *TOOLS}
        assert not unknown, f"{unknown}: tests/harness/commands.py says for each program what runs it"
        if (command.serves or "--check" in command.words) and command.words[1] not in CONFIGURATIONS:
            args = parse_args(command.words[1:])
            Config.from_sources({name: value for name, value in args.items() if name in NAMES}, {}, {}, "")
        if command.words[0] == "make":
            assert command.words[1] in TARGETS


def check_python(text: str) -> None:
    """Check a text as Python, or as a part of a function."""
    ast.parse("async def block():\n" + textwrap.indent(text, "    "))


def check_toml(text: str) -> None:
    """Check a text as TOML; with a setting of ours, all must be ours."""
    table = tomllib.loads(text)
    table = table.get("tool", {}).get("aserve", table)
    if NAMES & {name.replace("-", "_") for name in table}:
        Config.from_sources({}, {}, {name: value for name, value in table.items() if name != "app"}, "block")


def check_json(text: str) -> None:
    """Each line is JSON, or all lines together are."""
    json.loads(text)


FRONT = ("nginx", "apache", "lighttpd", "haproxy", "caddyfile")
CHECKS = {
    "sh": check_sh, "python": check_python, "toml": check_toml, "json": check_json, "yaml": yaml.safe_load,
    # By reader: tests/e2e, test_paste.py.
    **dict.fromkeys(FRONT, len), "ini": len, "dockerfile": len, "promql": len,
}  # fmt: skip


@pytest.mark.parametrize(
    "page", [*SITE_PAGES, *(ROOT / name for name in OTHERS)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_blocks_are_what_they_say(page):
    """Flags exist, values are accepted, Python and TOML can be read."""
    text = page.read_text()
    blocks = BLOCK.findall(text)
    assert len(blocks) == len(re.findall(r"^ *```\w+$", text, re.M))
    for _, language, block in blocks:
        CHECKS[language](textwrap.dedent(block))


FLAGS = {
    *(option for action in build_parser()._actions for option in action.option_strings),
    *("--explain", "--json"),  # of `aserve config` and `aserve status`
}


@pytest.mark.parametrize("page", SITE_PAGES, ids=lambda page: page.name)
def test_flags_in_prose(page):
    """A command of ours in a sentence has existing flags."""
    for command in re.findall(r"`aserve ([^`]+)`", prose_of(page)):
        ours = re.split(r"\b(?:uwsgi|gunicorn|python) ", command)[0]
        assert {*re.findall(r"(?<!\S)--[a-z][\w-]*", ours)} <= FLAGS, command


def test_subcommands_are_no_servers():
    assert {*SUBCOMMANDS} == {*OWN, *commands()}


def test_each_configuration_is_run():
    """A test of tests/e2e names the heading of each block for a front server, and takes the block from there."""
    source = "".join(path.read_text() for path in (ROOT / "tests/e2e").glob("*.py"))
    headings = []
    for page in SITE_PAGES:
        for section in re.split(r"^##+ ", page.read_text(), flags=re.M)[1:]:
            if page.name != "README.md" and any(f"```{language}\n" in section for language in FRONT):
                headings.append(section.partition("\n")[0])
    assert len(headings) > 20
    assert [heading for heading in headings if f'"{heading}"' not in source] == []


def test_moving_from_uwsgi(tmp_path, capsys):
    """The file shown on the page is translated into the command shown."""
    blocks = dict(
        re.findall(r"^```(ini|sh)\n(.*?)^```", (ROOT / "docs/moving-from-uwsgi-options.md").read_text(), re.M | re.S)
    )
    (tmp_path / "app.ini").write_text(blocks["ini"])
    assert main(["translate", str(tmp_path / "app.ini")]) == 0
    args = parse_args(shlex.split(blocks["sh"].replace("\\\n", " "))[1:])
    settings = tomllib.loads(capsys.readouterr().out)
    assert settings.pop("app") == args["app"]
    given = {name: value for name, value in args.items() if name in NAMES}
    assert Config.from_sources({}, {}, settings) == Config.from_sources(given, {}, {})


@pytest.mark.parametrize("server", ["uwsgi", "gunicorn", "waitress", "mod_wsgi", "granian", "unit"])
def test_the_form_of_the_moving_pages(server):
    """Each begins with the same sections, in this order; the text before the steps is short, and the steps end within two screens."""
    text = (ROOT / f"docs/moving-from-{server}.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.M)[:5] == [
        "Ten minutes",
        "What to look at",
        "What is refused, and what others pass",
        "What is better here",
        "Back again",
    ]
    beginning, _, steps = text.partition("## What to look at")[0].partition("## Ten minutes")
    assert beginning.count("\n") <= 20 and steps.count("\n") <= 60


@pytest.mark.parametrize("page", SITE_PAGES, ids=lambda page: page.name)
def test_how_it_is_installed(page):
    """A single page tells the way, the same as long as there is no release; a page with an extra leads there."""
    text = page.read_text()
    is_the_place = page.name == "start.md"
    if page.name not in ("release.md", "settings.md"):  # the later form; also in texts of errors
        assert is_the_place or not re.search(r"pip install (aserve|~|/)|(package index|PyPI)\b", text, re.I)
        assert is_the_place or "start.md#install" in text or "pip install 'aserve-wsgi[" not in text
    if is_the_place:
        assert re.findall(r"^pip install (.*aserve.*)$", text, re.M) == ["~/src/aserve"]


METRIC = re.compile(r"\b(?:aserve|process)(?:_[a-z]+)+")


def names_of(text: str) -> set[str]:
    """Return the metrics named in a text; samples of a histogram count as the histogram."""
    found = {re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name) for name in METRIC.findall(text)}
    return found - {"aserve_saturation"}  # derived, by a rule on the page


def test_metrics_are_all_on_their_page():
    """Blocks of YAML, and the alerts to begin with, can be read."""
    page, alerts = (ROOT / "docs/metrics.md").read_text(), (ROOT / "examples/prometheus/alerts.yml").read_text()
    assert names_of(page) == {*METRICS}
    assert names_of(alerts) <= {*METRICS}
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S):
        assert isinstance(yaml.safe_load(block), dict)
    (group,) = yaml.safe_load(alerts)["groups"]
    assert len(group["rules"]) > 5
    for rule in group["rules"]:
        assert {"alert", "expr", "labels", "annotations"} <= {*rule}
        assert names_of(rule["expr"]) or "up{" in rule["expr"]  # Prometheus's own: a server gone has nothing else
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_dashboard_asks_for_known_metrics():
    """Panels are apart; the first panels are about saturation."""
    board = json.loads((ROOT / "examples/grafana/aserve.json").read_text())
    names = {variable["name"] for variable in board["templating"]["list"]}
    ids, cells, asked = set(), set(), set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert panel["id"] not in ids and not own & cells and place["x"] + place["w"] <= 24, panel["title"]
        ids.add(panel["id"])
        cells |= own
        assert panel["type"] == "row" or (panel["description"].endswith(".") and panel["targets"])
        for target in panel.get("targets", ()):
            expr = target["expr"]
            assert names_of(expr) and names_of(expr) <= {*METRICS}, expr
            assert all(expr.count(one) == expr.count(other) for one, other in ("()", "{}", "[]")), expr
            assert set(re.findall(r"\$(\w+)", expr)) <= {*names, "__rate_interval"}
            asked |= names_of(expr)
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert "Saturation" in board["panels"][0]["title"]
    assert {"aserve_threads", "aserve_request_queue_seconds", "aserve_workers"} < asked and len(asked) > 20
    assert names_of(json.dumps([board["templating"], board["annotations"]])) <= {*METRICS}


def test_the_example_with_types():
    """The example serves itself a request; `make lint` and `make release-check` look at the types."""
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "examples" / "typed.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "/hello\n"), done.stderr


def test_the_users_page():
    """README.md is short, two screens to the end of Install; the first screen has the version, where to read, lines to try and a picture; the README
    names both commands, and the first app gives the answer shown.
    """
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 150 and text.partition("## First request")[0].count("\n") < 75
    first = text.partition("![")[0]
    assert (
        f"**aserve {VERSION}**" in first
        and "](docs/index.md)" in first
        and "\nmake serve " in first
        and first.count("\n") < 20
    )
    assert {"make serve", "make test"} <= set(re.findall(r"^(make \w+)", text, re.M))
    block = re.search(r"^```python\n# hello.py\n(.*?)^```", text, re.M | re.S)
    names: dict[str, object] = {}
    exec(block[1], names)
    body = b"".join(names["app"]({}, lambda status, headers: None))
    assert f"# {body.decode()}" in text


def test_make_quick_sees_the_pages_that_are_made():
    """Each file named is there, and each asks for `make docs` after a change of the code."""
    named = (ROOT / "Makefile").read_text().partition("\nQUICK := ")[2].partition("\n\n")[0]
    files = set(re.findall(r"tests/[\w/]+\.py", named))
    assert len(files) > 10 and [file for file in files if not (ROOT / file).is_file()] == []
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert {file for file, text in tests.items() if '"run `make docs`"' in text} <= files
