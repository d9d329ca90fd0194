"""The files of a release, met as a user meets them: python tests/release.py [--save], by `make release-check`, which builds the files.

The program looks into dist/, and installs these files: without a network, for type checkers, and in fresh roots of Debian,
where each command and program serves a request. The program goes on after a fault; status 1: there was a fault.
--save writes benchmarks/results/release.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Callable

from harness import dists

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
EXAMPLE = ROOT / "examples" / "typed.py"
RESULT = ROOT / "benchmarks" / "results" / "release.md"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "aserve-release"

# A build without a network: the needs of [build-system]. PyPy has cffi built in.
BUILD_REQUIRES = ["setuptools>=77", "cffi>=1.15"]

# The release of most servers, without a compiler; and the next, for builds of the sdist.
ROOTS = {
    "bookworm": "python3 python3-venv pypy3 pypy3-venv ca-certificates",
    "forky": "python3 python3-venv python3-dev pypy3 pypy3-venv pypy3-dev gcc libc6-dev ca-certificates",
}

MOST = 1536 * 1024  # octets of a wheel; with the pages and the native path 1,523,705 (2026-11-29)

# A system's name by zig, and by pip.
MUSL = "x86_64-linux-musl"
CROSS = {MUSL: "musllinux_1_2_x86_64", "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64"}

# The command with two worker processes, asked once and ended.
COMMAND = """
import re, subprocess, sys, urllib.request
server = subprocess.Popen([sys.argv[1], "typed:app", "--bind", "127.0.0.1:0", "--workers", "2"], stderr=subprocess.PIPE, text=True)
lines = []
for line in server.stderr:
    lines.append(line)
    found = re.search(r"http://127\\.0\\.0\\.1:\\d+", line)
    if found:
        break
else:
    sys.exit("".join(lines))
with urllib.request.urlopen(found[0] + "/asked", timeout=30) as response:
    print(response.headers["Server"], response.status, response.read().decode())
server.terminate()
rest = server.stderr.read()
if server.wait(60):
    sys.exit(rest)
"""

# The target of an installation: the tag of the wheel, or of pip's build of the sdist.
TAG = """
import importlib.metadata
wheel = importlib.metadata.distribution("aserve-wsgi").read_text("WHEEL")
print(*(line[5:] for line in wheel.splitlines() if line.startswith("Tag: ")))
"""


class Fault(Exception):
    """A fault, for the table."""


def run(*command: object, cwd: pathlib.Path | None = None, code: int = 0) -> str:
    """Run a command, with an end of this code or 0, and return the output.

    Raises: Fault: the command has failed.
    """
    words = [str(word) for word in command]
    print("$", " ".join(word if len(word) < 200 else "..." for word in words), flush=True)
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in (0, code):
        print(done.stdout, flush=True)
        raise Fault(f"{pathlib.Path(words[0]).name} failed: {done.stdout.strip().splitlines()[-1:]}")
    return done.stdout


def tool(name: str) -> pathlib.Path:
    """Return a program of the running environment."""
    return pathlib.Path(sys.executable).parent / name


def only(pattern: str) -> pathlib.Path:
    """
    Return the only file of this pattern in dist/.

    Raises:
        Fault: there is none, or there are several.
    """
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        raise Fault(f"{len(found)} files {pattern} in dist/")
    return found[0]


def version() -> str:
    """Return the version of the files in dist/."""
    return re.findall(r"-([^-]+)\.tar\.gz$", only("*.tar.gz").name)[0]


def make_venv(folder: pathlib.Path, *packages: object, options: tuple[str, ...] = ()) -> pathlib.Path:
    """Make a fresh environment with these packages; return the folder of programs."""
    run(sys.executable, "-m", "venv", "--clear", folder)
    run(folder / "bin" / "pip", "install", "--quiet", *options, *packages)
    return folder / "bin"


def download(folder: pathlib.Path, *packages: object, options: tuple[str, ...] = ()) -> None:
    """Have pip put wheels of these packages, and of all needed packages, into a folder."""
    run(tool("pip"), "download", "--quiet", "--only-binary", ":all:", *options, "-d", folder, *packages)


def is_native(name: str) -> bool:
    """Whether a wheel of this name is for a single CPython, and has the native path."""
    return re.search(r"-cp\d+-cp\d+-", name) is not None


def contents(scratch: pathlib.Path) -> str:
    """Each file of the repository is in the sdist; in each wheel the package, with extensions, and the licence."""
    files = dists.tracked()
    faults = dists.faults_of_sdist(dists.names_of(only("*.tar.gz")), files)
    wheels = sorted(DIST.glob("*.whl"))
    for wheel in wheels:
        of_wheel = dists.faults_of_wheel(dists.names_of(wheel), files, has_native=is_native(wheel.name))
        faults += [f"{wheel.name}: {fault}" for fault in of_wheel]
    faults += [f"{wheel.name} has over {MOST} octets" for wheel in wheels if wheel.stat().st_size > MOST]
    if faults:
        raise Fault("; ".join(faults))
    return f"{len(wheels)} wheels and the sdist: every file that should be there, and no other"


def metadata(scratch: pathlib.Path) -> str:
    """The index takes the files and shows the README."""
    run(tool("twine"), "check", "--strict", *sorted(DIST.iterdir()))
    return "`twine check --strict` passes"


def limited_api(scratch: pathlib.Path) -> str:
    """The wheel for every CPython calls the limited API alone."""
    run(tool("abi3audit"), "--strict", only("*-abi3-*.whl"))
    return "`abi3audit --strict` passes"


def libc(scratch: pathlib.Path) -> str:
    """How old a libc may be: auditwheel's names for the wheels."""
    tags = {}
    for wheel in sorted(DIST.glob("*.whl")):
        said = run(tool("auditwheel"), "show", wheel)
        tags["-".join(wheel.name.split("-")[2:4])] = re.findall(r'"((?:many|musl)linux_[^"]+)"', said)[0]
    return ", ".join(f"{python}: {tag}" for python, tag in tags.items()) + ", built on this machine"


def offline(scratch: pathlib.Path) -> str:
    """The sdist is built and installed from a folder of wheels, with no network."""
    wheels = scratch / "wheels"
    download(wheels, *BUILD_REQUIRES, only("*-abi3-*.whl"))
    next(wheels.glob("aserve_wsgi-*")).unlink()
    alone = ("unshare", "--net") if os.getuid() == 0 and shutil.which("unshare") else ()
    options = ("--no-index", "--find-links", str(wheels))
    folder = make_venv(scratch / "offline", *BUILD_REQUIRES, options=options)
    pip = [*alone, folder / "pip", "install", "--quiet", *options]
    run(*pip, "--no-build-isolation", only("*.tar.gz"))
    said = run(folder / "aserve", "--version", cwd=scratch).strip()
    where = "in a network namespace without any" if alone else "by `--no-index`"
    return f"`pip install --no-build-isolation --no-index` builds the sdist ({where}): {said}"


# Where the public names are at home; pyright takes every module for public whose name has no underscore.
HOMES = """
import aserve
for package in aserve, aserve.rpc:
    for name in package.__all__:
        thing = getattr(package, name)
        if thing is not aserve.rpc and name != "__version__":  # pyright does not list inherited settings
            print(f"{thing.__module__}.{thing.__qualname__}" if hasattr(thing, "__qualname__") else f"{package.__name__}.{name}")
            for base in getattr(thing, "__mro__", ())[1:]:  # the bases of Config have the settings
                if base.__module__.startswith("aserve."):
                    print(f"{base.__module__}.{base.__qualname__}")
"""


def types(scratch: pathlib.Path) -> str:
    """Type checkers find the types of the installed package; every public name has some."""
    folder = make_venv(scratch / "types", only("*-abi3-*.whl"), "mypy", "pyright[nodejs]")
    shutil.copy(EXAMPLE, scratch / "typed.py")
    run(folder / "mypy", "--strict", "typed.py", cwd=scratch)
    pyright = (
        "env",
        f"PATH={folder}:{os.environ['PATH']}",
        folder / "pyright",
    )  # pyright asks `python` where packages are
    run(*pyright, "typed.py", cwd=scratch)
    run(folder / "python", "typed.py", cwd=scratch)
    homes = run(folder / "python", "-I", "-c", HOMES).split()
    told = json.loads(run(*pyright, "--verifytypes", "aserve", "--ignoreexternal", "--outputjson", cwd=scratch, code=1))
    public = re.compile(rf"({'|'.join(map(re.escape, homes))})(\.|$)")
    symbols = [symbol for symbol in told["typeCompleteness"]["symbols"] if public.match(symbol["name"])]
    faults = [symbol["name"] for symbol in symbols if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    faults += {*homes} - {symbol["name"] for symbol in symbols}
    if faults:
        raise Fault(f"pyright knows no type of {', '.join(faults)}")
    return f"`mypy --strict` and pyright accept examples/typed.py; pyright knows the type of all {len(symbols)} public names and their parts"


def cross_wheels(scratch: pathlib.Path, targets: Mapping[str, str]) -> list[pathlib.Path]:
    """Build the wheels for foreign systems, by another compiler; return the files."""
    folder = make_venv(scratch / "cross", *BUILD_REQUIRES, "ziglang")
    # Debian's pyconfig.h includes a file in an architecture's folder: both targets take this machine's file, and nothing else from there.
    debian = pathlib.Path("/usr/include", os.uname().machine + "-linux-gnu")
    for machine in ("x86_64", "aarch64"):
        (scratch / "include").mkdir(exist_ok=True)
        (scratch / "include" / f"{machine}-linux-gnu").symlink_to(debian)
    compiler = scratch / "cc"
    words = f'{folder}/python -m ziglang cc -target "$ZIG_TARGET" -isystem {scratch}/include "$@"'
    compiler.write_text(f"#!/bin/sh\nexec {words}\n")
    compiler.chmod(0o755)
    for target, tag in targets.items():
        # A compiler's cache is of a single HOME.
        env = (
            "env",
            f"CC={compiler}",
            f"LDSHARED={compiler} -shared",
            f"ZIG_TARGET={target}",
            f"HOME={scratch}",
            "ASERVE_BUILD_NATIVE=off",
        )
        plat = f"--config-settings=--build-option=--plat-name={tag}"
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch)
        run(*env, folder / "pip", "wheel", *options, plat, only("*.tar.gz"))
    return [next(scratch.glob(f"*-abi3-{tag}.whl")) for tag in targets.values()]


def other_systems(scratch: pathlib.Path) -> str:
    """Wheels for foreign systems can be built, and need their libc alone."""
    for wheel in cross_wheels(scratch, CROSS):
        run(tool("abi3audit"), "--strict", wheel)
        with zipfile.ZipFile(wheel) as file:
            (name,) = (name for name in file.namelist() if name.endswith(".so"))
            needed = set(re.findall(rb"\0(lib[\w.+-]+\.so[.\d]*|ld-linux[\w.-]+)(?=\0)", file.read(name)))
        if not needed <= {b"libc.so", b"libc.so.6", b"libpthread.so.0", b"libdl.so.2", b"ld-linux-aarch64.so.1"}:
            raise Fault(f"{wheel.name} needs {needed}")
    return f"zig's compiler builds {', '.join(CROSS.values())}, each with the limited API, and of libraries with its libc alone"


def musl(scratch: pathlib.Path) -> str:
    """In a root with musl, busybox and CPython, as on Alpine, pip installs each wheel, and the wheel serves."""
    if os.getuid() != 0 or not shutil.which("apt-get"):
        return "not checked: that needs root's rights, and Debian"
    folder = CACHE / "musl"
    run(ROOT / ".ci" / "musl", folder)
    wheels = emptied(folder / "root" / "srv") / "wheels"
    (every,) = cross_wheels(scratch, {MUSL: CROSS[MUSL]})
    platform = ("--platform", CROSS[MUSL], "--platform", "musllinux_1_1_x86_64", "--python-version", "3.11")
    download(wheels, every, "pip", *BUILD_REQUIRES, options=platform)
    one = native_on_musl(scratch, folder / "root" / "usr" / "bin" / "python3", wheels)
    said = "; ".join(one_on_musl(folder, wheels, name) for name in (every.name, one.name))
    return f"{said}; the interpreter is built from Debian's sources"


def native_on_musl(scratch: pathlib.Path, python: pathlib.Path, wheels: pathlib.Path) -> pathlib.Path:
    """Build the wheel with the native path by the root's CPython, outside the root, beside the compiler; return the file."""
    (pip,) = wheels.glob("pip-*.whl")
    # Without headers named, setuptools takes Debian's from the prefix.
    (headers,) = (python.parent.parent / "include").iterdir()
    inside = ["env", f"PYTHONPATH={scratch / 'build'}", f"CFLAGS=-I{headers}", python, pip / "pip"]
    options = ("--quiet", "--no-index", "--find-links", wheels, "--target", scratch / "build")
    run(*inside, "install", *options, *BUILD_REQUIRES)
    run(*inside, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, only("*.tar.gz"))
    (wheel,) = (path for path in wheels.glob("aserve_wsgi-*.whl") if is_native(path.name))
    return wheel


def one_on_musl(folder: pathlib.Path, wheels: pathlib.Path, name: str) -> str:
    """Install this wheel in a fresh environment of the root, and serve; return a summary."""
    # busybox's env(1) changes no folder.
    inside = [ROOT / ".ci" / "root", "run", folder, "/bin/sh", "-c", 'cd /srv && exec "$@"', "sh"]
    run(*inside, "/usr/bin/python3", "-m", "venv", "--clear", "--without-pip", "venv")
    (pip,) = wheels.glob("pip-*.whl")
    options = ("--quiet", "--no-index", "--find-links", "wheels")
    run(*inside, "venv/bin/python", f"wheels/{pip.name}/pip", "install", *options, f"wheels/{name}")
    python = serves([*inside, "venv/bin/python"], "venv/bin/aserve")
    told = run(*inside, "venv/bin/aserve", "--version").strip()
    return f"{python}, {'-'.join(name.split('-')[2:4])}: {told.rpartition(', ')[2]}"


def interpreters(pythons: Sequence[str]) -> Callable[[pathlib.Path], str]:
    """Return the check to install and serve on these interpreters of this machine."""

    def check(scratch: pathlib.Path) -> str:
        add_programs(scratch)
        return "; ".join(one_interpreter(scratch, python) for python in pythons)

    check.__doc__ = "On each: what pip takes, the wheel for every CPython, and the sdist serve a request."
    return check


def one_interpreter(scratch: pathlib.Path, python: str) -> str:
    """Install each file fit for an interpreter, wheels where no compiler is; serve; return a summary."""
    folder = scratch / pathlib.Path(python).name / "bin"
    run(python, "-m", "venv", "--clear", folder.parent)
    inside = ["env", f"--chdir={scratch}", f"PATH={folder}", folder / "python"]
    pip = [folder / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir", "--find-links", DIST]
    alone = ["env", f"PATH={folder}", "CC=/none"]
    run(*alone, *pip, "--only-binary", ":all:", f"aserve-wsgi=={version()}")
    tag = run(*inside, "-c", TAG).strip()
    name = serves(inside, folder / "aserve")
    told = run(*alone, folder / "aserve", "--version").strip()
    if not told.startswith(f"aserve {version()} on {name}"):
        raise Fault(f"--version says {told!r} on {name}")
    others = [only("*.tar.gz"), *(DIST.glob("*-abi3-*.whl") if is_native(f"-{tag}") else ())]
    for file in others:
        run(*pip, "--force-reinstall", "--no-deps", file)
        serves(inside, folder / "aserve")
    return f"{name} takes {tag}, and serves from {len(others)} other files"


def root(suite: str) -> Callable[[pathlib.Path], str]:
    """Return the check to install and serve in a fresh root of this release of Debian."""

    def check(scratch: pathlib.Path) -> str:
        if os.getuid() != 0 or not shutil.which("apt-get"):
            return "not checked: that needs root's rights, and Debian"
        folder = CACHE / suite
        run(ROOT / ".ci" / "root", "make", suite, folder, *ROOTS[suite].split())
        place = emptied(folder / "root" / "srv")
        for file in DIST.iterdir():
            shutil.copy(file, place)
        said = [one_python(folder, name) for name in ("python3", "pypy3")]
        return "; ".join(said)

    check.__doc__ = f"In a root of Debian's {suite}: pip installs it, and a program and the command serve a request."
    return check


def one_python(folder: pathlib.Path, python: str) -> str:
    """Have pip choose and install for an interpreter of a root, and serve; return a summary."""
    venv = f"/srv/venv-{python}/bin"
    inside = [ROOT / ".ci" / "root", "run", folder]
    run(*inside, python, "-m", "venv", f"/srv/venv-{python}")
    run(*inside, f"{venv}/pip", "install", "--quiet", "--find-links", "/srv", f"aserve-wsgi=={version()}")
    tag = run(*inside, f"{venv}/python", "-c", TAG).strip()
    return f"{serves([*inside, '--chdir=/srv', f'{venv}/python'], f'{venv}/aserve')}, by pip's choice: {tag}"


def emptied(place: pathlib.Path) -> pathlib.Path:
    """Remove the remains of the last run in a root's folder, and add the programs of `serves`; return the folder."""
    for old in place.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    add_programs(place)
    return place


def add_programs(place: pathlib.Path) -> None:
    """Put the programs of `serves` into a folder."""
    shutil.copy(EXAMPLE, place)
    (place / "command.py").write_text(COMMAND)


def serves(python: Sequence[object], command: object) -> str:
    """Have a program and the command serve a request each, by this interpreter; return the interpreter's name.

    Raises: Fault: a request was not served rightly.
    """
    name = run(*python, "-c", "import platform as p; print(p.python_implementation(), p.python_version())").strip()
    program, said = run(*python, "typed.py").strip(), run(*python, "command.py", command).strip()
    if not (program.endswith("/hello") and said.endswith("200 /asked")):
        raise Fault(f"{name}: {program!r}, {said!r}")
    return name


CHECKS: dict[str, Callable[[pathlib.Path], str]] = {  # and "interpreters"
    "contents": contents,
    "metadata": metadata,
    "limited API": limited_api,
    "libc": libc,
    "build without a network": offline,
    "types": types,
    "other systems": other_systems,
    "musl": musl,
    **{f"Debian {suite}": root(suite) for suite in ROOTS},
}


def main() -> int:
    """Check everything; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    parser.add_argument("--only", choices=[*CHECKS, "interpreters"], help="one of the checks")
    parser.add_argument("--pythons", default=sys.executable, help="on these interpreters all files serve")
    chosen = parser.parse_args()
    checks = {**CHECKS, "interpreters": interpreters(chosen.pythons.split())}
    rows, failed = [], False
    for name in [chosen.only] if chosen.only else checks:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                said = checks[name](pathlib.Path(scratch))
            except Fault as fault:
                said, failed = f"FAULT: {fault}", True
        print(f"{name}: {said}", flush=True)
        rows.append(f"| {name} | {said} |")
    if chosen.save:
        commit = run("git", "describe", "--always", "--dirty=+", cwd=ROOT).strip()
        sizes = [f"| {path.name} | {path.stat().st_size:,} |" for path in sorted(DIST.iterdir())]
        RESULT.write_text(
            "# What a release is made of\n\n"
            "Made by `make release-check ARGS=--save`: see [docs/release.md](../../docs/release.md).\n\n"
            f"{datetime.date.today()}; commit {commit}.\n\n"
            + "\n".join(["| file | octets |", "|---|--:|", *sizes, "", "| check | result |", "|---|---|", *rows, ""])
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
