"""Asks the real uWSGI for the names of its module."""

from __future__ import annotations

import pathlib
import shutil
import socket
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
    """Return dir(uwsgi) of the uWSGI that is installed for this Python; an empty set: there is none."""
    found = shutil.which("uwsgi", path=str(pathlib.Path(sys.executable).parent))
    if found is None or sys.implementation.name != "cpython":
        return set()
    (folder / "show.py").write_text(_PRINT)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        command = [
            found,
            "--master",
            f"--http-socket=127.0.0.1:{port + 1 if port < 65535 else 1024}",
            *_OPTIONS,
            f"--snmp=127.0.0.1:{port}",
            "--wsgi-file=show.py",
        ]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    return {name for name in (folder / "names").read_text().split() if name[:2] != "__"}
