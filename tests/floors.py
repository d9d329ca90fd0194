"""The least branch coverage of each module by the unit tests: python tests/floors.py [--write], after `make coverage`.

The table is the promise: 100 where it is reached, otherwise what is. A module that is not in it fails, so
that a new one gets its floor. One that has risen is told, and --write takes the new floors over.
What is missing where it is not 100 is only met end to end (tests/e2e, where coverage is not measured):
signals and the command's process; and wsgi/deadlines.py and workers/interrupt.py, as CPython 3.11 does not survive an exception that is
raised in another thread while it is traced (the marker `interrupted`).
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent

# Module: per cent of its lines and branches.
FLOORS = {
    "aserve/__init__.py": 100,
    "aserve/__main__.py": 83,
    "aserve/features/access_log/log.py": 100,
    "aserve/core/__init__.py": 100,
    "aserve/core/accounts.py": 100,
    "aserve/command/alone.py": 100,
    "aserve/lifecycle/arenas.py": 100,
    "aserve/command/__init__.py": 100,
    "aserve/command/apps.py": 100,
    "aserve/command/banner.py": 100,
    "aserve/core/body.py": 99,
    "aserve/core/budgets.py": 100,
    "aserve/command/cli.py": 100,
    "aserve/core/error_log.py": 100,
    "aserve/core/escaping.py": 100,
    "aserve/core/json_text.py": 100,
    "aserve/core/page.py": 100,
    "aserve/command/flags.py": 100,
    "aserve/compat/__init__.py": 100,
    "aserve/compat/paste.py": 100,
    "aserve/compat/uwsgi.py": 100,
    "aserve/command/completion.py": 100,
    "aserve/connections/__init__.py": 100,
    "aserve/connections/acceptor.py": 100,
    "aserve/connections/addresses.py": 100,
    "aserve/connections/connection.py": 100,
    "aserve/connections/data_rate.py": 100,
    "aserve/connections/departed.py": 100,
    "aserve/connections/detaching.py": 100,
    "aserve/connections/greeting.py": 99,
    "aserve/connections/handover.py": 98,
    "aserve/connections/health.py": 100,
    "aserve/connections/in_flight.py": 100,
    "aserve/connections/inbox.py": 99,
    "aserve/connections/lane.py": 93,
    "aserve/connections/lane_log.py": 100,
    "aserve/connections/lane_memory.py": 100,
    "aserve/connections/limit.py": 100,
    "aserve/connections/listen_queue.py": 100,
    "aserve/connections/listeners.py": 100,
    "aserve/connections/native.py": 87,
    "aserve/connections/plain.py": 100,
    "aserve/connections/pump.py": 100,
    "aserve/connections/offered.py": 97,
    "aserve/connections/large_bodies.py": 100,
    "aserve/connections/load_board.py": 100,
    "aserve/connections/outbox.py": 99,
    "aserve/connections/progress.py": 100,
    "aserve/connections/response_memory.py": 100,
    "aserve/connections/spooled.py": 100,
    "aserve/connections/stepping.py": 100,
    "aserve/connections/sender.py": 100,
    "aserve/connections/sendfile.py": 100,
    "aserve/connections/streams.py": 100,
    "aserve/connections/sending.py": 98,
    "aserve/connections/server_budgets.py": 100,
    "aserve/connections/service.py": 100,
    "aserve/connections/shared_memory.py": 100,
    "aserve/connections/states.py": 100,
    "aserve/connections/timeouts.py": 98,
    "aserve/connections/upgrading.py": 96,
    "aserve/connections/websocket.py": 98,
    "aserve/connections/websockets.py": 100,
    "aserve/connections/tls_transport.py": 100,
    "aserve/connections/wire_fast.py": 100,
    "aserve/connections/wire_loop.py": 99,
    "aserve/contrib/__init__.py": 100,
    "aserve/contrib/becoming.py": 100,
    "aserve/contrib/django/__init__.py": 100,
    "aserve/contrib/django/app.py": 0,
    "aserve/contrib/django/management/__init__.py": 100,
    "aserve/contrib/django/management/commands/__init__.py": 100,
    "aserve/contrib/django/management/commands/runaserve.py": 100,
    "aserve/contrib/flask.py": 100,
    "aserve/demo.py": 100,
    "aserve/core/descriptors.py": 100,
    "aserve/core/episode.py": 100,
    "aserve/core/errors.py": 94,
    "aserve/core/exchange.py": 100,
    "aserve/lifecycle/__init__.py": 100,
    "aserve/lifecycle/exits.py": 100,
    "aserve/command/explain.py": 100,
    "aserve/lifecycle/failing.py": 100,
    "aserve/features/added_fields.py": 100,
    "aserve/features/fault_page.py": 100,
    "aserve/lifecycle/fd_store.py": 100,
    "aserve/command/finding.py": 100,
    "aserve/core/footprint.py": 100,
    "aserve/core/frames.py": 100,
    "aserve/core/forks.py": 43,
    "aserve/features/files/compressing.py": 100,
    "aserve/features/files/compressors.py": 100,
    "aserve/features/files/__init__.py": 100,
    "aserve/features/files/codings.py": 100,
    "aserve/features/files/conditions.py": 100,
    "aserve/features/files/content_types.py": 100,
    "aserve/features/files/opening.py": 100,
    "aserve/features/files/ranges.py": 100,
    "aserve/features/files/reply.py": 100,
    "aserve/features/files/settings.py": 100,
    "aserve/features/files/static.py": 100,
    "aserve/features/files/x_sendfile.py": 100,
    "aserve/core/http_date.py": 100,
    "aserve/lifecycle/lacking.py": 100,
    "aserve/extension.py": 100,
    "aserve/features/__init__.py": 100,
    "aserve/features/maintenance.py": 100,
    "aserve/features/mounts.py": 100,
    "aserve/lifecycle/hooks.py": 100,
    "aserve/lifecycle/loading.py": 100,
    "aserve/core/local_time.py": 100,
    "aserve/features/access_log/line_program.py": 100,
    "aserve/features/access_log/log_format.py": 100,
    "aserve/core/log_once.py": 100,
    "aserve/core/log_pipe.py": 100,
    "aserve/core/log_target.py": 90,
    "aserve/features/access_log/log_line.py": 100,
    "aserve/features/access_log/settings.py": 100,
    "aserve/features/access_log/log_values.py": 100,
    "aserve/lifecycle/logs.py": 100,
    "aserve/lifecycle/manager.py": 100,
    "aserve/features/metrics/__init__.py": 100,
    "aserve/lifecycle/advice.py": 100,
    "aserve/features/metrics/app.py": 100,
    "aserve/features/metrics/balance.py": 100,
    "aserve/features/metrics/counting.py": 100,
    "aserve/features/metrics/exporter.py": 100,
    "aserve/features/metrics/gil.py": 100,
    "aserve/core/growth.py": 100,
    "aserve/features/metrics/history.py": 100,
    "aserve/features/metrics/lone.py": 100,
    "aserve/features/metrics/pages.py": 100,
    "aserve/features/metrics/picture.py": 100,
    "aserve/features/metrics/scrapes.py": 100,
    "aserve/features/metrics/single.py": 100,
    "aserve/features/metrics/stats.py": 100,
    "aserve/lifecycle/status.py": 100,
    "aserve/features/metrics/statsd.py": 100,
    "aserve/features/metrics/table.py": 100,
    "aserve/features/metrics/text.py": 100,
    "aserve/features/metrics/totals.py": 100,
    "aserve/features/moving/__init__.py": 100,
    "aserve/features/moving/draft.py": 99,
    "aserve/features/moving/foreign_flags.py": 100,
    "aserve/features/moving/guests.py": 100,
    "aserve/features/moving/gunicorn.py": 99,
    "aserve/features/moving/gunicorn_hooks.py": 99,
    "aserve/features/moving/gunicorn_table.py": 100,
    "aserve/features/moving/gunicorn_values.py": 99,
    "aserve/features/moving/origin.py": 100,
    "aserve/features/moving/translate.py": 100,
    "aserve/features/moving/uwsgi.py": 100,
    "aserve/features/moving/uwsgi_cron.py": 100,
    "aserve/features/moving/uwsgi_files.py": 100,
    "aserve/features/moving/uwsgi_logic.py": 99,
    "aserve/features/moving/uwsgi_table.py": 100,
    "aserve/features/moving/uwsgi_values.py": 100,
    "aserve/lifecycle/misnamed.py": 100,
    "aserve/core/near_names.py": 100,
    "aserve/lifecycle/pid_file.py": 100,
    "aserve/lifecycle/privileges.py": 100,
    "aserve/processes/__init__.py": 100,
    "aserve/processes/absences.py": 100,
    "aserve/processes/answers.py": 100,
    "aserve/processes/app_files.py": 100,
    "aserve/processes/ask.py": 100,
    "aserve/processes/attached.py": 98,
    "aserve/processes/backoff.py": 100,
    "aserve/processes/cgroups.py": 100,
    "aserve/processes/channel.py": 100,
    "aserve/processes/child.py": 100,
    "aserve/processes/children.py": 96,
    "aserve/processes/command.py": 100,
    "aserve/processes/control.py": 98,
    "aserve/processes/crew.py": 100,
    "aserve/processes/ends.py": 98,
    "aserve/processes/failed_starts.py": 100,
    "aserve/processes/inheritance.py": 100,
    "aserve/processes/liveness.py": 100,
    "aserve/processes/losses.py": 100,
    "aserve/core/memory_file.py": 100,
    "aserve/processes/mold.py": 94,
    "aserve/processes/molds.py": 100,
    "aserve/processes/opened.py": 100,
    "aserve/processes/overview.py": 100,
    "aserve/processes/plan.py": 100,
    "aserve/processes/programs.py": 50,
    "aserve/processes/recycling.py": 100,
    "aserve/processes/reloading.py": 100,
    "aserve/processes/reloads.py": 99,
    "aserve/processes/resources.py": 100,
    "aserve/processes/rollout.py": 100,
    "aserve/processes/shutdown.py": 100,
    "aserve/processes/signal_pipe.py": 100,
    "aserve/processes/slots.py": 100,
    "aserve/processes/sources.py": 100,
    "aserve/features/uwsgi_api/spooler/pages.py": 100,
    "aserve/processes/status.py": 100,
    "aserve/processes/supervisor.py": 98,
    "aserve/core/tally.py": 100,
    "aserve/processes/timers.py": 100,
    "aserve/processes/touched.py": 100,
    "aserve/processes/trial.py": 100,
    "aserve/processes/upgrade.py": 99,
    "aserve/processes/warming.py": 100,
    "aserve/processes/watch.py": 100,
    "aserve/processes/questions.py": 100,
    "aserve/processes/worker.py": 98,
    "aserve/protocols/__init__.py": 100,
    "aserve/protocols/base.py": 100,
    "aserve/protocols/chunked.py": 100,
    "aserve/protocols/http1.py": 100,
    "aserve/protocols/httptools1.py": 98,
    "aserve/protocols/one_request.py": 98,
    "aserve/protocols/refused_head.py": 100,
    "aserve/protocols/scgi.py": 100,
    "aserve/protocols/underscores.py": 100,
    "aserve/protocols/uwsgi.py": 100,
    "aserve/proxies/__init__.py": 100,
    "aserve/proxies/forwarded.py": 100,
    "aserve/proxies/peers.py": 100,
    "aserve/proxies/proxy_protocol.py": 100,
    "aserve/proxies/trust.py": 100,
    "aserve/features/underscore_fields.py": 100,
    "aserve/core/ends.py": 100,
    "aserve/rpc/__init__.py": 100,
    "aserve/rpc/client.py": 100,
    "aserve/rpc/errors.py": 100,
    "aserve/rpc/packets.py": 100,
    "aserve/rpc/registry.py": 100,
    "aserve/server/__init__.py": 100,
    "aserve/server/app_threads.py": 100,
    "aserve/server/commons.py": 100,
    "aserve/server/listening.py": 100,
    "aserve/server/running.py": 95,
    "aserve/server/server.py": 92,
    "aserve/server/services.py": 100,
    "aserve/settings/__init__.py": 100,
    "aserve/settings/bind.py": 100,
    "aserve/settings/commands.py": 100,
    "aserve/settings/crontab.py": 100,
    "aserve/settings/kinds.py": 100,
    "aserve/settings/paths.py": 100,
    "aserve/settings/peer.py": 100,
    "aserve/settings/platform.py": 100,
    "aserve/settings/prefixes.py": 100,
    "aserve/settings/secrecy.py": 100,
    "aserve/settings/setting.py": 100,
    "aserve/settings/sources.py": 100,
    "aserve/settings/table.py": 99,
    "aserve/settings/toml.py": 93,
    "aserve/features/sharing/__init__.py": 100,
    "aserve/features/sharing/leases.py": 100,
    "aserve/features/sharing/settings.py": 100,
    "aserve/features/sharing/store.py": 100,
    "aserve/server/shielding.py": 100,
    "aserve/lifecycle/signals.py": 97,
    "aserve/features/slow_requests/watch.py": 100,
    "aserve/core/spool.py": 100,
    "aserve/features/uwsgi_api/spooler/__init__.py": 100,
    "aserve/features/uwsgi_api/spooler/board.py": 100,
    "aserve/features/uwsgi_api/spooler/folder.py": 98,
    "aserve/features/uwsgi_api/spooler/functions.py": 100,
    "aserve/features/uwsgi_api/spooler/queues.py": 100,
    "aserve/features/uwsgi_api/spooler/runner.py": 98,
    "aserve/connections/stacks.py": 98,
    "aserve/connections/stalls.py": 100,
    "aserve/lifecycle/standard_streams.py": 100,
    "aserve/core/start_folder.py": 100,
    "aserve/connections/statistics.py": 100,
    "aserve/lifecycle/surroundings.py": 100,
    "aserve/lifecycle/switch_interval.py": 100,
    "aserve/core/systemd.py": 100,
    "aserve/features/process_titles.py": 100,
    "aserve/tls/__init__.py": 100,
    "aserve/tls/certificates.py": 100,
    "aserve/tls/client_hello.py": 100,
    "aserve/command/jobs.py": 100,
    "aserve/command/plans.py": 100,
    "aserve/command/top.py": 100,
    "aserve/command/top_screen.py": 100,
    "aserve/connections/wire_log.py": 100,
    "aserve/command/with_workers.py": 100,
    "aserve/features/uwsgi_api/__init__.py": 100,
    "aserve/features/uwsgi_api/caches.py": 100,
    "aserve/features/uwsgi_api/decorators.py": 100,
    "aserve/features/uwsgi_api/functions.py": 100,
    "aserve/features/uwsgi_api/handlers.py": 100,
    "aserve/features/uwsgi_api/hosts.py": 100,
    "aserve/features/uwsgi_api/locks.py": 100,
    "aserve/features/uwsgi_api/memory.py": 100,
    "aserve/features/uwsgi_api/module.py": 100,
    "aserve/features/uwsgi_api/schedules.py": 100,
    "aserve/features/uwsgi_api/settings.py": 100,
    "aserve/features/uwsgi_api/shared_caches.py": 100,
    "aserve/features/uwsgi_api/shared_locks.py": 100,
    "aserve/features/uwsgi_api/signals.py": 100,
    "aserve/features/uwsgi_api/turns.py": 100,
    "aserve/features/uwsgi_api/wake.py": 100,
    "aserve/workers/busy.py": 100,
    "aserve/workers/__init__.py": 100,
    "aserve/workers/cpu.py": 100,
    "aserve/workers/executor.py": 98,
    "aserve/workers/inline.py": 100,
    "aserve/workers/interrupt.py": 55,
    "aserve/workers/queue_wait.py": 100,
    "aserve/workers/stopping.py": 100,
    "aserve/workers/threads.py": 100,
    "aserve/workers/time_slices.py": 100,
    "aserve/wsgi/__init__.py": 100,
    "aserve/wsgi/begun.py": 100,
    "aserve/wsgi/deadlines.py": 16,
    "aserve/wsgi/environ.py": 100,
    "aserve/wsgi/gateway.py": 100,
    "aserve/wsgi/head.py": 100,
    "aserve/features/access_log/__init__.py": 100,
    "aserve/features/slow_requests/__init__.py": 100,
    "aserve/features/wire_log.py": 100,
    "aserve/features/queue_wait.py": 100,
    "aserve/wsgi/request_id.py": 100,
    "aserve/wsgi/response.py": 99,
    "aserve/wsgi/returned.py": 100,
    "aserve/features/routes.py": 100,
    "aserve/wsgi/rpc_calls.py": 100,
    "aserve/wsgi/timing.py": 100,
    "aserve/features/turnover.py": 100,
    "aserve/wsgi/wrapping.py": 100,
    "aserve/features/tracing.py": 100,
}


def measured() -> dict[str, float]:
    """Return the coverage of each module, of the data that is there."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "coverage.json")
        command = [sys.executable, "-I", "-m", "coverage", "json", "-q", "-o", str(path)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        files = json.loads(path.read_text())["files"]
    return {name: each["summary"]["percent_covered"] for name, each in sorted(files.items())}


def missing_in(name: str) -> str:
    """Return the lines and branches of a module that were not reached."""
    command = [sys.executable, "-I", "-m", "coverage", "report", "-m", f"--include={name}"]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    return next((line.split("%", 1)[1].strip() for line in done.stdout.splitlines() if line.startswith(name)), "")


def judge(found: dict[str, float], floors: dict[str, int]) -> list[str]:
    """Return what is wrong, a line each."""
    faults = [f"{name}: no floor in tests/floors.py" for name in found if name not in floors]
    faults += [f"{name}: was not measured; is it still there?" for name in floors if name not in found]
    return faults + [
        f"{name}: {found[name]:.1f} %, below its floor of {floor} %; not reached: {missing_in(name)}"
        for name, floor in floors.items()
        if name in found and found[name] < floor
    ]


def write(found: dict[str, float]) -> None:
    """Put what was found into the table of this file."""
    path = pathlib.Path(__file__)
    rows = "".join(f'    "{name}": {math.floor(percent)},\n' for name, percent in found.items())
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
        whole = sum(floor == 100 for floor in FLOORS.values())
        print(f"coverage: {len(FLOORS)} modules, each at its floor; {whole} of them at 100 %")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
