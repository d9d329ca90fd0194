"""What pyproject.toml cannot hold: the extensions, the tag of a wheel that depends on the interpreter, the pages of `aserve docs`, the README for the index."""

import os
import re
import runpy
import sys
import sysconfig
from pathlib import Path
from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent

# Of CPython's own API: the wheel is for one version then. Without it (ASERVE_BUILD_NATIVE=off) one wheel serves all.
NATIVE = runpy.run_path(str(ROOT / "native" / "build.py"))["EXTENSIONS"]
# cffi builds against the limited API, so one wheel serves CPython from 3.9 on. PyPy has no such API, and
# a free-threaded CPython refuses it (up to 3.14).
HAS_LIMITED_API = (
    sys.implementation.name == "cpython" and not NATIVE and not sysconfig.get_config_var("Py_GIL_DISABLED")
)
# What a debugger reads is a fourth of a wheel; what build.py builds in a checkout keeps it.
os.environ["LDFLAGS"] = f"{os.environ.get('LDFLAGS', '')} -Wl,-S"


class BuildPy(build_py):
    """Put the pages of docs/ into a wheel; an installation in place reads them where they are (aserve/command/pages.py)."""

    def run(self):
        super().run()
        if not self.editable_mode:
            self.mkpath(str(Path(self.build_lib, "aserve", "docs")))
            for page in (ROOT / "docs").glob("*.md"):
                self.copy_file(str(page), str(Path(self.build_lib, "aserve", "docs", page.name)))


def long_description(readme, source_url):
    """
    Return the README for a place that has no other file of the repository.

    Its links lead to the repository at `source_url` (as GitHub and GitLab have it); without one, a link becomes its text. Pictures are left out.
    """
    readme = re.sub(r"^!\[[^]]*\]\((?!https:)[^)]*\)\n\n?", "", readme, flags=re.MULTILINE)
    target = rf"[\1]({source_url}/blob/HEAD/\2)" if source_url else r"\1"
    return re.sub(r"\[([^]]*)\]\((?![a-z]+:|#)([^)\s]+)\)", target, readme)


source = re.search(r'^Source = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
setup(
    cffi_modules=["cparsers/build.py:ffi"],
    ext_modules=NATIVE,
    cmdclass={"build_py": BuildPy},
    options={"bdist_wheel": {"py_limited_api": "cp39"}} if HAS_LIMITED_API else {},
    long_description=long_description((ROOT / "README.md").read_text("utf-8"), source and source[1]),
    long_description_content_type="text/markdown",
)
