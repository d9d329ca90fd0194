"""The documentation as a site: built without a warning, with a folding menu, and a search for people's words."""

import contextlib
import functools
import http.server
import importlib.util
import pathlib
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator

import pytest
from harness.browser import browsing, needs_chromium
from harness.interpreter import ONCE
from harness.questions import QUESTIONS

ROOT = pathlib.Path(__file__).parent.parent
HAS_SPHINX = all(map(importlib.util.find_spec, ("sphinx", "myst_parser", "furo")))
pytestmark = [
    pytest.mark.checkout,
    ONCE,
    pytest.mark.long,
    pytest.mark.skipif(not HAS_SPHINX, reason="the extra docs is not installed"),
]

# The typed words, and the first page.
WORDS = {
    "nginx": "nginx", "timeout": "timeouts", "workers": "workers", "port": "command", "json log": "logging", "http2": "http",
    "letsencrypt": "letsencrypt", "docker": "containers", "systemd": "systemd", "gunicorn": "moving-from-gunicorn", "502": "trouble", "slow": "slow",
    "django": "frameworks", "https": "tls", "prometheus": "metrics", "websocket": "websockets",
}  # fmt: skip
INTERNAL = re.compile("/(benchmarks|cparsers|native|tests)/|/docs/(design|conformance|threads|release)[.]")
THREE = "[...document.querySelectorAll('#search-results li a')].slice(0, 3).map(link => link.href)"
FINISHED = "(document.querySelector('.search-summary') || {}).innerText?.startsWith('Search finished')"
FIRST = "(document.querySelector('#search-results li a') || {}).href || ''"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Build the site, as `make site` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-I",
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "-c",
        "docs",
        ".",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[str]:
    """Serve a folder; yield its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@needs_chromium
def test_the_search_finds_what_people_type(site, tmp_path):
    """The right page comes first."""
    with served(site) as address, browsing(tmp_path / "profile") as page:
        for words, name in WORDS.items():
            page.show(f"{address}/search.html?q={words.replace(' ', '+')}")
            page.wait_for(f"location.search.includes({words.split()[0]!r}) && {FIRST}")
            first = page.evaluate(FIRST).partition("?")[0].partition("#")[0]
            assert first == f"{address}/docs/{name}.html", words


@needs_chromium
def test_forty_questions_find_their_pages(site, tmp_path):
    """The first three results of at least 38 have an answering page; no page about the inside of aserve is among the results."""
    missed = {}
    with served(site) as address, browsing(tmp_path / "profile") as page:
        for question, names in QUESTIONS.items():
            query = urllib.parse.urlencode({"q": question})
            page.show(f"{address}/search.html?{query}")
            page.wait_for(f"location.search === '?{query}' && {FINISHED}")
            found = [link.partition("?")[0].partition("#")[0] for link in page.evaluate(THREE)]
            assert not any(map(INTERNAL.search, found)), (question, found)
            if not {f"{address}/docs/{name}.html" for name in names.split()} & {*found}:
                missed[question] = found
    assert len(QUESTIONS) == 40 and len(missed) <= 2, missed


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_has_menu_width_and_hyphens(site, tmp_path, width):
    """The menu shows the section of the page and folds the rest; a flag keeps all hyphens."""
    with served(site) as address, browsing(tmp_path / "profile") as page:
        for name in ("docs/index", "docs/nginx", "docs/settings", "README"):
            page.show(f"{address}/{name}.html", width=width)
            page.wait_for(
                "document.readyState === 'complete' && document.querySelector('.sidebar-tree details') !== null"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            sections = page.evaluate("document.querySelectorAll('.sidebar-tree details').length")
            opened = page.evaluate("document.querySelectorAll('.sidebar-tree details[open]').length")
            assert sections > 6 and opened == (name != "docs/index"), name
        assert [error for error in page.errors if "Failed to load resource" not in error] == []  # no icon
        page.show(f"{address}/docs/preload.html", width=width)
        page.wait_for("(document.querySelector('h1') || {}).innerText?.includes('--preload')")
