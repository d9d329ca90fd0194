"""The base classes of programs for gunicorn."""

import sys

import pytest

from aserve.compat import gunicorn
from aserve.compat.gunicorn.app import base
from aserve.compat.moving.gunicorn import VARIABLE

pytestmark = pytest.mark.long_on_pypy


class Standalone(base.BaseApplication):
    """The application of gunicorn's documentation."""

    def __init__(self, app, options=None):
        self.options, self.application = options or {}, app
        super().__init__()

    def load_config(self):
        """Set what is a setting."""
        for name, value in self.options.items():
            if name in self.cfg.settings and value is not None:
                self.cfg.set(name.lower(), value)

    def load(self):
        return self.application


@pytest.fixture
def programs(monkeypatch):
    """The server's calls, which does not run: pairs of a Program and flags."""
    found = []
    monkeypatch.setattr(base, "run_program", lambda program, flags: found.append((program, flags)) or 7)
    monkeypatch.setattr(base, "_running", None)
    return found


def test_run_ends_with_the_servers_status(programs, caplog, monkeypatch):
    """The process ends with the server's status; the app is the result of `load`, once in a process."""

    def app(environ, start_response):
        raise AssertionError

    standalone = Standalone(app, {"workers": 2, "nonsense": 1, "timeout": None})
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/srv/std.py", raising=False)  # pytest-xdist has none
    with pytest.raises(SystemExit) as caught:
        standalone.run()
    assert caught.value.code == 7
    [(program, flags)] = programs
    assert flags == {} and program.spec == "aserve.compat.gunicorn:program()" and program.name == "std.py"
    assert gunicorn.program() is app and standalone.wsgi() is app
    cfg = program.read()
    assert cfg is standalone.cfg and cfg.workers == 2
    standalone.options = {"workers": 3}
    assert caplog.messages == []
    assert program.read().workers == 3  # at a reload
    assert caplog.messages == [
        "a reload loads anew what load() imports; SIGUSR2 also loads what the program itself has imported"
    ]


def test_mistakes_are_one_line_and_status_2(capsys):
    with pytest.raises(SystemExit) as caught:
        base.BaseApplication()
    assert caught.value.code == 1 and "Error" in capsys.readouterr().err
    for method in (base.BaseApplication.load, lambda self: base.BaseApplication.init(self, None, None, [])):
        with pytest.raises(NotImplementedError):
            method(object.__new__(base.BaseApplication))


class Framework(base.Application):
    """An application in the form of the time before BaseApplication."""

    def init(self, parser, opts, args):
        """Return the settings beneath the command line's."""
        self.seen = opts.timeout, list(args)
        return {"workers": 2, "threads": 2}


def test_the_command_line(tmp_path, monkeypatch, programs, capsys):
    """The program's own settings, over them the file, the variable, and the command line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn.conf.py").write_text("threads = 3\nkeepalive = 4\n")
    monkeypatch.setenv(VARIABLE, "--keep-alive 5 --backlog 6")
    monkeypatch.setattr(sys, "argv", ["std", "--timeout", "9", "--backlog", "7", "a:b", "--check-config"])
    application = Framework()
    cfg = application.cfg
    assert (cfg.workers, cfg.threads, cfg.keepalive, cfg.backlog, cfg.timeout) == (2, 3, 5, 7, 9)
    assert application.seen == ("9", ["a:b"]) and cfg.given["threads"].where == "./gunicorn.conf.py:1"
    with pytest.raises(SystemExit):
        application.run()
    assert programs[0][1] == {"check": True}
    monkeypatch.setattr(sys, "argv", ["std", "--nonsense"])
    with pytest.raises(SystemExit):
        Framework()
    assert "--nonsense: gunicorn has no such flag" in capsys.readouterr().err
