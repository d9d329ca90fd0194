"""The settings of mules."""

import pytest
from harness.refusals import error_of

from aserve.compat.uwsgi_api.mules.settings import parse_farm
from aserve.features import Config


def test_accepted_are_files_functions_and_waiting_mules():
    config = Config(workers=1, uwsgi_mule=["-", "mule.py", "shop.mail:run"], uwsgi_farm=["a:1,3", "b:2"])
    assert len(config.uwsgi_mule) == 3 and parse_farm("a:1,3") == ("a", (1, 3))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"uwsgi_mule": ["mule"]},
            "'mule' is no program of a mule: FILE.py, MODULE:FUNCTION, or - for one that waits for messages",
        ),
        ({"uwsgi_mule": ["-"] * 65}, "65 mules are too many"),
        ({"uwsgi_mule": ["-"], "uwsgi_module": "off"}, "uwsgi-module off prevents"),
        ({"uwsgi_mule": ["-"], "uwsgi_farm": ["a"]}, "'a' is no farm, such as mail:1,2"),
        ({"uwsgi_mule": ["-"], "uwsgi_farm": ["a:2"]}, "there is no mule 2; --uwsgi-mule makes 1"),
        ({"uwsgi_mule": ["-"], "uwsgi_farm": ["a:1", "a:1"]}, "two farms are called a"),
    ],
)
def test_impossible_mules_are_refused(values, text):
    assert text in error_of(Config, workers=1, **values)
