"""The code of docs/start.md and docs/frameworks.md, and the examples behind these pages, do as told."""

import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
import yaml
from harness.combining import long
from harness.front import Page, free_port
from harness.process import ServerProcess

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
START, FRAMEWORKS = Page("start"), Page("frameworks")


def program_of(name):
    """Return a program beside the interpreter of the tests."""
    return str(pathlib.Path(sys.executable).with_name(name))


def run(folder, *command):
    """Run a command to its end, in a folder."""
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=110)


@pytest.fixture
def place(tmp_path):
    """Copy an example: place(name) -> its folder, where servers start."""

    def copy(name):
        return shutil.copytree(EXAMPLES / name, tmp_path, dirs_exist_ok=True)

    return copy


@pytest.fixture
def start_program(tmp_path, wait_until):
    """Run a serving program: start_program(argv, **env) -> (process, port of its log)."""
    running = []

    def start(*argv, pattern=r"serving on http://127\.0\.0\.1:(\d+)\n", **env):
        log = tmp_path / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                argv, cwd=tmp_path, stdout=output, stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(tmp_path), **env},
            )  # fmt: skip
        running.append(process)

        def look():
            found = re.search(pattern, log.read_text())
            assert found or process.poll() is None, log.read_text()
            return found

        return process, int(wait_until(look, 90)[1])

    yield start
    for process in running:
        process.kill()
        process.wait(30)


def fetch(port, target, method="GET"):
    """Return status and body of a response of 127.0.0.1."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, target, headers={"Content-Length": "0"} if method == "POST" else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# The tutorial


def test_the_tutorial_serves_as_the_page_says(start_process, tmp_path):
    """The page's app answers as the page says; its file of settings serves the app with a line for each request, also with workers."""
    (tmp_path / "hello.py").write_text(START.block("An app", "python"))
    settings = START.block("Settings in a file", "toml")
    (tmp_path / "site.toml").write_text(settings)
    (tmp_path / "workers.toml").write_text(settings + START.block("Use all CPUs", "toml"))
    said = re.search(r"^curl .*: (.*)$", START.block("An app", "sh"), re.M)[1]
    assert said == "Hello!"
    process = start_process("hello:app")
    assert fetch(process.address[1], "/") == (200, f"{said}\n".encode())
    for name in ("site.toml", "workers.toml"):
        run(tmp_path, *ServerProcess.command, "--config", name, "--check")
    by_file = start_process("hello:app", "--config", "site.toml")
    assert fetch(by_file.address[1], "/") == (200, b"Hello!\n")
    by_file.signal(signal.SIGTERM)
    assert by_file.wait() == 0 and b"GET / " in by_file.process.stdout.read()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_units_of_the_tutorial(tmp_path):
    """systemd finds no fault in the units; the service takes the socket by its name."""
    section = START.text.partition("## Keep it running\n")[2]
    units = re.findall(r"^```ini\n# /etc/systemd/system/(\S+)\n(.*?)^```", section, re.M | re.S)
    assert [name for name, _ in units] == ["hello.socket", "hello.service"]
    for name, text in units:
        (tmp_path / name).write_text(text.replace("/srv/hello/venv/bin/aserve", shutil.which("true") or ""))
    assert "FileDescriptorName=web" in units[0][1] and "--bind systemd:web" in units[1][1]
    command = ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "hello." in line] == [] and done.returncode == 0, done.stderr


# Frameworks


@pytest.mark.parametrize("name", ["Flask", "Bottle", "CherryPy", "Pyramid"])
def test_the_page_shows_the_examples(name):
    """A block with a file's name equals the file."""
    block = FRAMEWORKS.block(name, "python")
    first, _, text = block.partition("\n")
    assert first == "# hello.py" and text == (EXAMPLES / name.lower() / "hello.py").read_text()


@pytest.mark.parametrize("name", ["Pyramid", "Zope"])
def test_the_page_shows_the_ini_files(name):
    """The page's lines of an ini file stand in the file."""
    (path,) = (EXAMPLES / name.lower()).glob("*.ini")
    assert FRAMEWORKS.block(name, "ini") in path.read_text()


def test_the_page_shows_the_program():
    """The lines of docs/embedding.md stand in the program."""
    assert Page("embedding").block("Beside FastAPI", "python") in (EXAMPLES / "asyncio/program.py").read_text()


def test_the_page_shows_a_test(tmp_path):
    """pytest runs the test of docs/embedding.md, with the README's hello.py."""
    block = Page("embedding").block("In tests", "python")
    (tmp_path / "test_hello.py").write_text(block)
    hello = (ROOT / "README.md").read_text().partition("# hello.py\n")[2].partition("```")[0]
    (tmp_path / "hello.py").write_text(hello)
    run(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hello.py")


@pytest.mark.parametrize("name", ["Flask", long("Bottle"), long("CherryPy")])
def test_an_app_in_one_file(start_process, place, name):
    """`aserve hello:app` in the example's folder serves it, and ends cleanly."""
    pytest.importorskip(name.lower())
    place(name.lower())
    assert "aserve hello:app\n" in FRAMEWORKS.block(name, "sh")
    process = start_process("hello:app")
    assert fetch(process.address[1], "/") == (200, f"Hello from {name}!\n".encode())
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_the_django_example_serves_its_admin(start_process, place):
    """The project is migrated, its files are collected and served; the admin asks for a login."""
    pytest.importorskip("django")
    folder = place("django")
    commands = FRAMEWORKS.block("Django", "sh").splitlines()
    for command in commands[1:-1]:
        python, *words = command.split()
        assert python == "python"
        run(folder, sys.executable, *words)
    _, spec, *flags = commands[-1].split()
    process = start_process(spec, *flags)
    assert fetch(process.address[1], "/") == (200, b"Hello from Django!\n")
    assert fetch(process.address[1], "/admin/")[0] == 302
    status, style = fetch(process.address[1], "/static/admin/css/base.css")
    assert status == 200 and style == (folder / "static/admin/css/base.css").read_bytes()


def test_pserve_serves_the_ini_file_of_pyramid(start_program, place):
    """pserve serves the ini file as it stands, but for its port."""
    pytest.importorskip("pyramid")
    ini = place("pyramid") / "production.ini"
    ini.write_text(ini.read_text().replace("port = 8000", "port = 0"))
    process, port = start_program(sys.executable, program_of("pserve"), "production.ini")
    assert fetch(port, "/") == (200, b"Hello from Pyramid!\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_zope_serves_by_our_ini_file(start_program, tmp_path):
    """Zope's own instance with our ini file answers with a page. (Zope is no requirement of the tests: 70 packages.)"""
    pytest.importorskip("Zope2")
    run(tmp_path, program_of("mkwsgiinstance"), "-d", ".", "-u", "admin:secret")
    text = (EXAMPLES / "zope/zope.ini").read_text()
    (tmp_path / "etc/zope.ini").write_text(text.replace("port = 8000", "port = 0"))
    process, port = start_program(program_of("runwsgi"), "etc/zope.ini")
    assert fetch(port, "/")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


# In a program, and in containers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_two_servers_share_a_program_with_fastapi(start_program, place, wait_until, number):
    """Both servers of the program answer from the same memory; a signal lets both finish, and the program ends."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    place("asyncio")
    api = free_port()
    pattern = r"admin on \[\('127\.0\.0\.1', (\d+)\)\]"
    env = {"API_PORT": str(api), "ADMIN_BIND": "127.0.0.1:0"}
    process, admin = start_program(sys.executable, "program.py", pattern=pattern, **env)

    def ask():
        try:
            return fetch(api, "/")
        except ConnectionError:  # uvicorn is about to start
            return None

    assert wait_until(ask) == (200, b'{"requests":1}')
    assert fetch(api, "/") == (200, b'{"requests":2}')
    assert fetch(admin, "/") == (200, b"2 requests\n")
    assert fetch(admin, "/reset", "POST") == (200, b"reset\n")
    assert fetch(api, "/") == (200, b'{"requests":1}')
    process.send_signal(number)
    assert process.wait(20) == 0
    with pytest.raises(ConnectionError):
        fetch(admin, "/")


def test_in_fastapis_lifespan(start_program, tmp_path, monkeypatch, wait_until):
    """The page's program, started by uvicorn, serves both apps; a signal ends both."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    page, ports = Page("embedding"), [free_port(), free_port()]
    block = page.block("In its lifespan", "python").replace(":8001", f":{ports[0]}")
    (tmp_path / "main.py").write_text(block)
    (tmp_path / "hello.py").write_text((EXAMPLES / "flask/hello.py").read_text())
    monkeypatch.chdir(tmp_path)
    python, *words = page.block("In its lifespan", "sh").replace("8002", str(ports[1])).split()
    assert python == "python"
    process, _ = start_program(sys.executable, *words, pattern=r"Uvicorn running on http://127\.0\.0\.1:(\d+)")
    assert fetch(ports[0], "/") == (200, b"Hello from Flask!\n")
    assert fetch(ports[1], "/docs")[0] == 200
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    with pytest.raises(ConnectionError):
        fetch(ports[0], "/")


def test_the_compose_file_serves_behind_nginx(start_process, place, fronts):
    """The compose file's app behind nginx with its nginx.conf: on one socket, health checks kept inside."""
    folder = place("behind_nginx")
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    app, web = services["app"], services["web"]
    command, spec, *flags = app["command"]
    assert command == "aserve" and {*app["volumes"]} < {*web["volumes"]}
    assert "./nginx.conf:/etc/nginx/conf.d/default.conf:ro" in web["volumes"]
    drain_seconds = int(flags[flags.index("--drain-timeout") + 1])
    assert int(app["stop_grace_period"].rstrip("s")) > drain_seconds
    bind = flags.index("--bind") + 1
    socket_path = flags[bind].rpartition("unix:")[2]
    flags[bind] = f"uwsgi://unix:{fronts.socket}"
    process = start_process(spec, *flags)
    nginx = fronts.nginx((folder / "nginx.conf").read_text(), {socket_path: fronts.socket})
    assert nginx.fetch("/")[::2] == (200, b"Hello 127.0.0.1!\n")
    assert nginx.fetch("/-/health/ready")[0] == 403
    process.signal(signal.SIGTERM)
    assert process.wait(20) == 0
