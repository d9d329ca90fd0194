"""--https as an extension: its files, answers, and thread."""

import types

import pytest
from harness.extensions import new_context

from aserve.connections.listeners import Listener
from aserve.extension import Life, LifeContext, ListenerContext
from aserve.features import Config
from aserve.features.https import HTTPS, provide, renewal
from aserve.features.https.answers import HTTPAnswers
from aserve.settings import parse_bind
from aserve.wsgi.response import CommonFields


@pytest.fixture
def https(monkeypatch):
    """Return the extension, and its calls."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    config = Config(https="a.example", bind="https://:443", acme_terms="accept", https_folder="/f")
    called = []
    monkeypatch.setattr(provide, "provide", lambda config, is_check: called.append("provide"))

    class FakeRenewal:
        """Notes its calls."""

        def __init__(self, config, hosts):
            assert hosts is None
            self.start, self.stop = (lambda tells: called.append(f"start, {tells}")), (lambda: called.append("stop"))

    monkeypatch.setattr(renewal, "Renewal", FakeRenewal)
    return types.SimpleNamespace(extension=HTTPS(config), called=called)


def test_a_name_turns_https_on(https):
    assert HTTPS.is_on(https.extension._config) and not HTTPS.is_on(Config())


def test_files_are_made_early(https):
    """As soon as the settings are read: before they are loaded, and while this process is root."""
    for event in (Life.READ, Life.STARTS, Life.ENDS):
        https.extension.on_life(event, LifeContext(None))
    assert https.called == ["provide"]


@pytest.mark.parametrize(
    ("bind", "answers"), [("127.0.0.1:80", True), ("https://127.0.0.1:443", False), ("uwsgi://127.0.0.1:3031", False)]
)
def test_where_it_answers(https, bind, answers):
    """An authority asks at port 80, and nowhere else is a step on the way of requests."""
    context = ListenerContext(Listener(None, parse_bind(bind)), CommonFields(""), lambda connection: False)
    assert isinstance(https.extension.before(context), HTTPAnswers) == answers


def test_handshakes_of_our_names_are_answered(https):
    [added] = https.extension.protocols()
    assert added.name == "acme-tls/1" and added.new_context("other.example") is None and https.called == ["provide"]


def test_its_thread_looks_from_start_to_stop(https):
    """The thread looks from start to stop; of several workers the first tells the waits."""
    for slot in (None, 1, 2):
        https.extension.start(new_context(slot=slot, at_stop=lambda stop: stop()))
    assert https.called == ["start, True", "stop", "start, True", "stop", "start, False", "stop"]


def test_its_status_is_the_same_in_a_supervisor(https):
    [(name, answer)] = https.extension.answers().items()
    assert https.extension.supervise(None).status() == {name: answer()}


def test_several_hosts_share_with_a_store(https, monkeypatch):
    assert https.extension._hosts is None
    extension = HTTPS(https.extension._config.replace(shared="redis://localhost", shared_prefix="shop"))
    extension.on_life(Life.STARTS, LifeContext(None))
    hosts = extension._hosts
    assert hosts._store.key("a") == b"shop:a"
