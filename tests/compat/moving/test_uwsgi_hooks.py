"""uWSGI's hooks: their times, and the effect of a failure."""

import os
import types

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.uwsgi_hooks import MOMENTS, Step, UwsgiHooks, put_folder, take_hook
from aserve.extension import Life, LifeContext
from aserve.features import Config
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def role(slot, is_new=False, is_mold=False):
    """Return the role of a child."""
    return types.SimpleNamespace(slot=slot, is_new=is_new, is_mold=is_mold, is_worker=not is_mold)


def due(event, which, is_lazy=False, is_spooler=False, is_check=False):
    """Return the moments whose hooks are done at an event."""
    done = []
    steps = [Step(Given(f"hook-{name}", "", "a.ini:1"), name, "print", name) for name in MOMENTS]
    hooks = UwsgiHooks(steps, is_lazy)
    context = LifeContext(types.SimpleNamespace(config=Config()), which, is_spooler, is_check)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "aserve.compat.moving.uwsgi_hooks.do_action", lambda action, argument, place: done.append(argument)
        )
        hooks.on_life(event, context)
    return done


AT_START = ["asap", "pre-jail", "in-jail", "post-jail", "as-root"]


def test_none_in_a_check():
    assert [due(event, None, is_check=True) for event in (Life.READ, Life.IMPORTS, Life.IMPORTED, Life.CHECKS)] == [
        []
    ] * 4


@pytest.mark.parametrize(
    ("event", "which", "moments"),
    [
        (Life.STARTS, None, AT_START),
        (Life.WORKERS_BEGIN, None, ["as-user", "master-start"]),
        (Life.IMPORTS, role(1, is_new=True), ["pre-app"]),
        (Life.IMPORTS, role(1), []),
        (Life.IMPORTS, role(0, is_mold=True), ["pre-app"]),
        (Life.IMPORTED, role(0, is_mold=True), ["post-app"]),
        (Life.FORKED, role(1), ["post-fork", "accepting", "accepting1"]),
        (Life.FORKED, role(2, is_new=True), ["post-fork", "accepting", "accepting-once", "accepting1-once"]),
        (Life.IMPORTED, role(2), ["post-fork", "accepting"]),
        (Life.EXITS, None, ["as-user-atexit"]),
        (Life.RELOADS, None, []),
    ],
)
def test_with_a_supervisor(event, which, moments):
    """Before the app in the first process with new code; in each worker; in the first worker."""
    assert due(event, which) == moments


def test_other_processes_have_their_hooks():
    """With lazy-apps each worker imports the app; a process without a supervisor is all of them; a spooler has none."""
    assert due(Life.IMPORTS, role(2), is_lazy=True) == ["pre-app", "post-fork"]
    assert due(Life.IMPORTS, None) == ["as-user", "pre-app"]
    assert due(Life.IMPORTED, None) == [
        "post-app",
        "post-fork",
        "accepting",
        "accepting1",
        "accepting-once",
        "accepting1-once",
    ]
    assert due(Life.IMPORTS, None, is_spooler=True) == []


def hooks_of(tmp_path, moment, action, argument):
    """Return one's hooks, and a context in this folder."""
    step = Step(Given(f"hook-{moment}", "secret", "a.ini:3"), moment, action, argument)
    config = Config(chdir=str(tmp_path), env=("WORD=a",))
    return UwsgiHooks([step], is_lazy=False), LifeContext(types.SimpleNamespace(config=config), environ={})


def test_folder_and_variables(tmp_path):
    """A command has --chdir's folder, and --env's variables."""
    hooks, context = hooks_of(tmp_path, "as-user", "exec", "echo $WORD > found")
    hooks.on_life(Life.WORKERS_BEGIN, context)
    assert (tmp_path / "found").read_text() == "a\n"


def test_failures_before_the_app_end_the_start(tmp_path, caplog):
    """Before the app a failure ends the start, later it is logged; neither shows the argument."""
    hooks, context = hooks_of(tmp_path, "pre-app", "exec", "exit 3 # secret")
    with pytest.raises(ConfigError) as caught:
        hooks.on_life(Life.IMPORTS, context)
    assert str(caught.value) == "a.ini:3: hook-pre-app: exec: the command has ended with status 3"
    hooks, context = hooks_of(tmp_path, "accepting1", "unlink", "secret")
    hooks.on_life(Life.IMPORTED, context)
    assert caplog.messages == ["a.ini:3: hook-accepting1: unlink: No such file or directory"]


@pytest.mark.parametrize(
    ("key", "value", "steps"),
    [
        ("hook-accepting1", "exec:touch /run/a", [("accepting1", "exec", "touch /run/a")]),
        ("hook-as-user", "write:/run/a b:c", [("as-user", "write", "/run/a b:c")]),
        ("exec-pre-app", "./manage.py migrate", [("pre-app", "exec", "./manage.py migrate")]),
        ("hook-master-start", "unix_signal:15 gracefully_kill_them_all", []),
        ("hook-master-start", "unix_signal:2\tgracefully_kill_them_all # words", []),
        ("hook-post-fork", "!cd:/srv", [("post-fork", "cd", "/srv")]),
    ],
)
def test_a_hook_has_moment_action_and_argument(key, value, steps):
    draft = Draft("a.ini")
    take_hook(draft, Given(key, value, "a.ini:1"))
    assert [step[1:] for step in draft.facts.get("steps", [])] == steps and not draft.notes


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("hook-touch", "/a exec:secret b", "a.ini:1: hook-touch = ...: it has no effect here: hooks are asap, "),
        ("hook-as-root", "mount:secret", "a.ini:1: hook-as-root = ...: it has no effect here: mount is none of the actions"),
    ],
)  # fmt: skip
def test_what_has_no_effect(key, value, text):
    draft = Draft("a.ini")
    take_hook(draft, Given(key, value, "a.ini:1"))
    assert str(draft.notes[0]).startswith(text) and "steps" not in draft.facts


def test_without_an_action():
    with pytest.raises(ValueError, match="of the form ACTION:ARGUMENT"):
        take_hook(Draft("a.ini"), Given("hook-asap", "true", "a.ini:1"))


def test_variables_of_a_worker_that_is_started_later(tmp_path, monkeypatch):
    """Variables set by a hook in the app's process are in each process that imports the app; a command is not run again."""
    for action, is_done in (("putenv", True), ("exec", False)):
        hooks, context = hooks_of(tmp_path, "pre-app", action, "MOVED=now")
        done = []
        monkeypatch.setattr("aserve.compat.moving.uwsgi_hooks.do_action", lambda *args, done=done: done.append(args[0]))
        hooks.on_life(Life.IMPORTS, context._replace(role=role(1)))
        assert done == [action] * is_done


def test_folders_before_the_workers(tmp_path, monkeypatch):
    """The last folder is each process's; relative paths of the file are below the folders set before the sockets."""
    monkeypatch.chdir(tmp_path)
    draft = Draft("a.ini")
    draft.facts["chdir"] = Given("chdir", "site", "a.ini:2")
    for moment, folder in (("as-user", "current"), ("asap", "srv")):
        take_hook(draft, Given(f"hook-{moment}", f"chdir:{folder}", "a.ini:1"))
    assert put_folder(draft) == f"{tmp_path}/srv/site"
    assert draft.settings["chdir"] == f"{tmp_path}/srv/site/current"
    assert [step.argument for step in draft.facts["steps"]] == [f"{tmp_path}/srv/site/current", f"{tmp_path}/srv"]
    hooks = UwsgiHooks(draft.facts["steps"][1:], is_lazy=False)
    context = LifeContext(types.SimpleNamespace(config=Config()), environ={})
    with pytest.raises(ConfigError, match=r"a.ini:1: hook-asap: chdir: No such file"):
        hooks.on_life(Life.STARTS, context)
    (tmp_path / "srv").mkdir()
    hooks.on_life(Life.STARTS, context)
    assert hooks._folder == f"{tmp_path}/srv" and os.getcwd() == str(tmp_path)
