"""gunicorn's hooks with a guard of the app end the start, as aserve does not call such hooks."""

import pytest

from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.compat.moving.origin import Origin
from aserve.settings import ConfigError

TLS = "certfile='c'\nkeyfile='k'\n"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a configuration's draft: load(source) -> Draft."""
    monkeypatch.chdir(tmp_path)

    def load(source):
        (tmp_path / "g.py").write_text(source)
        return load_gunicorn("g.py", {})[0]

    return load


@pytest.mark.parametrize(
    "source",
    [
        "def pre_request(worker, req): req.scheme = 'https'",
        "def pre_request(worker, req):\n    if req.path == '/x': raise ValueError",
        "def pre_request(worker, req): return [part for part in req.hooks]",
        "def pre_request(worker, req): assert dict(req.headers).get('X-KEY') == 'secret'",
        "def pre_request(worker, req): req.path = '/'",
        "def pre_request(worker, req): req.headers[:] = []",
        "def made(check):\n    def pre_request(worker, req): check(req)\n    return pre_request\npre_request = made(print)",
        "import functools\npre_request = functools.partial(print, 1)",
        "def pre_request(worker, req): raise",
        "def pre_request(worker, req):\n    h = req.headers\n    h += [('X', '1')]",
        "def pre_request(worker, req, check=print): check(req)",
        "def pre_request(worker, req, *, check=print): check(req)",
        "def pre_request(worker, req): worker.log.debug(dict(req.headers)['X-KEY'])",
        "def pre_request(worker, req): worker.log.debug('%s', 1 / (len(req.path) - 9))",
        TLS
        + "def ssl_context(config, default):\n    context = default()\n    context.verify_mode = 2\n    return context",
    ],
)
def test_guards_end_the_start(load, source):
    draft = load(source)
    with pytest.raises(
        ConfigError, match=r"^g\.py:\d: (pre_request|ssl_context)\(\): aserve does not call it, and it may"
    ):
        Origin(draft).check_guards("refuse")
    Origin(draft).check_guards("warn")
    assert len(draft.notes) == 1


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def pre_request(worker, req): worker.log.debug('%s %s', req.method, req.path)", 1),
        ("import time\ndef pre_request(worker, req): req.start_time = time.time()", 1),
        ("def pre_request(worker, req): pass", 0),
        ("pre_request = None", 0),
        (TLS + "def ssl_context(config, default_factory): return default_factory()", 0),
        ("def ssl_context(config, default): return default.x()", 0),
    ],
)
def test_what_guards_nothing(load, source, count):
    """A hook that logs is a note; a context of TLS without TLS is nothing."""
    draft = load(source)
    Origin(draft).check_guards("refuse")
    assert len(draft.notes) == count


@pytest.mark.parametrize(
    ("source", "guard"),
    [
        ("bind='0.0.0.0:3031'", "protocol = uwsgi"),
        ("bind=['127.0.0.1:3031', ':3031']", "protocol = uwsgi"),
        ("bind='fd://3'", "protocol = uwsgi"),
        ("bind='0.0.0.0:3031'\nuwsgi_allow_ips='10.0.0.1'", "uwsgi_allow_ips = 10.0.0.1"),
        ("bind='0.0.0.0:3031'\nuwsgi_allow_ips='*'", None),
        ("bind=['127.0.0.1:3031', '[::1]:3031', 'localhost:3031', 'unix:/run/x']", None),
        ("", None),
    ],
)
def test_peers_that_speak_uwsgi(load, source, guard):
    """gunicorn answers peers of a list, and aserve all: on an address for further machines the list is a guard."""
    draft = load(f"protocol='uwsgi'\n{source}")
    assert [note.said for note in draft.guards] == ([guard] if guard else [])


def test_peers_that_are_none(load):
    with pytest.raises(ConfigError, match=r"^g\.py:3: uwsgi_allow_ips = 3: "):
        load("protocol='uwsgi'\nbind=':3031'\nuwsgi_allow_ips=3")


def test_a_hook_that_is_named(load):
    """gunicorn takes a function by name, too: the function may do anything."""
    draft = load("pre_request = 'hooks.check'")
    assert [note.said for note in draft.guards] == ["pre_request = hooks.check"]
