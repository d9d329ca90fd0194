"""Requests kept from the app by a configuration of uWSGI or gunicorn are kept from the app here, whatever is added; and no message has values."""

import base64
import os

import pytest
from harness.interpreter import NEEDS_LINUX, ONCE
from harness.process import ServerProcess, run_command

pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]

SECRET = "hunter2"
APP = """\
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"app"]
"""
CLOSED = f"[uwsgi]\nmodule = site_app\nmaster = 1\nenv = KEY={SECRET}\nroute = ^/health last:\nroute = ^/ basicauth:Site,ann:{SECRET}\n"
NEVER = f"[uwsgi]\nmodule = site_app\nroute = ^/a send:{SECRET}\nroute = ^/b basicauth:Site,ann:{SECRET}\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with the app, a file with a password, and a file that cannot be obeyed."""
    (tmp_path / "site_app.py").write_text(APP)
    (tmp_path / "closed.ini").write_text(CLOSED)
    (tmp_path / "never.ini").write_text(NEVER)
    return tmp_path


@pytest.fixture
def serve(folder):
    """Start aserve there: serve(*arguments, **variables) -> ServerProcess."""
    running = []

    def start(*arguments, **variables):
        running.append(ServerProcess(list(arguments), folder, variables))
        return running[-1]

    yield start
    for process in running:
        process.signal()
        assert process.wait(20) == 0 and SECRET not in process.log, process.log
        process.end()


def ask(raw_client, process, path, password=None):
    """Return the status of a request."""
    client = raw_client(process.address)
    token = base64.b64encode(f"ann:{password}".encode()).decode()
    field = f"Authorization: Basic {token}\r\n" if password else ""
    client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n".encode())
    return int(client.recv_to_end().split()[1])


def run(folder, *words, **variables):
    """Run the command to its end; return its status and output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ASERVE_")}
    done = run_command(*words, cwd=folder, env={**env, **variables})
    return done.returncode, done.stdout + done.stderr


@ONCE
@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ((), {}),
        (("--route", "^/open last:"), {}),
        ((), {"ASERVE_ROUTE": "^/open last:"}),
        (("--route", "continue:", "--dropped-guards", "warn"), {"ASERVE_ROUTE": "last:"}),
    ],
)
def test_a_route_more_opens_nothing(serve, raw_client, words, variables):
    process = serve("closed.ini", *words, **variables)
    assert [ask(raw_client, process, path) for path in ("/", "/open", "/health")] == [401, 401, 200]
    assert ask(raw_client, process, "/open", SECRET) == 200 and ask(raw_client, process, "/", "no") == 401


@ONCE
def test_no_spelling_of_a_path_passes(folder, serve, raw_client):
    """A path guarded by uWSGI asks for the password here, too; a path that uWSGI sees as another is another here."""
    (folder / "dots.ini").write_text(f"[uwsgi]\nmodule = site_app\nroute = ^/admin basicauth:Site,ann:{SECRET}\n")
    process = serve("dots.ini")
    for path in (
        "/x/../admin",
        "/./admin",
        "/../admin",
        "/x/./../admin?/..",
        "/%61dmin",
        "/;/../admin",
        "http://a/x/../admin",
        "/admin;x",
    ):
        assert (ask(raw_client, process, path), ask(raw_client, process, path, SECRET)) == (401, 200), path
    for path in (
        "//admin",
        "/x//../admin",
        "/%2e%2e/admin",
        "/x/..;/admin",
        "/ADMIN",
        "/admin/..",
        "/admin/../x",
        "/%252e/admin",
    ):
        assert ask(raw_client, process, path) == 200, path
    for path in ("/admin%00", "/%%61dmin", "/a%/../admin", "/admin#", "../admin"):
        assert ask(raw_client, process, path) == 400, path


@ONCE
def test_conditions_of_routes(folder, serve, raw_client):
    """Requests for other hosts, and those over http by a proxy, are answered as by uWSGI; a way past a rule is one here, too."""
    (folder / "hosts.ini").write_text(
        f"[uwsgi]\nmodule = site_app\nroute-if = equal:${{HTTP_X_KEY}};{SECRET} goto:known\nroute-host = ^(?!shop.example$) break:400\n"
        "route-label = known\n"
        "route-if = equal:${HTTP_X_FORWARDED_PROTO};http redirect-permanent:https://${HTTP_HOST}${REQUEST_URI}\n"
    )
    client = raw_client(serve("hosts.ini").address)

    def ask_with(*fields):
        lines = "".join(f"{field}\r\n" for field in fields)
        client.send(f"GET /a?b HTTP/1.1\r\n{lines}\r\n".encode())
        return client.recv_response()

    assert ask_with("Host: shop.example").status == ask_with("Host: other", f"X-Key: {SECRET}").status == 200
    answer = ask_with("Host: shop.example", "X-Forwarded-Proto: http")
    assert (answer.status, answer.get("location")) == (301, "https://shop.example/a?b")
    assert ask_with("Host: other", f"X-Key: {SECRET}x").status == 400


@ONCE
def test_a_file_that_cannot_be_obeyed(folder, serve, raw_client):
    """A file that cannot be obeyed ends the start, with a line for each route; --dropped-guards warn drops these routes, and no more."""
    for words in (["never.ini"], ["--check", "never.ini"], ["uwsgi", "--ini", "never.ini"]):
        status, told = run(folder, *words)
        assert status == 2 and "never.ini:3: route = ...: aserve cannot obey it" in told and SECRET not in told
    process = serve("never.ini", "--dropped-guards", "warn")
    assert [ask(raw_client, process, path) for path in ("/a", "/b")] == [200, 401]


@ONCE
def test_no_message_has_a_value(folder):
    """Neither --check, `aserve config` nor an error shows a password or a variable's value; `aserve translate` has them in its file only."""
    flags = ["--route", f"^/x basicauth:Site,bob:{SECRET}", "--env", f"OTHER={SECRET}"]
    for words in (
        ["--check", "closed.ini", *flags],
        ["config", "closed.ini", *flags],
        ["config", "--explain", "route", "closed.ini", *flags],
        ["config", "--explain", "env", "closed.ini", *flags],
        ["--check", "never.ini", *flags, "--dropped-guards", "warn"],
        ["--check", "closed.ini", "--route", f"( basicauth:Site,bob:{SECRET}"],
        ["--check", "closed.ini", "--route", f"^/x basicauth:{SECRET}"],
        ["--check", "closed.ini", "--env", SECRET],
    ):
        _, told = run(folder, *words)
        assert SECRET not in told and told, words
    status, told = run(folder, "translate", "never.ini")
    assert status == 1 and told.count("never.ini:3: route = ...: aserve cannot obey it") == 2
    assert f"send:{SECRET}" not in told and f"basicauth:Site,ann:{SECRET}" in told
