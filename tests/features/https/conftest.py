"""The folder of --https, for the tests in this folder."""

import pytest

from aserve.features.https.folder import Folder


@pytest.fixture
def folder(tmp_path):
    """Return an empty folder."""
    made = Folder(str(tmp_path / "state/https"))
    made.make(None)
    return made
