"""The settings of programs beside the workers."""

from harness.refusals import defaults_of

from aserve.features.programs.settings import ProgramSettings


def test_defaults_run_no_program():
    assert defaults_of(ProgramSettings) == {"attach": (), "cron": ()}
