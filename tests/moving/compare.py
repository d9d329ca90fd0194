"""Compare uWSGI and gunicorn with aserve, case by case: `make moving`.

Each file of cases/ has the structure of a real deployment's: a configuration of uWSGI (.ini, .yaml, .xml) or gunicorn (.py), a command line
(.cmd), or a program around gunicorn (.py, with the command in the first line); files/ has the named files.
A case runs in a new folder, on a free port of loopback, once on the case's own server and once on aserve. The acts of both are
recorded in recorded.json at once; docs/moving-table.md and two of the moving pages (pages.py) are written from
the records. A recorded case is not run again, but with --again; with --ours only aserve runs again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import email.utils
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

try:
    from .classes import KINDS, Classed, classed, worst
    from .pages import Compared, build_long_rows, write_pages
except ImportError:  # as a program
    from classes import KINDS, Classed, classed, worst  # type: ignore[no-redef]
    from pages import Compared, build_long_rows, write_pages  # type: ignore[no-redef]

HERE = pathlib.Path(__file__).parent
CASES, FILES, RECORDED = HERE / "cases", HERE / "files", HERE / "recorded.json"
UWSGI_FILES = (".ini", ".yaml", ".xml")
TABLE = HERE.parents[1] / "docs" / "moving-table.md"
START_SECONDS, END_SECONDS, AT_ONCE, ROUNDS = 50.0, 50.0, 8, 4
FORWARDED = {"X-Forwarded-For": "198.51.100.7, 10.0.0.9", "X-Forwarded-Proto": "https"}
REQUESTS = {
    "get": ("GET", "/a%20b/c?d=1", {}, b""),
    "proxied": ("GET", "/", FORWARDED, b""),
    "post": ("POST", "/form", {"Content-Type": "text/plain"}, b"body"),
    "static": ("GET", "/static/a.txt", {}, b""),
}
LOGS = (".log", ".pid")
OF_THIS_MACHINE = ("runs as root", "may not read", "are not shared")  # warnings unrelated to the case
Facts = dict[str, Any]


class Case:
    """A file, and the way to start."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.name, self.text = path, path.name, path.read_text()
        first = self.text.partition("\n")[0].strip("#;<!-> ").split(" | ")  # "title | uwsgi:app.sock | python case.py"
        self.about, self.ask, self.command = [*first, *("", "http", "")[len(first) :]]

    @property
    def server(self) -> str:
        """Return the word of the server meant, or python."""
        return self.words("0")[0]

    @property
    def is_program(self) -> bool:
        """Whether the case is a program with gunicorn inside."""
        return self.server == "python"

    def words(self, port: str) -> list[str]:
        """Return the command line, with the server's word."""
        if self.command:
            return shlex.split(self.command.replace("@PORT@", port))
        if self.path.suffix in UWSGI_FILES:
            return ["uwsgi", f"case{self.path.suffix}"]
        if self.path.suffix == ".py":
            return ["gunicorn", "-c", "case.py", "app"]
        return shlex.split(self.text.partition("\n")[2].replace("@PORT@", port))


def run(case: Case, before: list[str], is_translated: bool = False) -> Facts:
    """
    Run a case; `before`: the words in front of the case's words: ["/venv/bin/aserve"], or ["/venv/bin/"] for the server itself.

    `is_translated`: aserve serves the output of `aserve translate`, `printed` then.
    """
    with tempfile.TemporaryDirectory(prefix="moving-") as name, socket.socket() as reserved:
        # Bound until the end: no client beside this run gets the port, and a server may listen there, as both say SO_REUSEADDR.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("", 0))
        folder, port = pathlib.Path(name), str(reserved.getsockname()[1])
        lay_out(case, folder, port)
        words = case.words(port)
        command = [before[0] + words[0], *words[1:]] if before[0].endswith("/") else [*before, *words]
        environ = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        environ["MOVING_TIMES"] = f"{name}/times"
        if case.is_program:
            environ["PATH"] = f"{put_command(folder, before[0])}:{environ['PATH']}"
        printed = ""
        if is_translated:
            printed = translate(before, words, folder, environ)
            command = [*before, "--config", "printed.toml"]
        with open(folder / "output", "wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=output,
                stderr=output,
                env=environ,
                start_new_session=True,
                extra_groups=[] if os.getuid() == 0 else None,  # whatever groups this process has
            )
        try:
            facts = {**observe(case, process, folder, port), **({"printed": printed} if is_translated else {})}
            return json.loads(json.dumps(facts).replace(name, "DIR").replace(f":{port}", ":PORT"))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def translate(before: list[str], words: list[str], folder: pathlib.Path, environ: Mapping[str, str]) -> str:
    """Write the translation of a command line into printed.toml; return the path."""
    with open(folder / "printed.toml", "wb") as printed:
        subprocess.run([*before, "translate", *words], cwd=folder, env=environ, stdout=printed, check=False)
    return (folder / "printed.toml").read_text()


def lay_out(case: Case, folder: pathlib.Path, port: str) -> None:
    """Write the files of a case."""
    folder.chmod(0o777)
    shutil.copy(HERE / "app.py", folder)
    (folder / "static").mkdir()
    (folder / "static" / "a.txt").write_text("static\n")
    (folder / "run").mkdir()
    for path in FILES.iterdir():
        (folder / path.name).write_text(path.read_text().replace("@PORT@", port))
    if "cert.pem" in case.text:
        make_certificate(folder)
    (folder / "times").write_text("")
    (folder / "times").chmod(0o666)
    if case.path.suffix != ".cmd":
        (folder / f"case{case.path.suffix}").write_text(case.text.replace("@PORT@", port))
    (folder / "extra.ini").write_text("[uwsgi]\nthreads = 2\nmaster = true\n[two]\nthreads = 3\n")


def put_command(folder: pathlib.Path, before: str) -> str:
    """Return the folder with a command gunicorn for a program: the real server, or aserve."""
    if before.endswith("/"):
        return before
    command = folder / "bin" / "gunicorn"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {before} gunicorn "$@"\n')
    command.chmod(0o755)
    return str(command.parent)


def make_certificate(folder: pathlib.Path) -> None:
    """Make a certificate for this run, and a key."""
    names = ("-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=shop.example")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def observe(case: Case, process: subprocess.Popen[bytes], folder: pathlib.Path, port: str) -> Facts:
    """Return the observed facts of a server with a case."""
    place = place_of(case, folder, port)
    if (
        not wait_until(lambda: connects(place) or process.poll() is not None, START_SECONDS)
        or process.poll() is not None
    ):
        return {"starts": False, "exit": process.poll(), "said": said(folder)}
    facts: Facts = {"starts": True, "ports": ports(port)}
    facts.update({name: ask(case, place, *request) for name, request in REQUESTS.items()})
    if isinstance(facts["get"], str) and wait_until(lambda: process.poll() is not None, START_SECONDS):
        return {
            "starts": False,
            "exit": process.poll(),
            "said": said(folder),
        }  # the server listened before the app was there
    facts["sockets"] = {
        str(path.relative_to(folder)): rights(path) for path in files(folder) if is_socket_or_fifo(path)
    }
    facts["at once"] = at_once(case, place, folder)
    wait_until(lambda: line_of(folder) or not any(path.suffix == ".log" for path in files(folder)), 2.0)
    facts["logs"] = sorted(path.name for path in files(folder) if path.suffix in LOGS and path.stat().st_size)
    facts["line"] = line_of(folder)
    is_real = "aserve" not in str(process.args)
    process.send_signal(
        signal.SIGQUIT if case.server == "uwsgi" and is_real and "die-on-term" not in case.text else signal.SIGTERM
    )
    ended = wait_until(lambda: process.poll() is not None, END_SECONDS)
    facts["exit"] = process.returncode if ended else "not ended"
    facts["left"] = sorted(path.name for path in files(folder) if is_socket_or_fifo(path) or path.suffix == ".pid")
    facts["said"] = said(folder)
    return facts


def line_of(folder: pathlib.Path) -> str | None:
    """Return the form of a request's line in a log file: numbers, days and months are N."""
    lines = [line for path in files(folder) if path.suffix == ".log" for line in path.read_text().splitlines()]
    found = [line for line in lines if "POST" in line and "/form" in line]
    return re.sub(r"[0-9]+(\.[0-9]+)*|\b[A-Z][a-z]{2}\b", "N", found[0]) if found else None


def said(folder: pathlib.Path) -> list[str]:
    """Return the lines of aserve's log about differences."""
    lines = (folder / "output").read_text(errors="replace").splitlines()
    told = [
        line.partition("WARNING")[2].strip(": ") or line
        for line in lines
        if "WARNING" in line or line.startswith("aserve: error")
    ]
    return [line for line in told if not any(text in line for text in OF_THIS_MACHINE)]


def files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the files possibly made by a server."""
    return (path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def is_socket_or_fifo(path: pathlib.Path) -> bool:
    """Whether a file is a place where a server takes something."""
    mode = path.stat().st_mode
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)


def rights(path: pathlib.Path) -> str:
    """Return the mode and owner of a file."""
    found = path.stat()
    return f"{stat.S_IMODE(found.st_mode):o} {found.st_uid}:{found.st_gid}"


def place_of(case: Case, folder: pathlib.Path, port: str) -> Any:
    """Return the address for requests."""
    _, _, path = case.ask.partition(":")
    return str(folder / path) if path else ("127.0.0.1", int(port))


def connect(place: Any) -> socket.socket:
    """Return a connection, to a port or a unix socket."""
    if not isinstance(place, str):
        return socket.create_connection(place, 10)
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(10)
    try:
        one.connect(place)
    except OSError:
        one.close()
        raise
    return one


def connects(place: Any) -> bool:
    """Whether a server listens."""
    with contextlib.suppress(OSError), connect(place):
        return True
    return False


def ports(port: str) -> list[str]:
    """Return the addresses of loopback with a listener."""
    return [host for host in ("127.0.0.1", "127.0.0.2", "::1") if connects((host, int(port)))]


def wait_until(holds: Any, seconds: float) -> bool:
    """Wait for a condition; return whether the condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def ask(case: Case, place: Any, method: str, target: str, fields: Mapping[str, str], body: bytes) -> Any:
    """Return the answer to a request, without the parts different each time."""
    form = packet if case.ask.startswith("uwsgi") else message
    try:
        with connect(place) as plain, secured(plain) if case.ask.startswith("https") else plain as one:
            one.settimeout(15)
            one.sendall(form(method, target, fields, body))
            response = http.client.HTTPResponse(one)
            response.begin()
            text = response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as fault:
        return type(fault).__name__
    names = sorted(
        name
        for name in map(str.lower, response.headers)
        if name not in ("date", "server", "connection", "content-length", "transfer-encoding")
    )
    found = {"status": response.status, "fields": names, **freshness(response)}
    with contextlib.suppress(ValueError):
        return {**found, **json.loads(text)}
    return found


def freshness(response: http.client.HTTPResponse) -> dict[str, int]:
    """Return how many seconds a client may keep a response, to ten, if said by Cache-Control, or else by Expires."""
    seconds = re.search(r"max-age=(\d+)", response.getheader("Cache-Control", ""))
    if seconds:
        return {"fresh": round(int(seconds[1]), -1)}
    end = response.getheader("Expires")
    return {"fresh": round(email.utils.parsedate_to_datetime(end).timestamp() - time.time(), -1)} if end else {}


def secured(plain: socket.socket) -> socket.socket:
    """Return TLS on a connection; the certificate is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain, server_hostname="shop.example")


def message(method: str, target: str, fields: Mapping[str, str], body: bytes) -> bytes:
    """Return a request of HTTP."""
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: shop.example",
        "Connection: close",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def packet(method: str, target: str, fields: Mapping[str, str], body: bytes) -> bytes:
    """Return a request of uwsgi, as sent by nginx."""
    path, _, query = target.partition("?")
    named = {
        "REQUEST_METHOD": method, "REQUEST_URI": target, "PATH_INFO": path.replace("%20", " "), "QUERY_STRING": query, "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "203.0.113.9", "REMOTE_PORT": "4", "SERVER_NAME": "shop.example", "SERVER_PORT": "80", "HTTP_HOST": "shop.example",
        "CONTENT_LENGTH": str(len(body)) if body else "", "CONTENT_TYPE": fields.get("Content-Type", ""), "REQUEST_SCHEME": "http",
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in fields.items() if name != "Content-Type"},
    }  # fmt: skip
    block = b"".join(struct.pack("<H", len(part)) + part for pair in named.items() for part in map(str.encode, pair))
    return struct.pack("<BHB", 0, len(block), 0) + block + body


def at_once(case: Case, place: Any, folder: pathlib.Path) -> int:
    """Return how many of AT_ONCE requests run at once, at most; on a busy machine a single worker may have many, so ask more than once."""
    most = 0
    for _ in range(ROUNDS):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda _: ask(case, place, "GET", "/slow", {}, b""), range(AT_ONCE)))
        times = [[float(word) for word in line.split()[:2]] for line in (folder / "times").read_text().splitlines()]
        most = max((sum(begin <= at < end for begin, end in times) for at, _ in times), default=0)
        if most in (0, 1, AT_ONCE):
            break
    return most


def differences(theirs: Facts, ours: Facts) -> dict[str, str]:
    """Return the texts of the differences, `theirs -> ours`; of several requests the first."""
    found: dict[str, str] = {}
    names = (
        [name for name in theirs if name in ours and name != "said"]
        if theirs["starts"] and ours["starts"]
        else ["starts"]
    )
    for name in names:
        one, other = theirs[name], ours[name]
        if isinstance(one, dict) and isinstance(other, dict):
            for key in sorted({*one, *other}) if one.get("status") == other.get("status") else ["status"]:
                if is_different(key, one.get(key), other.get(key)):
                    found.setdefault(key, f"{name}: {key}: {one.get(key)} -> {other.get(key)}")
        elif is_different(name, one, other):
            found[name] = f"{name}: {one} -> {other}"
    return found


def is_different(key: str, one: Any, other: Any) -> bool:
    """Whether a fact differs; more in environ is no difference, nor is chance."""
    if key == "SCRIPT_NAME":  # possibly absent if empty
        return (one or "") != (other or "")
    if key in ("RAW_URI", "REQUEST_URI") and one is None:
        return False
    if key == "at once" and one:  # how requests fall on several workers
        return not one <= other <= 2 * one
    return bool(one != other)


def classed_of(record: Mapping[str, Facts]) -> list[Classed]:
    """Return the differences of a case, with their kind."""
    return classed(differences(record["theirs"], record["ours"]), record["ours"]["said"])


def compared(recorded: Mapping[str, Any]) -> list[Compared]:
    """Return the recorded cases, by name."""
    found = []
    for name, record in sorted(recorded.items()):
        case = Case(CASES / name)
        server = "uwsgi" if case.server == "uwsgi" else "gunicorn"
        found.append(Compared(name, server, case.about, classed_of(record), record["ours"]["said"]))
    return found


def table_of(recorded: Mapping[str, Any]) -> str:
    """Return the text of docs/moving-table.md."""
    rows, kinds = [], []
    cases = compared(recorded)
    for case in cases:
        kinds.append(worst(case.found))
        cells = (
            "`" + case.name + "`",
            case.about,
            "<br>".join(f"{shown(one.text)} ({one})" for one in case.found) or "same",
            "<br>".join(map(shown, case.said)) or "-",
        )
        rows.append(f"| {' | '.join(cells)} |")
    same, harmless, warned, different = map(kinds.count, KINDS)
    others = f"\n{different} differ in something else." if different else ""
    return f"""\
# Moving: cases compared

Read this page to see what differs where a deployment of uWSGI or gunicorn runs on aserve as it is.

Each case is a file of `tests/moving/cases`, with the structure of real ones: a configuration, the command of a Dockerfile, or a program that runs gunicorn. It runs once on uWSGI 2.0.31 or
gunicorn 23, and once on aserve. Compared are listeners, answers, environ, user, umask, folder, modes of sockets, requests at once, log files, the end, and what is left.
`make moving` runs the cases that are not recorded yet, and writes this page.

Of {len(rows)} cases {same} are the same in all of this. {harmless} differ without harm, as the row says. Of {warned} a line of the log says at the start what differs.{others}

| case | what it is | theirs -> aserve's | aserve's log says |
|---|---|---|---|
{chr(10).join(rows)}
{build_long_rows(cases).rstrip()}
"""


def text_of(recorded: Mapping[str, Any]) -> str:
    """Return the text of recorded.json, with a line for each fact."""
    cases = []
    for name, record in sorted(recorded.items()):
        servers = (
            f'  "{server}": {{\n'
            + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items())
            + "\n  }"
            for server, facts in record.items()
        )
        cases.append(f" {json.dumps(name)}: {{\n" + ",\n".join(servers) + "\n }")
    return "{\n" + ",\n".join(cases) + "\n}\n"


def shown(text: str) -> str:
    """Return a text for a cell."""
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`"


def check_build(command: str) -> None:
    """Check for routes and JSON in this uWSGI.

    Raises: SystemExit: PCRE or jansson was missing in the build.
    """
    told = subprocess.run([command, "--help"], capture_output=True, text=True, check=False).stdout
    for option, package in (("--route ", "libpcre2-dev"), ("--json ", "libjansson-dev")):
        if option not in told:
            raise SystemExit(f"{command} has no option {option}: install {package}, and rm -r .venv-moving")


def main() -> int:
    """Run the cases without a record, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the bin/ that has uwsgi and gunicorn, ending in /")
    parser.add_argument("aserve", help="our command")
    parser.add_argument("names", nargs="*", help="cases; all without")
    parser.add_argument("--again", action="store_true", help="also those that are recorded")
    parser.add_argument("--ours", action="store_true", help="the same, but only on aserve")
    given = parser.parse_args()
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell's background job ignores SIGINT, and so would all servers
    given.folder, given.aserve = (
        f"{os.path.abspath(given.folder)}/",
        os.path.abspath(given.aserve),
    )  # a folder for each case
    check_build(f"{given.folder}uwsgi")
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for path in sorted(CASES.iterdir()):
        if (given.names and path.name not in given.names) or (
            path.name in recorded and not (given.again or given.ours)
        ):
            continue
        case = Case(path)
        before = recorded.get(path.name, {}).get("theirs") if given.ours else None
        recorded[path.name] = {"theirs": before or run(case, [given.folder]), "ours": run(case, [given.aserve])}
        RECORDED.write_text(text_of(recorded))
        found = classed_of(recorded[path.name])
        sys.stdout.write(f"{path.name}: {'; '.join(f'{one.text} ({one.kind})' for one in found) or 'same'}\n")
        sys.stdout.flush()
    TABLE.write_text(table_of(recorded))
    write_pages(compared(recorded))
    return 0


if __name__ == "__main__":
    sys.exit(main())
