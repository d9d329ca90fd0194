"""The builds for each interpreter, and the interpreters named."""

import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import sysconfig
import types

import pytest
from harness import dists

from aserve.settings import VERSION

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.fixture
def setup(monkeypatch):
    """Return a function to run setup.py, returning the names, and the wishes to setuptools."""
    asked = {}
    setuptools = types.ModuleType("setuptools")
    setuptools.setup = lambda **keywords: asked.update(keywords)
    setuptools.Extension = lambda name, *_, **__: name
    command = types.ModuleType("setuptools.command.build_py")
    command.build_py = object
    for name, module in (("", setuptools), (".command", types.ModuleType("command")), (".command.build_py", command)):
        monkeypatch.setitem(sys.modules, f"setuptools{name}", module)
    monkeypatch.setenv("LDFLAGS", "")  # setup.py adds flags
    return lambda: (runpy.run_path(str(ROOT / "setup.py")), asked)


@pytest.mark.parametrize(
    ("implementation", "is_free_threaded", "options"),
    [
        ("cpython", 0, {"bdist_wheel": {"py_limited_api": "cp39"}}),
        ("cpython", None, {"bdist_wheel": {"py_limited_api": "cp39"}}),  # before 3.13
        ("cpython", 1, {}),
        ("pypy", None, {}),
    ],
)
def test_limited_api_serves_every_cpython_with_a_gil(monkeypatch, setup, implementation, is_free_threaded, options):
    """Without the extension of CPython's own API a single wheel serves every CPython with a GIL; the rest have a wheel each."""
    monkeypatch.setattr(sys.implementation, "name", implementation)
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": is_free_threaded}.get)
    monkeypatch.setenv("ASERVE_BUILD_NATIVE", "off")
    _, asked = setup()
    assert (asked["cffi_modules"], asked["ext_modules"], asked["options"]) == (["cparsers/build.py:ffi"], [], options)


@pytest.mark.parametrize(
    ("implementation", "is_free_threaded", "extensions"),
    [("cpython", 0, ["aserve._native"]), ("cpython", None, ["aserve._native"]), ("cpython", 1, []), ("pypy", None, [])],
)
def test_native_is_built_for_one_version(monkeypatch, setup, implementation, is_free_threaded, extensions):
    monkeypatch.setattr(sys.implementation, "name", implementation)
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": is_free_threaded}.get)
    monkeypatch.delenv("ASERVE_BUILD_NATIVE", raising=False)
    _, asked = setup()
    assert (asked["ext_modules"], asked["options"]) == (extensions, {})


def test_the_readme_on_the_index(setup):
    """Every link leads somewhere, where there is nothing beside the README; without the repository's URL there is no link."""
    names, asked = setup()
    absolute = names["long_description"]
    text = "[a](docs/a.md#b), [`--c`\nd](E.md), [f](https://f/), [g](#g)"
    assert absolute(text, None) == "a, `--c`\nd, [f](https://f/), [g](#g)"
    assert absolute("[a](docs/a.md#b)", "https://h/r") == "[a](https://h/r/blob/HEAD/docs/a.md#b)"
    assert absolute("A\n\n![b: c](d/e.svg)\n\nF\n", None) == "A\n\nF\n"
    assert (
        asked["long_description"].startswith("# aserve\n") and asked["long_description_content_type"] == "text/markdown"
    )
    assert re.findall(r"\]\((?!https:)[^)]*\)", asked["long_description"]) == []


def test_what_a_version_is_called():
    """A release has a section in CHANGELOG.md, and says the state of development in the same way everywhere."""
    is_finished = int(VERSION.partition(".")[0]) >= 1
    status = "5 - Production/Stable" if is_finished else "4 - Beta"
    assert f'"Development Status :: {status}"' in PROJECT
    assert ("**Status: young.**" in (ROOT / "README.md").read_text()) is not is_finished
    is_released = ".dev" not in VERSION
    section = rf"^## \[{re.escape(VERSION)}\] - 20\d\d-\d\d-\d\d$"
    assert bool(re.search(section, (ROOT / "CHANGELOG.md").read_text(), re.M)) is is_released


def run_python(folder: pathlib.Path, *arguments: str) -> None:
    """Run this interpreter there."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


NEEDS_GIT = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="only git knows which files belong to the repository"
)


def copy_to(folder: pathlib.Path) -> set[str]:
    """Copy the files of the repository there; return their names."""
    files = dists.tracked()
    for parent in {(folder / name).parent for name in files}:
        parent.mkdir(parents=True, exist_ok=True)
    for name in files:
        shutil.copyfile(ROOT / name, folder / name)
    return files


@NEEDS_GIT
def test_what_goes_into_an_sdist(tmp_path):
    """All files in git, and nothing built, are on setuptools' list, the list for an sdist."""
    files = copy_to(tmp_path)
    run_python(tmp_path, "setup.py", "--quiet", "egg_info")
    names = set((tmp_path / "aserve_wsgi.egg-info" / "SOURCES.txt").read_text().splitlines())
    assert dists.faults_of_sdist(names, files) == []


def test_what_must_not_be_released():
    """Missing files and surplus files are named."""
    files = {"aserve/a.py", "cparsers/a.c", ".gitignore", "docs/a.md"}
    made = {"PKG-INFO", "aserve_wsgi.egg-info/SOURCES.txt"}
    assert dists.faults_of_sdist(files | made, files) == []
    faults = dists.faults_of_sdist({"aserve/a.py", "aserve/a.so", "b"}, files)
    assert faults == [
        "the sdist lacks cparsers/a.c", "the sdist lacks docs/a.md", "the sdist has aserve/a.so", "the sdist has b",
    ]  # fmt: skip
    about = "aserve_wsgi-1.dist-info/licenses/LICENSE"
    assert dists.faults_of_wheel({"aserve/a.py", "aserve/docs/a.md", "aserve/_cparsers.abi3.so", about}, files) == []
    native = {
        "aserve/a.py",
        "aserve/docs/a.md",
        "aserve/_cparsers.abi3.so",
        "aserve/_native.cpython-311-x86_64-linux-gnu.so",
        about,
    }
    assert dists.faults_of_wheel(native, files, has_native=True) == []
    assert dists.faults_of_wheel(native, files) == ["the wheel has these extensions: cparsers, native"]
    assert dists.faults_of_wheel({"aserve/b.c", "tests/test_a.py"}, files) == [
        "the wheel lacks aserve/a.py", "the wheel lacks aserve/docs/a.md", "the wheel has aserve/b.c", "the wheel has tests/test_a.py",
        "the wheel has these extensions: none", "the wheel lacks the licence",
    ]  # fmt: skip


def test_every_version_is_tested():
    """Each version of the classifiers has tested wheels, and conversely."""
    named = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', PROJECT)
    built = re.search(r"^build = \[([^]]*)\]", PROJECT, re.MULTILINE)[1]
    assert named == re.findall(r"cp3(\d+)-", built)
    assert re.search(r'requires-python = ">=3\.(\d+)"', PROJECT)[1] == named[0]


# .ci/need

# Debian's programs, below a folder in the place of /: installing enables the services, as packages do.
PROGRAMS = {
    "id": "echo 0",
    "apt-get": """
case "$*" in *install*) ;; *) exit ;; esac
[ -e "$ROOT/usr/sbin/policy-rc.d" ] || exit
cd "$ROOT/etc"
ln -s /lib/systemd/system/new.service systemd/system/alias.service
ln -s /lib/systemd/system/new.timer systemd/system/timers.wants/new.timer
ln -s /lib/systemd/user/new.socket systemd/user/sockets.wants/new.socket
ln -s /dev/null systemd/system/masked.service
ln -s ../init.d/new rc2.d/S01new; ln -s ../init.d/new rc3.d/S02new; ln -s ../init.d/new rc6.d/K01new
[ -z "$SIGNAL" ] || kill "-$SIGNAL" $PPID
exit $STATUS""",
    "update-rc.d": """
echo "update-rc.d $*" >>"$ROOT/said"
cd "$ROOT/etc" && mv rc2.d/S01new rc2.d/K01new && mv rc3.d/S02new rc3.d/K02new""",
    "service": 'echo "service $*" >>"$ROOT/said"',
    "systemctl": 'echo "systemctl $*" >>"$ROOT/said"',
}
ENABLED = {"rc2.d/S01old", "systemd/system/old.service", "systemd/system/timers.wants/old.timer"}
LEFT = {"rc2.d/K01new", "rc3.d/K02new", "rc6.d/K01new", "systemd/system/masked.service"}


def run_need(root: pathlib.Path, number: int = 0, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Have `.ci/need` install a package into a folder in the place of /; a signal or a status ends the run."""
    for folder in ("bin", "usr/sbin", "etc/rc3.d", "etc/rc6.d", "etc/systemd/user/sockets.wants"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for link in ENABLED:
        (root / "etc" / link).parent.mkdir(parents=True, exist_ok=True)
        (root / "etc" / link).symlink_to("/old")
    text = re.sub(r"/(etc|run|usr/sbin)/", rf"{root}/\1/", (ROOT / ".ci" / "need").read_text())
    (root / "need").write_text(text)
    for name, script in PROGRAMS.items():
        (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (root / "bin" / name).chmod(0o755)
    environ = {"PATH": f"{root}/bin:/usr/bin:/bin", "ROOT": str(root), "STATUS": str(status)}
    return subprocess.run(
        ["sh", str(root / "need"), "packages", "new"], env={**environ, "SIGNAL": str(int(number) or "")},
        capture_output=True, text=True, timeout=30, check=False,
        # A shell cannot trap signals ignored from the beginning, as under nohup, or in the background of a script.
        preexec_fn=lambda: number and signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip


def links_below(folder: pathlib.Path) -> set[str]:
    """Return the names of all links in a folder, at any depth."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink()}


@pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
@pytest.mark.parametrize(
    "end", [{"number": signal.SIGINT}, {"number": signal.SIGTERM}, {"number": signal.SIGHUP}, {"status": 100}, {}]
)
def test_an_installation_enables_nothing(tmp_path, end):
    """However the installation ends, only services enabled before begin at boot, and Debian's services may start again."""
    done = run_need(tmp_path, **end)
    assert done.returncode > 128 if "number" in end else done.returncode == end.get("status", 0)
    assert done.stderr == "aserve: installing new\n"
    assert not (tmp_path / "usr/sbin/policy-rc.d").exists()
    assert links_below(tmp_path / "etc") == ENABLED | LEFT
    assert (tmp_path / "said").read_text() == "update-rc.d new disable\n"


@pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
def test_what_the_owner_lets_start_is_stopped(tmp_path):
    """A policy of the machine's owner stays, and may let the new servers start."""
    policy = tmp_path / "usr/sbin/policy-rc.d"
    policy.parent.mkdir(parents=True)
    policy.write_text("the owner's")
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert run_need(tmp_path).returncode == 0
    assert policy.read_text() == "the owner's"
    assert links_below(tmp_path / "etc") == ENABLED | LEFT
    *said, last = (tmp_path / "said").read_text().splitlines()
    assert sorted(said) == [
        "service new stop", "systemctl stop alias.service", "systemctl stop new.socket", "systemctl stop new.timer",
        "update-rc.d new disable",
    ]  # fmt: skip
    assert last == "systemctl daemon-reload"


# .ci/next

NEXT = ROOT / ".ci" / "next"
TOOLS = ("sh", "dirname", "cat", "mkdir", "rm", "sed")


def run_next(folder: pathlib.Path, *arguments: str, user: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the script where there is nothing but a few tools."""
    tools = folder / "bin"
    tools.mkdir()
    for name in TOOLS:
        [place, *_] = [path for path in map(pathlib.Path, (f"/bin/{name}", f"/usr/bin/{name}")) if path.exists()]
        (tools / name).symlink_to(place)
    (tools / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (tools / "id").chmod(0o755)
    environ = {"PATH": str(tools), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run([str(NEXT), *arguments], env=environ, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
@pytest.mark.parametrize(
    ("user", "text"), [(1000, "be root: sudo make test-next"), (0, "no mmdebstrap here: it needs Debian")]
)
def test_what_the_next_interpreters_take(tmp_path, user, text):
    """Where nothing can be had, one line says the missing part and the remedy; status 2."""
    done = run_next(tmp_path, user=user)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
def test_the_root_is_removed(tmp_path):
    """`--clean` leaves nothing behind."""
    (tmp_path / "cache" / "aserve-next" / "root").mkdir(parents=True)
    done = run_next(tmp_path, "--clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "cache").iterdir()) == []
