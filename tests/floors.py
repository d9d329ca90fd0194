"""The least branch coverage of each module by the unit tests: python tests/floors.py [--write], after `make coverage`.

The floor of a module is 100, a new module's too; the table has the exceptions. A risen floor is
told, and --write takes the new floors over.
Lines missing below 100 are only met end to end (tests/e2e, where coverage is not measured):
signals and the command's process; in workers/interrupt.py lines for PyPy alone.
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent

# Module: per cent of lines and branches, where below 100.
FLOORS = {
    "aserve/__main__.py": 83,
    "aserve/command/apps.py": 84,  # a thread of _thread is not traced
    "aserve/compat/gunicorn/__main__.py": 80,
    "aserve/compat/moving/gunicorn.py": 99,
    "aserve/compat/moving/gunicorn_flags.py": 99,
    "aserve/compat/moving/gunicorn_values.py": 99,
    "aserve/compat/moving/uwsgi_logic.py": 99,
    "aserve/compat/uwsgi_api/spooler/folder.py": 98,
    "aserve/compat/uwsgi_api/spooler/runner.py": 98,
    "aserve/connections/accepting/greeting.py": 99,
    "aserve/connections/accepting/tls_transport.py": 99,
    "aserve/connections/lane/handover.py": 94,  # clients vanish on their way out of the lane
    "aserve/connections/lane/lane.py": 93,
    "aserve/connections/lane/native.py": 95,
    "aserve/connections/lane/wire_fast.py": 99,
    "aserve/connections/loop/inbox.py": 99,
    "aserve/connections/loop/outbox.py": 99,
    "aserve/connections/loop/websocket.py": 98,
    "aserve/contrib/django/app.py": 0,
    "aserve/core/body.py": 99,
    "aserve/core/forks.py": 55,
    "aserve/features/http2/session.py": 98,
    "aserve/lifecycle/signals.py": 99,
    "aserve/processes/children/children.py": 99,
    "aserve/processes/programs/attached.py": 99,
    "aserve/processes/programs/programs.py": 50,
    "aserve/processes/upgrade/upgrade.py": 99,
    "aserve/processes/worker/mold.py": 94,
    "aserve/protocols/httptools1.py": 98,
    "aserve/settings/toml.py": 94,
    "aserve/workers/executor.py": 98,
    "aserve/workers/interrupt.py": 79,
    "aserve/wsgi/deadlines.py": 96,
}


def measured() -> dict[str, float]:
    """Return the coverage of each module, of the present data."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "coverage.json")
        command = [sys.executable, "-I", "-m", "coverage", "json", "-q", "-o", str(path)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        files = json.loads(path.read_text())["files"]
    return {name: each["summary"]["percent_covered"] for name, each in sorted(files.items())}


def missing_in(name: str) -> str:
    """Return the unreached lines and branches of a module."""
    command = [sys.executable, "-I", "-m", "coverage", "report", "-m", f"--include={name}"]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    return next((line.split("%", 1)[1].strip() for line in done.stdout.splitlines() if line.startswith(name)), "")


def judge(found: dict[str, float], floors: dict[str, int]) -> list[str]:
    """Return the faults, a line each."""
    faults = [f"{name}: was not measured; is it still there?" for name in floors if name not in found]
    return faults + [
        f"{name}: {percent:.1f} %, below its floor of {floor} %; not reached: {missing_in(name)}"
        for name, percent in found.items()
        if percent < (floor := floors.get(name, 100))
    ]


def write(found: dict[str, float]) -> None:
    """Put the found numbers into the table of this file."""
    path = pathlib.Path(__file__)
    rows = "".join(f'    "{name}": {math.floor(percent)},\n' for name, percent in found.items() if percent < 100)
    path.write_text(re.sub(r"^FLOORS = \{.*?\}\n", f"FLOORS = {{\n{rows}}}\n", path.read_text(), flags=re.M | re.S))


def main(arguments: list[str]) -> int:
    """Compare; exit status 1 when something is below its floor."""
    found = measured()
    if arguments == ["--write"]:
        write(found)
        return 0
    faults = judge(found, FLOORS)
    for fault in faults:
        print(fault, file=sys.stderr)
    risen = [name for name, floor in FLOORS.items() if math.floor(found.get(name, 0)) > floor]
    if risen and not faults:
        print(f"risen, `python tests/floors.py --write` takes it over: {', '.join(risen)}")
    if not faults:
        print(f"coverage: {len(found)} modules, each at its floor; {len(found) - len(FLOORS)} of them at 100 %")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
