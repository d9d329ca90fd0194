"""Explains flags of other servers that were given to aserve, and unknown ones on their command lines.

Owns:     explain_flag, explain_unknown; the flags of servers from which no settings are read.
Thread:   the main thread, in a command that ends with this.
Not here: the translation of each setting (gunicorn_table.py, uwsgi_table.py), the sentence around it (command/flags.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.near_names import near_names
from .draft import BY_KEY, NEAR, Row
from .gunicorn_table import FLAGS
from .gunicorn_table import TABLE as GUNICORN
from .uwsgi_logic import INCLUDES
from .uwsgi_table import TABLE as UWSGI

# Flags of uvicorn, granian, hypercorn, waitress and Flask, with aserve's equivalent.
OTHERS = {
    "listen": "give --bind HOST:PORT",
    "uds": "give --bind unix:PATH",
    "unix-socket": "give --bind unix:PATH",
    "app": "the first argument is the app: aserve module:app",
    "factory": "call it in the first argument: 'module:create_app()'",
    "call": "call it in the first argument: 'module:create_app()'",
    "interface": "leave it out: aserve serves WSGI",
    "http": "leave it out: aserve speaks HTTP/1.1, and HTTP/2 over TLS with the extra http2",
    "quic-bind": "leave it out: aserve speaks HTTP/1.1, and a front server HTTP/3",
    "debug": "give --reload, for development",
    "reload-dir": "give --reload-extra FOLDER",
    "blocking-threads": "give --threads",
    "runtime-threads": "leave it out; the app's threads are --threads",
    "ssl-certfile": "give --certificate FILE, and https:// before the address of --bind",
    "ssl-certificate": "give --certificate FILE, and https:// before the address of --bind",
    "ssl-keyfile": "give --key FILE",
    "limit-max-requests": "give --max-requests",
    "timeout-keep-alive": "give --keep-alive",
    "connection-limit": "give --max-connections",
    "unix-socket-perms": "give --unix-mode MODE",
    "uds-permissions": "give --unix-mode MODE",
    "ident": "give --server-name NAME",
    "channel-timeout": "give --keep-alive, --head-timeout, --body-timeout and --write-timeout, for its parts",
    "trusted-proxy": "give --trusted-proxies ADDRESS",
    "trusted-proxy-count": "give --trusted-hops N",
    "trusted-proxy-headers": "give --forwarded-fields",
    "clear-untrusted-proxy-headers": "leave it out: it is always so",
    "url-scheme": "leave it out: a proxy that --trusted-proxies names says it, by X-Forwarded-Proto",
    "url-prefix": "give --mount /PREFIX=module:app",
    "max-request-header-size": "give --max-head SIZE",
    "max-request-body-size": "give --max-body SIZE",
    "inbuf-overflow": "give --body-memory SIZE",
    "outbuf-overflow": "give --response-memory SIZE",
    "expose-tracebacks": "leave it out: the log has them",
    **dict.fromkeys(
        [
            "log-socket-errors",
            "log-untrusted-proxy-headers",
            "asyncore-use-poll",
            "asyncore-loop-timeout",
            "cleanup-interval",
            "send-bytes",
            "recv-bytes",
            "channel-request-lookahead",
            "runtime-mode",
            "runtime-blocking-threads",
            "task-impl",
            "backpressure",
            "respawn-failed-workers",
        ],
        "leave it out: nothing depends on it here",
    ),
    "http1-header-read-timeout": "give --head-timeout SECONDS",
    "access-log-fmt": "give --access-log-format",
    "ssl-ca": "give --client-ca FILE",
    "ssl-client-verify": "give --client-certificate required",
    "url-path-prefix": "give --mount /PREFIX=module:app",
    "workers-lifetime": "give --max-lifetime",
    "workers-max-rss": "give --max-rss SIZE",
    "workers-kill-timeout": "give --drain-timeout",
    "working-dir": "give --chdir FOLDER",
    "static-path-route": "give --static /PREFIX=FOLDER",
    "static-path-mount": "give --static /PREFIX=FOLDER",
    "static-path-expires": "give --static-expires",
    "metrics-address": "give --metrics ADDRESS:PORT",
    "metrics-port": "give --metrics ADDRESS:PORT",
    "reload-paths": "give --reload-extra FOLDER",
    "env-file": "have a shell or systemd (EnvironmentFile=) read it; --env NAME=VALUE sets one",
}


def explain_flag(flag: str) -> str:
    """Return aserve's equivalent of a flag of gunicorn, uWSGI or another server, as "--timeout"; "": no server has it."""
    name = flag.lstrip("-")
    if flag == f"--{name}" and name in OTHERS:
        return OTHERS[name]
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
        return f"{server} has it, and here it is {ours}" + (f": {text}" if text else "")
    return f"{server} has it; leave it out: {text}"
