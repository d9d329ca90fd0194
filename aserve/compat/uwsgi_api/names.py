"""All names of uWSGI's module, and of its uwsgidecorators: which are here, and why the others are not.

Owns:     NAMES and DECORATORS, by name: what errors and docs/uwsgi-names.md say; `why_missing`.
Thread:   any; data.
Spec:     uWSGI 2.0.30, dir(uwsgi) with every option that adds names; uwsgidecorators.py.
Not here: the functions (module.py has them all).

It is long because it is data.
"""

from __future__ import annotations

import re

from ...core.named_tuple import NamedTuple
from ...core.near_names import near_names

SAME, HERE, SET, ABSENT = "as there", "here", "set by the app", "absent"


class Name(NamedTuple):
    """One name."""

    how: str  # SAME; HERE; SET: the app sets it; or ABSENT
    text: str = ""  # HERE: what differs; ABSENT: what to use
    needs: str = ""  # the setting without which it is absent, as in uWSGI


Rows = tuple[tuple[str, Name], ...]
TASKS = "--spooler FOLDER"

_NAMES: Rows = (
    ("register_rpc rpc_list call", Name(SAME)),
    ("rpc", Name(HERE, "a local call whose function is missing returns None, and raises there")),
    ("worker_id masterpid numproc hostname started_on opt micros mem logsize is_a_reload", Name(SAME)),
    ("i_am_the_spooler", Name(HERE, "True or False; there True or None")),
    ("workers", Name(HERE, "rss and vsz without an option, tx counts bodies, avg_rt is the mean; see [uwsgi-api.md](uwsgi-api.md#workers)")),
    ("total_requests request_id", Name(HERE, "a request is counted some milliseconds after its end")),
    ("ready", Name(HERE, "whether this process serves")),
    ("accepting", Name(HERE, "does nothing: a worker accepts as soon as it has imported the app")),
    ("version", Name(HERE, '`b"aserve 1.2.3"`')),
    ("version_info", Name(HERE, "that of the uWSGI whose module this one follows")),
    ("applications loop unbit", Name(HERE, "no applications are listed, and there is no loop of uWSGI's")),
    ("cores has_threads buffer_size", Name(HERE, "of --threads; the last is the longest head of a request that uWSGI takes by default")),
    ("reload", Name(HERE, "as SIGHUP: no request is lost. RuntimeError without --workers")),
    ("stop", Name(HERE, "as SIGTERM: the server drains, and ends")),
    ("log", Name(HERE, "a line in the server's log")),
    ("lock unlock is_locked", Name(HERE, "256 locks without the option `locks`; a process that ends lets its locks go")),
    ("cache_get cache_set cache_update cache_exists cache_del cache_clear cache_keys cache_num cache_inc cache_dec cache_mul cache_div",
     Name(HERE, "ValueError without --uwsgi-cache; a cache of another host has no name here")),
    ("register_signal signal_registered add_timer add_rb_timer add_cron", Name(HERE, "functions run beside requests, in threads of their own")),
    ("signal", Name(HERE, "a signal without a function raises ValueError; there it is None")),
    ("signal_wait signal_received", Name(ABSENT, "uwsgi.register_signal has a function called")),
    ("spool spooler_jobs spooler_get_task set_spooler_frequency send_to_spooler SPOOL_OK SPOOL_RETRY SPOOL_IGNORE", Name(HERE, "jobs are never lost", TASKS)),
    ("spoolers", Name(SAME, needs=TASKS)),
    ("spooler_pid spooler_pids", Name(HERE, "those that the user of the app may see, in /proc", TASKS)),
    ("parsefile", Name(HERE, "the file of a job", TASKS)),
    ("mule_id farm_msg farm_get_msg in_farm", Name(SAME)),
    ("mule_msg", Name(HERE, "False, too, if the queue is full; ValueError for a message that is too long, which uWSGI cuts")),
    ("mule_get_msg", Name(HERE, "signals have threads of their own, so `signals=` has no effect")),
    ("get_logvar cl add_var", Name(HERE, "in a call of the app; not in an iterable that it has returned")),
    ("set_logvar", Name(HERE, "for get_logvar, and for the access log's `%(logvar.NAME)`")),
    ("log_this_request", Name(HERE, "does nothing: the access log has every request")),
    ("sendfile offload", Name(HERE, "the file is sent when the app has returned, and no thread waits for the client; the result may be returned, too")),
    ("chunked_read chunked_read_nb", Name(HERE, "the next octets of any body, buffered; with --body stream a line, for which both wait")),
    ("websocket_handshake websocket_recv websocket_recv_nb websocket_send websocket_send_binary",
     Name(HERE, "over HTTP binds: nginx's uwsgi_pass has no way to pass a WebSocket on; see [uwsgi-api.md](uwsgi-api.md#websockets)")),
    ("connection_fd", Name(HERE, "for a WebSocket alone; any other connection is the server's")),
    ("start_response", Name(ABSENT, "the app gets it as its second argument")),
    ("route", Name(ABSENT, "the front server routes; see [nginx.md](nginx.md)")),
    ("add_file_monitor", Name(HERE, "looks twice a second; in a folder for what is directly in it")),
    ("set_user_harakiri", Name(HERE, "the worker is replaced, and other requests end; a mule is killed")),
    ("queue_get queue_last queue_pull queue_pull_slot queue_push queue_set queue_size queue_slot", Name(SAME, needs="--uwsgi-queue")),
    ("queue_pop", Name(HERE, "a pop of nothing moves nothing; there it moves the place of the next message", "--uwsgi-queue")),
    ("sharedarea_dec32 sharedarea_dec64 sharedarea_inc32 sharedarea_inc64 sharedarea_inclong sharedarea_memoryview sharedarea_read "
     "sharedarea_read16 sharedarea_read32 sharedarea_read64 sharedarea_read8 sharedarea_readbyte sharedarea_readlong "
     "sharedarea_write sharedarea_write16 sharedarea_write32 sharedarea_write64 sharedarea_write8 sharedarea_writebyte sharedarea_writelong",
     Name(SAME, needs="--uwsgi-sharedarea")),
    ("sharedarea_rlock sharedarea_unlock sharedarea_wlock", Name(HERE, "one lock for readers and writers; a process that ends lets it go", "--uwsgi-sharedarea")),
    ("sharedarea_object", Name(ABSENT, "uwsgi.sharedarea_memoryview; in uWSGI it raised SystemError")),
    ("metric_dec metric_div metric_get metric_inc metric_mul metric_set metric_set_max metric_set_min",
     Name(HERE, "those of the app; the server's own are in --metrics: [metrics.md](metrics.md)", "--uwsgi-metric")),
    ("snmp_decr_counter32 snmp_decr_counter64 snmp_decr_gauge snmp_incr_counter32 snmp_incr_counter64 snmp_incr_gauge snmp_set_community "
     "snmp_set_counter32 snmp_set_counter64 snmp_set_gauge", Name(ABSENT, "no SNMP here; --metrics tells Prometheus: [metrics.md](metrics.md)")),
    ("alarm", Name(ABSENT, "what watches the log does it")),
    ("setprocname", Name(ABSENT, "the package setproctitle does it")),
    ("set_warning_message", Name(ABSENT, "`aserve status` has the server's own warnings; log what is yours")),
    ("suspend", Name(ABSENT, "--maintenance FILE answers 503 while the file is there: [maintenance.md](maintenance.md)")),
    ("listen_queue", Name(ABSENT, "`aserve status` and --metrics have it")),
    ("async_connect async_sleep connect close disconnect green_schedule is_connected recv send wait_fd_read wait_fd_write",
     Name(ABSENT, "it is for uWSGI's own loops; requests here have threads, and may use sockets of their own")),
    ("ready_fd sockets magic_table", Name(ABSENT, "it is about uWSGI's own sockets and files, which are not there")),
    ("embedded_data extract", Name(ABSENT, "it is for a uWSGI that was compiled with data in it; importlib.resources reads a package's files")),
    ("SymbolsImporter SymbolsZipImporter ZipImporter", Name(ABSENT, "it is for a uWSGI that was compiled with modules in it; Python imports from folders and zip files by itself")),
    # Not in every build of uWSGI
    ("i_am_the_lord lord_scroll scrolls", Name(ABSENT, "there are no legions; a lock of --shared is one of all hosts: [uwsgi-api.md](uwsgi-api.md#several-hosts)")),
    # Which the app sets
    ("post_fork_hook", Name(SET, "set it: it is called in each process that serves, once")),
    ("atexit", Name(SET, "set it: it is called when a process ends")),
    ("spooler", Name(SET, "set it: it gets the jobs", TASKS)),
    ("mule_msg_hook", Name(SET, "set it: it gets the messages of mules that have no program")),
)  # fmt: skip
_DECORATORS: Rows = (
    ("postfork", Name(SAME)),
    ("spool spoolforever spoolraw", Name(SAME, needs=TASKS)),
    ("signal timer rbtimer cron", Name(HERE, "functions run beside requests, in threads of their own")),
    ("lock rpc thread get_free_signal", Name(SAME)),
    ("mule muleloop mulemsg mulefunc farm mule_msg_dispatcher", Name(SAME)),
    ("filemon", Name(HERE, "looks twice a second; in a folder for what is directly in it")),
    ("harakiri", Name(HERE, "the worker is replaced, and other requests end; a mule is killed")),
    ("erlang", Name(ABSENT, "there is no Erlang node here, nor in uWSGI since 2.0")),
)  # fmt: skip


def _by_name(rows: Rows) -> dict[str, Name]:
    return {name: row for names, row in rows for name in names.split()}


NAMES, DECORATORS = _by_name(_NAMES), _by_name(_DECORATORS)


def why_missing(module: str, name: str, names: dict[str, Name]) -> str:
    """Return the message of the AttributeError for a name that a module does not have."""
    known = names.get(name)
    if known is None:
        near = near_names(name, names)
        return f"{module}.{name} is not available under aserve, nor in uWSGI" + (
            f"; is {near[0]} meant?" if near else ""
        )
    if known.how != ABSENT:
        return f"{module}.{name} is not available under aserve; {f'{known.needs} offers it' if known.needs else known.text}"
    return f"{module}.{name} is not available under aserve; {_plain(known.text)}; see `aserve docs uwsgi-names`"


def _plain(text: str) -> str:
    """Return a text without the links of a page."""
    return re.sub(r"\[([\w-]+)\.md\]\([^)]*\)", r"`aserve docs \1`", text)
