"""The settings of metrics: statsd's address, its prefix, and their owners."""

import pytest
from harness.refusals import error_of

from aserve.core.start_folder import StartFolder
from aserve.features import SETTINGS, Config
from aserve.features.metrics.settings import METRICS_MODE, settings_of
from aserve.settings import ConfigError, EngineSettings
from aserve.settings.paths import Base


@pytest.mark.parametrize(
    ("text", "value"),
    [(None, None), ("", None), ("127.0.0.1:8125", "127.0.0.1:8125"), ("unix:/run/statsd", "unix:/run/statsd")],
)
def test_where_statsd_is(text, value):
    """statsd is a host with its port, or a socket; nothing where there is none."""
    assert Config(statsd=text).statsd == value


@pytest.mark.parametrize("text", [8125, "udp://a:1", "127.0.0.1:0", "fd:3"])
def test_what_is_no_statsd(text):
    """The protocol is known, and the port has to be named."""
    assert "is no such address" in error_of(Config, statsd=text)


def test_the_prefix_is_fit_for_graphite():
    assert Config(statsd_prefix="a.gunicorn").statsd_prefix == "a.gunicorn"
    for text in ("a:b", "a.", 5):
        assert "is not such a name" in error_of(Config, statsd_prefix=text)


def test_whose_they_are():
    """A server has the settings of all features; the engine's alone are a bug."""
    assert settings_of(config := Config(metrics=":1")) is config
    with pytest.raises(AssertionError):
        settings_of(EngineSettings())


def test_the_mode_of_sockets():
    """The mode is octal digits, or the umask's."""
    assert [METRICS_MODE.show(METRICS_MODE.parse(text)) for text in ("", "660")] == [
        "what the umask leaves of 777",
        "660",
    ]
    with pytest.raises(ConfigError, match="metrics_mode: 'rw' is not the mode of a file"):
        Config(metrics_mode="rw")


@pytest.mark.parametrize("scheme", ["", "http://"])
@pytest.mark.parametrize(("place", "whole"), [("127.0.0.1:1", "127.0.0.1:1"), ("unix:s", "unix:{}/s")])
def test_the_place_of_stats(scheme, place, whole, tmp_path):
    """The scheme means clients by HTTP; a path is below the folder of the start."""
    (setting,) = (setting for setting in SETTINGS if setting.key == "stats")
    assert Config(stats=scheme + place).stats == scheme + place
    base = Base(StartFolder(str(tmp_path), is_said=True), is_left=True)
    assert setting.with_whole_paths(scheme + place, base) == scheme + whole.format(tmp_path)
