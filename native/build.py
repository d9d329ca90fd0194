"""
Build aserve._native, the plain request on CPython.

Owns:     the list of its sources, which nothing else names; where it is built at all.
Use:      setup.py takes `EXTENSIONS` from here; run as a script, this file puts the extension into aserve/ of the checkout.
Not here: the parsers, which it calls through pointers that aserve hands over, and the flags that harden both (cparsers/build.py).

It uses CPython's own API, which changes from version to version, so it is built for each. Without it, and on PyPy and a CPython without
a GIL, aserve does the same in Python.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [
    "module.c", "seam.c", "text.c", "sections.c", "taken.c", "ends.c", "counts.c", "lines.c", "line_values.c", "last_line.c", "shown.c",
    "environ.c", "forwarded.c", "request_id.c", "head.c", "request.c", "serve.c", "call.c", "stream.c", "batch.c", "leader.c",
    "engine.c",
]  # fmt: skip

IS_BUILT = (
    sys.implementation.name == "cpython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
    and os.environ.get("ASERVE_BUILD_NATIVE") != "off"
)
HARDENED = runpy.run_path(str(ROOT / "cparsers" / "build.py")) if IS_BUILT else {}
EXTENSIONS = [
    Extension(
        "aserve._native",
        [f"native/{source}" for source in SOURCES],
        include_dirs=["cparsers"],
        depends=[f"{folder}/{path.name}" for folder in ("native", "cparsers") for path in (ROOT / folder).glob("*.h")],
        extra_compile_args=["-std=c99", "-D_GNU_SOURCE", *HARDENED["compile_flags"]],
        extra_link_args=HARDENED["link_flags"],
        optional=True,  # the same goes without it
    )
] if IS_BUILT else []  # fmt: skip


def build_in_place() -> None:
    """Compile in a scratch folder, then put the extension into aserve/."""
    with tempfile.TemporaryDirectory() as scratch:
        for folder in ("native", "cparsers"):
            shutil.copytree(ROOT / folder, Path(scratch, folder))
        Path(scratch, "setup.py").write_text(
            "from setuptools import setup\nimport runpy\nEXTENSIONS = runpy.run_path('native/build.py')['EXTENSIONS']\n"
            "EXTENSIONS[0].optional = False\nsetup(name='aserve-native', packages=[], ext_modules=EXTENSIONS)\n"
        )
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "built"], cwd=scratch, check=True)
        for built in Path(scratch, "built", "aserve").iterdir():
            # Moved, not written over: a process may be running the old one.
            staged = ROOT / "aserve" / f".{built.name}"
            shutil.copy(built, staged)
            staged.replace(ROOT / "aserve" / built.name)


if __name__ == "__main__" and EXTENSIONS:
    build_in_place()
