"""Counts over the ends of workers."""

from aserve.features.metrics.table import KEYS, PLACES, WORDS, place_of_requests
from aserve.features.metrics.totals import Totals, describe_words

COUNTER, GAUGE = PLACES["aserve_app_exceptions_total"], PLACES["aserve_requests_waiting"]
KEY = "aserve_app_exceptions_total "


def words(counter=0, gauge=0):
    """Return the words of a process with these counts."""
    words = [0] * WORDS
    words[COUNTER], words[GAUGE] = counter, gauge
    return words


def test_nothing_is_forgotten():
    """Counts stay with the slot; values of the moment go with their worker."""
    totals = Totals()
    totals.add_gone(2, words(5, 9))
    totals.add_gone(2, words(1, 9))
    totals.add_gone(1, words(4))
    found = totals.with_present([(2, words(10, 3)), (2, words(100, 4)), (7, words(1))])
    assert {slot: (each[COUNTER], each[GAUGE]) for slot, each in found.items()} == {1: (4, 0), 2: (116, 7), 7: (1, 0)}
    assert list(found) == [1, 2, 7]
    assert totals.with_present([])[2][COUNTER] == 6


def test_requests_that_were_lost():
    """Lost requests are among those without a status, of a slot perhaps without counts."""
    totals = Totals()
    totals.add_lost(2, 3)
    totals.add_gone(2, words(5))
    totals.add_lost(2, 1)
    found = totals.with_present([])[2]
    assert found[place_of_requests("none", "cut")] == 4 and found[COUNTER] == 5
    assert describe_words(found) == {KEY: 5, 'aserve_requests_total status="none",end="cut"': 4}


def test_other_code_goes_on_by_names():
    """Counts go on by names; unknown ones are dropped, and gauges are not handed down."""
    totals = Totals()
    totals.add_gone(3, words(5, 9))
    state = totals.describe()
    assert state == {"3": {KEY: 5}} and KEYS[KEY] == COUNTER
    again = Totals()
    again.restore({"3": {**state["3"], "gone": 1}, "4": describe_words(words(2))})
    assert [each[COUNTER] for each in again.with_present([]).values()] == [5, 2]
