"""Socket.IO's modes for greenlets are its mode for threads."""

import importlib
import sys
import types

import pytest

from aserve.compat.moving.socket_modes import MODES, ModeFinder, SocketModes
from aserve.extension import Life, LifeContext
from aserve.features import Config

DRIVERS = "engineio.async_drivers."


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """A Socket.IO whose modes cannot be imported, with the finder; installed("gevent") adds a package."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    for name in ("gevent", "eventlet", "uwsgi", "engineio", *(DRIVERS + mode for mode in MODES)):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]

    def install(name, **values):
        module = types.ModuleType(name)
        vars(module).update(values, __path__=[])
        monkeypatch.setitem(sys.modules, name, module)

    install("engineio")
    install("engineio.async_drivers")
    install("engineio.async_drivers.threading", _async={"sleep": 1})
    extension = SocketModes(Config(environ_as="uwsgi"))
    for event in (Life.STARTS, Life.IMPORTS, Life.IMPORTS):
        extension.on_life(event, LifeContext(None))
    assert len([one for one in sys.meta_path if isinstance(one, ModeFinder)]) == 1
    return install


def test_modes_for_greenlets_use_threads(installed, caplog):
    """Each mode has the classes for threads where its packages are, and says so."""
    caplog.set_level("INFO")
    for mode, needed in MODES.items():
        with pytest.raises(ImportError):
            importlib.import_module(DRIVERS + mode)
        for name in needed:
            installed(name)
        module = importlib.import_module(DRIVERS + mode)
        assert module._async == {"sleep": 1} and module.__name__ == DRIVERS + mode
        for name in needed:
            del sys.modules[name]
    assert caplog.messages == [
        f"Socket.IO's mode {mode} runs in threads here, as its mode threading; see `aserve docs websockets`"
        for mode in MODES
    ]


def test_other_modules_are_left_alone():
    """Any further name is found by the usual finders, or not at all; an app of aserve's own has no such finder."""
    with pytest.raises(ImportError):
        importlib.import_module(f"{DRIVERS}aiohttp")
    with pytest.raises(ImportError):
        importlib.import_module("eventlet")
    assert SocketModes.is_on(Config(environ_as="gunicorn")) and not SocketModes.is_on(Config())
