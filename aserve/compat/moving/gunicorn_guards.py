"""gunicorn's rules that decide which requests or clients reach the app, and that aserve does not have.

Owns:     note_guards.
Thread:   the main thread.
Spec:     gunicorn's documentation, "Server Hooks": pre_request, ssl_context; "Settings": protocol, uwsgi_allow_ips.
Not here: hooks that are called (gunicorn_hooks.py), whether one decides anything (hook_proofs.py).
"""

from __future__ import annotations

from ...connections.addresses import is_address, is_loopback
from ...settings import parse_bind
from .addresses import texts
from .draft import Draft, refusing
from .hook_proofs import only_calls_factory, only_logs

ALL_PEERS = "*"


def note_guards(draft: Draft) -> None:
    """Note pre_request, ssl_context and uwsgi_allow_ips: as guards, unless they decide nothing here."""
    given = draft.facts.get("pre_request")
    if given is not None:
        text = "it is not called; a WSGI middleware sees each request"
        if only_logs(given.value):
            draft.note(given, f"it has no effect here: {text}")
        else:
            draft.guard(given, f"aserve does not call it, and it may change or refuse requests: {text}")
    given = draft.facts.get("ssl_context")
    if given is not None and "certificate" in draft.settings and not only_calls_factory(given.value):
        draft.guard(
            given,
            "aserve does not call it, and it may say which clients are let in: --client-ca, --client-certificate, --tls-min and --ciphers do that",
        )
    _note_peers(draft)


def _note_peers(draft: Draft) -> None:
    """Note that gunicorn lets only some peers speak uwsgi, and aserve all."""
    given = draft.facts.get("protocol")
    allowed = draft.facts.get("uwsgi_allow_ips")
    if given is None or given.value != "uwsgi" or not any(map(_is_open, draft.settings["bind"])):
        return
    with refusing(allowed or given):
        is_for_all = allowed is not None and ALL_PEERS in texts(allowed.value)
    if not is_for_all:
        draft.guard(
            allowed or given,
            "gunicorn answers only peers of uwsgi_allow_ips (127.0.0.1, ::1) on TCP, and aserve each: bind 127.0.0.1 or a unix socket, "
            "or let a firewall do it, and set uwsgi_allow_ips = '*'",
        )


def _is_open(place: str) -> bool:
    """Whether other machines may connect to a bind."""
    bind = parse_bind(place)
    is_here = bind.host == "localhost" or (is_address(bind.host) and is_loopback(bind.host))
    return bind.kind != "unix" and not is_here
