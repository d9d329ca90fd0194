"""gunicorn.arbiter, for an application's own run()."""

import pytest

from aserve.compat.gunicorn.app.base import BaseApplication
from aserve.compat.gunicorn.arbiter import Arbiter


class Own(BaseApplication):
    """An application with its own run()."""

    def load_config(self):
        """Set something."""
        self.cfg.set("workers", 3)

    def run(self):
        """Serve by gunicorn's arbiter."""
        Arbiter(self).run()


def test_run_serves_the_application(monkeypatch):
    served = []
    monkeypatch.setattr(BaseApplication, "run", lambda self: served.append(self))
    own = Own()
    own.run()
    assert served == [own] and Arbiter(own).cfg.workers == 3


def test_annotations_of_hooks_find_the_class():
    with pytest.raises(TypeError):
        Arbiter()
