"""A process that shows whether new code can serve."""

import os
import socket
import tempfile

import pytest

from aserve.core.page import TRIAL
from aserve.features import Config
from aserve.processes.children.channel import Channel
from aserve.processes.fleet.plan import Plan
from aserve.processes.upgrade.trial import trial_role
from aserve.settings import ConfigError


@pytest.fixture
def channel():
    """One end of a channel."""
    ends = Channel.pair()
    yield ends[0]
    for end in ends:
        end.close()


def test_a_role_listens_out_of_reach(channel, monkeypatch, tmp_path):
    """A trial listens once for each bind, in its protocol, out of reach; nothing of its listeners stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan = Plan(Config(workers=2, bind=["127.0.0.1:0", "uwsgi://unix:/no/such/folder/s"]), "a:app")
    role = trial_role(plan, channel)
    assert (role.slot, role.name, role.plan, role.channel) == (TRIAL, "the trial", plan, channel)
    assert [listener.bind.protocol for listener in role.listeners] == ["http", "uwsgi"]
    for listener in role.listeners:
        assert listener.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        assert not os.path.exists(listener.address)
        listener.socket.close()
    assert os.listdir(tmp_path) == []
    role.page[-1] = 1


def test_nowhere_to_write(channel, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    assert trial_role(Plan(Config(workers=1), None), channel).listeners == []


def test_a_trial_without_workers_is_refused(channel):
    with pytest.raises(ConfigError, match="do not ask for workers any more"):
        trial_role(Plan(Config(), None), channel)
