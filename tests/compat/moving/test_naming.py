"""The named settings of further servers."""

import pytest

from aserve.compat.moving.naming import has_section, is_configuration, is_uwsgi_file, split_section, take_flags
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("app", "is_it"),
    [
        ("app.ini", True), ("app.ini:x", True), ("app.xml", True), ("paste.ini", False), ("no.ini", False), ("a:b", False),
        ("conf.py", False), ("conf.py:app", False),
    ],
)  # fmt: skip
def test_files_of_uwsgi_are_known(folder, app, is_it):
    """`aserve app.ini` means the same as `uwsgi app.ini`; other ini files, and modules, do not."""
    assert is_uwsgi_file(app) is is_it


@pytest.mark.parametrize(("word", "is_one"), [("no.ini", True), ("no.yml:x", True), ("a:b", False), ("a.py", False)])
def test_names_of_configurations(word, is_one):
    """Their ending counts; the file need not be there."""
    assert is_configuration(word) is is_one


def test_flags_are_taken_beside_an_app(folder):
    given = {"app": "app.ini:x", "threads": 1}
    assert take_flags(given) == {"uwsgi_ini": "app.ini:x"} and given == {"threads": 1}
    given = {"app": "a:b", "gunicorn_conf": "conf.py"}
    assert take_flags(given) == {"gunicorn_conf": "conf.py"} and given == {"app": "a:b"}
    assert take_flags({"app": "a:b"}) == {}
    given = {"paste": "site.ini#b"}
    assert take_flags(given) == {} and given == {"app": f"config:{folder}/site.ini#b"}
    with pytest.raises(ConfigError, match="--paste and 'a:b': one of them names the app"):
        take_flags({"paste": "site.ini", "app": "a:b"})
    for app, why in (
        ("no.ini", "no.ini is not there"),
        ("paste.ini", "paste.ini has no section .uwsgi.; .* to --paste"),
    ):
        with pytest.raises(ConfigError, match=f"^the file {why}$"):
            take_flags({"app": app})
    assert take_flags({"app": "config:paste.ini"}) == {}
    with pytest.raises(ConfigError, match="--uwsgi-ini and --gunicorn-conf: one of them at a time"):
        take_flags({"uwsgi_ini": "a", "gunicorn_conf": "b"})
    given = {"app": "app.ini", "uwsgi_line": ["-M"]}
    assert take_flags(given) == {"uwsgi_line": ["-M"]} and given == {"app": "app.ini"}
    with pytest.raises(ConfigError, match=r"^--uwsgi-ini and uwsgi: one of them at a time"):
        take_flags({"uwsgi_ini": "a", "uwsgi_line": []})


def test_whose_file_it_is(tmp_path):
    """An ini file is uWSGI's by the section, whatever the name, but for a program of Python."""
    for name in ("uwsgi.conf", "app.py"):
        (tmp_path / name).write_text("[uwsgi]\n")
    assert is_uwsgi_file(str(tmp_path / "uwsgi.conf")) and not is_uwsgi_file(str(tmp_path / "app.py"))
    (tmp_path / "a.ini").write_text("[x]\n [uwsgi] \n")
    (tmp_path / "b.ini").write_text("[app:main]\n")
    assert has_section(str(tmp_path / "a.ini"))
    assert not has_section(str(tmp_path / "b.ini")) and not has_section("/no/such")


@pytest.mark.parametrize(("text", "parts"), [("a.ini", ("a.ini", "")), ("a.ini:b", ("a.ini", "b")), (":b", ("", "b"))])
def test_sections_of_names(text, parts):
    assert split_section(text) == parts


def test_programs_of_gunicorn_are_no_app(folder):
    """A file with a set-up of gunicorn is no module of an app: the settings would be lost in silence."""
    (folder / "std.py").write_text("import os\nfrom gunicorn.app.base import BaseApplication\n")
    with pytest.raises(ConfigError, match=r"^std\.py sets gunicorn up by itself: aserve python std\.py runs it so, "):
        take_flags({"app": "std.py"})
    assert take_flags({"app": "std.py:app"}) == {} == take_flags({"app": "conf.py"}) == take_flags({"app": "no.py"})
