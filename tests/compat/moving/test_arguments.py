"""sys.argv is the same as on the app's former server, from its import on."""

from aserve.compat.moving.arguments import AppArguments
from aserve.extension import Life, LifeContext
from aserve.features import Config


def test_the_words_are_set_before_the_import():
    """At no other event, and only where given; the list stays the same object."""
    config, argv = Config(argv=["uwsgi", "--site"]), ["aserve", "app.ini"]
    assert AppArguments.is_on(config) and not AppArguments.is_on(Config())
    for event in Life:
        if event is not Life.IMPORTS:
            AppArguments(config).on_life(event, LifeContext(None, argv=argv))
    AppArguments(config).on_life(Life.IMPORTS, LifeContext(None))
    assert argv == ["aserve", "app.ini"]
    AppArguments(config).on_life(Life.IMPORTS, LifeContext(None, argv=argv))
    assert argv == ["uwsgi", "--site"]
