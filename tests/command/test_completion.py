"""Shell completion."""

import shutil
import subprocess

import pytest

from aserve.command import cli
from aserve.command import completion as completion_module

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_scripts_have_each_flag_and_its_words(shell, capsys):
    if shell not in pytest.importorskip("shtab").SUPPORTED_SHELLS:
        pytest.skip("this shtab is too old")
    assert cli.main(["--print-completion", shell]) == 0
    text = capsys.readouterr().out
    for word in ("max-body", "reload", "uvloop"):
        assert word in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_flags_words_paths_and_apps(capsys, tmp_path):
    """bash itself completes a flag, a word of the flag, a path, a subcommand, and an app of the current folder."""
    pytest.importorskip("shtab")
    cli.main(["--print-completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "hello.py").write_text("app = None\n")
    (tmp_path / "shop.py").write_text("def application(environ, start_response): ...\n")
    for words, found in (
        ("--max-bo", "--max-body"),
        ("--loop uvl", "uvloop"),
        ("--pid-file scr", "script"),
        ("sta", "status"),
        ("gun", "gunicorn"),
        ("hel", "hello:app"),
        ("hel", "hello.py"),
        ("sho", "shop:application"),
    ):
        asked = [
            f"COMP_WORDS=(aserve {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); source ./script",
            "$(complete -p aserve | sed 's/.*-F \\([^ ]*\\).*/\\1/') aserve",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
        done = subprocess.run(
            ["bash", "-c", "; ".join(asked)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert found in done.stdout.split(), (words, done)


def test_without_shtab_the_answer_names_the_package(monkeypatch, capsys):
    monkeypatch.setattr(completion_module, "find_spec", lambda name: None)
    assert cli.main(["--print-completion", "bash"]) == 2
    assert "pip install 'aserve-wsgi[completion]'" in capsys.readouterr().err


def test_an_old_shtab(monkeypatch, capsys):
    """A shtab without the shell is named, with the remedy."""
    monkeypatch.setattr(pytest.importorskip("shtab"), "SUPPORTED_SHELLS", ["bash"])
    assert cli.main(["--print-completion", "fish"]) == 2
    assert "fish needs a newer shtab; pip install -U shtab" in capsys.readouterr().err
