"""The settings of jobs in folders."""

import pytest
from harness.refusals import error_of

from aserve.compat.uwsgi_api.spooler.settings import whole_spool
from aserve.core.start_folder import StartFolder
from aserve.features import Config
from aserve.settings.paths import Base


@pytest.mark.parametrize(("text", "whole"), [("jobs", "{}/jobs"), ("shared:jobs", "shared:jobs")])
def test_a_folder_is_found_from_everywhere(monkeypatch, tmp_path, text, whole):
    """A shared queue is no folder."""
    monkeypatch.chdir(tmp_path)
    assert whole_spool(text, Base(StartFolder(str(tmp_path), True), False)) == whole.format(tmp_path)


def test_contradictions_are_refused():
    assert "uwsgi-module off prevents" in error_of(Config, workers=1, spooler=["/x"], uwsgi_module="off")
    assert "shared:NAME needs --shared" in error_of(Config, workers=1, spooler=["shared:x"])
