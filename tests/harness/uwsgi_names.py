"""Asks the real uWSGI for the names of its module."""

import pathlib
import shutil
import subprocess
import sys

_PRINT = "import os, uwsgi\nopen('names', 'w').write(' '.join(dir(uwsgi)))\nos._exit(0)\n"
# Each adds names.
_OPTIONS = [
    "--mule",
    "--queue=10",
    "--cache2=name=x,items=10",
    "--sharedarea=2",
    "--enable-metrics",
    "--snmp-community=x",
    "--spooler=.",
]


def ask_for_names(folder: pathlib.Path) -> set[str]:
    """Return dir(uwsgi) of the uWSGI installed for this Python; an empty set: there is none."""
    found = shutil.which("uwsgi", path=str(pathlib.Path(sys.executable).parent))
    if found is None or sys.implementation.name != "cpython":
        return set()
    (folder / "show.py").write_text(_PRINT)
    # SNMP has no unix socket: an address bound by no other test.
    command = [found, "--master", "--socket=names.sock", *_OPTIONS, "--snmp=127.5.71.53:8161", "--wsgi-file=show.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    names = folder / "names"
    if not names.exists():
        raise RuntimeError(f"uWSGI ended with {done.returncode} before it loaded the app: {done.stdout}{done.stderr}")
    return {name for name in names.read_text().split() if name[:2] != "__"}
