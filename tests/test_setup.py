"""What is built for which interpreter, and which interpreters are named."""

from __future__ import annotations

import pathlib
import re
import runpy
import signal
import subprocess
import sys
import sysconfig
import types

import pytest

pytestmark = pytest.mark.checkout

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("implementation", "is_free_threaded", "options"),
    [
        ("cpython", 0, {"bdist_wheel": {"py_limited_api": "cp39"}}),
        ("cpython", None, {"bdist_wheel": {"py_limited_api": "cp39"}}),  # before 3.13
        ("cpython", 1, {}),
        ("pypy", None, {}),
    ],
)
def test_limited_api(monkeypatch, implementation, is_free_threaded, options):
    """One wheel serves every CPython with a GIL; the others have one each."""
    asked = {}
    setuptools = types.ModuleType("setuptools")
    setuptools.setup = lambda **keywords: asked.update(keywords)
    monkeypatch.setitem(sys.modules, "setuptools", setuptools)
    monkeypatch.setattr(sys.implementation, "name", implementation)
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": is_free_threaded}.get)
    runpy.run_path(str(ROOT / "setup.py"))
    assert asked == {"cffi_modules": ["cparsers/build.py:ffi"], "options": options}


def test_every_version_is_tested():
    """Each version that the classifiers name is one for which wheels are tested, and the other way round."""
    named = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', PROJECT)
    built = re.search(r"^build = \[([^]]*)\]", PROJECT, re.MULTILINE)[1]
    assert named == re.findall(r"cp3(\d+)-", built)
    assert re.search(r'requires-python = ">=3\.(\d+)"', PROJECT)[1] == named[0]


# .ci/need


@pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_installation_that_is_ended(tmp_path, number):
    """Who ends it, or closes its terminal, leaves no file behind that keeps Debian's services from starting."""
    policy, tools = tmp_path / "policy-rc.d", tmp_path / "bin"
    text = (ROOT / ".ci" / "need").read_text()
    assert text.count("policy=/usr/sbin/policy-rc.d\n") == 1
    (tmp_path / "need").write_text(text.replace("/usr/sbin/policy-rc.d", str(policy)))
    tools.mkdir()
    apt_get = f'#!/bin/sh\ncase "$*" in *install*) [ -e {policy} ] && kill -{int(number)} $PPID ;; esac\n'
    for name, script in ("id", "#!/bin/sh\necho 0\n"), ("apt-get", apt_get):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    environ = {"PATH": f"{tools}:/usr/bin:/bin"}
    need = ["sh", str(tmp_path / "need"), "packages", "anything"]
    done = subprocess.run(need, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode > 128 and done.stderr == "aserve: installing anything\n"
    assert not policy.exists()


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
    """Where they cannot be had, one line says what is missing and what to do; status 2."""
    done = run_next(tmp_path, user=user)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
def test_the_root_is_removed(tmp_path):
    """`--clean` leaves nothing of it."""
    (tmp_path / "cache" / "aserve-next" / "root").mkdir(parents=True)
    done = run_next(tmp_path, "--clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "cache").iterdir()) == []


def test_files_beside_the_code():
    """What is no code, and is read from the package, is in the wheel and in the sdist."""
    (patterns,) = re.findall(r"^aserve = \[(.*)\]$", PROJECT, re.MULTILINE)
    (included,) = re.findall(r"^include (aserve/.*)$", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)
    for path in (ROOT / "aserve").rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc", ".so"):
            name = path.relative_to(ROOT / "aserve")
            assert any(name.match(pattern) for pattern in re.findall(r'"([^"]+)"', patterns)), name
            assert any(path.relative_to(ROOT).match(pattern) for pattern in included.split()), name
