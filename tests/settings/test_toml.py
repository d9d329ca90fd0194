"""The settings file."""

import pytest
from harness.refusals import error_of

from aserve.settings import read_toml


def test_read_toml_takes_a_flat_table(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text('threads = 3\nbind = [":1"]\n')
    assert read_toml(str(path)) == {"threads": 3, "bind": [":1"]}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("[tool.aserve]\nthreads = 3\n", {"threads": 3}),
        ("[project]\nname = 'x'\n", {}),
        ("", {}),
    ],
)
def test_read_pyproject_takes_our_table_alone(tmp_path, text, settings):
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    assert read_toml(str(path)) == settings


@pytest.mark.parametrize("text", ["tool = 1", "[tool]\naserve = 3"])
def test_pyproject_with_something_else_there(tmp_path, text):
    """A value in place of a table is refused, without a crash."""
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    assert "is not a table" in error_of(read_toml, str(path))


@pytest.mark.parametrize(
    "octets", [b"threads = ", b"\xff\xfe = 1", b"a = " + b"[" * 100_000], ids=["cut", "octets", "deep"]
)
def test_not_toml_is_one_line_with_the_file(tmp_path, octets):
    path = tmp_path / "site.toml"
    path.write_bytes(octets)
    assert error_of(read_toml, str(path)).startswith(f"{path} is not valid TOML: ")


def test_toml_with_a_mark_of_the_encoding(tmp_path):
    """Some editors begin a file of UTF-8 with a mark; the settings behind the mark count."""
    path = tmp_path / "site.toml"
    path.write_bytes(b"\xef\xbb\xbfthreads = 3\r\n")
    assert read_toml(str(path)) == {"threads": 3}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bind = 127.0.0.1:25001", 'write bind = "127.0.0.1:25001"'),
        ("log-level = info  # loud", 'write log-level = "info"'),
        ("request-timeout = 30s", 'write request-timeout = "30s"'),
        ("reload = True", "write reload = true"),
    ],
)
def test_toml_text_without_quotes(tmp_path, line, said):
    """The error shows the line with quotes."""
    path = tmp_path / "site.toml"
    path.write_text(f"threads = 3\n{line}\n")
    assert error_of(read_toml, str(path)).endswith(f"; {said}")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("a.py", "to --gunicorn-conf"),
        ("a.ini", "to --uwsgi-ini; the form of"),
        ("a.conf", "fileConfig is not read"),
        ("a", ""),
    ],
)
def test_files_of_others(tmp_path, name, meant):
    """gunicorn's -c takes gunicorn's configuration, and here -c takes ours: the error names the flag for gunicorn's."""
    path = tmp_path / name
    path.write_text("workers: 2")
    assert meant in error_of(read_toml, str(path)) and ("; " in error_of(read_toml, str(path))) is bool(meant)


def test_unreadable_toml_is_one_line(tmp_path):
    missing = str(tmp_path / "none.toml")
    assert error_of(read_toml, missing) == (f"cannot read the settings file {missing}: No such file or directory")
    assert "Is a directory" in error_of(read_toml, str(tmp_path))
