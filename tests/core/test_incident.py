"""Something that comes and goes is told when it begins and when it is over."""

from __future__ import annotations

from aserve.core.incident import CALM_SECONDS, Episode


def test_an_episode():
    """Only its begin is news; some calm seconds end it, and each time that it happens they begin anew."""
    episode = Episode()
    assert not episode.is_over_at_second()
    assert episode.begins() and not episode.begins()
    assert not any(episode.is_over_at_second() for _ in range(CALM_SECONDS))
    assert not episode.begins()
    assert [episode.is_over_at_second() for _ in range(CALM_SECONDS + 2)] == [False] * CALM_SECONDS + [True, False]
    assert episode.begins()
