"""aserve --reload, as a developer works: files are saved while a browser and a terminal look on."""

import fcntl
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import urllib.error
import urllib.request

import pytest
from harness.interpreter import IS_PYPY
from harness.process import ServerProcess, save
from harness.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="a supervisor needs Linux"), pytest.mark.long_on_pypy]

FRAMEWORKS = {
    "pyramid": """\
from pyramid.config import Configurator
def view(request): return {}["a key"]
with Configurator() as config:
    config.add_route("raises", "/")
    config.add_view(view, route_name="raises")
    app = config.make_wsgi_app()
""",
    "flask": """\
from flask import Flask
app = Flask(__name__)
app.add_url_rule("/", "raises", lambda: {}["a key"])
app.register_error_handler(500, lambda fault: ("our own page", 500))
""",
    "django": """\
import sys
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path
settings.configure(DEBUG=True, ROOT_URLCONF=__name__, SECRET_KEY="x")
urlpatterns = [path("", lambda request: {}["a key"])]
app = get_wsgi_application()
""",
}
APP = """\
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/html")])
    return [b"<p>%s</p>"]
"""
BREAKPOINT = """\
def app(environ, start_response):
    secret = 6 * 7
    breakpoint()
    start_response("200 OK", [])
    return [b"%d" % secret]
"""
AS_NOBODY = """\
import os, sys, urllib.error, urllib.request
os.setuid(65534)
try:
    urllib.request.urlopen(sys.argv[1], timeout=30)
except urllib.error.HTTPError as error:
    print(error.read())
"""
PATIENCE_SECONDS = 30.0  # an import on a busy machine, and PyPy's
CHROMIUM = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-dev-shm-usage", "--no-proxy-server",
)  # fmt: skip


def ask(process, accept="*/*"):
    """Return status and text of the answer."""
    request = urllib.request.Request(process.url + "/", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_for_text(process, part, accept="*/*"):
    def look():
        status, text = ask(process, accept)
        return (status, text) if part in text else None

    return wait_until(look, PATIENCE_SECONDS, lambda: f"no {part!r}:\n{process.log}")


def test_from_a_broken_start_to_a_mended_app(start_process, tmp_path):
    """The command does not end; each save is served, or its failure shown, while the old app serves all but pages."""
    save(tmp_path / "app.py", "from one_is_missing import app\n")
    process = start_process(str(tmp_path / "app.py:app"), "--reload")
    status, text = ask(process)
    assert status == 500 and "No module named 'one_is_missing'" in text
    assert process.log.count("Traceback") == 1
    save(tmp_path / "one_is_missing.py", APP % "one")
    assert wait_for_text(process, "<p>one") == (200, "<p>one</p>")
    process.wait_for_log("has changed: done")  # until then the worker without an app could be the survivor
    save(tmp_path / "one_is_missing.py", "def (\n")
    status, text = wait_for_text(process, "SyntaxError", "text/html")
    assert status == 500 and "one_is_missing.py" in text and "def (" in text
    assert ask(process) == (200, "<p>one</p>"), process.log
    save(tmp_path / "one_is_missing.py", APP % "two")
    assert wait_for_text(process, "<p>two", "text/html") == (200, "<p>two</p>")
    process.signal()
    assert process.wait() == 0


@pytest.mark.parametrize(
    ("framework", "shown"),
    [
        ("pyramid", "<h1>The app has raised an exception</h1>"),
        ("flask", "our own page"),
        ("flask_that_raises", "<h1>The app has raised an exception</h1>"),
        ("django", "KeyError at /"),
    ],
)
def test_an_exception_in_a_view(start_process, tmp_path, framework, shown):
    """The traceback is shown, by the framework or by aserve; an error handler of the app's own comes first, unless the app passes exceptions on."""
    name = framework.partition("_")[0]
    pytest.importorskip(name)
    more = "app.config['PROPAGATE_EXCEPTIONS'] = True\n" if framework == "flask_that_raises" else ""
    (tmp_path / "app.py").write_text(FRAMEWORKS[name] + more)
    process = start_process(str(tmp_path / "app.py:app"), "--reload")
    status, text = ask(process, "text/html")
    assert status == 500 and shown in text, process.log
    assert ("KeyError" in text and "app.py" in text) == (shown != "our own page")
    process.wait_for_log("KeyError: 'a key'")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a program of another user")
def test_a_local_front_server_of_another_user(start_process, tmp_path):
    """A front server's clients see no source code, whatever its fields: here none, and nginx's default Host."""
    save(tmp_path / "app.py", "raise ValueError('of the app')\n")
    process = start_process(str(tmp_path / "app.py:app"), "--reload")
    asking = [sys.executable, "-c", AS_NOBODY, process.url]
    seen = subprocess.run(asking, capture_output=True, timeout=60, check=True).stdout
    assert b"The app does not start; its server's terminal says why" in seen and b"of the app" not in seen
    assert "of the app" in ask(process)[1]


def test_the_same_size_within_a_second(start_process, tmp_path):
    """Bytecode of the old source does not pass for the new source."""
    path = tmp_path / "saved_twice.py"
    save(tmp_path / "app.py", "from saved_twice import app")
    save(path, APP % "a")
    process = start_process(str(tmp_path / "app.py:app"), "--reload")
    for letter in "bcd":
        save(path, APP % letter)
        os.utime(path, ns=(path.stat().st_atime_ns, 1_000_000_000_000_000_000 + ord(letter)))
        wait_for_text(process, f"<p>{letter}</p>")


def test_an_import_that_hangs(start_process, tmp_path):
    """The next save ends a hanging import."""
    save(tmp_path / "app.py", APP % "one")
    process = start_process(str(tmp_path / "app.py:app"), "--reload")
    save(tmp_path / "app.py", "open('hangs', 'w').close()\nwhile True: pass\n")
    wait_until((tmp_path / "hangs").exists, PATIENCE_SECONDS)
    assert ask(process)[1] == "<p>one</p>"
    save(tmp_path / "app.py", APP % "two")
    wait_for_text(process, "two")


def test_a_saved_template_is_a_reload(start_process, tmp_path):
    """Folders of --reload-extra are watched, too."""
    (tmp_path / "templates").mkdir()
    save(tmp_path / "templates/a.html", "one")
    save(
        tmp_path / "app.py", 'TEXT = open("templates/a.html", "rb").read()\n' + (APP % "").replace('b"<p></p>"', "TEXT")
    )
    process = start_process(str(tmp_path / "app.py:app"), "--reload", "--reload-extra", "templates")
    assert ask(process)[1] == "one"
    save(tmp_path / "templates/a.html", "two")
    wait_for_text(process, "two")


@pytest.mark.long  # the tests below have its page
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.skipif(IS_PYPY, reason="the page is the same on PyPy; one look at it is enough")
def test_a_browser_sees_it_mended(start_process, tmp_path):
    """The page of the failure is shown; mended code brings the app back without a click."""
    save(tmp_path / "app.py", "raise ValueError('a <b> in it')\n")
    access = tmp_path / "access"
    process = start_process(str(tmp_path / "app.py:app"), "--reload", "--access-log", str(access))
    command = [*CHROMIUM, f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([*command, "--dump-dom", process.url], capture_output=True, text=True, timeout=60, check=True)
    assert "<h1>The app does not start</h1>" in done.stdout and "ValueError: a &lt;b&gt; in it" in done.stdout
    asked = tmp_path / "asked"
    script = "<script>document.title='mended'; fetch('/mended')</script>"
    app = APP.replace("    start", f"    open({str(asked)!r}, 'a').write(environ['PATH_INFO'] + ' ')\n    start", 1)
    with subprocess.Popen(
        [*command, "--remote-debugging-port=0", process.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as browser:
        try:
            # The page is there, and asks whether the code is mended.
            wait_until(lambda: '"HEAD / ' in access.read_text(), 60, lambda: access.read_text() + process.log)
            save(tmp_path / "app.py", app % script)
            wait_until(lambda: asked.exists() and "/mended" in asked.read_text(), 60, lambda: process.log)
        finally:
            browser.kill()


class AtTerminal(ServerProcess):
    """A server on a terminal of its own, as a developer starts the command."""

    def __init__(self, arguments, folder):
        self.master, terminal = pty.openpty()
        self._typed = subprocess.Popen(
            [*self.command, "--bind", "127.0.0.1:0", *arguments],
            cwd=folder,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C there becomes SIGINT
        )
        os.close(terminal)
        os.set_blocking(self.master, False)
        self.shown = ""

    def read_until(self, pattern):
        """Read the shown text until a match, and forget the text."""

        def look():
            try:
                self.shown += os.read(self.master, 65536).decode(errors="replace")
            except BlockingIOError:
                pass
            return re.search(pattern, self.shown)

        found = wait_until(look, PATIENCE_SECONDS, lambda: self.shown)
        self.shown = self.shown[found.end() :]
        return found

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        self._typed.kill()
        self._typed.wait(30)
        os.close(self.master)


def test_a_breakpoint_prompts_at_the_terminal(tmp_path):
    """breakpoint() stops the request, with the prompt at the terminal; Ctrl-C there ends the server."""
    save(tmp_path / "app.py", BREAKPOINT)
    at = AtTerminal([str(tmp_path / "app.py:app"), "--reload"], tmp_path)
    try:
        at.read_until("for .*development: saved code is served at once")
        url = at.read_until(r"serving on (http://[0-9.:]+)")[1]
        client = subprocess.Popen(
            [sys.executable, "-c", f"import urllib.request as u; print(u.urlopen('{url}', timeout=60).read())"],
            stdout=subprocess.PIPE,
        )
        at.read_until(r"\(Pdb")
        at.type("p 'secret', secret\n")
        at.read_until(r"\('secret', 42\)")
        at.type("c\n")
        assert client.communicate(timeout=60)[0].strip() == b"b'42'"
        at.read_until(r'"GET / HTTP/1\.1" 200 ')  # a line for each request
        at.type("\x03")
        at.read_until("stopped")
        assert at._typed.wait(30) == 0
    finally:
        at.end()
