"""`--host` and `--port`: the resulting bind."""

import pytest

from aserve.command.explain import explain
from aserve.command.host_and_port import take_host_and_port
from aserve.features import Config
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("given", "environ", "bind"),
    [
        ({"host": "0.0.0.0", "port": "9000"}, {}, "0.0.0.0:9000"),
        ({"host": "0.0.0.0"}, {}, "0.0.0.0:8000"),
        ({"host": "0.0.0.0"}, {"PORT": "8080"}, "0.0.0.0:8080"),
        ({"host": "0.0.0.0"}, {"PORT": ""}, "0.0.0.0:8000"),
        ({"port": "9000"}, {"PORT": "8080"}, "127.0.0.1:9000"),
        ({"host": "::1", "port": "9000"}, {}, "[::1]:9000"),
        ({"host": "[::]"}, {}, "[::]:8000"),
        ({"host": ""}, {}, ":8000"),
    ],
)
def test_the_bind_is_built_from_host_and_port(given, environ, bind):
    """A missing host is loopback, a missing port the platform's; an address of IPv6 gets brackets. A bind of this form is accepted."""
    take_host_and_port(given, environ)
    assert given == {"bind": [bind]}
    assert Config.from_sources(given, {}, {}).bind == (bind,)


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({"host": "::1", "port": "1"}, "--host and --port"),
        ({"host": "::1"}, "--host"),
        ({"port": "1"}, "--port"),
    ],
)
def test_where_the_bind_is_from(given, flags):
    """`aserve config` and errors name the typed flags."""
    take_host_and_port(given, {})
    assert f", from {flags}\n" in explain("bind", given, {"ASERVE_BIND": ":2"}, {}, "")
    given["bind"][0] = "x:y"
    with pytest.raises(ConfigError, match=f"^{flags}: 'x:y': port 'y' is not a number"):
        Config.from_sources(given, {}, {})


def test_without_host_and_port_nothing_changes():
    given = {"bind": [":1"], "threads": "2"}
    take_host_and_port(given, {"PORT": "8080"})
    assert given == {"bind": [":1"], "threads": "2"}


@pytest.mark.parametrize("flag", ["host", "port"])
def test_beside_a_bind(flag):
    """The command makes no guess between both."""
    with pytest.raises(ConfigError, match="give either these or --bind HOST:PORT"):
        take_host_and_port({"bind": [":1"], flag: "2"}, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [({"port": "x"}, "port 'x' is not a number"), ({"host": "a:80"}, "^--host: 'a:80' has a port; write --bind a:80$")],
)
def test_a_wrong_port_or_host_is_told(given, said):
    with pytest.raises(ConfigError, match=said):
        take_host_and_port(given, {})
        Config.from_sources(given, {}, {})
