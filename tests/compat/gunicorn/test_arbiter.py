"""gunicorn.arbiter: what an application's own run() may call."""

from __future__ import annotations

import pytest

from aserve.compat.gunicorn.app.base import BaseApplication
from aserve.compat.gunicorn.arbiter import Arbiter


class Own(BaseApplication):
    """An application whose run() is its own."""

    def load_config(self):
        """Set something."""
        self.cfg.set("workers", 3)

    def run(self):
        """Serve it by gunicorn's arbiter."""
        Arbiter(self).run()


def test_run(monkeypatch):
    """It serves the application, whatever that overrides."""
    served = []
    monkeypatch.setattr(BaseApplication, "run", lambda self: served.append(self))
    own = Own()
    own.run()
    assert served == [own] and Arbiter(own).cfg.workers == 3


def test_annotations():
    """The class is there for hooks, too."""
    with pytest.raises(TypeError):
        Arbiter()
