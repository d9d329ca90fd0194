"""Variables stay variables in a translation."""

import os

import pytest

from aserve.compat.moving.draft import Draft
from aserve.compat.moving.gunicorn import load_gunicorn
from aserve.compat.moving.kept_variables import MOST, PRIMES, keep_variables, names_in
from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.settings import ConfigError
from aserve.settings.variables import expand


def test_names_are_found_in_both_forms():
    text = "http = :$(PORT)\nos.environ.get('A', 1) os.environ[\"B\"] os.getenv(\n 'C') environ.get('A')"
    assert names_in(text) == ["PORT", "A", "B", "C"]


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Return the draft of a file of uWSGI's: keep(options, **environ) -> Draft."""
    monkeypatch.chdir(tmp_path)

    def keep(text, **environ):
        text = text.replace("; ", "\n")
        (tmp_path / "a.ini").write_text(f"[uwsgi]\n{text}")
        return keep_variables(lambda variables: load_uwsgi("a.ini", variables), text, environ)

    return keep


@pytest.mark.parametrize("environ", [{}, {"PORT": "8000", "N": "2", "DIR": "/srv", "APP": "a"}], ids=["unset", "set"])
def test_values_keep_their_variables(keep, environ):
    draft = keep(
        "http = :$(PORT); processes = $(N); harakiri = $(N); chdir = $(DIR)/app; module = $(APP):app; env = A=$(N)",
        **environ,
    )
    settings = draft.settings
    assert (
        settings["bind"][0].endswith(":${env:PORT}")
        and settings["workers"] == "${env:N}" == settings["request-timeout"]
    )
    assert (settings["chdir"], draft.app, settings["env"]) == ("${env:DIR}/app", "${env:APP}:app", ["A=${env:N}"])
    assert settings["threads"] == 1
    assert not any(str(number) in str(given) for each in draft.whence.values() for given in each for number in PRIMES)


def test_folders_follow_their_place(keep):
    """A path at the beginning of a value is absolute; within a value it is a part of the path."""
    assert keep("http = :80; chdir = $(DIR)").settings["chdir"] == "${env:DIR}"
    assert keep("http = :80; env = A=$(DIR)").settings["env"] == ["A=${env:DIR:-$(DIR)}"]
    assert keep("http = :80; chdir = /srv/$(DIR)/app").settings["chdir"] == "/srv/${env:DIR}/app"


def test_what_does_not_follow(keep):
    """A computed value is the one of here and now."""
    assert keep("processes = 1; if-env = PORT; threads = 3; endif =; http = :$(PORT)").settings["threads"] == 3
    assert keep("processes = 1; if-env = PORT; threads = 3; endif =; http = :80").settings["threads"] == 1


@pytest.mark.parametrize("here", [{}, {"BIND": "[::1]:81"}])
def test_an_address_may_be_a_variable(tmp_path, here):
    """A variable of an address is whole addresses, with a port or of a unix socket."""
    path = tmp_path / "gunicorn.conf.py"
    path.write_text("import os\nbind = os.environ.get('BIND', 'unix:/run/a.sock')\n")
    environ = dict(os.environ, **here)

    def load(variables):
        os.environ.update({"BIND": variables["BIND"]} if "BIND" in variables else {})
        try:
            return load_gunicorn(str(path), variables)[0]
        finally:
            os.environ.pop("BIND", None)

    draft = keep_variables(load, path.read_text(), environ)
    assert draft.settings["bind"] == ["${env:BIND:-unix:/run/a.sock}"] and draft.notes == []


def test_what_is_lost():
    """A note names the variables that a setting follows no longer."""
    draft = keep_variables(loader(threads=lambda environ: 2 * int(environ["N"])), reading("N", "M"), {"N": "2"})
    assert draft.settings["threads"] == 4
    assert [note.text for note in draft.notes] == ["it follows N, but threads here has the value of this moment"]


def reading(*names):
    """Return the text of a file that reads variables."""
    return "\n".join(f"os.environ.get('{name}')" for name in names)


def loader(**makers):
    """Return a loader of a file that computes each setting from the variables."""

    def load(environ):
        draft = Draft("conf.py")
        for key, make in makers.items():
            draft.default(key.replace("_", "-"), make(environ), "a test's")
        return draft

    return load


def test_defaults_are_values_without_the_variable():
    load = loader(
        bind=lambda environ: [f"0.0.0.0:{environ.get('PORT', '8000')}"], workers=lambda environ: int(environ.get("N", 2)),
        threads=lambda environ: 2 * int(environ.get("N", 2)), preload=lambda environ: environ.get("P") == "1",
        pid_file=lambda environ: environ.get("F", "/run/}"),
    )  # fmt: skip
    draft = keep_variables(load, reading("PORT", "N", "P", "F"), {"P": "1"})
    assert draft.settings == {
        "bind": ["0.0.0.0:${env:PORT:-8000}"], "workers": "${env:N:-2}", "threads": 4, "preload": True, "pid-file": "/run/}",
    }  # fmt: skip


def test_other_forms_are_written_only_where_set():
    """Without the variable the value has another form, or the text twice: the value is written with the variable only where set."""
    load = loader(
        bind=lambda environ: [f":{environ['PORT']}" if "PORT" in environ else "127.0.0.1:80"],
        env=lambda environ: [f"A={environ.get('PORT', 'x')}{environ.get('PORT', 'x')}"],
    )
    assert keep_variables(load, reading("PORT"), {}).settings == {"bind": ["127.0.0.1:80"], "env": ["A=xx"]}
    assert keep_variables(load, reading("PORT"), {"PORT": "81"}).settings == {
        "bind": [":${env:PORT}"], "env": ["A=${env:PORT}${env:PORT}"],
    }  # fmt: skip


def test_a_text_in_the_form_of_a_variable():
    """Text in TOML's form of variables stays text, also beside a variable, and in the app's name."""

    def load(environ):
        draft = loader(env=lambda environ: ["A=${env:Z:-q}" + environ.get("P", "x"), "B=${env:P}"])(environ)
        draft.app = "a:make('${env:P}')"
        return draft

    draft = keep_variables(load, reading("P"), {})
    assert (
        draft.settings == {"env": ["A=$${env:Z:-q}${env:P:-x}", "B=$${env:P}"]} and draft.app == "a:make('$${env:P}')"
    )
    settings = {"app": draft.app, **draft.settings}
    assert expand(settings, {"P": "y"}, "") == {"app": "a:make('${env:P}')", "env": ["A=${env:Z:-q}y", "B=${env:P}"]}


def test_a_default_that_would_make_such_a_text():
    """A variable whose default is the beginning of such a text is not kept."""
    load = loader(env=lambda environ: [environ.get("P", "$") + "{env:Z}"])
    assert keep_variables(load, reading("P"), {}).settings == {"env": ["$${env:Z}"]}


def test_what_cannot_be_loaded():
    """The error is the unchanged file's; more variables than samples have their values."""

    def load(environ):
        raise ConfigError("wrong")

    with pytest.raises(ConfigError, match="wrong"):
        keep_variables(load, reading("A"), {})
    names = [f"N{number}" for number in range(MOST + 1)]
    draft = keep_variables(loader(env=lambda environ: [environ.get(name, "") for name in names]), reading(*names), {})
    assert draft.settings["env"][-1] == "" and draft.settings["env"][0] == "${env:N0:-}"

    def picky(environ):
        if "A" in environ:
            raise ConfigError("A must not be set")
        return loader(threads=lambda environ: 3)(environ)

    assert keep_variables(picky, reading("A"), {}).settings == {"threads": 3}


def test_a_condition_keeps_its_branch(tmp_path):
    """A variable let in only by a condition of the file has no place in the translation where unset: the other branch is meant."""
    text = "[uwsgi]\nif-env = SHOP\nhttp = :$(SHOP)\nendif =\nif-not-env = SHOP\nhttp = 127.0.0.1:81\nendif =\nmodule = a\n"
    (tmp_path / "a.ini").write_text(text)

    def load(environ):
        return load_uwsgi(str(tmp_path / "a.ini"), environ)

    assert keep_variables(load, text, {}).settings["bind"] == ["127.0.0.1:81"]
    assert keep_variables(load, text, {"SHOP": "82"}).settings["bind"] == ["0.0.0.0:${env:SHOP}"]


def test_words_are_samples_of_other_variables():
    def load(environ):
        if environ.get("USER_NAME", "x").isdigit():
            raise ConfigError("a name")
        return loader(user=lambda environ: environ.get("USER_NAME", "www-data"))(environ)

    assert keep_variables(load, reading("USER_NAME"), {}).settings == {"user": "${env:USER_NAME:-www-data}"}
