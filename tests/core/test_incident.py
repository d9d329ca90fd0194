"""An incident is told at its begin and at its end."""

from aserve.core.incident import CALM_SECONDS, Incident


def test_an_incident_is_news_at_its_begin_and_its_end():
    """Only its begin is news; some calm seconds end it, and each new case begins them anew."""
    incident = Incident()
    assert not incident.is_over_at_second()
    assert incident.begins() and not incident.begins()
    assert not any(incident.is_over_at_second() for _ in range(CALM_SECONDS))
    assert not incident.begins()
    assert [incident.is_over_at_second() for _ in range(CALM_SECONDS + 2)] == [False] * CALM_SECONDS + [True, False]
    assert incident.begins()
