"""aserve config: values, meaning, and sources of settings."""

import pytest
from harness.native import AS_IN_TABLE

from aserve.command import cli
from aserve.command.explain import explain, split_name
from aserve.features import SETTINGS, Config
from aserve.settings import ConfigError, read_toml

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize("name", ["max-body", "--max-body", "ASERVE_MAX_BODY", "max_body_bytes"])
def test_one_setting_is_explained_by_any_name(name):
    """An explanation has meaning, value, reason, and each way to write the setting."""
    text = explain(name, {"max_body_bytes": "5M"}, {}, {}, "x.toml")
    assert text.startswith("--max-body SIZE (Limits)\n\nLargest request body; beyond: 413.\n\n")
    assert "now:       5MiB, from --max-body\n" in text and "default:   1GiB. waitress's limit" in text
    assert 'variable:  ASERVE_MAX_BODY\nTOML:      max-body = "5MiB"\nkeyword:   max_body_bytes\n' in text


@pytest.mark.parametrize(
    ("given", "environ", "toml", "source"),
    [
        ({}, {}, {}, "32, the default"),
        ({}, {}, {"threads": 5}, "5, from x.toml"),
        ({}, {"ASERVE_THREADS": "4"}, {"threads": 5}, "4, from ASERVE_THREADS"),
        ({"threads": "3"}, {"ASERVE_THREADS": "4"}, {"threads": 5}, "3, from --threads"),
        ({"reload": "on"}, {}, {}, "1, from --reload"),
        ({"app": "a:b", "config": "x.toml"}, {}, {}, "32, the default"),
    ],
)
def test_where_it_is_from(given, environ, toml, source):
    """The winning source is named."""
    assert f"now:       {source}\n" in explain("threads", given, environ, toml, "x.toml")


def test_the_platform_is_named_as_source():
    assert "0.0.0.0:80, from the platform" in explain("bind", {}, {"PORT": "80"}, {}, "")


def test_all_that_are_given():
    """Without a name: all changed settings, with their sources."""
    assert explain(None, {"threads": "3"}, {"ASERVE_LOOP": "asyncio"}, {}, "") == (
        "threads  3        from --threads\nloop     asyncio  from ASERVE_LOOP\n"
    )
    told = explain(None, {"reload": "on"}, {}, {}, "", is_at_terminal=True)
    assert "access-log         -       from --reload\n" in told and "threads            1       from --reload\n" in told
    assert "access-log" not in explain(None, {"reload": "on"}, {}, {}, "")
    assert explain(None, {}, {}, {}, "").startswith("All settings are as by default; ")


@pytest.mark.parametrize(
    ("name", "hint"), [("thread", "; did you mean threads?"), ("xyzzy", "; aserve --help has all of them")]
)
def test_no_such_setting(name, hint):
    """The nearest is named."""
    with pytest.raises(ConfigError, match=f"no setting is called {name}"):
        explain(name, {}, {}, {}, "")
    with pytest.raises(ConfigError) as caught:
        explain(name, {}, {}, {}, "")
    assert str(caught.value).endswith(hint)


def test_toml_is_read_again(tmp_path):
    """The text for a TOML file means the same there."""
    file = tmp_path / "x.toml"
    for setting in SETTINGS:
        if setting.default is None:
            continue
        line = next(
            text for text in explain(setting.key, {}, {}, {}, "").splitlines() if text.startswith("TOML:")
        ).partition(":")[2]
        file.write_text(line)
        assert Config.from_sources({}, {}, read_toml(str(file))) == Config(), line


def test_split_name_takes_explain_anywhere():
    """--explain NAME may stand anywhere among the flags of a server."""
    assert split_name(["a:b", "--explain", "threads", "-w", "2"]) == ("threads", ["a:b", "-w", "2"])
    assert split_name(["--explain=threads"]) == ("threads", [])
    assert split_name(["-w", "2"]) == (None, ["-w", "2"])
    with pytest.raises(ConfigError, match="which setting"):
        split_name(["--explain"])


@AS_IN_TABLE
def test_the_command_reads_all_sources_of_a_server(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nthreads = 7\n")
    assert cli.main(["config", "--explain", "threads"]) == 0
    assert "now:       7, from [tool.aserve] of pyproject.toml" in capsys.readouterr().out
    assert cli.main(["config", "-w", "2", "-b", ":1", "-t", "5"]) == 0
    assert capsys.readouterr().out.split("\n")[2:] == [
        "workers          2    from --workers", "request-timeout  5 s  from --request-timeout", "",
    ]  # fmt: skip
