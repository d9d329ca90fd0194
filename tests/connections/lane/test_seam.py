"""Values between Python and C go by names, checked by both sides."""

import pytest
from harness import apps
from harness.plain import engine_of

from aserve.connections.lane import native as native_module
from aserve.connections.lane.seam import EngineParts
from aserve.core.ends import Ended

pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]


@pytest.fixture
def new_engine(start_server, monkeypatch):
    """Return a function that makes an engine like a server's, but for the changes."""
    module = pytest.importorskip("aserve._native", reason="aserve._native is not built here")
    made = []
    monkeypatch.setattr(native_module, "EngineParts", lambda **parts: made.append(EngineParts(**parts)) or made[-1])
    assert engine_of(start_server(apps.hello, native="auto"))
    return lambda **changes: module.Engine(made[0]._replace(**changes))


class Shuffled(Ended):
    """A class of another version."""

    _fields = Ended._fields[::-1]


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"lane_bytes": 1}, RuntimeError, "another version"),
        ({"ended": Shuffled}, RuntimeError, "Shuffled.* has other fields"),
        ({"state": tuple}, AttributeError, "_fields"),
        ({"connections": []}, TypeError, "connections must be a dict, not list"),
        ({"forked": ()}, TypeError, "forked must be a list, not tuple"),
        ({"tail": "text"}, ValueError, "too long"),
        ({"set": "here"}, TypeError, "int"),
        ({"executor": None}, AttributeError, "jobs"),
        ({"service_parts": [None]}, AttributeError, "app"),
    ],
)
def test_an_engine_refuses_values_of_another_version(new_engine, changes, error, text):
    """A missing attribute, a wrong type or a wrong order of fields is an error at the start, and no crash later."""
    with pytest.raises(error, match=text):
        new_engine(**changes)
