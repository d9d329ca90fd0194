"""Build aserve._cparsers from the C parsers.

Owns:     the list of headers and sources; nothing else names them.
Use:      setup.py's `cffi_modules` takes `ffi` from here; run as a script,
          this file puts the extension into aserve/ of the checkout.
Not here: the declarations.  They stand in the headers, between the cdef
          markers, once (README.md).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent

# A new parser adds a line here ...
HEADERS = [
    "aserve.h",
    "http1.h",
    "uwsgi.h",
    "scgi.h",
    "lane.h",
    "sockets.h",
]
# ... and a line here.
SOURCES = [
    "aserve.c",
    "vars.c",
    "host.c",
    "request_line.c",
    "fields.c",
    "http1.c",
    "chunked.c",
    "uwsgi.c",
    "scgi.c",
    "lane.c",
    "sockets.c",
]


def read_cdef(header: str) -> str:
    """Return what stands between the cdef markers of `header`."""
    text = (ROOT / "cparsers" / header).read_text(encoding="ascii")
    region = re.search(r"/\* cdef:begin \*/(.*)/\* cdef:end \*/", text, re.S)
    if region is None:
        raise ValueError(f"{header} has no cdef region")
    return region[1]


ffi = FFI()
for header in HEADERS:
    ffi.cdef(read_cdef(header))
# Relative paths: setuptools wants them so, and builds from the project root.
ffi.set_source(
    "aserve._cparsers",
    "".join(f'#include "{header}"\n' for header in HEADERS),
    sources=[f"cparsers/{source}" for source in SOURCES],
    include_dirs=["cparsers"],
    depends=[str(path) for path in (ROOT / "cparsers").glob("*.h")],
)


def build_in_place() -> Path:
    """Compile in a scratch folder, then put the extension into aserve/."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "cparsers", Path(scratch, "cparsers"))
        built = Path(ffi.compile(tmpdir=scratch))
        # Moved, not written over: a process may be running the old one.
        staged = ROOT / "aserve" / f".{built.name}"
        shutil.copy(built, staged)
        return staged.replace(ROOT / "aserve" / built.name)


if __name__ == "__main__":
    build_in_place()
