"""Placeholders, conditions, loops and includes; the results of uWSGI 2.0.30 were seen with --show-config."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

from aserve.compat.moving import uwsgi_logic
from aserve.compat.moving.draft import Given
from aserve.compat.moving.uwsgi_files import read_options
from aserve.compat.moving.uwsgi_logic import from_variables, include, resolve
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy

ENVIRON = {"HOME": "/root", "EMPTY": ""}


def resolved(lines, environ=ENVIRON):
    """Return names and values of the counting lines, `key = value`."""
    options = [
        Given(*(part.strip() for part in line.partition("=")[::2]), f"a.ini:{number}")
        for number, line in enumerate(lines.splitlines(), 1)
        if line.strip()
    ]
    return [f"{option.key} = {option.value}" for option in resolve(options, environ)]


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        ("base = /srv\nx = %(base)/a", "/srv/a"),
        ("x = %(base)/a\nbase = /srv", "/srv/a"),
        ("base = /srv\nbase = /b\nx = %(base)", "/srv"),
        ("x = $(HOME)$(NOPE)", "/root$(NOPE)"),
        ("x = $(EMPTY).", "."),
        ("x = %(addr) %(nope) %(4)", "%(addr) %(nope) %(4)"),
        ("x = %(²) %(² + 1)", "%(²) %(² + 1)"),
        ("a = %(b)\nb = 2\nx = %(a)", "2"),
        ("a = %(a)\nx = %(a)", "%(a)"),
        ("set-placeholder = zed=7\nx = %(zed)", "7"),
        ("set-ph = zed=7\nx = %(zed)", "7"),
        ("threads = 3\nx = %(threads * 10)", "30"),
        ("x = %(4 * 2)", "8"),
        ("x = %(4 + 2)", "6"),
        ("x = %(4 - -2)", "6"),
        ("x = %(9 / 2)", "4"),
        ("x = %(9 / 0)", "9"),
        ("a = foo\nx = %(a ++ a)", "foofoo"),
        ("a = foo\nx = %(a + 1)", "1"),
        ("x = %(nope + 1)", "%(nope + 1)"),
        ("env = WHO=me\nx = $(WHO)", "me"),
    ],
)
def test_placeholders_are_filled_or_stay(lines, last):
    """Placeholders are of options and of the environment; unknown placeholders stay, as log-format has some, too."""
    assert f"x = {last}" in resolved(lines)


def test_a_value_from_a_file(tmp_path):
    """@(file), without the last newline; an unreadable file is an error."""
    (tmp_path / "v").write_text("1.2\n")
    assert resolved(f"x = v@({tmp_path}/v)") == ["x = v1.2"]
    with pytest.raises(ConfigError, match=r"a\.ini:1: x = \.\.\.: cannot read /no/such: No such file"):
        resolved("x = @(/no/such)")


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("if-env = HOME", True),
        ("ifenv = HOME", True),
        ("if-env = HOME=/root", True),
        ("if-env = HOME=/home", False),
        ("if-env = NOPE", False),
        ("if-not-env = HOME", False),
        ("if-not-env = NOPE", True),
        ("if-opt = known", True),
        ("if-opt = known=yes", True),
        ("if-opt = known=no", False),
        ("if-opt = unknown", False),
        ("if-not-opt = unknown", True),
        ("if-exists = /", True),
        ("ifexists = /no/such", False),
        ("if-not-exists = /no/such", True),
        ("if-dir = /", True),
        ("ifdir = /etc/passwd", False),
        ("if-file = /", False),
        ("if-file = /etc/passwd", True),
        (f"if-hostname = {socket.gethostname()}", True),
        ("if-hostname-match = .", True),
        ("if-hostname-match = ^(.|..)+$", True),
        ("if-hostname-match = ^(no)+such$", False),
        ("if-hostname = no.such.host", False),
        ("if-plugin = python3", True),
        ("if-not-plugin = gevent", True),
        ("if-reload = true", False),
        ("if-not-reload = true", True),
    ],
)
def test_conditions_choose_their_lines(condition, holds):
    lines = f"known = yes\n{condition}\nx = 1\nendif =\ny = 1"
    assert ("x = 1" in resolved(lines)) is holds and "y = 1" in resolved(lines)


def test_a_pattern_without_an_end(monkeypatch):
    """A search without an end is an error that names the line."""
    monkeypatch.setattr(uwsgi_logic, "SEARCH_SECONDS", 0.5)
    monkeypatch.setattr(uwsgi_logic.socket, "gethostname", lambda: "a" * 63 + "!")
    with pytest.raises(ConfigError, match=r"^a\.ini:1: if-hostname-match = \(a\|a\)\*\$: no pattern: .* within 0\.5 s"):
        resolved("if-hostname-match = (a|a)*$\nx = 1\nendif")
    with pytest.raises(ConfigError, match="no pattern: "):
        resolved("if-hostname-match = (\nx = 1\nendif")


def test_the_value_of_a_condition():
    """%(_) is the found text."""
    assert resolved("if-env = HOME\nx = %(_)\nend-if =") == ["x = /root"]
    assert resolved("if-exists = /etc\nx = %(_)") == ["x = /etc"]


def test_one_in_another():
    """uWSGI refuses nesting, and here nesting works as expected; the value of a name is the first counting value."""
    assert resolved("if-env = HOME\nif-env = NOPE\na = 1\nendif\nb = 2\nendif\nc = 3") == ["b = 2", "c = 3"]
    lines = "if-env = NOPE\nbase = /a\nendif\nif-not-env = NOPE\nbase = /b\nendif\nx = %(base)"
    assert resolved(lines) == ["base = /b", "x = /b"]


def test_loops_go_over_their_values(tmp_path):
    assert resolved("for = a b\nif-env = HOME\nx = %(_)\nendif\nfor = 1 2\ny = %(_)\nendfor\nend-for =\nz = 1") == [
        "x = /root", "y = 1", "y = 2", "x = /root", "y = 1", "y = 2", "z = 1",
    ]  # fmt: skip
    assert resolved("for-times = 2\nx = %(_)\nendfor") == ["x = 1", "x = 2"]
    for name in "ab":
        (tmp_path / name).write_text("1\n2\n")
    assert resolved(f"for-glob = {tmp_path}/*\nx = %(_)\nendfor") == [f"x = {tmp_path}/a", f"x = {tmp_path}/b"]
    assert resolved(f"for-glob = {tmp_path}*\nx = %(_)\nendfor") == [f"x = {tmp_path}/"]  # uWSGI's form
    assert resolved("for-glob = /no/such/*\nx = %(_)\nendfor") == ["x = /no/such/*"]
    assert resolved(f"for-readline = {tmp_path}/a\nx = %(_)\nendfor") == ["x = 1", "x = 2"]
    with pytest.raises(ConfigError, match=r"a\.ini:1: for-readline = /no/such: cannot read /no/such: No such file"):
        resolved("for-readline = /no/such\nendfor")


def test_set_is_an_option_too():
    """`set` gives an option, `set-placeholder` a name only."""
    assert resolved("set = threads=4\nset-placeholder = a=1\nset = x") == ["threads = 4", "set = x"]


def test_variables_of_uwsgi_are_options():
    environ = {"UWSGI_THREADS": "4", "UWSGI_HTTP_SOCKET": ":1", "UWSGI_RELOADS": "1", "UWSGI_": "", "X": "1"}
    assert from_variables(environ) == [
        Given("threads", "4", "UWSGI_THREADS"), Given("http-socket", ":1", "UWSGI_HTTP_SOCKET"),
    ]  # fmt: skip


def test_includes_take_their_place(tmp_path, monkeypatch):
    """An included file stands in the option's place; the same file by the section, another file with separate letters."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ini").write_text("[uwsgi]\nini = :b\nx = %n\nini =\ninclude = $(WHERE)/c.inc\n[b]\ny = %n\n")
    (tmp_path / "c.inc").write_text("[uwsgi]\nz = %n\nxml = d.xml\n")
    (tmp_path / "d.xml").write_text("<uwsgi><v>%n</v></uwsgi>")
    found = include(read_options("a.ini", ""), {"WHERE": str(tmp_path)}, "a.ini")
    assert [(option.key, option.value) for option in found if option.key in "xyzv"] == [
        ("y", "a"), ("x", "a"), ("z", "c"), ("v", "d"),
    ]  # fmt: skip


def test_files_that_include_one_another(tmp_path):
    path = str(tmp_path / "a.ini")
    (tmp_path / "a.ini").write_text(f"[uwsgi]\nini = {path}\n")
    with pytest.raises(ConfigError, match="files include one another"):
        include(read_options(path, ""), {}, path)


DOUBLING = "\n".join(["a0 = xx", *(f"a{n} = %(a{n - 1})%(a{n - 1})" for n in range(1, 40))])
JOINING = "\n".join(["a0 = xx", *(f"a{n} = %(a{n - 1} ++ a{n - 1})" for n in range(1, 40))])
SQUARING = "\n".join(["a0 = 99", *(f"a{n} = %(a{n - 1} * a{n - 1})" for n in range(1, 40))])
TOO_MUCH = "loops and placeholders make too much of it"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (DOUBLING, rf"a\.ini:2\d: a\d+ = \.\.\.: {TOO_MUCH}"),
        (JOINING, rf"a\.ini:2\d: a\d+ = \.\.\.: {TOO_MUCH}"),
        (SQUARING, r"a\.ini:\d+: a\d+ = \.\.\.: a number of \d+ digits is too large"),
        ("a = %(b)%(b)\nx = " + "%(a)" * 1000 + "\nb = " + "y" * 100_000, rf"a\.ini:2: .*{TOO_MUCH}"),
        ("for-times = 1000000000\nendfor", rf"a\.ini:1: for-times = 1000000000: {TOO_MUCH}"),
        ("for-times = 1000000000\nx = 1\nendfor", TOO_MUCH),
        (f"for-times = {'9' * 5000}\nendfor", r"a\.ini:1: for-times = 999.*: a number of 5000 digits is too large"),
        ("for-times = 1000\n" * 4 + "x = %(_)\n" + "endfor\n" * 4, TOO_MUCH),
        ("if-env = HOME\n" * 2000 + "x = 1", r"a\.ini:17: if-env = HOME: it is in more than 16 blocks"),
        ("x = 1\nif-hostname-match = (", r"a\.ini:2: if-hostname-match = \(: no pattern: missing \)"),
        ("if-hostname-match = a{99999999999999999999}", r"a\.ini:1: .*: no pattern: "),
        (f"if-hostname-match = {'(' * 20_000}{')' * 20_000}", r"a\.ini:1: .*: no pattern: "),
        ("x = @(/dev/zero)", r"a\.ini:1: x = \.\.\.: cannot read /dev/zero: it has more than 10,000,000 characters"),
        ("x = @(http://shop.example/a)", r"cannot read http://.*: here are files, fd:// and exec://, such as @\(exec://curl -sf URL\)$"),
        ("x = @(data://0)", r"a\.ini:1: x = \.\.\.: cannot read data://0: here are files, fd:// and exec://"),
        ("x = @(a\0b)", r"a\.ini:1: .*: cannot read a.b: embedded null"),
        ("for-glob = a\0/*\nendfor", r"a\.ini:1: .*: embedded null"),
        ("for-readline = /dev/zero\nendfor", r"a\.ini:1: for-readline = /dev/zero: cannot read /dev/zero: it has more than"),
    ],
    ids=["doubling", "joining", "squaring", "ahead", "empty loop", "loop", "digits", "loops in loops", "blocks", "pattern", "repeats",
         "deep pattern", "value without an end", "URL", "data", "NUL", "NUL in a pattern", "lines without an end"],
)  # fmt: skip
def test_what_would_have_no_end(lines, why):
    """The error is one line with the file and the number of the line, within a moment."""
    with pytest.raises(ConfigError, match=f"(?s){why}"):
        resolved(lines)


def test_long_loops_are_run():
    assert len(resolved("for-times = 10000\nx = %(_)\nendfor")) == 10_000


def test_files_that_include_many(tmp_path, monkeypatch):
    """Each includes the next ten times: the error comes before all of them are read."""
    monkeypatch.setattr(uwsgi_logic, "MAX_OPTIONS", 1000)
    for number in range(10):
        lines = f"ini = {tmp_path}/{number + 1}.ini\n" * 10
        (tmp_path / f"{number}.ini").write_text(f"[uwsgi]\n{lines}")
    (tmp_path / "10.ini").write_text("[uwsgi]\nx = 1\n")
    path = f"{tmp_path}/0.ini"
    with pytest.raises(ConfigError, match=r"\.ini:\d+: .*: more than 1,000 options, with those of included files"):
        include(read_options(path, ""), {}, path)


UWSGI = pathlib.Path(sys.executable).with_name("uwsgi")


@pytest.mark.skipif(not UWSGI.exists(), reason="uWSGI is not installed")
@pytest.mark.parametrize("name", ["placeholders.ini", "conditions.ini", "includes.ini", "flags.ini", "docker.ini"])
def test_results_equal_those_of_uwsgi(tmp_path, monkeypatch, name):
    for path in (pathlib.Path(__file__).parent / "uwsgi").iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "wsgi.py").write_text("")
    (tmp_path / "version.txt").write_text("1.2\n")
    monkeypatch.chdir(tmp_path)
    environ = {"SHOP_WHO": "me"}
    done = subprocess.run(
        [UWSGI, "--show-config", "--no-server", name],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    logged = "".join(path.read_text() for path in tmp_path.glob("*.log"))  # the file of `logto`
    shown = f"{done.stderr}{logged}".partition("[uwsgi]\n")[2].partition(";end of")[0].splitlines()
    blocks = ("if-", "endif", "for ", "endfor", "ini ", "include ", "show-config", "no-server")
    theirs = [" ".join(line.rstrip(" =").split()) for line in shown if not line.startswith(blocks)]
    ours = resolve(include(read_options(name, ""), environ, name), environ)
    kept = [option for option in ours if option.key not in ("ini", "include")]
    assert [" ".join(f"{option.key} = {option.value}".rstrip(" =").split()) for option in kept] == theirs


def test_the_output_of_a_command():
    """The output is a value, or a part of a value; without the last newline."""
    assert resolved("env = A=@(exec://echo two)\nx = a@(exec://exit 3)b") == ["env = A=two", "x = ab"]


def test_the_text_of_a_descriptor():
    """A starter may pass a secret by a pipe, as in uWSGI."""
    reader, writer = os.pipe()
    os.write(writer, b"two\n")
    os.close(writer)
    assert resolved(f"x = a@(fd://{reader})b") == ["x = atwob"]
    os.close(reader)
