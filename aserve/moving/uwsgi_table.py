"""uWSGI's options, and what becomes of each.

Owns:     the table ROWS: read by the loader (uwsgi.py), by `aserve translate`, and by docs/make_moving.py.
Thread:   any; data.
Spec:     uWSGI 2.0.30, `uwsgi --help`.
Not here: how a value is read (uwsgi_values.py).

It is long because it is data.
"""

from __future__ import annotations

from .draft import Row, Rows, always, maps, unlike
from .uwsgi_values import (
    MAX_BACKLOG,
    MIN_HEAD_BYTES,
    collect,
    count,
    fact,
    number,
    switch,
    take_attached,
    take_cache,
    take_chmod,
    take_chown,
    take_greenlets,
    take_log_file,
    take_log_format,
    take_logger,
    take_mule,
    take_plugins,
    text,
)

DAY, MONTH = 86400, 30 * 86400
QUEUE = "use a task queue, such as Celery, RQ or Huey"
UNIT = "have systemd start it, as a service of its own"
NGINX = "have the front server do it, such as nginx"
PROXY = "it belongs to uWSGI's own proxies, and aserve needs none before it"

ROWS: tuple[Row, ...] = (
    # Where to listen
    maps("socket", "bind", collect("socket"), "`uwsgi://`, or what `protocol` says; a relative path is one of `chdir`"),
    maps("uwsgi-socket suwsgi-socket ssl-socket", "bind", collect("socket"), "`uwsgi://`"),
    maps("http-socket http11-socket", "bind", collect("socket")),
    maps("http httprouter", "bind", collect("socket"), "without a process of its own in between"),
    maps("https https-socket", "bind", collect("socket"), "`https://` with its certificate; see tls.md"),
    maps("scgi-socket scgi-nph-socket", "bind", collect("socket"), "`scgi://`"),
    maps("shared-socket undeferred-shared-socket", "bind", collect("shared"), "for `=0` of the others"),
    maps("protocol socket-protocol", "bind", fact("protocol"), "of `socket`"),
    unlike("fastcgi-socket fastcgi-nph-socket raw-socket puwsgi-socket http-socket-modifier1 zerg zerg-server zerg-pool", "aserve speaks HTTP, uwsgi and SCGI"),
    maps("chmod-socket chmod", "unix-mode", take_chmod),
    maps("chown-socket", "unix-owner unix-group", take_chown),
    maps("listen", "backlog", number("backlog", 1, MAX_BACKLOG)),
    unlike("abstract-socket freebind map-socket reuse-port", "its address is bound as `--bind` says, once for all workers"),
    always("so-keepalive so-write-timeout socket-write-timeout tcp-nodelay tcp-fast-open no-defer-accept close-on-exec close-on-exec2 thunder-lock socket-sndbuf socket-rcvbuf",
           "sockets are as a server needs them, and workers do not all wake for one connection"),
    # What to serve
    maps("module wsgi", "APP", fact("module")),
    maps("wsgi-file file", "APP", fact("wsgi-file"), "a relative path is one of `chdir`"),
    maps("callable", "APP", fact("callable")),
    maps("mount", "mount", collect("mount"), "by the path of the request, as with `manage-script-name`"),
    always("manage-script-name", "`--mount` does that"),
    maps("chdir", "chdir", fact("chdir")),
    maps("chdir2", "chdir", fact("chdir"), "before the import, not behind it"),
    maps("pythonpath python-path pp", "python-path", text("python-path")),
    maps("home virtualenv venv pyhome", "python-path", fact("virtualenv"), "its packages, if it is for the Python that runs aserve; nothing, if it is the one that this runs in"),
    maps("env", "env", text("env"), "also a variable for what follows, as `$(NAME)`"),
    maps("paste ini-paste ini-paste-logged", "APP", fact("paste"), "`config:FILE`; see paste.md"),

    always("paste-logger", "the file's sections of loggers are read"),
    unlike("pyargv pymodule-alias import shared-import pyimport py-import shared-pyimport shared-py-import python-import shared-python-import spooler-python-import eval pyrun", "do it where the app is imported"),
    unlike("vhost vhost-host", "serve each app by an aserve of its own; the front server knows the hosts"),
    unlike("unenv envdir early-envdir", "take it out of the environment of whoever starts it"),
    unlike("wsgi-disable-file-wrapper wsgi-lite wsgi-accept-buffer wsgi-accept-buffers wsgi-env-behavior wsgi-env-behaviour wsgi-strict web3 pump pecan", "the app is served as PEP 3333 says"),
    # Processes and threads
    maps("processes workers", "workers", count("processes", 1)),
    maps("master", "workers", switch("master"), "without `processes`: `1`"),
    maps("threads", "threads", number("threads", 1, 4096), "without it `1`, as uWSGI has: raise it where the app bears that"),
    maps("gevent async", "threads", take_greenlets, "as many threads, 256 at most"),
    unlike("gevent-monkey-patch gevent-early-monkey-patch gevent-*", "aserve runs the app in real threads, and must not be patched"),
    unlike("ugreen loop", "aserve runs the app in threads: `--threads`"),
    always("enable-threads single-interpreter need-app master-as-root no-orphans die-on-term vacuum strict lazy lazy-apps", "it is always so; `--preload` would import the app once for all"),
    always("py-call-osafterfork py-call-uwsgi-fork-hooks", "Python's own fork is used"),
    always("offload-threads offload-thread threads-stacksize thread-stack-size threads-stack-size thread-stacksize no-threads-wait", "the event loop sends files, and waits for slow readers"),
    unlike("cheap idle die-on-idle cheaper cheaper-*", "there are as many workers as `--workers` says; SIGTTIN and SIGTTOU change that"),
    always("cheaper-algo cheaper-algo-list", "see `cheaper`"),
    maps("max-requests", "max-requests", number("max-requests", 0, 1_000_000_000)),
    maps("max-requests-delta", "max-requests-jitter", count("max-requests-delta"), "times `processes`"),
    maps("max-worker-lifetime", "max-lifetime", number("max-lifetime", 0, MONTH)),
    maps("max-worker-lifetime-delta", "max-lifetime-jitter", count("max-worker-lifetime-delta"), "times `processes`"),
    always("min-worker-lifetime", "a worker is replaced when its successor is ready"),
    maps("reload-on-rss evil-reload-on-rss", "max-rss", number("max-rss", 0, 1 << 40, 1 << 20), "in MiB there, in octets here"),
    unlike("reload-on-as evil-reload-on-as limit-as", "memory that is only reserved says little: `--max-rss`, or systemd's `MemoryMax=`"),
    maps("worker-reload-mercy reload-mercy", "drain-timeout", number("drain-timeout", 0, DAY)),
    maps("attach-daemon attach-daemon2 smart-attach-daemon smart-attach-daemon2", "attach", take_attached, "it must stay in the foreground; see attached.md"),
    maps("mule", "attach", take_mule, "with a file of Python, which runs as a program; without one aserve has no mules"),
    unlike("mule-reload-mercy mules farm mule-harakiri", f"aserve has no mules: {QUEUE}"),
    maps("harakiri", "request-timeout", number("request-timeout", 0, DAY), "it interrupts the request, not the process; see deadlines.md"),
    always("harakiri-verbose harakiri-graceful-timeout harakiri-graceful-signal harakiri-queue-threshold harakiri-no-arh no-harakiri-arh no-harakiri-after-req-hook backtrace-depth", "the log has the stack of what took too long"),
    maps("touch-reload touch-workers-reload touch-chain-reload fs-reload fs-brutal-reload", "touch-reload", text("touch-reload")),
    unlike("py-autoreload py-auto-reload python-autoreload python-auto-reload py-auto-reload-ignore", "`--reload`, for development; in a deployment `--touch-reload FILE` or SIGHUP loads new code; see development.md"),
    unlike("touch-logrotate touch-logreopen touch-exec touch-signal touch-mules-reload touch-spoolers-reload propagate-touch fs-signal", "signals do it: SIGHUP reloads, SIGUSR1 opens logs anew"),
    always("exit-on-reload", "SIGHUP replaces workers one after another, each when its successor is ready"),
    unlike("cpu-affinity cgroup cgroup-opt", "systemd does it: `CPUAffinity=`, `Nice=`, `Slice=`"),
    unlike("master-fifo", "signals, and `aserve reload --control PATH`"),
    always("max-fd ksm auto-procname procname procname-prefix procname-prefix-spaced procname-append procname-master skip-atexit skip-atexit-teardown show-config ignore-sigpipe ignore-write-errors disable-write-exception write-errors-tolerance write-errors-exception-only honour-stdin catch-exceptions never-swap reload-os-env prio memory-report limit-nproc safe-fd zerg-fallback py-tracebacker profiler cflags dot-h enable-metrics", "nothing depends on it here"),
    # The process
    maps("uid", "user", text("user"), "only where root starts it"),
    maps("gid", "group", text("group"), "only where root starts it"),
    always("add-gid", "the user's groups are its own in any case"),
    maps("umask", "umask", text("umask")),
    maps("pidfile safe-pidfile pidfile2 safe-pidfile2", "pid-file", text("pid-file", is_path=True)),
    maps("daemonize daemonize2", "access-log", take_log_file, "aserve stays in the foreground: systemd, a container or a supervisor starts it"),
    unlike("chroot pivot-root unshare jail* emperor-use-clone namespace*", "systemd does it: `RootDirectory=`, `CapabilityBoundingSet=` and the like"),
    unlike("emperor* vassal* subscribe-to subscribe subscription* fastrouter* rawrouter* sslrouter* forkrouter* http-subscription-server sub*", "have systemd start an aserve for each app"),
    unlike("legion* lord* exec-* hook-* attach-control-daemon call-* mount-* umount-* wait-for-* worker-exec worker-exec2", UNIT),
    unlike("cron cron2 unique-cron cron-harakiri timer rbtimer signal-timer signal-rbtimer", "cron, or a timer of systemd's, does it; `@timer` and `@cron` of uwsgidecorators work"),
    unlike("spooler spooler-* spool*", f"aserve has no spooler: {QUEUE}"),
    maps("cache2", "uwsgi-cache", take_cache, "its name, items, blocksize, keysize and purge_lru; see uwsgi-api.md"),
    maps("cache cache-blocksize", "uwsgi-cache", collect("cache"), "a cache called `default`; see uwsgi-api.md"),
    always("cache-expire-freq cache-report-freed-items locks lock-engine ftok", "`uwsgi.lock` has 256 locks, and what has expired makes room where it is needed"),
    unlike("cache-* queue queue-* sharedarea", "share it among workers by Redis, memcached or a database"),
    unlike("snmp snmp-* carbon carbon-* stats-push* metrics-* stats-pusher*", "`--metrics` tells Prometheus; see metrics.md"),
    unlike("stats stats-server stats-http stats-no-cores stats-no-metrics stats-minified", "`--stats ADDRESS`, for uwsgitop and its like; see metrics.md; `aserve status` and `aserve top` with `--control PATH`"),
    # Requests
    maps("buffer-size", "max-head max-request-line", number("max-head", MIN_HEAD_BYTES, 16 << 20), "for request line and fields together"),
    maps("max-vars", "max-fields", number("max-fields", 1, 10_000)),
    always("post-buffering post-buffering-bufsize", "the app is called when the body is complete; `--body-memory` says what stays in memory"),
    maps("limit-post", "max-body", number("max-body")),
    maps("socket-timeout so-send-timeout socket-send-timeout", "body-timeout write-timeout", count("socket-timeout"), "how long a client may do nothing"),
    always("http-timeout http-connect-timeout http-headers-timeout", "no proxy stands in between; see `--head-timeout`, `--body-timeout`, `--write-timeout`"),
    maps("http-keepalive", "keep-alive", fact("http-keepalive")),
    always("http-auto-chunked http-raw-body http-chunked-input http-buffer-size http-to http-processes http-workers http-manage-expect http-auto-gzip http-stud-prefix http-uid http-gid http-harakiri http-use-pattern http-use-base http-events http-modifier1 http-resubscribe http-websockets http-manage-rtsp", PROXY),
    unlike("http-*", PROXY),
    unlike("add-header del-header response-headers-limit rem-header collect-header pull-header", f"the app sets its fields; or {NGINX}"),
    maps("static-map", "static", collect("static"), "of folders; a relative one is of `chdir`; see files.md"),
    maps("static-index", "static-index", collect("static-index")),
    maps("static-expires static-expires-uri", "static-expires", collect("static-expires"), "a regular expression and seconds"),
    always("static-gzip* honour-range mimefile mime-file static-cache-paths static-cache-paths-name fileserve-mode file-serve-mode", "files that are compressed already are sent where they stand beside, ranges are answered, and types are known"),
    unlike("static-map2 static-expires* static-safe check-static check-static-docroot static-skip-ext", "`--static /PREFIX=FOLDER` has folders, each below a path of its own; see files.md"),
    unlike("route route-* final-route* error-route* response-route*", f"`--route` has its RPC actions, see rpc.md; for the rest {NGINX}"),
    unlike("websocket-* websockets-*", "another server speaks WebSocket"),
    unlike("cgi* scgi-modifier* fastcgi-modifier* php* perl* psgi* ruby* lua* jvm* mono* go-* v8* gccgo* xslt*", "aserve serves Python's WSGI"),
    # Logs
    maps("logto logto2", "access-log", take_log_file, "messages go to standard error"),
    maps("req-logger logger-req", "access-log", take_logger),
    maps("logger", "access-log", take_logger, "messages go to standard error"),
    maps("log-syslog", "access-log", fact("syslog")),
    maps("disable-logging", "access-log", switch("disable-logging"), "without it a line for each request, on standard output"),
    maps("log-4xx", "access-log-skip", switch("log-4xx"), "beside `disable-logging`: the others are skipped"),
    maps("log-5xx", "access-log-skip", switch("log-5xx"), "beside `disable-logging`: the others are skipped"),
    unlike("log-slow log-big log-zero log-sendfile log-ioerror log-route log-req-route log-encoder log-req-encoder log-drain log-filter", "lines can be formatted and left out: `--access-log-format json`, `--access-log-skip`; see logging.md"),
    maps("log-format logformat", "access-log-format", take_log_format, "the names are the same"),
    maps("log-x-forwarded-for", "trusted-proxies", switch("log-x-forwarded-for"), "name your proxies there; see proxies.md"),
    unlike("log-maxsize log-backupname", "logrotate does it, with SIGUSR1"),
    always("log-master log-master-bufsize threaded-logger log-micros log-date logdate log-prefix log-reopen log-truncate logfile-chown logfile-chmod log-master-stream log-master-req-stream alarm-fd logformat-strftime log-format-strftime logger-list loggers-list", "SIGUSR1 opens logs anew; each line has its time"),
    unlike("alarm* log-alarm alarm-list", "what watches your logs does it"),
    maps("plugins plugin need-plugin need-plugins plugins-dir plugin-dir", "", take_plugins, "Python and HTTP are always there"),
    always("ini include inherit config xml xmlconfig yaml yml json js set set-placeholder set-ph if-* end* declare-option print fallback-config autoload plugins-list", "it is read as uWSGI reads it"),
)  # fmt: skip
TABLE = Rows(ROWS)
