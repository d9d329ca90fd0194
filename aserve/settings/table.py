"""The settings of the engine, common to all servers.

Owns:     EngineSettings, a row for each setting, and the checks for contradictions.
Thread:   any; pure.
Not here: the form of a row (setting.py), the rows of a feature (features/), the sources of values (sources.py).

A long table, for looking up single rows.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from . import kinds
from .bind import MAX_UNIX_PATH_BYTES, PROXIED, Bind, TLSSettings, parse_bind
from .kinds import GIB, KIB, MIB, TIB
from .paths import Base, whole, whole_by_name, whole_certificates
from .secrecy import show_place, show_variable
from .setting import ConfigError, Needs, row
from .sources import Settings

VERSION = "0.10.0"

DEVELOPMENT = "Development"
PROCESSES = "Processes"
MAX_WORKERS = 1024  # Guess: beyond any machine's CPUs
TLS = "TLS"  # the group whose settings a bind may override


def whole_address(text: str, base: Base) -> str:
    """Return an address with the absolute path of the unix socket, and with absolute paths in the options."""
    given = bind = parse_bind(text)
    if bind.kind == "unix" and not bind.is_abstract:
        # By the folder's name, as a reload in the next release must find the same address.
        path = os.path.abspath(base.folder.whole(bind.path))
        # A relative path is the way to a socket in a folder whose own name is too long for sockaddr_un.
        is_short = len(os.fsencode(path)) <= MAX_UNIX_PATH_BYTES
        bind = bind._replace(path=path if is_short or base.is_left else bind.path)
    rows = {setting.key: setting for setting in EngineSettings.rows()}
    options = tuple((key, rows[key].with_whole_paths(value, base)) for key, value in bind.options)
    bind = bind._replace(options=options)
    return text if bind == given else bind.spec


REPLACED = Needs(("workers",), "needs --workers: a process cannot replace itself; --workers 1 is enough")
_WORKERS, _HTTPS, _UNIX = Needs(("workers",)), Needs(("https://",)), Needs(("unix:",))
_JITTER = Needs(("max_requests",), "has nothing to vary; give --max-requests, too")
_LIFETIME_JITTER = Needs(("max_lifetime_seconds",), "has nothing to vary; give --max-lifetime, too")
_CERTIFICATE = Needs(("https://",), "is given, but no bind is for TLS; write https:// before its address")
_HOPS = Needs(
    ("trusted_proxies",),
    "counts proxies, but --trusted-proxies names none; name the peers of this server, or '*' for all",
)
_EXTRA = Needs(("reload",), "adds files for --reload to watch; give --reload, too")


class EngineSettings(Settings):
    """The settings of one server without those of features; see Settings."""

    # fmt: off
    bind: Sequence[str] = row(
        ("127.0.0.1:8000",), "Serving", "--bind", kinds.BINDS,
        "where to listen; repeatable, or separated by commas; https:// for TLS",
        "Loopback: nothing is reachable from outside until you say so. Without a bind, the command takes the sockets passed by "
        "systemd, or, where a platform sets PORT, 0.0.0.0 and this port. [::] accepts IPv4 clients as well, by the kernel's "
        "setting (net.ipv6.bindv6only), unless a bind of IPv4 has the same port; REMOTE_ADDR is then their IPv4 address.",
        fixed=True,
        path=whole_address,
    )
    threads: int = row(
        32, "Serving", "--threads", kinds.count(0, 4096),
        "worker threads to call the app; 0: the event loop's thread calls the app",
        "The default maximum of Python's ThreadPoolExecutor. aserve starts a thread when all threads are busy, so unneeded "
        "threads cost nothing.",
    )
    extra_threads: int = row(
        64, "Serving", "--extra-threads", kinds.count(0, 4096),
        "threads beyond --threads, for streamed responses to slow clients (through --response-spool): such a thread gives the "
        "place to another request, and both continue in turns; with 0, or --threads 1, the thread keeps the place",
        "Guess: twice the default of --threads. Each holds the resources of a generator, such as a connection to a database.",
    )
    websockets: int = row(
        100, "Serving", "--websockets", kinds.count(0, 65536),
        "WebSockets at once, each on a thread beyond --threads; more get a 503; 0, or --threads below 2: none; see `aserve docs websockets`",
        "Guess: a site's chat. Each takes a thread of aserve, mostly a thread of the app's library, three descriptors and some 60 KiB.",
    )
    loop: str = row(
        "auto", "Serving", "--loop", kinds.choice("auto", "uvloop", "asyncio"),
        "event loop; auto: uvloop where installed",
        "uvloop is faster on CPython, and does not exist for PyPy.",
    )
    http_parser: str = row(
        "c", "Serving", "--http-parser", kinds.choice("c", "httptools"),
        "parser of HTTP/1.1: aserve's own in C, or llhttp through httptools",
        "A single call per request, stricter, and the same on CPython and PyPy.",
    )
    body: str = row(
        "buffer", "Serving", "--body", kinds.choice("buffer", "stream"),
        "buffer: call the app when the request body is complete; stream: when the head is",
        "A slow upload then holds no worker thread.",
    )
    lane: str = row(
        "auto", "Serving", "--lane", kinds.choice("auto", "off"),
        "on Linux, let workers read and answer plain requests without the event loop",
        "Less CPU time a request (benchmarks/README.md), and otherwise no difference; off is for comparing.",
    )
    native: str = row(
        "auto", "Serving", "--native", kinds.choice("auto", "off"),
        "on CPython, let C serve plain requests on the fast path (--lane), unless a setting needs to see each request",
        "Less CPU time a request (benchmarks/README.md), and otherwise no difference; off is for comparing. Python serves all requests with "
        "--tracing, --queue-wait-header, --underscore-fields, --route, --max-connection-requests, --max-connection-age, --log-level debug, "
        "--threads 0.",
    )
    scgi_status: str = row(
        "field", "Serving", "--scgi-status", kinds.choice("field", "line"),
        "how SCGI responses begin: with the field `Status: 200 OK`, or with an HTTP status line",
        "RFC 3875 6.3.3: the form of CGI scripts, known to every front server.",
        needs=Needs(("scgi://",)),
    )
    unix_mode: int = row(
        0o666, "Serving", "--unix-mode", kinds.MODE,
        "mode of the files of unix sockets; users with write access may connect",
        "A front server runs as another user, and must connect. The socket is as open as a port on loopback: all users of this "
        "machine can connect, so restrict the mode (660 with --unix-group, or a separate folder) if you do not trust all users.",
        needs=_UNIX,
        fixed=True,
    )
    unix_owner: str | None = row(
        None, "Serving", "--unix-owner", kinds.ACCOUNTS,
        "owner of the files of unix sockets",
        "The user of aserve's process. Only root may give a file away.",
        needs=_UNIX,
        fixed=True,
    )
    unix_group: str | None = row(
        None, "Serving", "--unix-group", kinds.ACCOUNTS,
        "group of the files of unix sockets",
        "The group of aserve's process. Only root may name a group without being a member.",
        needs=_UNIX,
        fixed=True,
    )
    backlog: int = row(
        2048, "Serving", "--backlog", kinds.count(1, 65535),
        "connections waiting in the kernel for accept",
        "gunicorn's default; the kernel lowers the number to net.core.somaxconn.",
        fixed=True,
    )
    server_name: str = row(
        "aserve", "Serving", "--server-name", kinds.SERVER_NAME,
        "the Server field of responses; empty: none",
        "RFC 9110 10.2.4 warns of needlessly fine detail, so there is no version.",
    )
    workers: int | str | None = row(
        None, PROCESSES, "--workers", kinds.count_or_auto(1, MAX_WORKERS),
        "serve in worker processes, with a supervisor; auto: a worker for each available CPU; see `aserve docs workers`, and "
        "`aserve docs two-workers` for an app with state in memory",
        "A single process, restarted by a service manager, serves most sites; threads share memory. Workers use several CPUs "
        "on CPython, and let new code take over without a pause.",
    )
    preload: bool = row(
        False, PROCESSES, "--preload", kinds.SWITCH,
        "import the app once, in a process to fork workers from; see `aserve docs preload` for the limits at import",
        "Not every app can be forked: connections and threads opened at import do not work in a worker. Otherwise workers need "
        "less memory, and are ready at once.",
        needs=REPLACED,
    )
    warm_up: Sequence[str] = row(
        (), PROCESSES, "--warm-up", kinds.PLACES,
        "request for the app to answer before a worker counts as ready (with --preload: before workers are forked), PATH or "
        "HOST/PATH; new code with a 5xx answer is not served; repeatable; see `aserve docs upgrades`",
        "Only you know requests that test most of your app, and change nothing.",
        secret=show_place,
        needs=REPLACED,
    )
    start_seconds: float = row(
        0.0, PROCESSES, "--start-timeout", kinds.duration(0.0),
        "how long a worker may take to import the app and listen; then the worker is ended, with the stack in the log; 0: any time",
        "Some imports take minutes, and nothing is lost meanwhile: the old workers serve on.",
        needs=REPLACED,
    )
    touch_reload: Sequence[str] = row(
        (), PROCESSES, "--touch-reload", kinds.PATHS,
        "reload, as by SIGHUP, when this file changes or appears; repeatable",
        "SIGHUP does the same. A file is for users with write access there, but no right to send signals.",
        needs=REPLACED,
        path=whole_by_name,
    )
    reload_at_once: bool = row(
        False, PROCESSES, "--reload-at-once", kinds.SWITCH,
        "start the successors of all workers at once when reloading, instead of in turn",
        "A single extra worker needs the least memory and CPU. At once, old and new code serve side by side for a shorter time.",
        needs=REPLACED,
    )
    max_requests: int = row(
        0, PROCESSES, "--max-requests", kinds.count(0, 1_000_000_000),
        "requests until a worker process is replaced, when the successor is ready; 0: any number",
        "An app without leaks needs no limit, and for an app with leaks a limit of memory is better.",
        needs=REPLACED,
    )
    max_requests_jitter: int = row(
        0, PROCESSES, "--max-requests-jitter", kinds.count(0, 1_000_000_000),
        "most requests to add to that, drawn for each worker process",
        "Workers are replaced in turn in any case.",
        needs=_JITTER,
    )
    max_lifetime_seconds: float = row(
        0.0, PROCESSES, "--max-lifetime", kinds.duration(0.0, kinds.MONTH_SECONDS),
        "how long a worker process serves until a replacement, when the successor is ready; 0: any time",
        "As for --max-requests.",
        needs=REPLACED,
    )
    max_lifetime_jitter_seconds: float = row(
        0.0, PROCESSES, "--max-lifetime-jitter", kinds.duration(0.0, kinds.MONTH_SECONDS),
        "most time to add to that, drawn for each worker process",
        "As for --max-requests-jitter.",
        needs=_LIFETIME_JITTER,
    )
    max_rss_bytes: int = row(
        0, PROCESSES, "--max-rss", kinds.size(0, TIB),
        "resident memory of a worker process, including shared memory; above this size the worker is replaced, when the "
        "successor is ready; 0: any",
        "Only you know your app's normal size.",
        needs=REPLACED,
    )
    max_pss_bytes: int = row(
        0, PROCESSES, "--max-pss", kinds.size(0, TIB),
        "the same for proportional memory (PSS): memory shared by n processes counts as an nth part",
        "The fairest measure: the sum over all processes is the memory in use.",
        needs=REPLACED,
    )
    max_uss_bytes: int = row(
        0, PROCESSES, "--max-uss", kinds.size(0, TIB),
        "the same for unshared memory (USS): the memory freed by the worker's end",
        "A leak adds to this number.",
        needs=REPLACED,
    )
    hang_warning_seconds: float = row(
        10.0, PROCESSES, "--hang-warning", kinds.duration(0.0),
        "how long the event loop of a worker process may stand still before a line in the log, with all stacks; 0: any time",
        "Guess: no good loop stands still for a second; on a swapping machine, for some seconds.",
        needs=_WORKERS,
    )
    hang_timeout_seconds: float = row(
        60.0, PROCESSES, "--hang-timeout", kinds.duration(0.0),
        "how long the event loop may stand still before the worker process is replaced, when the successor is ready; 0: any time",
        "As long as nginx waits for an answer: later, no client waits any more.",
        needs=_WORKERS,
    )
    reload: bool = row(
        False, DEVELOPMENT, "--reload", kinds.SWITCH,
        "for development: serve new code within a second of a save, or show the failure in the browser; implies --workers 1, "
        "--threads 1 and no --hang-timeout, and at a terminal --access-log -, unless these are given; see `aserve docs "
        "development`",
        "This checks files all the time, serves a request at a time for breakpoint(), and shows source code.",
        needs=REPLACED,
        fixed=True,
    )
    reload_extra: Sequence[str] = row(
        (), DEVELOPMENT, "--reload-extra", kinds.PATHS,
        "with --reload: a folder, a file or a pattern (templates, 'conf/**/*.toml') whose changes reload, too; repeatable",
        "The imported modules of the project are watched anyway; only you know the other files of your app.",
        needs=_EXTRA,
        path=whole,
    )
    certificate: str | None = row(
        None, TLS, "--certificate", kinds.FILE,
        "PEM file of the certificate of https binds: the server's own first, then the intermediate certificates",
        "Clients would not trust a certificate made by aserve. A change of the file is seen within two seconds, and SIGHUP "
        "loads the file at once; open connections continue.",
        needs=_CERTIFICATE,
        path=whole,
    )
    key: str | None = row(
        None, TLS, "--key", kinds.FILE,
        "PEM file of the private key, without a passphrase; none: the key is in the certificate's file",
        "Most tools write a separate file; some put both into a single file.",
        needs=_HTTPS,
        path=whole,
    )
    sni: Sequence[str] = row(
        (), TLS, "--sni", kinds.SNI,
        "another certificate for clients with this server name; repeatable, or separated by commas",
        "A client with another name, or with none, gets --certificate.",
        needs=_HTTPS,
        path=whole_certificates,
    )
    client_ca: str | None = row(
        None, TLS, "--client-ca", kinds.FILE,
        "PEM file of the authorities whose client certificates are believed",
        "Only your own: a public authority would vouch for every client.",
        needs=_HTTPS,
        path=whole,
    )
    client_certificate: str = row(
        "none", TLS, "--client-certificate", kinds.choice("none", "optional", "required"),
        "whether to ask clients for a certificate; see SSL_CLIENT_VERIFY in `aserve docs tls`",
        "Browsers would show a dialog to their users.",
        needs=_HTTPS,
    )
    tls_min: str = row(
        "1.2", TLS, "--tls-min", kinds.choice("1.2", "1.3"),
        "oldest accepted version of TLS",
        "RFC 8996 forbids older versions; 1.2 is still needed by clients from before 2019.",
        needs=_HTTPS,
    )
    ciphers: str = row(
        "ECDHE+AESGCM:ECDHE+CHACHA20", TLS, "--ciphers", kinds.CIPHERS,
        "cipher suites of TLS 1.2, in order of preference; all suites of 1.3 are always on",
        "RFC 9325 4.2: only forward secrecy and AEAD, known to every client of the last ten years.",
        needs=_HTTPS,
    )
    trusted_proxies: Sequence[str] = row(
        (), "Proxies", "--trusted-proxies", kinds.PEERS,
        "proxies whose fields, or PROXY protocol, about their clients are believed; repeatable; see `aserve docs proxies`",
        "No field from a client is believed: without this, such fields do not even reach the app.",
    )
    trusted_hops: int = row(
        0, "Proxies", "--trusted-hops", kinds.count(0, 100),
        "number of proxies on the way of a request; 0: all addresses in --trusted-proxies",
        "Addresses are exact. The number is for proxies whose addresses are not known beforehand.",
        needs=_HOPS,
    )
    forwarded_fields: Sequence[str] = row(
        ("x-forwarded-for", "x-forwarded-proto"), "Proxies", "--forwarded-fields", kinds.FIELDS,
        "the fields set by your proxies, and not by clients; repeatable, or separated by commas",
        "The fields read by gunicorn and uvicorn. A field passed on unchanged is the client's word: name only fields that the "
        "proxy overwrites or appends to.",
        needs=Needs(("trusted_proxies",)),
    )
    max_connections: int = row(
        0, "Limits", "--max-connections", kinds.count(0, 1_000_000),
        "most connections at once; further clients wait in the kernel's queue (--backlog); 0: as many as "
        "`ulimit -n` has room for",
        "The app and open files keep --spool-files, 64 and 4 for each of --threads of the descriptors, or half of all if half "
        "is less: 576 of the usual 1024 remain.",
    )
    max_body_bytes: int = row(
        GIB, "Limits", "--max-body", kinds.size(0, 1024 * TIB),
        "largest request body; beyond: 413",
        "waitress's limit: room for an upload. --body-spool-total limits all bodies on disk.",
    )
    body_memory_bytes: int = row(
        512 * KIB, "Limits", "--body-memory", kinds.size(0, TIB),
        "octets of a request body kept in memory; a larger body goes to a temporary file",
        "waitress's limit: forms and JSON stay in memory, uploads do not.",
    )
    max_head_bytes: int = row(
        64 * KIB, "Limits", "--max-head", kinds.size(256, 16 * MIB),
        "largest request head; beyond: 431",
        "Guess: many times the cookies and tokens of browsers.",
    )
    max_request_line_bytes: int = row(
        8190, "Limits", "--max-request-line", kinds.size(64, 16 * MIB),
        "longest request line; beyond: 414",
        "Apache's LimitRequestLine; RFC 9112 3 asks for at least 8000 octets.",
    )
    max_fields: int = row(
        100, "Limits", "--max-fields", kinds.count(1, 10_000),
        "most field lines in a request head; beyond: 431",
        "Apache's LimitRequestFields, and gunicorn's.",
    )
    max_pipelined: int = row(
        16, "Limits", "--max-pipelined", kinds.count(1, 1024),
        "requests kept unanswered per connection before reading pauses",
        "Guess: browsers do not pipeline, and load generators send about this many.",
    )
    write_buffer_bytes: int = row(
        256 * KIB, "Limits", "--write-buffer", kinds.size(KIB, GIB),
        "octets of a response kept in memory for a slow client; more go to a temporary file",
        "Guess: most pages fit whole, so their thread is free at once; 1,000 slow clients use 256 MiB at most.",
    )
    response_spool_bytes: int = row(
        GIB, "Limits", "--response-spool", kinds.size(0, TIB),
        "octets of a streamed response kept in a temporary file before the app's thread waits for the client; 0: none, the "
        "thread waits once --write-buffer is full",
        "nginx's proxy_max_temp_file_size: a download frees the thread, and an endless stream to a client without reads ends.",
    )
    response_memory_bytes: int = row(
        64 * MIB, "Limits", "--response-memory", kinds.size(0, TIB),
        "octets of large bodies waiting in memory, for all clients together, a body returned again counted once; beyond, a "
        "thread waits up to 0.25 s while clients read, then all but the first 512 KiB goes to --response-spool, if allowed",
        "Guess: a dozen downloads of 5 MB. From memory a body is sent without a thread; with --threads 0 this is the only way.",
    )
    body_spool_total_bytes: int = row(
        0, "Limits", "--body-spool-total", kinds.size(0, 1024 * TIB),
        "octets of temporary files for request bodies, for all clients together; beyond: 503 with Retry-After; 0: half of the "
        "free space in their folder (TMPDIR)",
        "Clients must not fill a disk of the app. Only the system knows the free space.",
    )
    response_spool_total_bytes: int = row(
        0, "Limits", "--response-spool-total", kinds.size(0, 1024 * TIB),
        "octets of temporary files for responses, for all clients together; beyond, the app's thread waits for the client; 0: "
        "a quarter of the free space in their folder (TMPDIR)",
        "Half of the space for request bodies: without room a response is only slower, but a request is refused.",
    )
    spool_files: int = row(
        0, "Limits", "--spool-files", kinds.count(0, 1_000_000),
        "most temporary files at once, of request bodies and responses, and twice the files being sent; beyond: 503 with "
        "Retry-After, or the app's thread waits for the client; 0: a quarter of `ulimit -n`",
        "Uploads and slow readers would otherwise take the descriptors needed by the app for files and connections.",
    )
    keep_alive_seconds: float = row(
        75.0, "Time limits", "--keep-alive", kinds.PROGRESS,
        "how long a connection may be idle between requests",
        "nginx's keepalive_timeout; longer than the 60 s of common load balancers, so balancers close first and never send a "
        "request into a closing connection.",
    )
    head_seconds: float = row(
        30.0, "Time limits", "--head-timeout", kinds.PROGRESS,
        "how long a request head may take from the first octet; beyond: 408",
        "Guess: a head is a packet or two; a client with an octet at a time is cut off.",
    )
    body_seconds: float = row(
        60.0, "Time limits", "--body-timeout", kinds.PROGRESS,
        "how long a request body may make no progress; beyond: 408",
        "nginx's client_body_timeout.",
    )
    write_seconds: float = row(
        60.0, "Time limits", "--write-timeout", kinds.PROGRESS,
        "how long a client may read nothing of a response before the connection is cut off",
        "nginx's send_timeout.",
    )
    min_rate_bytes: int = row(
        240, "Time limits", "--min-rate", kinds.size(0, GIB),
        "least octets a second of an arriving request body and of a response's reader, as the mean of each --body-timeout and "
        "--write-timeout; slower: 408, or cut off; 0: no limit",
        "Kestrel's rate, less than half of Apache's. A modem was ten times as fast; slower clients are attackers.",
    )
    request_seconds: float = row(
        0.0, "Time limits", "--request-timeout", kinds.duration(0.0),
        "how long the app may take for a request; beyond: an exception in the app's thread, and 504; 0: any time; see `aserve "
        "docs deadlines`",
        "An exception between any two steps of an app can leave locks taken and work half "
        "done, and only you know how long a request may take. 60 s suits many: nginx waits no longer.",
    )
    keep_half_closed: bool = row(
        False, "Time limits", "--keep-half-closed", kinds.SWITCH,
        "serve a request also after a wait for a thread of over a second by a client with a closed sending side: the client "
        "may still read; without this the client counts as gone, since over TCP both look alike",
        "nginx treats such a client as gone, too, and HAProxy with abortonclose. Browsers, curl and front servers close both "
        "sides at once, and after so long a wait a client has mostly given up.",
    )
    max_stuck: int = row(
        32, "Time limits", "--max-stuck", kinds.count(1, 4096),
        "number of worker threads out of reach of --request-timeout until the process drains and ends",
        "The default of --threads: stuck threads then hold as much as a whole pool.",
        needs=Needs(("request_seconds",)),
    )
    drain_seconds: float = row(
        30.0, "Time limits", "--drain-timeout", kinds.duration(0.0),
        "how long running requests may take to finish after SIGTERM",
        "gunicorn's graceful_timeout, and within systemd's 90 s.",
    )
    drain_delay_seconds: float = row(
        0.0, "Time limits", "--drain-delay", kinds.duration(0.0),
        "how long to go on accepting after SIGTERM, while health checks and pings already report draining",
        "Only a load balancer needs a delay: give a little more than the balancer takes to notice.",
    )
    healthcheck_path: str | None = row(
        None, "Health checks", "--healthcheck-path", kinds.URL_PATH,
        "answer GET and HEAD of PATH/live and PATH/ready (or PATH) without the app, even while all threads are busy: live: 200; ready: "
        "503 when draining, or when requests wait too long; neither is logged; see `aserve docs health`",
        "Any path could be your app's.",
    )
    healthcheck_max_wait_seconds: float = row(
        10.0, "Health checks", "--healthcheck-max-wait", kinds.duration(0.0),
        "how long a request may wait for a thread before the server is not ready, also for pings over uwsgi; 0: any time",
        "Guess: a server whose requests wait this long is stuck, and not only busy; nginx gives up after 60 s. A low limit is "
        "dangerous: under too high a load for all servers, each server taken out leaves a share to the rest.",
        needs=Needs(("healthcheck_path", "agent_check", "metrics", "uwsgi://")),
    )
    proxy_status: str | None = row(
        None, "Health checks", "--proxy-status", kinds.PROXY_NAME,
        "name of this host in the field Proxy-Status (RFC 9209) of each error from aserve in the app's place, with the cause; "
        "see `aserve docs balancers`",
        "The field shows strangers a host's name, unless a front server removes the field. Responses of the app have no such field.",
    )
    user: str | None = row(
        None, "Process", "--user", kinds.ACCOUNTS,
        "user to become after binding, and before the app is imported; only for root",
        "The starting user; a Server in your own program changes nothing of the process. Under systemd User= does the same, and more: prefer User=, with a socket unit for a port below 1024.",
        fixed=True,
    )
    group: str | None = row(
        None, "Process", "--group", kinds.ACCOUNTS,
        "group to become after binding; only for root",
        "The group of --user, with all further groups.",
        fixed=True,
    )
    add_group: Sequence[str] = row(
        (), "Process", "--add-group", kinds.GROUPS,
        "group beside the group of --user or --group; repeatable; only for root",
        "A user has the groups given by the machine: usermod -aG GROUP USER.",
        needs=Needs(("user", "group")),
        fixed=True,
    )
    umask: int | None = row(
        None, "Process", "--umask", kinds.UMASK,
        "rights withheld from files made by the app; for unix sockets of clients --unix-mode decides",
        "It is inherited.",
        fixed=True,
    )
    chdir: str | None = row(
        None, "Process", "--chdir", kinds.FILE,
        "folder to change to before the app is imported; all other settings' paths stay relative to the old folder, but for --python-path",
        "It is inherited.",
    )
    python_path: Sequence[str] = row(
        (), "Process", "--python-path", kinds.PATHS,
        "folder to import from, before all other folders; .pth files there are read; repeatable",
        "The app's folder comes first, unless --python-path names that folder, too; and a virtual environment has another aserve.",
    )
    env: Sequence[str] = row(
        (), "Process", "--env", kinds.ENV,
        "variable of the environment for the app; repeatable; a password is better in the environment of aserve itself, as all users of the machine can read a command line",
        "Variables are inherited: set variables by systemd's Environment= and EnvironmentFile=, or in the container.",
        secret=show_variable,
    )
    pid_file: str | None = row(
        None, "Process", "--pid-file", kinds.FILE,
        "file to write the process's number into after binding, and before the app is imported; removed at the end",
        "systemd and containers know their process without a file.",
        fixed=True,
        path=whole,
    )
    request_id_header: str | None = row(
        None, "Logs", "--request-id-header", kinds.FIELD_NAME,
        "field of each response with the request's id, such as X-Request-ID: the client's X-Request-ID, whatever this field is "
        "called, or a new id; see `aserve docs logging`",
        "Some frameworks send an id themselves, and then a response has two. Each request pays about a microsecond.",
    )
    show_queries: bool = row(
        False, "Logs", "--show-queries", kinds.SWITCH,
        "show the query of a request in aserve status, top and stacks, slow requests, the error log and the spans of "
        "--tracing; the access log always has queries",
        "A query may contain passwords and tokens, and people paste such output into tickets.",
    )
    log_level: str = row(
        "info", "Logs", "--log-level", kinds.choice("debug", "info", "warning", "error", "critical"),
        "least severe message to show on standard error",
        "Start, stop and errors; nothing per request.",
    )
    log_config: str | None = row(
        None, "Logs", "--log-config", kinds.FILE,
        "TOML or JSON file in the form of Python's logging.config, for all loggers of the process",
        "Messages go to standard error, an event per line.",
        path=whole,
    )
    # fmt: on

    @property
    def is_of_one(self) -> bool:
        """Whether no second process is to serve, but while a reload goes on: wsgi.multiprocess is false then, as in uWSGI and gunicorn."""
        return self.workers in (None, 1)

    def workers_after(self, wanted: int, present: int) -> int:
        """Return the number of workers after a reload has changed --workers to `wanted`; `present`: the number before."""
        return wanted

    def advise(self, status: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the warnings of options about the facts of a status, each with a cure; see lifecycle/advice.py."""
        return []

    def check(self) -> None:
        """See Settings."""
        if self.body == "stream" and self.threads == 0:
            raise ConfigError(
                "--body stream needs --threads of 1 or more: on the event loop's thread "
                "the app would wait for octets that only this thread can receive"
            )
        if self.request_seconds and self.threads == 0:
            raise ConfigError(
                f"--request-timeout ({self.request_seconds:g} s) needs --threads of 1 or more: on the event loop's "
                "thread no timer can run while the app runs"
            )
        if self.max_request_line_bytes > self.max_head_bytes:
            raise ConfigError(
                f"--max-request-line ({kinds.show_bytes(self.max_request_line_bytes)}) is larger than "
                f"--max-head ({kinds.show_bytes(self.max_head_bytes)}), of which it is a part"
            )
        if self.workers is not None and sys.platform != "linux":
            raise ConfigError(f"--workers ({self.workers}) needs Linux; without that setting, one process serves")
        if self.reload and self.preload:
            raise ConfigError(
                "--reload imports the app anew after each save, and --preload once for all workers; leave one of them out"
            )
        if not self.trusted_proxies:
            proxied = [bind for bind in self.bind if bind.startswith(PROXIED)]
            if proxied:
                raise ConfigError(
                    f"--bind {proxied[0]!r}: no client could connect there; name the balancers in --trusted-proxies"
                )
        for bind in self.tls_binds:
            self.tls_settings(bind)
        for setting, package in (("loop", "uvloop"), ("http-parser", "httptools")):
            chosen = getattr(self, setting.replace("-", "_"))
            if chosen == package and importlib.util.find_spec(package) is None:
                raise ConfigError(f"--{setting} {package}: {_why_missing(package)}")

    @property
    def places(self) -> list[str]:
        """All addresses to listen at, with addresses of features."""
        beside = [getattr(self, row.name) for row in self.rows() if row.kind in (kinds.LISTENING, kinds.STATS)]
        return [*self.bind, *(place for place in beside if place is not None)]

    @property
    def tls_binds(self) -> list[Bind]:
        """The binds with TLS."""
        return [bind for bind in map(parse_bind, self.bind) if bind.protocol == "https"]

    def has(self, needs: Needs) -> bool:
        """See Settings; a scheme is looked for in all addresses."""
        schemes = [name for name in needs.any_of if ":" in name]
        names = tuple(name for name in needs.any_of if ":" not in name)
        return super().has(Needs(names)) or any(scheme in place for scheme in schemes for place in self.places)

    @classmethod
    def implied(cls, values: Mapping[str, Any], is_at_terminal: bool) -> Mapping[str, Any]:
        """See Settings: the values implied by --reload."""
        if not values.get("reload"):
            return {}
        return {**RELOAD_IMPLIES, **(TERMINAL_IMPLIES if is_at_terminal and "access_log" not in values else {})}

    def tls_values(self) -> dict[str, Any]:
        """Return the settings of the group TLS for binds without options. A feature with certificates of its own adds them."""
        return {setting.name: getattr(self, setting.name) for setting in EngineSettings.rows() if setting.group == TLS}

    def tls_settings(self, bind: Bind) -> TLSSettings:
        """
        Return the settings of the group TLS for an https bind, with the bind's own options.

        Raises:
            ConfigError: an option is not accepted, or two contradict each other.
        """
        rows = [setting for setting in EngineSettings.rows() if setting.group == TLS]
        values = self.tls_values()
        own = {setting.name: [v for key, v in bind.options if key == setting.key] for setting in rows}
        if own["certificate"]:
            values["key"] = None  # the key of the other binds cannot match the certificate
        for setting in rows:
            texts = own[setting.name]
            if texts:
                value = texts if setting.kind is kinds.SNI else texts[-1]
                values[setting.name] = setting.parse(value, f"{setting.key} of the bind {bind}")
        if values["certificate"] is None:
            raise ConfigError(f"the bind {bind} has no certificate; give --certificate, and --key with it")
        if values["client_certificate"] != "none" and values["client_ca"] is None:
            raise ConfigError(
                f"the bind {bind} wants client certificates, but no authority is trusted; name one with --client-ca"
            )
        if values["client_ca"] is not None and values["client_certificate"] == "none" and not own["client_certificate"]:
            raise ConfigError(
                f"the bind {bind} has a client-ca, but asks for no certificates; give --client-certificate required, "
                "or optional"
            )
        return TLSSettings(**values)


# With one thread, breakpoint() stops one request, and the prompt owns the terminal; no time-out ends the stopped process.
RELOAD_IMPLIES = {"workers": 1, "threads": 1, "hang_warning_seconds": 0.0, "hang_timeout_seconds": 0.0}
# And at a terminal a short line for each request, unless an access log is named.
TERMINAL_IMPLIES = {"access_log": "-", "access_log_format": "common"}


def _why_missing(package: str) -> str:
    if sys.implementation.name != "cpython":
        return f"the package {package} does not exist for {sys.implementation.name}; leave it out"
    return f"the package {package} is not installed; `pip install {package}` would do it"
