"""Variables of the environment in a settings file."""

import pytest

from aserve.settings import ConfigError
from aserve.settings.variables import escape, expand, variable

SETTINGS = {
    "app": "a:b", "workers": "${env:N}", "bind": ["0.0.0.0:${env:PORT:-80}", {"address": "h:${env:PORT:-81}"}], "threads": 3,
    "env": ["A=${env:N}${env:E:-}", "B=$N ${N} $(N)"],
}  # fmt: skip


def test_values_stand_in_texts_lists_and_tables():
    """A default counts where the variable is not set. All further text stays unchanged."""
    assert expand(SETTINGS, {"N": "4"}, "f.toml") == {
        "app": "a:b", "workers": "4", "bind": ["0.0.0.0:80", {"address": "h:81"}], "threads": 3, "env": ["A=4", "B=$N ${N} $(N)"],
    }  # fmt: skip
    assert expand({"bind": SETTINGS["bind"]}, {"PORT": "90"}, "f.toml") == {"bind": ["0.0.0.0:90", {"address": "h:90"}]}
    assert (variable("N"), variable("N", "")) == ("${env:N}", "${env:N:-}")


@pytest.mark.parametrize("text", ["${env:N}", "$${env:N:-x}", "a$$${env:N}b${env:N}", "$$ $N ${N} $(N) $$(N)"])
def test_the_form_itself(text):
    """The text of the form has two dollars for each dollar; no further dollar is doubled."""
    assert expand({"env": [escape(text)]}, {"N": "4"}, "f.toml") == {"env": [text]}
    assert expand({"env": ["$$${env:N} $${env:N} $${N}"]}, {"N": "4"}, "f.toml") == {"env": ["$4 ${env:N} $${N}"]}


def test_one_that_is_not_set():
    """The error names the setting, the file and the variable, and says how to give a default."""
    with pytest.raises(
        ConfigError, match=r"^workers in f.toml: the variable N is not set; \$\{env:N:-VALUE\} has a default$"
    ):
        expand(SETTINGS, {}, "f.toml")
