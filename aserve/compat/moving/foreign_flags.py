"""Explains flags of other servers that were given to aserve, and unknown ones on their command lines.

Owns:     explain_flag, explain_family, explain_unknown; SERVERS, the flags of servers from which no settings are read, for docs/make_moving.py, too.
Thread:   the main thread, in a command that ends with this.
Spec:     `--help` of waitress 3.0.2, mod_wsgi-express 6.1.1, granian 2.8.9 and uvicorn 0.54.0.
Not here: the translation of each setting (gunicorn_table.py, uwsgi_table.py), the sentence around it (command/flags.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...core.near_names import near_names
from .draft import BY_KEY, NEAR, Row
from .gunicorn_table import FLAGS
from .gunicorn_table import TABLE as GUNICORN
from .uwsgi_logic import INCLUDES
from .uwsgi_table import TABLE as UWSGI

SAME, NOTHING = "the same", "leave it out: nothing depends on it here"
WSGI = "leave it out: aserve serves WSGI"
FACTORY = "call it in the first argument: `'module:create_app()'`"
TLS = "`--certificate FILE`, and `https://` before the address of `--bind`; see `aserve docs tls`"
LEVEL = "the same, with debug, info, warning, error or critical"
LINES = "`--access-log -`, or a file; without it there are no lines"
SOCKETS = "leave it out: WebSocket libraries of WSGI apps work; see `aserve docs websockets`"
PLAIN_KEY = "leave it out: the key has no passphrase here; see `aserve docs tls`"
ENV_FILE = "have a shell or systemd (`EnvironmentFile=`) read it; `--env NAME=VALUE` sets one"
APACHE = "leave it out: it is Apache's own"
FRONT = "leave it out: have a front server do it, such as nginx or Apache"
DEVELOPING = "leave it out: `--reload` is for development"

# By server, what its flags are here: a flag of aserve's, or what to do.
_TABLES: dict[str, list[tuple[str, str]]] = {
    "waitress": [
        ("host port threads backlog", SAME),
        ("listen", "`--bind HOST:PORT`"),
        ("ipv4 no-ipv4 ipv6 no-ipv6", "leave it out: the address of `--bind` says it"),
        ("unix-socket", "`--bind unix:PATH`"),
        ("unix-socket-perms", "`--unix-mode MODE`"),
        ("app", "the first argument is the app: `aserve module:app`"),
        ("call", FACTORY),
        ("trusted-proxy", "`--trusted-proxies ADDRESS`"),
        ("trusted-proxy-count", "`--trusted-hops N`"),
        ("trusted-proxy-headers", "`--forwarded-fields`, with commas between the names"),
        ("clear-untrusted-proxy-headers no-clear-untrusted-proxy-headers", "leave it out: they never reach the app"),
        ("url-scheme", "leave it out: a proxy that `--trusted-proxies` names says it, by X-Forwarded-Proto"),
        ("url-prefix", "`--mount /PREFIX=module:app`"),
        ("ident", "`--server-name NAME`"),
        ("server-name", "leave it out: each request has its Host; `--server-name` here is the field Server"),
        ("connection-limit", "`--max-connections`"),
        ("channel-timeout", "`--keep-alive`, `--head-timeout`, `--body-timeout` and `--write-timeout`, for its parts"),
        ("max-request-header-size", "`--max-head SIZE`"),
        ("max-request-body-size", "`--max-body SIZE`"),
        ("inbuf-overflow", "`--body-memory SIZE`"),
        ("outbuf-overflow outbuf-high-watermark", "`--response-memory SIZE`"),
        ("expose-tracebacks no-expose-tracebacks", "leave it out: the log has them"),
        (
            "log-socket-errors no-log-socket-errors log-untrusted-proxy-headers no-log-untrusted-proxy-headers asyncore-use-poll no-asyncore-use-poll "
            "asyncore-loop-timeout cleanup-interval send-bytes recv-bytes channel-request-lookahead",
            NOTHING,
        ),
    ],
    "granian": [
        ("host port workers backlog pid-file reload", SAME),
        ("loop", "the same, but for rloop"),
        ("log-level", LEVEL),
        ("interface", WSGI),
        ("uds", "`--bind unix:PATH`"),
        ("uds-permissions", "`--unix-mode MODE`"),
        ("blocking-threads", "`--threads`"),
        ("runtime-threads", "leave it out; the app's threads are `--threads`"),
        ("http", "leave it out: aserve speaks HTTP/1.1, and HTTP/2 over TLS"),
        ("ws no-ws", SOCKETS),
        ("http1-buffer-size http2-max-headers-size", "`--max-head SIZE`"),
        ("http1-header-read-timeout", "`--head-timeout SECONDS`"),
        ("no-http1-keep-alive", "`--max-connection-requests 1`"),
        ("http2-max-concurrent-streams", "`--max-streams`"),
        ("access-log", LINES),
        ("no-access-log", "leave it out: without `--access-log` there are no lines"),
        ("access-log-fmt", "`--access-log-format`"),
        ("log-config", "the same, with TOML or JSON"),
        ("no-log", "`--log-level critical`"),
        ("ssl-certificate", TLS),
        ("ssl-keyfile", "`--key FILE`"),
        ("ssl-keyfile-password", PLAIN_KEY),
        ("ssl-protocol-min", "`--tls-min`"),
        ("ssl-ca", "`--client-ca FILE`"),
        ("ssl-crl", FRONT),
        ("ssl-client-verify", "`--client-certificate required`"),
        ("no-ssl-client-verify", "leave it out: no client is asked without `--client-certificate`"),
        ("url-path-prefix", "`--mount /PREFIX=module:app`"),
        ("workers-lifetime", "`--max-lifetime`"),
        ("workers-max-rss", "`--max-rss SIZE`"),
        ("workers-kill-timeout", "`--drain-timeout`"),
        ("factory", FACTORY),
        ("working-dir", "`--chdir FOLDER`"),
        ("env-file env-files", ENV_FILE),
        ("static-path-route static-path-mount", "`--static /PREFIX=FOLDER`"),
        ("static-path-dir-to-file", "`--static-index NAME`"),
        ("static-path-expires", "`--static-expires`"),
        ("metrics", "`--metrics ADDRESS:PORT`, with its address"),
        ("metrics-address metrics-port", "`--metrics ADDRESS:PORT`"),
        ("reload-paths", "`--reload-extra FOLDER`"),
        ("process-name", "leave it out: a process has aserve's name"),
        (
            "blocking-threads-idle-timeout runtime-mode runtime-blocking-threads task-impl backpressure respawn-failed-workers no-respawn-failed-workers "
            "respawn-interval rss-sample-interval rss-samples http1-keep-alive http1-pipeline-flush no-http1-pipeline-flush http2-adaptive-window "
            "no-http2-adaptive-window http2-initial-connection-window-size http2-initial-stream-window-size http2-keep-alive-interval http2-keep-alive-timeout "
            "http2-max-frame-size http2-max-send-buffer-size log no-factory no-metrics metrics-scrape-interval no-reload reload-ignore-dirs "
            "reload-ignore-patterns reload-ignore-paths reload-tick reload-ignore-worker-failure no-reload-ignore-worker-failure",
            NOTHING,
        ),
    ],
    "uvicorn": [
        ("host port workers backlog reload", SAME),
        ("log-level", LEVEL),
        ("log-config", "the same, with TOML or JSON"),
        ("access-log", LINES),
        ("no-access-log", "leave it out: without `--access-log` there are no lines"),
        ("uds", "`--bind unix:PATH`"),
        ("fd", "`--bind fd:N`"),
        ("factory", FACTORY),
        ("app-dir", "`--python-path FOLDER`"),
        ("interface lifespan", WSGI),
        ("loop", "the same: auto, asyncio or uvloop"),
        ("http", "leave it out: aserve speaks HTTP/1.1, and HTTP/2 over TLS"),
        ("http2", "leave it out: it is spoken over TLS; see `aserve docs http2`"),
        ("ws ws-max-size ws-max-queue ws-ping-interval ws-ping-timeout ws-per-message-deflate", SOCKETS),
        ("reload-dir reload-include", "`--reload-extra FOLDER`"),
        ("env-file", ENV_FILE),
        ("proxy-headers forwarded-allow-ips", "`--trusted-proxies ADDRESS`"),
        ("no-proxy-headers", "leave it out: no field of a proxy is believed without `--trusted-proxies`"),
        ("root-path", "leave it out: a proxy says it, by X-Forwarded-Prefix; see `aserve docs proxies`"),
        ("header", "`--add-field 'NAME: VALUE'`"),
        ("no-server-header", "`--server-name ''`"),
        ("limit-concurrency", "`--max-connections`: further clients wait, and get no 503"),
        ("limit-max-requests", "`--max-requests`"),
        ("limit-max-requests-jitter", "`--max-requests-jitter`"),
        ("timeout-keep-alive", "`--keep-alive`"),
        ("timeout-graceful-shutdown", "`--drain-timeout`"),
        ("timeout-worker-healthcheck", "`--hang-timeout`"),
        ("h11-max-incomplete-event-size", "`--max-head SIZE`"),
        ("ssl-certfile", TLS),
        ("ssl-keyfile", "`--key FILE`"),
        ("ssl-keyfile-password", PLAIN_KEY),
        ("ssl-version", "`--tls-min`"),
        ("ssl-cert-reqs", "`--client-certificate`"),
        ("ssl-ca-certs", "`--client-ca FILE`"),
        ("ssl-ciphers", "`--ciphers`"),
        ("reload-exclude reload-delay server-header date-header no-date-header use-colors no-use-colors reset-contextvars", NOTHING),
    ],
    "mod_wsgi-express": [
        ("host", "the same; without it 127.0.0.1, there all addresses"),
        ("port threads user group python-path pid-file request-timeout", SAME),
        ("log-level", LEVEL),
        ("processes", "`--workers`"),
        ("application-type", "leave it out: the first argument is a file, or a module: `module:application`"),
        ("entry-point", "the first argument is the app: `/srv/app.wsgi:application`"),
        ("callable-object", "the first argument names it: `/srv/app.wsgi:app`"),
        ("mount-point", "`--mount /PREFIX=/srv/app.wsgi:application`"),
        ("working-directory", "`--chdir FOLDER`"),
        ("setenv", "`--env NAME=VALUE`, for a variable of the process; there it is a key of each environ"),
        ("lang locale", "`--env LANG=C.UTF-8`"),
        ("passenv envvars-script", ENV_FILE),
        ("python-warnings", "`--env PYTHONWARNINGS=TEXT`, before Python starts"),
        ("maximum-requests", "`--max-requests`, with `--workers`"),
        ("graceful-timeout shutdown-timeout eviction-timeout", "`--drain-timeout`"),
        ("deadlock-timeout", "`--hang-timeout`"),
        ("startup-timeout", "`--start-timeout`"),
        ("restart-interval", "`--max-lifetime`, with `--workers`"),
        ("reload-on-changes", "`--reload`, for development; otherwise `--touch-reload FILE`, SIGHUP"),
        ("disable-reloading", "leave it out: without `--touch-reload` no file is looked at"),
        ("slow-requests", "`--slow-request SECONDS`"),
        ("access-log", LINES),
        ("access-log-name log-directory", "`--access-log FILE`"),
        ("access-log-format", "the same, with combined, common or `%(h)s` in place of `%h`"),
        ("log-to-terminal startup-log startup-log-name error-log-name error-log-format", "leave it out: messages go to standard error"),
        ("rotate-logs max-log-size rotatelogs-executable", "leave it out: logrotate does it, with SIGUSR1; see `aserve docs logging`"),
        ("limit-request-body", "`--max-body SIZE`"),
        ("keep-alive-timeout", "`--keep-alive`"),
        ("max-clients", "`--max-connections`"),
        ("server-backlog daemon-backlog", "`--backlog`"),
        ("header-timeout header-max-timeout", "`--head-timeout`"),
        ("body-timeout", "the same: the time without an octet of a body"),
        ("socket-timeout response-socket-timeout", "`--write-timeout`"),
        ("header-min-rate body-min-rate body-max-timeout", "`--min-rate SIZE`"),
        ("response-buffer-size", "`--response-memory SIZE`"),
        ("https-port ssl-port", "`--bind https://:PORT`; see `aserve docs tls`"),
        ("ssl-certificate-file", TLS),
        ("ssl-certificate", "`--certificate FILE.crt` and `--key FILE.key`"),
        ("ssl-certificate-key-file", "`--key FILE`"),
        ("ssl-certificate-chain-file", "`--certificate FILE`, behind the server's own in that file"),
        ("ssl-ca-certificate-file", "`--client-ca FILE`"),
        ("ssl-verify-client", "`--client-certificate required`, for all paths"),
        ("ssl-environment", "leave it out: the environ has them; see `aserve docs tls`"),
        ("https-only", "`--https-redirect PORT`"),
        ("hsts-policy", "`--hsts SECONDS`"),
        ("http2", "leave it out, or a value: it is spoken over TLS; see `aserve docs http2`"),
        ("trust-proxy", "`--trusted-proxies ADDRESS`"),
        ("trust-proxy-header", "`--forwarded-fields`; see `aserve docs proxies`"),
        ("url-alias document-root", "`--static /PREFIX=FOLDER`; see `aserve docs files`"),
        ("directory-index", "`--static-index NAME`"),
        ("compress-responses", "`--compress`"),
        ("mime-types", "`--static-fields 'PATTERN Content-Type: TYPE'`"),
        ("server-status server-metrics enable-telemetry telemetry-service telemetry-interval telemetry-options telemetry-ui-port", "`--metrics ADDRESS:PORT`; see `aserve docs metrics`"),
        ("service-script service-user service-group service-log-file", "`--attach 'NAME=COMMAND'`, for a program beside the workers; see `aserve docs attached`"),
        ("server-name", "leave it out: each request has its Host; `--server-name` here is the field Server"),
        (
            "server-alias allow-localhost error-document error-override proxy-mount-point proxy-url-alias proxy-virtual-host proxy-timeout rewrite-rules "
            "host-access-script auth-user-script auth-type auth-group-script auth-group directory-listing allow-override with-php5 with-cgi add-handler",
            FRONT,
        ),
        (
            "debug-mode enable-debugger debugger-startup enable-coverage coverage-directory enable-profiler profiler-directory enable-recorder "
            "recorder-directory enable-gdb gdb-executable verbose-debugging enable-docs",
            DEVELOPING,
        ),
        (
            "server-root server-mpm include-file setup-only isatty httpd-executable shell-executable modules-directory process-name socket-prefix "
            "orphan-interpreter embedded-mode application-group process-group python-eggs",
            APACHE,
        ),
        (
            "initial-workers minimum-spare-workers maximum-spare-workers cpu-time-limit inactivity-timeout ignore-activity interrupt-timeout connect-timeout "
            "queue-timeout send-buffer-size receive-buffer-size header-buffer-size response-flush-delay enable-sendfile map-head-to-get chunked-request "
            "switch-interval free-threading",
            NOTHING,
        ),
    ],
    "Flask": [("p", "`--port PORT`"), ("app", "the first argument is the app: `aserve module:app`"), ("debug", "`--reload`, for development")],
    "hypercorn": [("quic-bind", "leave it out: aserve speaks HTTP/1.1, and a front server HTTP/3")],
}  # fmt: skip
SERVERS = {
    server: [Row(["--"[: len(name)] + name for name in names.split()], (), None, text, False) for names, text in rows]
    for server, rows in _TABLES.items()
}


def explain_flag(flag: str) -> str:
    """Return aserve's equivalent of a flag of other servers, with its dashes; "": no server has it."""
    by_text: dict[str, list[str]] = {}
    for server, rows in SERVERS.items():
        for row in rows:
            if flag in row.names:
                by_text.setdefault(_plain(row.text), []).append(server)
    read = _explain_read(flag)
    for text in list(by_text):  # what is said of gunicorn's or uWSGI's is not said again
        ours = re.search(r"--[a-z-]+", text)
        if read and ours is not None and f"{ours[0]}:" in f"{read}:":
            del by_text[text]
    if len(by_text) == 1 and not read:
        return next(iter(by_text))
    return "; ".join(
        [*(f"for {' or '.join(servers)} {text}" for text, servers in by_text.items()), *filter(None, [read])]
    )


def explain_family(flag: str) -> str:
    """Return what a flag of one of uWSGI's families is here, as that of emperors; "": none. Families fit loosely: a near flag of aserve's goes first."""
    row = UWSGI.find(flag[2:]) if flag.startswith("--") else None
    if row is None:
        return ""
    if row.take is not None and not row.to:
        return "uWSGI has it, and its own command line is served as it is: aserve uwsgi ..."
    return _explain("uWSGI", row)


def _plain(text: str) -> str:
    """Return a cell of a page as a clause of a message."""
    return f"{'give ' if text[:1] == '`' else ''}{text}".replace("`", "")


def _explain_read(flag: str) -> str:
    """Return what a flag of gunicorn or uWSGI is here, from the tables by which their settings are read."""
    name = flag.lstrip("-")
    setting = FLAGS.get(flag, name.replace("-", "_"))
    if flag in FLAGS or (flag.startswith("--") and _has(GUNICORN.find(setting), setting)):
        return _explain("gunicorn", GUNICORN.find(setting))
    if not flag.startswith("--"):
        return ""  # uWSGI's short flags mean other things to gunicorn
    if name in INCLUDES:
        return "uWSGI's file is here --uwsgi-ini FILE"
    row = UWSGI.find(name)
    return _explain("uWSGI", row) if _has(row, name) else ""


def explain_unknown(flag: str, word: str, known: Iterable[str]) -> str:
    """Return a clause about a flag that the server of this word does not have; `known`: its long flags, without dashes."""
    if flag == "--check" or flag in {setting.flag for setting in BY_KEY.values()}:
        return f"; it is aserve's, which goes before the word {word}"
    near = near_names(flag[2:], known, 1, NEAR)
    return f"; is --{near[0]} meant?" if near else ""


def _has(row: Row | None, name: str) -> bool:
    """Whether a row is for exactly this name, and not for a family."""
    return row is not None and name in row.names


def _explain(server: str, row: Row | None) -> str:
    assert row is not None
    text = row.text.replace("`", "")
    ours = " and ".join("the first argument" if key == "APP" else BY_KEY[key].flag for key in row.to)
    if ours:
        return f"{server} has it; for aserve write {ours}" + (f": {text}" if text else "")
    return f"{server} has it; leave it out: {text}"
