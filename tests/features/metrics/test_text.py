"""The text, as Prometheus' own parser reads it."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aserve.features.metrics.table import BUCKETS, COUNTED, HISTOGRAM, PLACES, SUM, WORDS
from aserve.features.metrics.text import Samples, label, worker


def read(samples):
    """Return the families of a text, by name."""
    return {family.name: family for family in text_string_to_metric_families(samples.encode().decode())}


def test_every_metric_of_two_workers():
    """Each cell is a sample, with its worker where each has its own; a common one is the sum."""
    samples = Samples()
    samples.add_workers({1: list(range(WORDS)), 4: [10 * place for place in range(WORDS)]})
    families = read(samples)
    assert list(families) == [metric.name.removesuffix("_total") for metric in COUNTED]
    for metric in COUNTED:
        family, place = families[metric.name.removesuffix("_total")], PLACES[metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        if metric.kind == HISTOGRAM:
            continue
        words = [*range(place, place + metric.width), *(10 * each for each in range(place, place + metric.width))]
        assert [sample.value for sample in family.samples] == [round(each * metric.unit, 6) for each in words]
        assert {sample.labels["worker"] for sample in family.samples} == {"1", "4"}


def test_a_histogram_is_cumulative():
    """Buckets are cumulative, the last is the count, and the sum is in seconds."""
    words, place = [0] * WORDS, PLACES["aserve_request_queue_seconds"]
    words[place], words[place + 1], words[place + BUCKETS], words[place + SUM] = 5, 2, 1, 123_456_789
    samples = Samples()
    samples.add_workers({1: words})
    found = read(samples)["aserve_request_queue_seconds"].samples
    buckets = [(sample.labels["le"], sample.value) for sample in found if sample.name.endswith("_bucket")]
    assert buckets[:3] == [("0.001", 5), ("0.002", 7), ("0.004", 7)] and buckets[-1] == ("+Inf", 8)
    assert [(sample.name[-6:], sample.value) for sample in found[-2:]] == [("ds_sum", 123.456789), ("_count", 8)]


def test_nobody_yet_means_no_lines():
    samples = Samples()
    samples.add_workers({})
    assert samples.encode() == b""


def test_the_process_tells_its_program():
    samples = Samples()
    samples.add_process(12.5)
    families = read(samples)
    (build,) = families["aserve_build_info"].samples
    assert build.value == 1 and set(build.labels) == {"version", "implementation", "python"}
    assert families["process_start_time_seconds"].samples[0].value == 12.5


@pytest.mark.parametrize("value", ["plain", 'a"b\\c', "two\nlines"])
def test_labels_take_any_text(value):
    samples = Samples()
    samples.add("aserve_build_info", 1, label("version", value))
    assert read(samples)["aserve_build_info"].samples[0].labels == {"version": value}
    assert worker(3) == 'worker="3"'
