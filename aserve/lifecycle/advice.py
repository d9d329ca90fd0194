"""The warnings of the status page, and of `aserve status`, each with a cure.

Owns:     advise; add_warnings.
Thread:   any; pure, but for the files of certificates.
Not here: the numbers (features/metrics/history.py, status.py), their display (page.html), warnings about an option (EngineSettings.advise).

Each warning says the fault, with a number, and then the cure. A state without work for an operator is no warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable

from ..connections.server_budgets import default_spool_files
from ..core.errors import DONE
from ..core.named_tuple import NamedTuple
from ..settings import EngineSettings, show_bytes
from ..tls.certificates import warn_of_files
from ..workers.queue_wait import LONG_STALL_SECONDS

# Guesses: a state that is over before an operator can read of it is no warning.
SILENT_SECONDS = 5  # as in aserve status and top
OLD_SECONDS = 10
LONG_WAIT_SECONDS = 0.01
LONG_GIL_SECONDS = 0.02  # the median of a minute: four turns of other threads
LONG_PAUSE_SECONDS = 1.6  # before the next start of a program: reached after the fifth end in a row
CALM_SECONDS = 30.0  # until ends are forgotten
NEAR = 0.9  # of a limit
LEFT_DESCRIPTORS = 2  # with no more, no client is accepted, or not for long: logging has freed these
NEW_CERTIFICATE = "A valid one in its place is served within two seconds; with --https the log says why none comes."
FAILED_SHARE = 0.05  # of the responses of a minute
FAILED_COUNT = 10  # fewer are no trend


class Advice(NamedTuple):
    """One warning."""

    text: str
    do: str
    is_failure: bool = False  # requests are not served meanwhile


def advise(status: Mapping[str, Any], spool_files: Mapping[int, int], config: EngineSettings) -> list[Advice]:
    """
    Return the warnings, the worst first: failures, then other present states, then past ones.

    `status`: the event of features/metrics/picture.py without warnings, or the event of `aserve status`, without counts; `spool_files`: temporary
    files by slot.
    """
    workers = status["workers"]
    found = [
        *_of_server(status),
        *_of_reload(status.get("half_done", "")),
        *_of_refusal(status.get("refused")),
        *_of_wish(status.get("unready", "")),
        *_of_connections(workers, status.get("listening", ())),
        *_of_accepting(workers, status.get("listening", ())),
        *(warning for program in status.get("attached", ()) for warning in _of_attached(program)),
        *(Advice(text, do) for text, do in config.advise(status)),
        *(Advice(f"T{text[1:]}.", NEW_CERTIFICATE) for text in warn_of_files(config)),
        *(warning for worker in workers for warning in _of_loop(worker)),
        *_of_starts(status.get("slow_starts", ())),
        *_of_stalls(workers),
        *(warning for worker in workers for warning in _of_stuck(worker)),
        *(_of_threads(status) if "minute" in status else ()),
        *(warning for worker in workers for warning in _of_room(worker, spool_files.get(worker["slot"], 0), config)),
        *(warning for worker in workers for warning in _of_growth(worker)),
        *(_of_responses(status["minute"]) if "minute" in status else ()),
        *_of_requests(workers),
        *_of_crashes(status["crashes"]),
    ]
    return sorted(found, key=lambda advice: not advice.is_failure)


# The result of History.describe, and temporary files by slot; both empty without counts.
Counted = Callable[[], "tuple[dict[str, Any], dict[int, int]]"]


def add_warnings(
    status: dict[str, Any],
    config: EngineSettings,
    history: Mapping[str, Any] = MappingProxyType({}),
    spool_files: Mapping[int, int] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a status with its "warnings"; see `advise`."""
    found = advise({**status, **history}, spool_files, config)
    return {**status, "warnings": [each._asdict() for each in found]}


def _of_server(status: Mapping[str, Any]) -> Iterator[Advice]:
    missing = status["workers_wanted"] - status["workers_ready"]
    if status["text"].startswith(("draining", "ending")):
        yield Advice(
            f"The server is {status['text']}.", "It ends; start it again if that was not meant.", is_failure=True
        )
    elif missing > 0:
        yield Advice(
            f"{missing} of {status['workers_wanted']} workers {'is' if missing == 1 else 'are'} not ready: {status['text']}.",
            "If it stays so, the log has the reason; correct it, and `aserve reload` or SIGHUP tries again at once.",
            is_failure=True,
        )


def _of_starts(texts: Iterable[str]) -> Iterator[Advice]:
    """Warn of workers whose import takes long, or hangs."""
    for text in texts:
        do = "The log has its stacks, with the line of the app where it waits. If it hangs, `kill -9` ends it; --start-timeout ends the next in time."
        yield Advice(f"{text[:1].upper()}{text[1:]}.", do)


def _of_reload(half_done: str) -> Iterator[Advice]:
    """Warn of a reload without an end."""
    if half_done:
        yield Advice(
            f"A reload is half done: {half_done}.",
            "Correct it, and reload once more: `aserve reload` or SIGHUP. Workers that were not replaced serve the old code.",
        )


def _of_refusal(refused: Mapping[str, Any] | None) -> Iterator[Advice]:
    """Warn of a reload without effect, since the sender of a signal does not see why."""
    if refused:
        yield Advice(
            f"Nothing was reloaded, {refused['seconds']:.0f} s ago: {refused['why']}.",
            "Correct it, and once more: `aserve reload`, or the signal. Workers serve the old code; one that ends may not start again.",
        )


def _of_wish(why: str) -> Iterator[Advice]:
    """Warn of a wish to balancers that holds until somebody takes the wish back."""
    if why:
        yield Advice(
            f"Balancers are told to send requests elsewhere: {why}.",
            "`aserve balancers ready` ends this; or the program, if the program has said so.",
        )


def _of_crashes(crashes: Sequence[Mapping[str, Any]]) -> Iterator[Advice]:
    if crashes:
        last, count = crashes[-1], len(crashes)
        when = f"worker {last['worker']}, {last['seconds']:.0f} s ago: {last['how']}"
        yield Advice(
            f"A worker has crashed: {when}."
            if count == 1
            else f"{count} crashes of workers in the last ten minutes; the last: {when}.",
            "The log has its running requests.",
        )


def _of_connections(workers: Sequence[Mapping[str, Any]], listening: Sequence[Mapping[str, Any]]) -> Iterator[Advice]:
    """Warn of the limit of connections: a failure while clients wait. Otherwise idle connections make room."""
    serving = [worker for worker in workers if worker["state"] == "ready" and worker.get("connections_limit")]
    full = [worker for worker in serving if worker["connections"] >= worker["connections_limit"]]
    queued = sum(each["queued"] for each in listening)
    if full:
        names = _name(full[0]) if len(full) == 1 else f"{len(full)} of {len(serving)} workers"
        waiting = f"; {queued} {'client waits' if queued == 1 else 'clients wait'} in the kernel" if queued else ""
        yield Advice(
            f"{names}: as many connections are open as may be, {full[0]['connections_limit']} each{waiting}.",
            "Raise --max-connections, and `ulimit -n` with it, or add --workers. If clients are slow or idle: `aserve docs slow-clients`.",
            is_failure=bool(queued) and len(full) == len(serving),
        )
    for each in listening:
        if each["limit"] and each["queued"] >= NEAR * each["limit"]:
            yield Advice(
                f"{each['queued']} clients wait in the kernel for {each['url']}, which holds {each['limit']}.",
                "More come than are accepted: look at the warnings beside this one, and add --workers. --backlog only lets more wait.",
                is_failure=True,
            )


def _of_accepting(workers: Sequence[Mapping[str, Any]], listening: Sequence[Mapping[str, Any]]) -> Iterator[Advice]:
    """Warn of clients not accepted for lack of descriptors: no request shows this error."""
    serving = [worker for worker in workers if worker["state"] == "ready"]
    queued = sum(each["queued"] for each in listening)
    if queued and serving and not any(_has_descriptors(worker) for worker in serving):
        yield Advice(
            f"No worker has descriptors left for new connections; {queued} {'client waits' if queued == 1 else 'clients wait'} in the kernel.",
            "The warnings beside this one say what has them. `aserve reload` frees what the app keeps; raise `ulimit -n` "
            "(systemd: LimitNOFILE=) if connections have them.",
            is_failure=True,
        )


def _has_descriptors(worker: Mapping[str, Any]) -> bool:
    """Whether a worker has descriptors left, or the number is not known."""
    used, limit = worker["descriptors"], worker["descriptor_limit"]
    return not used or not limit or limit - used > LEFT_DESCRIPTORS


def _of_attached(program: Mapping[str, Any]) -> Iterator[Advice]:
    """Warn of a program with many ends, and of a command after a failed last run."""
    last_end = program["last_end"]
    if program["when"]:
        if last_end and last_end != DONE:
            yield Advice(f"The last run of {program['name']} has failed: it {last_end}.", "The log has what it wrote.")
    elif program["pause_seconds"] >= LONG_PAUSE_SECONDS and program["seconds"] < CALM_SECONDS:
        yield Advice(
            f"Attached {program['name']} keeps ending, {program['restarts']} times so far; the last time it {last_end}.",
            "The log has what it wrote. It must stay in the foreground; `aserve reload` starts it at once.",
        )


def _of_loop(worker: Mapping[str, Any]) -> Iterator[Advice]:
    seconds = worker["silent_seconds"]
    if worker["state"] in ("ready", "draining") and (seconds or 0) > SILENT_SECONDS:
        yield Advice(
            f"{_name(worker)}: its event loop has not turned for {seconds:.0f} s.",
            f"{_stacks(worker)} shows what holds it; the log has it after --hang-warning.",
            is_failure=worker["state"] == "ready",
        )


_THEN = "shows what holds them. If they hang, that is what to repair; if the app waits for others there, raise --threads, and if it computes, --workers."


def _of_stalls(workers: Sequence[Mapping[str, Any]]) -> Iterator[Advice]:
    # Of a draining worker others take the requests, and no more come.
    concerned = (worker for worker in workers if worker["waiting"] or worker["state"] == "ready")
    stalled = [worker for worker in concerned if worker["stalled_seconds"] >= LONG_STALL_SECONDS]
    if stalled:
        worst = max(stalled, key=lambda worker: worker["stalled_seconds"])
        who = _name(worst) if len(stalled) == 1 else f"{len(stalled)} of {len(workers)} workers"
        yield Advice(
            f"{who}: all threads busy: no queued request started for {worst['stalled_seconds']} s "
            f"({sum(worker['waiting'] for worker in stalled)} queued, oldest {_longest_wait(stalled):.0f} s).",
            f"{_stacks(worst) if len(stalled) == 1 else '`aserve stacks`'} {_THEN}",
            # While workers drain, their successors serve: a reload may have been the cure.
            is_failure=any(worker["state"] == "ready" for worker in stalled),
        )


def _longest_wait(workers: Sequence[Mapping[str, Any]]) -> float:
    return max((worker["waiting_seconds"] for worker in workers), default=0.0)


def _of_threads(status: Mapping[str, Any]) -> Iterator[Advice]:
    recent = status["recent"]
    # The mean covers requests begun by a thread: while none begins, the mean does not change.
    waits = max(recent["queue_seconds"], _longest_wait(status["workers"]))
    waiting = f"; requests wait {_seconds(waits)}" if waits >= 0.001 else ""
    do = f"`aserve stacks` {_THEN}"
    is_told = any(worker["stalled_seconds"] >= LONG_STALL_SECONDS for worker in status["workers"])  # by _of_stalls
    if recent["all_busy_seconds"] >= LONG_STALL_SECONDS and not is_told:
        yield Advice(f"Every thread has been busy for {recent['all_busy_seconds']:.0f} s{waiting}.", do)
    elif recent["busy_share"] >= NEAR and recent["queue_seconds"] >= LONG_WAIT_SECONDS:
        yield Advice(
            f"The threads were {recent['busy_share']:.0%} busy in the last 10 s{waiting}.".replace("%", " %"), do
        )
    gil = status["minute"]["gil"]["p50"] or 0.0  # not the mean: one call of seconds would raise the mean
    if gil >= LONG_GIL_SECONDS:
        yield Advice(
            f"A thread that has waited for others mostly waits up to {_seconds(gil)} more for the interpreter (GIL) or a CPU.",
            "The app computes: more --workers help where CPUs are free, and more --threads do not.",
        )


def _of_stuck(worker: Mapping[str, Any]) -> Iterator[Advice]:
    stuck = worker["threads_stuck"]
    if stuck:
        yield Advice(
            f"{_name(worker)} has {stuck} {'thread' if stuck == 1 else 'threads'} stuck inside the app, written off by --request-timeout.",
            "The log has their stacks. At --max-stuck of them the process is replaced, or ends.",
        )


def _of_room(worker: Mapping[str, Any], spool_files: int, config: EngineSettings) -> Iterator[Advice]:
    """Warn of resources near their end."""
    used, limit = worker["descriptors"], worker["descriptor_limit"]
    if used and limit and used >= NEAR * limit:
        ours = min(worker["connections"] + spool_files, used)
        yield Advice(
            f"{_name(worker)} has {used} of {limit} descriptors open: {ours} for connections and bodies, {used - ours} of the app and others.",
            "Raise `ulimit -n` (systemd: LimitNOFILE=), or lower --max-connections."
            if ours >= used - ours
            else f"The app may keep what it opens: `ls -l /proc/{worker['pid']}/fd` shows what{_cure(worker)}. Until that is repaired, "
            "--max-requests replaces the worker in time.",
        )
    if worker["threads_lacking"]:
        yield Advice(
            f"{_name(worker)} has {config.threads - worker['threads_lacking']} of {config.threads} threads: the system starts no more.",
            "Raise TasksMax= (systemd), the pids limit of the container, `ulimit -u` or the memory; the next are tried each second.",
        )
    if worker["bodies_lack_room"]:
        yield Advice(
            f"{_name(worker)} has no room for request bodies that exceed --body-memory: the disk of TMPDIR is full.",
            "They are refused. Free the disk, or let TMPDIR name a folder of another; the log names the present one.",
        )
    files = config.spool_files or default_spool_files()
    if spool_files >= NEAR * files:
        yield Advice(
            f"{_name(worker)} has {spool_files} of {files} temporary files for bodies that clients send or read slowly.",
            "Raise --spool-files, and `ulimit -n` with it; `aserve docs slow-clients` has what they are for.",
        )
    for name, flag in (("rss", "--max-rss"), ("pss", "--max-pss"), ("uss", "--max-uss")):
        limit, taken = getattr(config, f"max_{name}_bytes"), worker[f"{name}_bytes"]
        if limit and taken and taken >= NEAR * limit:
            yield Advice(
                f"{_name(worker)} takes {show_bytes(taken >> 20 << 20)} of the {show_bytes(limit)} of {flag}.",
                "It is replaced when it reaches them. If that happens often, the app leaks, or the limit is low.",
            )


def _of_growth(worker: Mapping[str, Any]) -> Iterator[Advice]:
    growth = worker["growth"]
    if growth:
        before, after = (show_bytes(growth[name] >> 20 << 20) for name in ("from_bytes", "to_bytes"))
        yield Advice(
            f"{_name(worker)} has grown from {before} to {after} in {growth['minutes']} minutes, in each ten of them.",
            "The app leaks, or fills a cache. --max-rss replaces a worker in time.",
        )


def _of_responses(minute: Mapping[str, Any]) -> Iterator[Advice]:
    failed = sum(count for name, count in minute["ends"].items() if name.startswith("5xx"))
    # Clients that leave while their requests wait have no response: in a stall they are most of the requests.
    responses = sum(count for name, count in minute["ends"].items() if not name.startswith("none"))
    if failed >= FAILED_COUNT and failed >= FAILED_SHARE * responses:
        yield Advice(
            f"{100 * failed // responses} % of the responses of the last minute were errors of the app (5xx): {failed}.",
            "The log has a traceback for each exception.",
            is_failure=2 * failed >= responses,
        )
    full = minute["refused"].get("503", 0)
    if full:
        yield Advice(
            f"{full} {'request was' if full == 1 else 'requests were'} refused in the last minute with 503: no room for bodies, "
            "too many WebSockets, or no descriptors.",
            "The log says which. For bodies raise --body-spool-total or --spool-files, or free the disk of TMPDIR; for WebSockets "
            "--websockets, or add --workers; for descriptors `ulimit -n` (systemd: LimitNOFILE=).",
        )
    if minute["lost_lines"]:
        yield Advice(
            f"Lines of the access log were lost in the last minute: {minute['lost_lines']}.",
            "The log has the reason: a full disk, or a reader that does not keep up.",
        )


def _of_requests(workers: Sequence[Mapping[str, Any]]) -> Iterator[Advice]:
    """Warn of the oldest request; where several workers are at old requests, say so in the same warning."""
    old = [worker for worker in workers if worker["at"] and worker["at"][0][0] >= OLD_SECONDS]
    if old:
        worker = max(old, key=lambda worker: worker["at"][0][0])
        seconds, text = worker["at"][0]
        others = (
            f" ({len(old)} of {len(workers)} workers are at requests of {OLD_SECONDS} s and more)" if old[1:] else ""
        )
        yield Advice(
            f"{_name(worker)} has been at a request for {seconds:.0f} s: {text}{others}",
            f"If that is not meant, {_stacks(worker)} shows where it is{_cure(worker)}. --request-timeout ends the next in time.",
        )


def _name(worker: Mapping[str, Any]) -> str:
    drains = worker["state"] == "draining"
    if not worker["slot"]:
        return "The draining process" if drains else "The process"
    return f"{'Draining worker' if drains else 'Worker'} {worker['slot']}"


def _cure(worker: Mapping[str, Any]) -> str:
    """Return how to end a worker's request."""
    if worker["state"] == "draining":
        return ", and --drain-timeout cuts it"
    is_replaceable = worker["slot"] and worker["state"] == "ready"
    return f", and `aserve recycle {worker['slot']}` replaces the worker" if is_replaceable else ""


def _stacks(worker: Mapping[str, Any]) -> str:
    return f"`aserve stacks {worker['slot']}`" if worker["slot"] else "`aserve stacks`"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
