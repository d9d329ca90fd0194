"""How --uwsgi-cache is spelled."""

import pytest

from aserve.compat.uwsgi_api.settings import CacheSpec, Extras, QueueSpec, parse_cache, parse_queue
from aserve.features import Config
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("items=10", CacheSpec("default", 10, 65536, 2048, False)),
        ("name=sessions, items=10, blocksize=4k, keysize=64, purge_lru=1", CacheSpec("sessions", 10, 4096, 64, True)),
        ("items=10,purge_lru=false,", CacheSpec("default", 10)),
    ],
)
def test_a_cache_has_the_fields_of_cache2(text, spec):
    assert parse_cache(text) == spec


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name=a", "does not say how many items"),
        ("items=0", "0 is too small"),
        ("items=x", "'x' is not a whole number"),
        ("items", "'items' is none of"),
        ("items=1,blocks=2", "'blocks=2' is none of name="),
        ("items=1,name=a b", "'a b' is not the name of a cache"),
        ("items=1,keysize=61k", "61KiB is too large"),
        ("items=1,purge_lru=2", "neither 0 nor 1"),
        ("items=1\nitems=2", "two caches are called default"),
    ],
)
def test_wrong_caches_are_refused(text, why):
    with pytest.raises(ConfigError, match=why):
        Config(uwsgi_cache=[text] if "\n" not in text else text)


def test_several_caches_are_lines_or_a_list():
    assert Config(uwsgi_cache="items=1\nitems=2,name=b").uwsgi_cache == ("items=1", "items=2,name=b")


def test_without_the_module():
    """An app without uwsgi has no use for a cache."""
    with pytest.raises(ConfigError, match="which --uwsgi-module off prevents"):
        Config(uwsgi_cache=["items=1"], uwsgi_module="off")


def test_extras_have_their_spellings():
    assert parse_queue("items=3,blocksize=1k") == QueueSpec(3, 1024)
    config = Config(uwsgi_queue="items=3", uwsgi_sharedarea=["4k", "9"], uwsgi_metric=["a", "b.c", "a"])
    assert config.extras == Extras("items=3", ("4k", "9"), ("a", "b.c")) and Config().extras == Extras()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"uwsgi_queue": "3"}, "is none of name="),
        ({"uwsgi_queue": "items=3,keysize=5"}, "has more than items= and blocksize="),
        ({"uwsgi_sharedarea": ["much"]}, "'MUCH' is not a size|'much' is not a size"),
        ({"uwsgi_metric": ["a b"]}, "'a b' is not the name of a metric"),
        ({"uwsgi_queue": "items=3", "uwsgi_module": "off"}, "uwsgi-queue, .* which --uwsgi-module off prevents"),
    ],
)
def test_wrong_extras_are_refused(values, why):
    with pytest.raises(ConfigError, match=why):
        Config(**values)
