"""Every metric, once.

Owns:     the table; the place of each number in a worker's page. The text for Prometheus (text.py) is made from it,
          and docs/metrics.md must agree with it (a test compares them).
Thread:   any; pure.
Spec:     Prometheus, "Metric and label naming": base units, _total.
Not here: counting (counting.py, core/tally.py), finding the other numbers (exporter.py).

A change of COUNTED moves words in the page. Workers of the previous version, which an upgrade takes over, use its places: so raise
FORM (processes/upgrade/inheritance.py) with it; a test demands that.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Callable

from ...connections.monitoring.statistics import Statistics
from ...core.named_tuple import NamedTuple
from ...core.tally import ATTACHED_RESTARTS, CELLS, CRON_RUNS, LOST, OOM_KILLS, RELOADS, RESTARTS, START_FAILURES

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
MICROSECOND = 1e-6
THOUSANDTH = 1e-3

# A histogram's bounds: powers of two, so that a number's bit length is its bucket, without a search. From 1 ms, since users
# notice no shorter wait; each twice the one before, so that a quantile is wrong by a factor of two at most; up to 65 s, just
# beyond the 60 s after which most front servers and balancers give up.
BUCKETS = 17
BOUNDS = tuple(0.001 * (1 << number) for number in range(BUCKETS))
SUM = BUCKETS + 1  # after the buckets, and the one beyond the last bound

# The classes of a status; 0: there was no response.
CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
ENDS = ("complete", "cut")
# Statuses of refused requests; any other counts as the last.
REFUSALS = (400, 408, 413, 414, 417, 431, 500, 501, 503, 504, 505)


class Metric(NamedTuple):
    """One row: a metric, and its cells, which differ in labels."""

    name: str
    kind: str
    help: str
    cells: Sequence[str] = ("",)  # the labels of each, as in the text, without the worker's
    reads: Sequence[Callable[[Statistics], int]] = ()  # of a gauge, by cell: reads the value, once a second
    unit: float = 1  # the value of one in a cell, or in the sum of a histogram
    by_worker: bool = True  # one number for each worker, and not one for all

    @property
    def width(self) -> int:
        """Return the number of words in a page."""
        return SUM + 1 if self.kind == HISTOGRAM else len(self.cells)

    @property
    def runs_on(self) -> bool:
        """Whether it only rises, so that it must be kept after its worker's end."""
        return self.kind != GAUGE


def _labelled(label: str, values: Sequence[object]) -> tuple[str, ...]:
    return tuple(f'{label}="{value}"' for value in values)


def _reads(*names: str) -> tuple[Callable[[Statistics], int], ...]:
    return tuple(operator.attrgetter(name) for name in names)


def _in_thousandths(name: str) -> Callable[[Statistics], int]:
    return lambda now: int(getattr(now, name) * 1000)


ERROR_LINES_LOST = "aserve_error_log_lines_lost_total"
# fmt: off
# The metrics of each process, in the order of its page.
COUNTED = (
    Metric(
        "aserve_requests_total", COUNTER, "Requests that have ended, by the class of their status (none: no response was begun) and by "
        "how they ended (cut: the client left, or the response could not be finished). Health checks and refused requests are not among them.",
        tuple(f'status="{status}",end="{end}"' for status in CLASSES for end in ENDS),
    ),
    Metric("aserve_response_body_bytes_total", COUNTER, "Octets of response bodies that the app has given."),
    Metric("aserve_app_exceptions_total", COUNTER, "Requests in which the app raised an exception, or broke PEP 3333."),
    Metric(
        "aserve_requests_refused_total", COUNTER, "Requests that aserve has answered itself, with an error, by its status.",
        _labelled("status", [*REFUSALS, "other"]),
    ),
    Metric(
        "aserve_request_queue_seconds", HISTOGRAM, "How long requests waited for a thread, from when they were whole; also those whose clients left "
        "before one began them.",
        unit=MICROSECOND, by_worker=False,
    ),
    Metric(
        "aserve_request_duration_seconds", HISTOGRAM, "How long requests took, from when a thread began them until their response was sent "
        "or given to the event loop's transport.", unit=MICROSECOND, by_worker=False,
    ),
    Metric("aserve_threads_limit", GAUGE, "How many requests may be with the app at once (--threads)."),
    Metric(
        "aserve_threads", GAUGE, "Threads, by what they do: busy with a request (a mean of the last ten seconds), idle, compensated (their "
        "clients read slowly, and others have their places), stuck (written off by --request-timeout, and still inside the app), lacking (the system does not start them).",
        _labelled("state", ("busy", "idle", "compensated", "stuck", "lacking")),
        [_in_thousandths(name) for name in ("workers_busy_lately", "workers_idle", "workers_compensated", "workers_stuck", "workers_lacking")],
        unit=THOUSANDTH,
    ),
    Metric(
        "aserve_threads_busy_seconds_total", COUNTER, "For how long threads were busy with requests, all of them together: its rate is how "
        "many were busy. Requests under way are counted, each second.", unit=MICROSECOND,
    ),
    Metric("aserve_requests_in_flight", GAUGE, "Requests that wait for a thread, are with the app, or whose responses are sent.",
           reads=_reads("connections_running")),
    Metric("aserve_requests_waiting", GAUGE, "Requests that wait for a thread.", reads=_reads("requests_waiting")),
    Metric("aserve_requests_stalled_seconds", GAUGE, "For how long requests have waited for a thread, and none was begun, also if their clients have left.",
           reads=_reads("requests_stalled_seconds")),
    Metric(
        "aserve_connections", GAUGE, "Open connections, by what they do.",
        _labelled("state", ("handshake", "idle", "receiving", "running", "ending", "websocket")),
        _reads("connections_in_handshake", "connections_idle", "connections_receiving", "connections_running", "connections_ending",
               "connections_websocket"),
    ),
    Metric("aserve_connections_limit", GAUGE, "How many connections may be open at once (--max-connections).", reads=_reads("connections_limit")),
    Metric(
        "aserve_memory_held_bytes", GAUGE, "Octets held in memory for clients, of request bodies and of responses.",
        _labelled("of", ("requests", "responses")), _reads("bodies_memory_bytes", "responses_memory_bytes"),
    ),
    Metric(
        "aserve_spool_files", GAUGE, "Temporary files, of request bodies and of responses.",
        _labelled("of", ("requests", "responses")), _reads("bodies_spooled", "responses_spooled"),
    ),
    Metric("aserve_spool_bytes", GAUGE, "Octets of responses in temporary files that clients have not read yet.",
           reads=_reads("responses_spooled_bytes")),
    Metric("aserve_bodies_lack_room", GAUGE, "1 while the disk of temporary files has no room for request bodies.", reads=_reads("bodies_lack_room")),
    Metric("aserve_access_log_lines_lost_total", COUNTER, "Lines that the access log could not write: the disk is full, or its reader does not read."),
    Metric(ERROR_LINES_LOST, COUNTER, "Lines of messages that standard error could not take; those of worker 0 are the supervisor's."),
    Metric(
        "aserve_gil_wait_seconds", HISTOGRAM, "How late a thread that had slept went on, sampled five times a second: the wait for the GIL, "
        "and for a CPU.", unit=MICROSECOND, by_worker=False,
    ),
)

# The metrics of a supervisor.
SUPERVISED = (
    Metric(
        RESTARTS, COUNTER, "Workers that served, and were replaced: they crashed, had served their time (recycle), were of the code of "
        "before (reload), had an event loop that hung, or asked for it (asked: SIGTERM, aserve recycle, too many stuck threads).",
        CELLS[RESTARTS], by_worker=False,
    ),
    Metric(START_FAILURES, COUNTER, "Workers that ended before they served.", by_worker=False),
    Metric(RELOADS, COUNTER, "Reloads, by what became of them.", CELLS[RELOADS], by_worker=False),
    Metric(OOM_KILLS, COUNTER, "Workers that the kernel has killed as memory ran out.", by_worker=False),
    Metric(
        LOST, COUNTER, "Requests that a worker was at when it died, by why: it crashed, memory ran out (oom), or aserve or a person had "
        "it killed. They are among aserve_requests_total, too: none, cut.", CELLS[LOST], by_worker=False,
    ),
    Metric(
        ATTACHED_RESTARTS, COUNTER, "Programs beside the workers (--attach) that were started once more: they had ended by themselves, or "
        "workers were reloaded, or they had done their jobs (recycle: --spooler-max-jobs).",
        CELLS[ATTACHED_RESTARTS], by_worker=False,
    ),
    Metric(
        CRON_RUNS, COUNTER, "Runs of commands of --cron: done with status 0, failed with another, skipped as the run before had not ended.",
        CELLS[CRON_RUNS], by_worker=False,
    ),
)

WORKERS, BUILD, START_TIME = "aserve_workers", "aserve_build_info", "process_start_time_seconds"
WORKER_START, OLDEST = "aserve_worker_start_time_seconds", "aserve_oldest_request_seconds"
LONGEST_WAIT, ATTACHED = "aserve_oldest_waiting_seconds", "aserve_attached"
ALL_BUSY = "aserve_threads_all_busy_seconds"
JOBS, JOBS_WAITING = "aserve_jobs_total", "aserve_jobs_waiting"
RESIDENT, PROPORTIONAL, UNIQUE = "aserve_worker_resident_bytes", "aserve_worker_proportional_bytes", "aserve_worker_unique_bytes"
LISTEN_QUEUE, LISTEN_LIMIT = "aserve_listen_queue", "aserve_listen_queue_limit"
SILENT = "aserve_loop_silent_seconds"
CERTIFICATE_END = "aserve_certificate_not_after_timestamp_seconds"
DESCRIPTORS, DESCRIPTOR_LIMIT = "aserve_worker_descriptors", "aserve_worker_descriptors_limit"
# Metrics that are found when a client asks.
FOUND = (
    Metric(BUILD, GAUGE, "1; which aserve this is, and which Python.", by_worker=False),
    Metric(START_TIME, GAUGE, "When this process started: seconds since 1970.", by_worker=False),
    Metric(
        WORKERS, GAUGE, "Worker processes: wanted, and how many there are by where they stand.",
        _labelled("state", ("wanted", "ready", "starting", "draining")), by_worker=False,
    ),
    Metric(ATTACHED, GAUGE, "Programs beside the workers (--attach): wanted, and running.", _labelled("state", ("wanted", "running")),
           by_worker=False),
    Metric(
        JOBS, COUNTER, "Jobs of --spooler: done, failed with an exception or the end of their process, retried as their function has asked.",
        _labelled("result", ("done", "failed", "retried")), by_worker=False,
    ),
    Metric(ALL_BUSY, GAUGE, "For how long every thread of all workers has been busy; 0: one was free.", by_worker=False),
    Metric(JOBS_WAITING, GAUGE, "Jobs in a folder of --spooler that are not done, also those that are due later.", by_worker=False),
    Metric(LISTEN_QUEUE, GAUGE, "Clients that the kernel has connected, and no worker has accepted yet, by listener.", by_worker=False),
    Metric(LISTEN_LIMIT, GAUGE, "How many of them the kernel holds (--backlog, net.core.somaxconn).", by_worker=False),
    Metric(
        CERTIFICATE_END, GAUGE, "Until when the certificate in a file of an https bind is valid: seconds since 1970; 0: it is the placeholder of "
        "a name of --https that has none yet.", by_worker=False,
    ),
    Metric(WORKER_START, GAUGE, "When a worker was started: seconds since 1970."),
    Metric(OLDEST, GAUGE, "For how long a worker has been at its oldest request; 0: it is at none."),
    Metric(LONGEST_WAIT, GAUGE, "For how long the first request that waits for a thread has waited; 0: none waits."),
    Metric(SILENT, GAUGE, "For how long the event loop of a worker has not turned; up to a second while it turns."),
    Metric(DESCRIPTORS, GAUGE, "Descriptors that a worker has open: connections, files, and what the app opens."),
    Metric(DESCRIPTOR_LIMIT, GAUGE, "How many a worker may have open (ulimit -n)."),
    Metric(RESIDENT, GAUGE, "Memory of a worker, also what it shares with others (RSS)."),
    Metric(PROPORTIONAL, GAUGE, "Memory of a worker; of what n processes share, the nth part (PSS)."),
    Metric(UNIQUE, GAUGE, "Memory of a worker that is its own alone, and would be free without it (USS)."),
)
# fmt: on

METRICS = {metric.name: metric for metric in (*COUNTED, *SUPERVISED, *FOUND)}


def _lay_out() -> dict[str, int]:
    places, place = {}, 0
    for metric in COUNTED:
        places[metric.name] = place
        place += metric.width
    return places


PLACES = _lay_out()  # a metric's first word, by name
WORDS = sum(metric.width for metric in COUNTED)
FIRST_WORD = 24  # of the metrics in a page; for the words before it see core/page.py
PAGE_WORDS = FIRST_WORD + WORDS  # the least size of a page


def place_of_requests(status: str, end: str) -> int:
    """Return the word that counts requests with this status class and end."""
    return PLACES["aserve_requests_total"] + CLASSES.index(status) * len(ENDS) + ENDS.index(end)


def key_of(metric: Metric, index: int) -> str:
    """Return the name of one word of a metric, which an upgrade uses since places may differ between versions."""
    return f"{metric.name} {metric.cells[index] if metric.kind != HISTOGRAM else index}"


# The names and places of all words that are kept after a worker's end.
KEYS = {
    key_of(metric, index): PLACES[metric.name] + index
    for metric in COUNTED
    if metric.runs_on
    for index in range(metric.width)
}
