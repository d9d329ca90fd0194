"""A shell in a folder with the pages' apps, files and folders; their ports and paths become a test's."""

import getpass
import grp
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from . import faults, native
from .certificates import Authority
from .commands import Command, Saved
from .front import free_port
from .waiting import wait_until

PLAIN_APP = """\
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Hello!\\n"]

application = app

def create_app(*arguments):
    return app
"""
FUNCTIONS = """\
import aserve

aserve.rpc.register("myfunc", lambda *arguments: b"|".join(arguments))
"""
PROGRAM = """\
from gunicorn.app.base import BaseApplication
from hello import app

class Standalone(BaseApplication):
    def load_config(self):
        self.cfg.set("bind", "127.0.0.1:0")

    def load(self):
        return app

Standalone().run()
"""
# Files taken for granted by the pages, by path.
FILES = {
    **dict.fromkeys(("hello.py", "app.py", "path/to/hello.py"), PLAIN_APP),
    **dict.fromkeys(
        ("shop/__init__.py", "shop/wsgi.py", "shop/admin.py", "shop/api.py", "mysite/__init__.py", "mysite/wsgi.py"),
        PLAIN_APP,
    ),
    "myapp.py": FUNCTIONS + PLAIN_APP,
    "mail.py": "",
    "maintenance.html": "Back soon.\n",
    **dict.fromkeys(("static/site.css", "public/index.html", "templates/index.html", "conf/shop.toml"), ""),
    "std.py": PROGRAM,
    **dict.fromkeys(("srv/mysite/mysite/__init__.py", "srv/mysite/mysite/wsgi.py"), PLAIN_APP),
    "app.ini": "[uwsgi]\nhttp-socket = 127.0.0.1:8000\nmodule = mysite.wsgi\nmaster = true\n[production]\nmodule = mysite.wsgi\n",
    "gunicorn.conf.py": "bind = '127.0.0.1:8000'\nworkers = 2\n",
    "bin/celery": "#!/bin/sh\nexec sleep 1000\n",
}
CERTIFICATES = ("cert.pem", "a.pem", "b.pem", "c.pem", "staff.pem", "etc/shop/tls/cert.pem")
KEYS = ("key.pem", "a.key", "b.key", "c.key", "etc/shop/tls/key.pem")
FOLDERS = (
    "run/app", "run/mysite", "run/shop", "run/site", "run/site-metrics", "srv/site", "srv/media", "srv/mysite/static", "var/lib/shop", "var/log/mysite",
    "var/www/acme/.well-known/acme-challenge", "etc/shop/tls", "etc/letsencrypt/renewal-hooks/deploy",
)  # fmt: skip
PORTS = re.compile(r"(?<=[: ])(80|443|800[01]|8080|8443|9443|910[01]|1717|3031|8125)\b(?!\.)")
PATHS = re.compile(r"(?<![\w.})])/(?=(?:etc|run|srv|var)/)")


class Place:
    """The folder, and its values for a page's ports, paths and users."""

    def __init__(self) -> None:
        # Not pytest's folder: the path of a socket is short.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="aserve-"))
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True)
        for name, text in FILES.items():
            self.write(name, text)
        (self.folder / "bin/celery").chmod(0o755)
        issued = Authority(self.folder / "authority").issue("localhost")
        for name in CERTIFICATES:
            shutil.copy(issued.certificate, self.folder / name)
        for name in KEYS:
            shutil.copy(issued.key, self.folder / name)
        self._ports: dict[str, str] = {}
        self._user, self._group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name

    def write(self, name: str, text: str) -> None:
        """Make a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def port(self, number: str) -> str:
        """Return the free port for a port of the pages."""
        if number not in self._ports:
            self._ports[number] = str(free_port())
        return self._ports[number]

    def local(self, text: str) -> str:
        """Return a text of a page with ports, paths and users of this place."""
        text = PORTS.sub(lambda found: self.port(found[1]), text)
        text = PATHS.sub(f"{self.folder}/", text)
        text = re.sub(r"(--unix-group )\S+", rf"\g<1>{self._group}", text)
        return re.sub(r"(--user |uid=|^user = \")[\w-]+", rf"\g<1>{self._user}", text, flags=re.M)

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a reader's shell: this environment's programs come first."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASERVE_", "VIRTUAL_ENV"))}
        path = os.pathsep.join((f"{self.folder}/bin", str(pathlib.Path(sys.executable).parent), os.environ["PATH"]))
        return {**clean, **native.ENV, "PATH": path, "HOME": str(self.folder), "PWD": str(self.folder)}

    def check(self, lines: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
        """Return the exit status and the output of `aserve LINE --check` for each of these."""
        done = subprocess.run(
            [sys.executable, "-I", pathlib.Path(__file__).with_name("checks.py")],
            cwd=self.folder, env=self.environ, input=json.dumps(lines), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return [(status, output) for status, output in json.loads(done.stdout)]

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Terminal:
    """A shell of a place; one server at a time runs in its background."""

    END = "--- the command has ended with "

    def __init__(self, place: Place) -> None:
        self._place = place
        self._log = place.folder / "server.log"
        self._server = 0
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=place.folder, env=place.environ,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def type(self, text: str) -> tuple[int, str]:
        """Run a command to its end; return its status and output."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{text}\nprintf '\\n{self.END}%s\\n' $?\n")
        self._shell.stdin.flush()
        output = ""
        for line in self._shell.stdout:
            if line.startswith(self.END):
                return int(line[len(self.END) :]), output
            output += line
        raise AssertionError(f"the shell has ended: {output}")

    def save(self, file: Saved) -> None:
        """Save a block of a page where the shell stands, or where its path leads."""
        path = self._place.local(file.path)
        status, output = self.type(
            f"mkdir -p $(dirname {path}) && cat > {path} <<'END'\n{self._place.local(file.text)}END"
        )
        assert status == 0, output

    def follow(self, command: Command) -> str:
        """Obey a page, in its own words; return the terminal's text."""
        text = self._place.local(command.bare)
        if command.serves:
            # The default, but for the port; a variable would win over the file.
            default = "" if "--config" in command.words else f"ASERVE_BIND=127.0.0.1:{self._place.port('8000')} "
            return self.serve(default + text)
        if command.words[0] == "kill":
            assert "1234" in command.words and self._server, (
                f"{command}\nthe server of a page is 1234: no other process may get a signal"
            )
            text = text.replace("1234", str(self._server))
        status, output = self.type(text)
        assert status == 0, f"{command}\n{output}"
        return output

    def serve(self, text: str) -> str:
        """Start a server in place of the last one; return its log once all of it serves."""
        self.stop()
        self._log.write_text("")
        self._server = int(self.type(f"{text} >> {self._log} 2>&1 &\necho $!")[1].split()[-1])

        def look() -> str:
            log = self._log.read_text()
            begun = re.search(r"serving on .*?(?: with (\d+) workers?)?(?: \(|$)", log, re.MULTILINE)
            assert begun or self._is_there(), f"{text}\n{log}"
            return log if begun and len(re.findall(r"worker \d+ .* is ready", log)) >= int(begun[1] or 0) else ""

        return wait_until(look, explain=lambda: f"{text}\n{self._log.read_text()}")

    def _is_there(self) -> bool:
        try:
            os.kill(self._server, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        """End the server as Ctrl-C does: it drains, and nothing went wrong."""
        if not self._server:
            return
        os.kill(self._server, signal.SIGTERM)
        status, output = self.type(f"wait {self._server}")
        self._server = 0
        log = self._log.read_text()
        assert status == 0, f"{output}{log}"
        assert not faults.faults_in(log, ()), log

    def close(self) -> None:
        """End the shell, and the server in any case."""
        if self._server and self._is_there():
            os.kill(self._server, signal.SIGKILL)
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.stdout.close()
        self._shell.wait(30)


def text_of(app: Any) -> str:
    """Return the terminal's lines of an app of textual."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())
