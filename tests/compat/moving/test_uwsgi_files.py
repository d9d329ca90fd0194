"""uWSGI's files: their forms, sections, and variables of one letter."""

import os
import sys

import pytest

from aserve.compat.moving.uwsgi_files import read_options
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def options(path, section=""):
    """Return names and values."""
    return [(option.key, option.value) for option in read_options(str(path), section)]


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("threads = 4", ("threads", "4")),
        ("  threads=4  ", ("threads", "4")),
        ("master", ("master", "")),
        ("master =", ("master", "")),
        ("env = A=1", ("env", "A=1")),
        ("threads = 4 ; four", ("threads", "4 ; four")),
        ("log-format = %(addr) %%d", ("log-format", "%(addr) %d")),
        ("a = 100%", ("a", "100%")),
        ("a = %z.", ("a", ".")),
        ("key: value", ("key: value", "")),
        ("a = b \\", ("a", "b \\")),
    ],
)
def test_a_line_is_read_as_by_uwsgi(tmp_path, line, option):
    """uWSGI's reading: comments are lines, and no line goes on in the next."""
    (tmp_path / "a.ini").write_text(f"; one\n# two\n\n[uwsgi]\n{line}\n[other]\nx = 1\n")
    assert options(tmp_path / "a.ini") == [option]


def test_sections_may_be_in_pieces(tmp_path):
    """A section may be in several pieces; another is asked for by name. Each option has its line."""
    (tmp_path / "a.ini").write_bytes(b"\xef\xbb\xbf[uwsgi]\r\na = 1\r\n[two]\r\nb = \xff\r\n[uwsgi]\r\nc = 3\r\n")
    assert options(tmp_path / "a.ini") == [("a", "1"), ("c", "3")]
    (two,) = read_options(str(tmp_path / "a.ini"), "two")
    assert two == ("b", "\udcff", f"{tmp_path}/a.ini:4", False)


def test_letters_name_file_and_place(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    text = "|".join(f"%{letter}" for letter in "dDnNepPsocxvkug") + "|%0|%%|%[|"
    (folder / "a.ini").write_text(f"[uwsgi]\nx = {text}\ny = %h %U %G %t %T %V\n")
    (_, x), (_, y) = options(os.path.join("shop", "a.ini"))
    whole = f"{folder}/a.ini"
    parts = [
        f"{folder}/",
        f"{folder}/",
        "a",
        "a",
        "ini",
        whole,
        whole,
        "a.ini",
        "shop/a.ini",
        "shop",
        "uwsgi",
        str(tmp_path),
    ]
    parts += [str(os.cpu_count()), str(os.getuid()), str(os.getgid()), whole.split("/")[1], "%", "\033", ""]
    assert x.split("|") == parts and len(y.split()) == 6


def test_nobody_needs_no_name(monkeypatch, tmp_path):
    monkeypatch.setattr("os.getuid", lambda: 54321)
    monkeypatch.setattr("os.getgid", lambda: 54321)
    (tmp_path / "a.ini").write_text("[uwsgi]\nx = %U %G\n")
    assert options(tmp_path / "a.ini") == [("x", "54321 54321")]


FORMS = {
    "a.xml": "<uwsgi><master/><env>A=1</env><env>B=%n</env></uwsgi>",
    "b.xml": '<all><uwsgi><master/><env>A=1</env><env>B=a</env></uwsgi><uwsgi id="x"><a>1</a></uwsgi></all>',
    "a.yaml": "uwsgi:\n  master: \n  env: A=1\n  env: B=%n\n",
    "a.yml": "other: 1\nuwsgi:\n  master:\n  env:\n    - A=1\n    - B=%n\n",
    "a.json": '{"uwsgi": {"master": "", "env": ["A=1", "B=%n"]}}',
    "b.json": '{"x": 1, "uwsgi": {"master": "", "env": "A=1", "env": "B=a"}}',
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_have_the_same_options(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name])
    assert options(tmp_path / name) == [("master", "1" if "xml" in name else ""), ("env", "A=1"), ("env", "B=a")]


def test_json_has_numbers(tmp_path):
    """Other JSON values become text; an object is not looked at."""
    (tmp_path / "a.json").write_text('{"uwsgi": {"threads": 4, "master": true, "vacuum": null, "x": {"y": 1}}}')
    assert options(tmp_path / "a.json") == [("threads", "4"), ("master", "1"), ("vacuum", "0")]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.ini", "[other]\na = 1\n", "a.ini has no section uwsgi with options of uWSGI's"),
        ("a.ini", "[uwsgi]\n<<<<<<< HEAD\na = 1\n", "a.ini:2: <<<<<<< is left of a merge; decide which of both"),
        ("a.xml", "<uwsgi>", "a.xml is not valid XML: no element found"),
        ("a.xml", "<x/>", "a.xml has no section uwsgi"),
        ("a.yaml", "a: [", "a.yaml is not valid YAML: while parsing"),
        ("a.yaml", "- 1", "a.yaml has no section uwsgi"),
        ("a.yaml", "uwsgi:\n  a:\n    b: 1\n", "a.yaml:3: a: a value was expected"),
        ("a.json", "{", "a.json is not valid JSON: Expecting property name"),
        pytest.param("a.json", "[" * 100_000, "a.json is not valid JSON: it is nested too deeply", id="deep JSON"),
        pytest.param("a.yaml", "[" * 1200, "a.yaml is not valid YAML: it is nested too deeply", id="deep YAML"),
        ("a.json", "[]", "a.json has no section uwsgi"),
    ],
)
def test_what_cannot_be_read(tmp_path, monkeypatch, name, text, why):
    """Each error is a line with the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_options(name, "")
    assert str(caught.value).startswith(why)


def test_no_file_is_told_by_the_system():
    with pytest.raises(
        ConfigError, match=r"cannot read uWSGI's configuration /no/such\.ini: No such file or directory"
    ):
        read_options("/no/such.ini", "")


@pytest.mark.parametrize(
    ("path", "why"), [("/dev/zero", "it has more than 10,000,000 characters"), ("a\0b", "embedded null")]
)
def test_what_is_no_file(path, why):
    """The name is of an endless file, or of none."""
    with pytest.raises(ConfigError, match=why):
        read_options(path, "")


def test_yaml_without_its_package(tmp_path, monkeypatch):
    """The error names the package."""
    (tmp_path / "a.yaml").write_text(FORMS["a.yml"])
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match="is YAML, and the package PyYAML is not installed"):
        read_options(str(tmp_path / "a.yaml"), "")
    (tmp_path / "a.yaml").write_text(FORMS["a.yaml"])
    assert len(options(tmp_path / "a.yaml")) == 3  # no more than uWSGI's own reader takes


def test_yaml_that_only_uwsgi_reads(tmp_path):
    """A value may be any text, as recorded from uWSGI 2.0.31; where its reader would stop, YAML's error is told."""
    lines = ["logformat : X: %(method) # y", "env: A=a: b", "\tenv: B=*x", "", "    http: [::]:8080\r"]
    (tmp_path / "a.yaml").write_text(
        "\n".join(["uwsgi:", *(f"  {line}" for line in lines), "other:", "  env: C=1", ""])
    )
    assert options(tmp_path / "a.yaml") == [
        ("logformat", "X: %(method)"), ("env", "A=a: b"), ("env", "B=*x"), ("http", "[::]:8080"),
    ]  # fmt: skip
    (tmp_path / "a.yaml").write_text("uwsgi:\n  a: b: c\n  d:\n")
    with pytest.raises(ConfigError, match="is not valid YAML: mapping values"):
        options(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("text", "section", "found"),
    [
        ('<uwsgi id="x"><a>1</a></uwsgi>', "", [("a", "1")]),
        ('<x><uwsgi id="a"><a>1</a></uwsgi><uwsgi id="b"><b>2</b></uwsgi></x>', "", [("a", "1")]),
        ('<x><uwsgi id="a"><a>1</a></uwsgi><uwsgi id="b"><b>2</b></uwsgi></x>', "b", [("b", "2")]),
        ('<uwsgi><a id="x">1</a><a id="y">2</a><b/></uwsgi>', "y", [("a", "2"), ("b", "1")]),
        ('<uwsgi xmlns="http://x" xmlns:y="http://y"><y:a>1</y:a></uwsgi>', "", [("a", "1")]),
        ('<uwsgi><app mountpoint="/x"><script>shop</script></app></uwsgi>', "", [("mount", "/x=shop")]),
        ('<uwsgi><app mountpoint="/"> <script> shop </script>;\n</app></uwsgi>', "", [("mount", "/=shop")]),
    ],
)
def test_xml_that_uwsgi_reads(tmp_path, text, section, found):
    """An id counts where asked for, and a namespace never, as recorded from uWSGI 2.0.31."""
    (tmp_path / "a.xml").write_text(text)
    assert options(tmp_path / "a.xml", section) == found
