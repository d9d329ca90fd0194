"""Build aserve._cparsers from the C parsers.

Owns:     the list of headers and sources, which nothing else names; flags for
          compiler and linker beside Python's own, also for native/build.py.
Use:      setup.py's `cffi_modules` takes `ffi` from here; run as a script,
          this file puts the extension into aserve/ of the checkout.
Not here: the declarations.  They stand in the headers, between the cdef
          markers, once (README.md).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent

# A new parser adds a line here ...
HEADERS = [
    "aserve.h",
    "http1.h",
    "known.h",
    "uwsgi.h",
    "scgi.h",
    "load_board.h",
    "in_flight.h",
    "tls.h",
    "hpack.h",
    "h2.h",
    "lane.h",
    "pump.h",
    "sockets.h",
    "subreaper.h",
]
# ... and a line here.
SOURCES = [
    "aserve.c",
    "vars.c",
    "host.c",
    "request_line.c",
    "fields.c",
    "http1.c",
    "known.c",
    "chunked.c",
    "uwsgi.c",
    "scgi.c",
    "load_board.c",
    "in_flight.c",
    "lane.c",
    "lane_accept.c",
    "lane_h2.c",
    "lane_h2_bodies.c",
    "lane_h2_read.c",
    "lane_h2_streams.c",
    "lane_none.c",
    "lane_read.c",
    "lane_shake.c",
    "pump.c",
    "sockets.c",
    "subreaper.c",
    "tls.c",
    "tls_context.c",
    "tls_none.c",
    "hpack.c",
    "hpack_huffman.c",
    "h2.c",
    "h2_events.c",
    "h2_fields.c",
    "h2_requests.c",
    "h2_send.c",
    "h2_streams.c",
]


def read_cdef(header: str) -> str:
    """Return the text between the cdef markers of `header`."""
    text = (ROOT / "cparsers" / header).read_text(encoding="ascii")
    region = re.search(r"/\* cdef:begin \*/(.*)/\* cdef:end \*/", text, re.S)
    if region is None:
        raise ValueError(f"{header} has no cdef region")
    return region[1]


# A mistake in C must end the process instead of obeying whoever found it. Python's own flags differ: Debian's
# have the second, PyPy's none. Each is asked for only where the compiler takes it without a warning.
HARDENING = [
    ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"],  # the libc's checks of lengths it can see; needs -O
    ["-fstack-protector-strong"],
    ["-fstack-clash-protection"],
    ["-fcf-protection"],  # x86: no jump into the middle of a function
]
LINK_HARDENING = ["-Wl,-z,relro,-z,now"]  # ELF: no table of functions that can be written to
PROBE = """\
#include <string.h>
int probe(const char *from);
int probe(const char *from)
{
    char on_stack[64];

    memcpy(on_stack, from, sizeof on_stack);
    return on_stack[from[0] & 63];
}
"""
FORTIFIED = PROBE + "#if !defined _FORTIFY_SOURCE || _FORTIFY_SOURCE < 2\n#error no\n#endif\n"


def compiles(flags: list[str], source: str = PROBE, folder: str | None = None) -> bool:
    """Return whether the compiler builds an extension from `source` with these flags, without a warning."""
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            return compiles(flags, source, scratch)
    Path(folder, "probe.c").write_text(source)
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    own = [sysconfig.get_config_var("CFLAGS") or "", *(os.environ.get(name, "") for name in ("CFLAGS", "CPPFLAGS"))]
    # Python's flags may be for another compiler than CC: one that CC does not know must not count here.
    relevant = [flag for flag in shlex.split(" ".join(own)) if flag.startswith(("-O", "-D", "-U", "-Wp,"))]
    command = [*shlex.split(compiler), *relevant, "-fPIC", "-shared", "-Werror", *flags, "probe.c", "-o", "probe"]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode == 0  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False  # the build itself will show what is wrong


def hardening() -> tuple[list[str], list[str]]:
    """Return the hardening flags that compiler and linker of this machine accept."""
    if os.name != "posix" or not compiles([]):
        return [], []
    groups = HARDENING[1:] if compiles([], FORTIFIED) else HARDENING  # a distribution may ask for 3
    whole = [flag for group in groups for flag in group]
    found = whole if compiles(whole) else [flag for group in groups if compiles(group) for flag in group]
    is_elf = sys.platform.startswith(("linux", "freebsd"))
    return found, LINK_HARDENING if is_elf and compiles(LINK_HARDENING) else []


compile_flags, link_flags = hardening()
ffi = FFI()
for header in HEADERS:
    ffi.cdef(read_cdef(header))
# Relative paths: setuptools wants these, and builds from the project root.
ffi.set_source(
    "aserve._cparsers",
    "".join(f'#include "{header}"\n' for header in HEADERS),
    sources=[f"cparsers/{source}" for source in SOURCES],
    include_dirs=["cparsers"],
    extra_compile_args=compile_flags,
    extra_link_args=link_flags,
    libraries=["dl"] if sys.platform == "linux" else [],  # glibc before 2.34 has dlsym() there
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
