"""The content of an sdist and of a wheel, and forbidden files.

Owns: the faults of a list of names, beside the files known to git. Not here: building them (tests/test_setup.py builds an sdist), and trying them
(tests/release.py).
"""

import pathlib
import re
import subprocess
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).parent.parent.parent

# git's own settings, of use in a repository only.
ONLY_IN_GIT = {".gitattributes", ".gitignore"}
# A compiler writes these names, or a tool that has run in the folder.
BUILT = re.compile(r"\.(so|o|pyc|pyd)$|(^|/)(__pycache__|\.venv[^/]*|build|dist)/|^aserve/_cparsers\.c$")
# The parsers; and of a wheel for one CPython alone, the native path.
EXTENSION = re.compile(r"aserve/_(cparsers|native)\.[\w.-]+\.so")


def tracked() -> set[str]:
    """Return the files of the repository, new uncommitted ones included."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def names_of(path: pathlib.Path) -> set[str]:
    """Return the files of a wheel, or of an sdist without its one folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(path) as sdist:
        return {member.name.partition("/")[2] for member in sdist if member.isfile()}


def faults_of_sdist(names: set[str], files: set[str]) -> list[str]:
    """Return repository files missing in an sdist, and foreign ones in it."""
    lacks = files - ONLY_IN_GIT - names
    made = {"PKG-INFO", "setup.cfg"}  # by setuptools
    more = {name for name in names - files - made if not name.startswith("aserve_wsgi.egg-info/")}
    more |= {name for name in names if BUILT.search(name)}
    return [f"the sdist lacks {name}" for name in sorted(lacks)] + [f"the sdist has {name}" for name in sorted(more)]


def faults_of_wheel(names: set[str], files: set[str], *, has_native: bool = False) -> list[str]:
    """Return package files missing in a wheel, and foreign ones in it: no tests, no source of C, but the pages."""
    package = {name for name in files if name.startswith("aserve/")}
    package |= {f"aserve/{name}" for name in files if re.fullmatch(r"docs/[^/]+\.md", name)}  # for `aserve docs`
    extensions = {name for name in names if EXTENSION.fullmatch(name)}
    about = {name for name in names if re.match(r"aserve_wsgi-[^/]+\.dist-info/", name)}
    lacks, more = package - names, names - package - extensions - about
    faults = [f"the wheel lacks {name}" for name in sorted(lacks)] + [f"the wheel has {name}" for name in sorted(more)]
    made = sorted(EXTENSION.fullmatch(name)[1] for name in extensions)  # type: ignore[index]
    if made != (["cparsers", "native"] if has_native else ["cparsers"]):
        faults.append(f"the wheel has these extensions: {', '.join(made) or 'none'}")
    if not any(name.endswith("/licenses/LICENSE") for name in about):
        faults.append("the wheel lacks the licence")
    return faults
