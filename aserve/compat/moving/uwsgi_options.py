"""The options of uWSGI's command line: which take a value, and their letters.

Owns:     data, read by uwsgi_arguments.py.
Thread:   any; data.
Spec:     uWSGI 2.0.31, `uwsgi --help`.
Not here: the meaning of an option (uwsgi_table.py, which has the name of each).
"""

from __future__ import annotations

LETTERS = {
    "a": "abstract-socket", "A": "sharedarea", "b": "buffer-size", "c": "cgi-mode", "C": "chmod-socket", "d": "daemonize", "h": "help", "H":
    "virtualenv", "i": "single-interpreter", "j": "json", "J": "test", "l": "listen", "L": "disable-logging", "m": "memory-report", "M":
    "master", "O": "optimize", "p": "processes", "Q": "spooler", "r": "reaper", "R": "max-requests", "s": "socket", "S": "set", "t":
    "harakiri", "T": "enable-threads", "v": "max-vars", "w": "module", "x": "xml", "y": "yaml", "z": "socket-timeout",
}  # fmt: skip
# Options without a value.
SWITCHES = frozenset(
    """
    abstract-socket alarm-list alarms-list auto-procname autoload cache-no-expire cache-report-freed-items cache-use-last-modified carbon-name-resolve
    carbon-no-workers carbon-resolve-names carbon-use-metrics catch-exceptions cflags cgi-mode cheap cheaper-algo-list cheaper-algos-list
    cheaper-busyness-verbose cheaper-list check-static-docroot clock-list clocks-list close-on-exec close-on-exec2 command-mode config-py
    daemons-honour-stdin die-on-idle die-on-term disable-logging disable-sendfile disable-write-exception dot-h drop-after-apps drop-after-init
    dump-options early-emperor emperor-graceful-shutdown emperor-magic-exec emperor-no-blacklist emperor-nofollow emperor-tyrant
    emperor-tyrant-nofollow enable-metrics enable-proxy-protocol enable-threads end-blacklist end-whitelist exit-on-reload fastrouter-cheap
    fastrouter-fallback-on-no-key force-gateway freebind gevent-early-monkey-patch gevent-monkey-patch gevent-wait-for-hub harakiri-no-arh
    harakiri-verbose help honour-range honour-stdin http-auto-chunked http-auto-gzip http-cheap http-chunked-input http-manage-rtsp http-manage-source
    http-raw-body http-websockets https-export-cert if-not-reload if-reload ignore-script-name ignore-sigpipe ignore-write-errors
    imperial-monitor-list imperial-monitors-list jailed lazy lazy-apps log-4xx log-5xx log-format-strftime log-master log-master-req-stream
    log-master-stream log-micros log-reopen log-truncate log-x-forwarded-for log-zero logfile-chown logformat-strftime logger-list loggers-list
    loop-list loops-list manage-script-name master master-as-root memory-report metric-dir-restore metrics-dir-restore metrics-no-cores nagios
    never-swap no-default-app no-defer-accept no-fd-passing no-harakiri-after-req-hook no-harakiri-arh no-initgroups no-orphans no-server no-site
    no-threads-wait paste-logger pcre-jit persistent-ipcsem plugin-list plugins-list propagate-touch py-call-osafterfork py-call-uwsgi-fork-hooks
    python-version rawrouter-cheap rawrouter-xclient re-fork re-fork-as-root re-fork-post-jail reaper refork refork-as-root refork-post-jail
    reload-on-exception reload-os-env reuse-port router-list routers-list rsyslog-split-messages setns-preopen show-config shutdown-sockets
    single-interpreter skip-atexit skip-atexit-teardown skip-zero so-keepalive so-send-timeout so-write-timeout socket-send-timeout
    socket-write-timeout spooler-ordered spooler-quiet ssl-enable-sslv3 ssl-enable-tlsv1 ssl-enable3 ssl-option ssl-verbose sslrouter-cheap
    sslrouter-sni start-unsubscribed start_response-nodelay static-gzip-all stats-http stats-min stats-minified stats-no-cores stats-no-metrics strict
    subscription-dotsplit subscriptions-use-credentials symcall-use-next tcp-fast-open-client tcp-fastopen-client tcp-nodelay threaded-logger
    thunder-lock ugreen unsubscribe-on-graceful-reload usage use-abort vacuum version vhost vhost-host write-errors-exception-only wsgi-accept-buffer
    wsgi-accept-buffers wsgi-disable-file-wrapper wsgi-strict zerg-fallback
    """.split()  # noqa: SIM905  # a list of literals is three times as long
)
# Options whose value follows an equals sign, if there is one.
OPTIONAL = frozenset(
    """
    check-cache chmod chmod-socket end-for end-if endfor endif exit fastrouter-use-cache fastrouter-use-socket http-enable-proxy-protocol
    http-keepalive http-manage-expect http-use-cache http-use-socket ksm log-date log-prefix log-syslog logdate mule mule-msg-size need-app pyshell
    pyshell-oneshot rawrouter-use-cache rawrouter-use-socket snmp ssl-session-use-cache ssl-sessions-use-cache ssl-verify-depth sslrouter-use-cache
    sslrouter-use-socket
    """.split()  # noqa: SIM905  # a list of literals is three times as long
)
