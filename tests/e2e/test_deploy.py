"""Units and container of docs/deploy.md, and of the pages behind the page, do as told."""

import fnmatch
import json
import os
import pathlib
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap

import pytest
import yaml
from harness.front import Page
from harness.interpreter import ONCE

from aserve.command.site_files import SANDBOX, SERVICE, SiteFiles

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

ROOT = pathlib.Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
PAGES = ("deploy", "systemd", "containers", "workers", "upgrades", "preload", "health")
EMPEROR = (ROOT / "docs/moving-from-emperor.md").read_text()
SITES = (ROOT / "docs/several-sites.md").read_text()
TEXT = "".join((ROOT / f"docs/{name}.md").read_text() for name in PAGES)
ANALYZE = shutil.which("systemd-analyze")


def blocks(language, text=TEXT):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def unit(kind):
    """Return the text of the example's unit."""
    return (EXAMPLES / f"systemd/shop.{kind}").read_text()


def values_of(text, name):
    """Return the unit's values for this name, outside of comments."""
    return re.findall(rf"^{name}=(.*)$", text, re.M)


@ONCE
def test_the_pages_show_the_examples():
    """Each line of a block stands in the named file."""
    shown = [(block, unit("socket" if "[Socket]" in block else "service")) for block in blocks("ini")]
    shown += [(block, DOCKERFILE) for block in blocks("dockerfile")]
    shown += [(block, (EXAMPLES / "systemd/site@.service").read_text()) for block in blocks("ini", SITES)]
    emperor = [block for block in blocks("ini", EMPEROR) if "ExecStart" in block]
    shown += [(block, (EXAMPLES / "systemd/aserve@.service").read_text()) for block in emperor]
    assert len(shown) == 5
    for block, text in shown:
        assert {*block.splitlines()} <= {*text.splitlines()}


@ONCE
@pytest.mark.parametrize(
    "command", [line for block in blocks("sh") for line in block.splitlines() if line.startswith("aserve ")]
)
def test_each_command_of_the_pages_passes_check(command):
    """Each command of the pages passes --check, with an app of the test's, readable by the user of --user."""
    words = shlex.split(command, comments=True)
    assert words[1] == "mysite.wsgi:application"
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # pytest's own is for root alone
        patch.chdir(folder)
        if "--user" in words and words[words.index("--user") + 1] not in {entry.pw_name for entry in pwd.getpwall()}:
            pytest.skip("this machine has no such user")
        pathlib.Path("app.py").write_text("def app(environ, start_response): pass\n")
        subprocess.run(
            [sys.executable, "-Im", "aserve", "app.py", *words[2:], "--check"], check=True, stdout=subprocess.DEVNULL
        )


@ONCE
@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
def test_systemd_reads_the_units(tmp_path):
    """systemd finds no fault in the units once their paths exist; site@.service and aserve@.service have an instance."""
    names = {
        "shop.service": "shop.service",
        "site@.service": "site@shop.service",
        "aserve@.service": "aserve@shop.service",
    }
    for source, name in names.items():
        text = (EXAMPLES / "systemd" / source).read_text()
        text = re.sub(r"/srv/(shop|%i)/venv/bin/aserve|/opt/aserve/bin/aserve", shutil.which("true") or "", text)
        (tmp_path / name).write_text(text)
    shutil.copy(EXAMPLES / "systemd/shop.socket", tmp_path)
    command = [ANALYZE, "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "shop." in line]
    assert said == [] and done.returncode == 0, done.stderr


def lines_of(text):
    """Return the lines of a unit, or of a part of a unit, without comments."""
    return [line for line in text.splitlines() if line[:1] not in ("", "#", "[")]


# Words about a unit's own site.
OWN = re.compile(
    r"(Description|Documentation|ExecStart|User|Group|WorkingDirectory|\w+Directory(Mode)?|Requires|After|MemoryMax|CPUWeight|Restrict)="
)


@ONCE
@pytest.mark.parametrize("name", ["shop", "site@", "aserve@"])
def test_the_units_are_one_text(name):
    """The examples equal the output of `aserve init` but for the site; the emperor's may write where its file says."""
    text = (EXAMPLES / f"systemd/{name}.service").read_text()
    assert SERVICE in text and (SANDBOX in text) is (name != "aserve@")
    made = SiteFiles("shop", "shop:app", "/srv/shop", "/srv/shop/venv/bin/aserve", "shop", "static").texts()[
        "shop.service"
    ]
    free = {
        "ProtectSystem=strict",
        "PrivateTmp=yes",
        "ProtectHome=yes",
        "StateDirectory=shop",
        "ReadWritePaths=/srv/shop",
    }
    ours, theirs = ({line for line in lines_of(each) if not OWN.match(line)} for each in (text, made))
    assert ours - theirs <= {"ProtectSystem=full"} and theirs - ours <= free


@ONCE
def test_the_units_of_the_pages():
    """A page shows no line of a service beyond the unit of `aserve init`; only the site differs."""
    made = {*lines_of(unit("service"))}
    shown = [
        block
        for page in ("start", "systemd", "several-sites")
        for block in blocks("ini", (ROOT / f"docs/{page}.md").read_text())
    ]
    shown = [block for block in shown if "ExecStart=" in block]
    assert len(shown) == 3
    for block in shown:
        assert [line for line in lines_of(block) if line not in made and not OWN.match(line)] == []


@ONCE
@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["shop", "site@", "aserve@"])
def test_what_a_unit_may_do(name):
    """systemd finds that a service may do little beyond its needs."""
    command = [ANALYZE, "security", "--offline=yes", "--threshold=30", str(EXAMPLES / f"systemd/{name}.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


@ONCE
@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["moving-from-gunicorn", "moving-from-uwsgi"])
def test_the_lines_for_a_unit(tmp_path, name):
    """systemd finds no fault in lines for `systemctl edit`."""
    text = (ROOT / f"docs/{name}.md").read_text()
    [lines] = [block for block in re.findall(r"^ *```ini\n(.*?)^ *```", text, re.M | re.S) if "[Service]" in block]
    assert "ExecStart=\n" in lines  # otherwise there are two commands
    old = "[Service]\nType=notify\nExecStart=/bin/false\n"
    program = shutil.which("true") or ""
    path = tmp_path / "mysite.service"
    path.write_text(old + textwrap.dedent(lines).replace("/srv/mysite/venv/bin/aserve", program))
    done = subprocess.run([ANALYZE, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "mysite." in line] == [] and done.returncode == 0, done.stderr


def test_the_service_serves_and_reloads(start_process, raw_client, manager, tmp_path):
    """The service's command serves on the socket of the socket unit, says so, and is answered at a reload."""
    [command] = values_of(unit("service"), "ExecStart")
    words = shlex.split(command)
    assert words[1] == "shop.wsgi:application" and values_of(unit("service"), "User") == ["shop"]
    usec = f"{values_of(unit('service'), 'WatchdogSec')[0]}000000"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        [name] = values_of(unit("socket"), "FileDescriptorName")
        process = start_process(
            "hello", *words[2:], fds=[listening.fileno()], LISTEN_FDNAMES=name, WATCHDOG_USEC=usec, **manager.environ,
            RUNTIME_DIRECTORY=str(tmp_path),
        )  # fmt: skip
        manager.wait_for("READY=1")
        manager.wait_for("WATCHDOG=1")
        assert (tmp_path / "control").is_socket()
        assert raw_client(listening.getsockname()).fetch().body == b"hello\n"
        process.signal()
        assert process.wait() == 0


@ONCE
def test_the_time_to_end():
    """systemd waits for longer than a drain may take."""
    assert values_of(unit("service"), "KillMode") == ["mixed"]
    assert int(values_of(unit("service"), "TimeoutStopSec")[0]) > 30


CONTAINER = EXAMPLES / "container"
DOCKERFILE = (CONTAINER / "Dockerfile").read_text()


def check_container(process, python="python"):
    """A served process answers and passes its health check, which fails once the process has ended."""
    [check] = re.findall(r"^HEALTHCHECK .*CMD python (.*)$", DOCKERFILE, re.M)
    words, environ = [python, *shlex.split(check)], {**os.environ, "PORT": str(process.address[1])}
    assert subprocess.run(words, env=environ, check=False).returncode == 0
    process.signal()
    assert process.wait() == 0
    assert subprocess.run(words, env=environ, stderr=subprocess.DEVNULL, check=False).returncode == 1


@ONCE
def test_the_container_serves_and_is_healthy(start_process, raw_client):
    """The container's command serves the app beside it where PORT says, started as process 1; its health check asks there."""
    [command] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.M)
    assert re.findall(r"^ENV PORT=(\d+)$", DOCKERFILE, re.M) == re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.M)
    assert "\nUSER 10001:10001\n" in DOCKERFILE
    name, app, *flags = json.loads(command)
    assert (name, app) == ("aserve", "hello:app")
    process = start_process(f"{CONTAINER}/hello.py:app", *flags, launcher=["env"], PORT="0")
    assert raw_client(process).fetch().body == b"Hello from a container!\n"
    check_container(process, sys.executable)


@ONCE
def test_the_files_of_the_container_fit_together():
    """Compose builds the Dockerfile, publishes its port, and waits for longer than a drain; no copied file is ignored."""
    [site] = yaml.safe_load((CONTAINER / "compose.yaml").read_text())["services"].values()
    assert site["build"] == "." and site["ports"] == ["8000:8000"] and "\nEXPOSE 8000\n" in DOCKERFILE
    [seconds] = re.findall(r'"--drain-timeout", "(\d+)"', DOCKERFILE)
    assert int(site["stop_grace_period"].rstrip("s")) > int(seconds)
    ignored = [line for line in (CONTAINER / ".dockerignore").read_text().splitlines() if line[0] != "#"]
    for name in ("aserve_wsgi-1.tar.gz", "requirements.txt", "hello.py"):
        assert not any(fnmatch.fnmatchcase(name, pattern) for pattern in ignored)
    assert {"Dockerfile", "compose.yaml"} < {*ignored}  # a builder reads both, and the app needs neither
    assert (CONTAINER / "requirements.txt").exists() and (CONTAINER / "hello.py").exists()


@ONCE
@pytest.mark.long  # pip compiles, and fetches aserve's requirements
@pytest.mark.timeout(600)
def test_the_steps_of_the_container(start_process):
    """Each step does as told without a builder: two environments in place of two images, and the user of USER."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        root.chmod(0o755)  # for the user of USER
        for name in ("src", "first", "second"):
            (root / name).mkdir()
        setup = "import setuptools.build_meta as backend; backend.build_sdist('%s')" % (root / "src")
        shutil.copytree(
            ROOT, root / "checkout", ignore=shutil.ignore_patterns(".*", "build", "*.so", "tests", "benchmarks")
        )
        subprocess.run([sys.executable, "-c", setup], cwd=root / "checkout", check=True, stdout=subprocess.DEVNULL)
        shutil.copy(CONTAINER / "requirements.txt", root / "src")
        shutil.copytree(CONTAINER, root / "app")
        pips = [step for step in re.findall(r"^RUN (.*)$", DOCKERFILE, re.M) if step.startswith("pip ")]
        assert len(pips) == 2
        for step, place in zip(pips, ("first", "second")):
            subprocess.run([sys.executable, "-m", "venv", root / place], check=True)
            path = f"{root / place}/bin:{os.environ['PATH']}"
            moved = re.sub(r"(?<= )/(?=src|wheels)", f"{root}/", step)
            done = subprocess.run(
                moved, shell=True, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr[-2000:]
        [command] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.M)
        _, _, *flags = json.loads(command)
        user = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups"] if os.geteuid() == 0 else ["env"]
        python = str(root / "second/bin/python")
        launcher = [*user, "sh", "-c", f'shift 4; exec {python} -Im aserve "$@"', "sh"]
        process = start_process(f"{root}/app/hello.py:app", *flags, launcher=launcher, PORT="0")
        check_container(process, python)


BUILDER = next(filter(None, map(shutil.which, ("podman", "buildah", "docker"))), None)


@ONCE
@pytest.mark.long  # fetches Python's image, and compiles
@pytest.mark.timeout(900)
def test_a_builder_makes_the_image_of_the_dockerfile(tmp_path):
    sdists = sorted((ROOT / "dist").glob("aserve_wsgi-*.tar.gz"))
    if not sdists or BUILDER is None or subprocess.run([BUILDER, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no builder of images that works is installed, or there is no sdist: make wheel")
    shutil.copytree(CONTAINER, tmp_path / "shop")
    shutil.copy(sdists[-1], tmp_path / "shop")
    done = subprocess.run(
        [BUILDER, "build", "-t", "aserve-hello", "."],
        cwd=tmp_path / "shop",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_nginx_passes_each_name_to_its_site(start_server, fronts):
    """docs/several-sites.md: nginx passes each name to its own site, and an unknown name to none."""
    page, changes = Page("several-sites"), {}
    for name in ("shop", "blog"):
        socket_path = f"{fronts.socket}.{name}"
        changes[f"unix:/run/aserve/{name}/app.sock"] = f"unix:{socket_path}"

        def app(environ, start_response, name=name):
            start_response("200 OK", [("Content-Length", "4")])
            return [name.encode()]

        start_server(app, bind=f"uwsgi://unix:{socket_path}")
    nginx = fronts.nginx(page.block("3. nginx passes each name on", "nginx"), changes)
    for host, answer in (("www.shop.example", b"shop"), ("blog.example", b"blog")):
        assert nginx.fetch("/", Host=host)[::2] == (200, answer)
    assert nginx.fetch("/", Host="other.example")[0] == 404
