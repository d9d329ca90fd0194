"""What Server, serve and run take, and what they refuse."""

import pathlib
import re

import pytest
from harness.apps import hello

import aserve
from aserve.server.arguments import OF_PROCESS, OF_RUN, check_arguments, config_of


def test_by_position_and_by_name():
    """Both give the same settings."""
    assert config_of("127.0.0.1:0", 3, {"backlog": 5}) == aserve.Config(bind="127.0.0.1:0", threads=3, backlog=5)
    assert config_of(None, None, {}) == aserve.Config()


def test_a_config_stands_for_all_settings():
    """Beside a Config there are no settings."""
    config = aserve.Config(threads=4)
    assert config_of(config, None, {}) is config
    for threads, settings in ((3, {}), (None, {"backlog": 5})):
        with pytest.raises(TypeError, match="not both"):
            config_of(config, threads, settings)


def test_a_dict_is_answered_with_the_remedy():
    """The answer has two ways to give the settings; a table with an address is a bind."""
    with pytest.raises(TypeError, match=r"as \*\*settings; or aserve.Config.from_sources"):
        config_of({"threads": 3}, None, {})
    assert config_of({"address": "127.0.0.1:0"}, None, {}).bind == ("127.0.0.1:0",)


@pytest.mark.parametrize(
    "settings", [{"reload": True}, {"warm_up": "/"}, {"max_requests": 3}, {"cron": "* * * * * true"}]
)
def test_what_needs_worker_processes(settings):
    """A program is not told to add workers, which it cannot have."""
    (name,) = settings
    with pytest.raises(aserve.ConfigError, match=rf"^{name} is the command's, which has worker processes"):
        config_of(None, None, settings)


def test_what_needs_worker_processes_and_is_off():
    """A setting that asks for nothing is no mistake."""
    assert config_of(None, None, {"reload": False, "max_requests": 0}) == aserve.Config()


@pytest.mark.parametrize("settings", [{"workers": 2}, {"control": "/run/c"}])
def test_what_is_the_commands(settings):
    """It is refused by name and in a Config."""
    with pytest.raises(aserve.ConfigError, match="the command's"):
        check_arguments(hello, config_of(None, None, settings))
    with pytest.raises(aserve.ConfigError, match="the command's"):
        aserve.Server(hello, aserve.Config(**settings))


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (
            {"user": "nobody", "pid_file": "/run/a.pid", "chdir": "/srv", "hang_timeout_seconds": 5},
            "hang_timeout_seconds (the command aserve), user (aserve.run), chdir (os.chdir), pid_file (aserve.run)",
        ),
        ({"log_level": "debug"}, 'log_level (logging.getLogger("aserve").setLevel)'),
        ({"log_level": "info", "umask": None, "threads": 3}, None),  # the first two as without them
    ],
)
def test_what_has_no_effect(settings, warned, caplog):
    """One line names what a program has set in vain, and what to use in its place."""
    aserve.Server(hello, aserve.Config(**settings))
    text = "settings without effect in a program, and what to use in their place: "
    assert [record.getMessage() for record in caplog.records] == ([text + warned] if warned else [])


def test_what_run_obeys(caplog):
    """`run` has the settings of its process, and no others of the command's."""
    check_arguments(hello, aserve.Config(umask=0o22, pid_file="/run/a.pid", loop="asyncio"), is_run=True)
    assert caplog.records == []
    check_arguments(hello, aserve.Config(umask=0o22, argv=["a"]), is_run=True)
    assert caplog.messages == ["settings without effect in a program, and what to use in their place: argv (sys.argv)"]


def test_what_is_off_is_no_fault(caplog):
    """To turn off what does not run there changes nothing."""
    check_arguments(hello, aserve.Config(hang_warning_seconds=0.0))
    assert caplog.records == []


def test_the_page_names_what_has_no_effect():
    """docs/embedding.md lists the same settings."""
    _, _, text = (pathlib.Path(__file__).parents[2] / "docs/embedding.md").read_text().partition("Without effect are")
    named = set(re.findall(r"`([a-z_]+)`", text.partition("## ")[0]))
    assert named == {*OF_RUN, *OF_PROCESS} and named <= {row.name for row in aserve.Config.rows()}


async def asgi(scope, receive, send):
    """No WSGI app."""


@pytest.mark.parametrize(
    ("app", "text"),
    [
        ("site:app", r"the text 'site:app'; give the app itself"),
        (None, r"is a NoneType, which cannot be called"),
        (asgi, r"is an ASGI app"),
    ],
)
def test_what_is_no_app(app, text):
    """It is refused at once: each request would fail."""
    with pytest.raises(TypeError, match=text):
        aserve.Server(app)
    with pytest.raises(TypeError, match=text):
        aserve.run(app)
