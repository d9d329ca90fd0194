"""gunicorn's settings, and the translation of each.

Owns:     the table ROWS, read by the loader (gunicorn.py), by `aserve translate` and by docs/make_moving.py; the flags of GUNICORN_CMD_ARGS.
Thread:   any; data.
Spec:     gunicorn 27.0.1, gunicorn/config.py.
Not here: parsing values (gunicorn_values.py), rules over several settings (gunicorn.py).
"""

from __future__ import annotations

from . import gunicorn_values as values
from .draft import Row, Rows, always, maps, unlike

DAY = 86400
SMUGGLING = "aserve refuses requests that can be understood in two ways"

ROWS: tuple[Row, ...] = (
    # Where to listen
    maps("bind", "bind", values.take_bind, "a relative path is one of `chdir`; with `certfile` it is `https://`; sockets that a unit of systemd passes are bound in its place, as in gunicorn"),
    maps("backlog", "backlog", values.number("backlog", 1, 65535)),
    always("reuse_port", "all workers accept from one socket, and share its connections by their load"),
    maps("protocol", "bind", values.fact("protocol"), "`uwsgi://`, if it is `uwsgi`"),
    maps("uwsgi_allow_ips", "dropped-guards", values.fact("uwsgi_allow_ips"), "beside `protocol = 'uwsgi'`: with a bind for other machines, and unless it is `'*'`, it ends the start, as aserve answers each peer there"),
    # What to serve
    maps("wsgi_app", "APP", values.fact("app")),
    maps("chdir", "chdir", values.fact("chdir")),
    maps("pythonpath", "python-path", values.take_paths("python-path")),
    maps("raw_env", "env", values.take_raw_env),
    maps("paste", "APP", values.fact("paste"), "`config:FILE`; see `aserve docs paste`"),
    unlike("raw_paste_global_conf", "serve it with `pserve`, with `use = egg:aserve-wsgi#main`; see `aserve docs paste`"),
    unlike("asgi_* websocket_max_message_size", "aserve serves WSGI"),
    unlike("root_path", "the front server says it, as SCRIPT_NAME or by X-Forwarded-Prefix; see `aserve docs proxies`"),
    # Processes and threads
    maps("workers", "workers", values.number("workers", 1, 1024), "without it `1`, or what `WEB_CONCURRENCY` says"),
    maps("threads", "threads", values.fact("threads"), "without it `1`, as gunicorn has: raise it where the app bears that"),
    maps("worker_class", "threads", values.fact("worker_class"), "`sync` and `gthread` are threads; gevent and eventlet: as many threads as `worker_connections`, 256 at most; uvicorn's serve ASGI"),
    maps("worker_connections", "threads", values.fact("worker_connections"), "of gevent and eventlet; otherwise nothing is to be done: a connection takes no thread, see `--max-connections`"),
    maps("preload_app", "preload", values.fact("preload_app"), "a reload loads the new code all the same"),
    maps("max_requests", "max-requests", values.number("max-requests", 0, 1_000_000_000)),
    maps("max_requests_jitter", "max-requests-jitter", values.fact("max_requests_jitter")),
    maps("timeout", "request-timeout hang-timeout", values.fact("timeout"), "with one thread `--request-timeout` ends a request that takes longer; with several threads `--hang-timeout` ends a worker that stands still for so long"),
    maps("graceful_timeout", "drain-timeout", values.number("drain-timeout", 0, DAY)),
    maps("keepalive", "keep-alive", values.number("keep-alive", 0.1, DAY)),
    unlike("reload", "`--reload`, for development; in a deployment `--touch-reload FILE` or SIGHUP loads new code; see `aserve docs development`"),
    maps("reload_extra_files", "touch-reload", values.take_paths("touch-reload")),
    always("reload_engine", "the line of `reload` says what is there instead"),
    always("worker_tmp_dir", "workers show that they live in shared memory, and write no file"),
    always("proc_name default_proc_name", "a process has aserve's name"),
    always("initgroups", "the process has the groups of `user`, and none of root's"),
    maps("http_protocols", "http2", values.take_protocols, "without `h2` it is `off`"),
    always("sendfile enable_stdio_inheritance do_handshake_on_connect suppress_ragged_eofs dirty_* control_socket control_socket_mode control_socket_disable http_parser enable_backlog_metric", "it is as a server needs it"),
    unlike("dirty_apps", "aserve starts no dirty workers, and calls of such apps fail: `--attach` has a process beside the app; see `aserve docs attached`"),
    maps("http2_max_concurrent_streams", "max-streams", values.number("max-streams", 1, 10_000)),
    unlike("http2_max_header_list_size http2_initial_window_size http2_max_frame_size", "the limits are aserve's own: `--max-head`, `--max-fields`; see `aserve docs http2`"),
    unlike("http2_cleartext", "`--http2 h2c`, for the peers in `--trusted-proxies`; see `aserve docs http2`"),
    unlike("check_config print_config spew config", "`aserve --check`, and `aserve translate`"),
    # The process
    unlike("daemon", "aserve stays in the foreground: systemd, a container or a supervisor starts it"),
    maps("user", "user", values.text("user")),
    maps("group", "group", values.text("group")),
    maps("umask", "unix-mode", values.fact("umask"), "of unix sockets alone, as in gunicorn: what it leaves of 777; they are of `user` and `group`"),
    maps("pidfile", "pid-file", values.text("pid-file")),
    unlike("tmp_upload_dir", "temporary files are in the folder that the variable `TMPDIR` names"),
    # Logs
    maps("accesslog", "access-log", values.text("access-log")),
    maps("access_log_format", "access-log-format", values.take_access_format, "gunicorn's names; a line has `-` for a name that is not known, and the log names these"),
    maps("errorlog capture_output", "", values.fact("hook"), "messages go to standard error, or with `--gunicorn-conf` to this file, which is opened anew when it was renamed"),
    maps("loglevel", "log-level", values.take_log_level, "`debug` shows what happens to each connection, and Python serves all requests then: `info` is for a site"),
    maps("logger_class", "", values.fact("hook"), "obeyed, also without gunicorn: [loggers](#loggers) has what differs"),
    maps("logconfig logconfig_dict logconfig_json", "", values.fact("hook"), "obeyed, by Python's logging.config: [loggers](#loggers)"),
    maps("syslog", "access-log", values.fact("syslog"), "messages and requests: [loggers](#loggers)"),
    maps("syslog_addr", "access-log", values.fact("syslog_addr"), "beside `syslog`"),
    maps("syslog_prefix syslog_facility disable_redirect_access_to_syslog", "", values.fact("hook"), "beside `syslog`"),
    maps("statsd_host", "statsd", values.take_statsd, "with gunicorn's names, and more; see `aserve docs metrics`"),
    maps("statsd_prefix", "statsd-prefix", values.fact("statsd_prefix"), "what stands before `gunicorn` in each name"),
    unlike("dogstatsd_tags statsd_*", "the names have no tags; `--metrics` tells Prometheus; see `aserve docs metrics`"),
    # Requests
    maps("limit_request_line", "max-request-line", values.take_request_line),
    maps("limit_request_fields", "max-fields", values.number("max-fields", 1, 10_000)),
    maps("limit_request_field_size", "max-head", values.take_field_size, "a limit for all fields together"),
    maps("forwarded_allow_ips", "trusted-proxies", values.take_forwarded, "without it `127.0.0.1`, `::1` and unix sockets; `REMOTE_ADDR` stays the peer's, as in gunicorn: `--environ-as`"),
    maps("proxy_protocol", "bind", values.fact("proxy_protocol"), "`proxy+http://`; a request without the PROXY line is refused"),
    maps("proxy_allow_ips", "trusted-proxies", values.take_forwarded),
    maps("secure_scheme_headers", "scheme-fields", values.take_scheme_fields),
    maps("forwarder_headers", "underscore-fields", values.take_forwarder_headers, "but for `SCRIPT_NAME` and `PATH_INFO`, gunicorn's default: the proxy says the first as X-Forwarded-Prefix, see `aserve docs proxies`; `*` names none"),
    maps("header_map", "", values.take_header_map, "other names with an underscore never reach the app: let whatever sets them use hyphens, or name them in `--underscore-fields`"),
    unlike("permit_obsolete_folding strip_header_spaces permit_unconventional_http_method permit_unconventional_http_version casefold_http_method", SMUGGLING),
    # TLS
    maps("certfile", "certificate", values.text("certificate")),
    maps("keyfile", "key", values.text("key")),
    maps("ca_certs", "client-ca", values.text("client-ca")),
    maps("cert_reqs", "client-certificate", values.take_cert_reqs),
    maps("ssl_version", "tls-min", values.take_ssl_version, "1.2 or 1.3"),
    maps("ciphers", "ciphers", values.text("ciphers")),
    # Hooks
    maps("on_starting when_ready on_reload on_exit child_exit", "", values.fact("hook"), "called where gunicorn calls it, with small objects: `server.log`, `server.pid`, `server.cfg`"),
    maps("pre_fork post_fork post_worker_init worker_exit", "", values.fact("hook"), "called in the worker, `pre_fork` right before `post_fork`, with small objects: `worker.pid`, `worker.age`, `worker.log`, `worker.cfg`"),
    unlike("pre_exec", "it is not called; SIGUSR2 starts new code by trying it first"),
    unlike("worker_int worker_abort", "it is not called; `aserve stacks` and the log show what a worker is at"),
    maps("pre_request", "dropped-guards", values.hook("pre_request"), "it is not called; a WSGI middleware sees each request. One that does more than log, or whose source cannot be read, ends the start"),
    unlike("post_request", "it is not called; a WSGI middleware sees each request"),
    unlike("nworkers_changed on_dirty_starting", "it is not called; the log has each change"),
    maps("ssl_context", "dropped-guards", values.hook("ssl_context"), "it is not called, and beside `certfile` it ends the start; the settings of TLS are in `aserve docs tls`"),
)  # fmt: skip
TABLE = Rows(ROWS)
OLD = {"logfile": "errorlog", "preload": "preload_app"}  # the first is of early versions, and still in files

# Flags whose names differ from the settings'; and those without a value.
FLAGS = {
    "-b": "bind", "-w": "workers", "-k": "worker_class", "-t": "timeout", "-c": "config", "-p": "pidfile", "-D": "daemon",
    "-u": "user", "-g": "group", "-m": "umask", "-e": "raw_env", "-n": "proc_name", "-R": "enable_stdio_inheritance",
    "--pid": "pidfile", "--env": "raw_env", "--name": "proc_name", "--preload": "preload_app", "--keep-alive": "keepalive",
    "--access-logfile": "accesslog", "--error-logfile": "errorlog", "--log-file": "errorlog", "--access-logformat": "access_log_format",
    "--log-level": "loglevel", "--log-config": "logconfig", "--log-config-json": "logconfig_json", "--log-syslog": "syslog",
    "--log-syslog-to": "syslog_addr", "--log-syslog-prefix": "syslog_prefix", "--log-syslog-facility": "syslog_facility",
    "--reload-extra-file": "reload_extra_files", "--no-sendfile": "sendfile", "--no-control-socket": "control_socket_disable", "--paste-global": "raw_paste_global_conf",
    "--paster": "paste", "--proxy-allow-from": "proxy_allow_ips", "--uwsgi-allow-from": "uwsgi_allow_ips",
    "--limit-request-field_size": "limit_request_field_size",
    # Of families (`http2_*`), as gunicorn 27 has them.
    "--http2-cleartext": "http2_cleartext", "--http2-max-concurrent-streams": "http2_max_concurrent_streams",
    "--http2-initial-window-size": "http2_initial_window_size", "--http2-max-frame-size": "http2_max_frame_size",
    "--http2-max-header-list-size": "http2_max_header_list_size", "--asgi-loop": "asgi_loop", "--asgi-lifespan": "asgi_lifespan",
    "--asgi-disconnect-grace-period": "asgi_disconnect_grace_period", "--dirty-app": "dirty_apps", "--dirty-workers": "dirty_workers",
    "--dirty-timeout": "dirty_timeout", "--dirty-threads": "dirty_threads", "--dirty-graceful-timeout": "dirty_graceful_timeout",
}  # fmt: skip
SWITCHES = (
    "daemon", "preload_app", "reload", "check_config", "print_config", "capture_output", "initgroups", "sendfile", "spew",
    "reuse_port", "enable_stdio_inheritance", "syslog", "do_handshake_on_connect", "suppress_ragged_eofs",
    "disable_redirect_access_to_syslog", "control_socket_disable", "permit_obsolete_folding", "strip_header_spaces",
    "casefold_http_method", "enable_backlog_metric", "permit_unconventional_http_method", "permit_unconventional_http_version",
)  # fmt: skip


def meant_by(name: str) -> str | None:
    """Return the setting that an unknown name in a file likely means: of its flag, or the nearest. Short flags are names of a file's own variables, too."""
    of_flag = FLAGS.get(f"--{name.replace('_', '-')}") if "_" in name else OLD.get(name)
    return of_flag or TABLE.nearest(name)
