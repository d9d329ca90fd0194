"""Which steps are on, by the settings, and their order."""

from harness import apps

from aserve.features import Config, extensions_of
from aserve.features.files import Compress
from aserve.features.files.compressing import Compressing
from aserve.features.files.static import StaticFiles
from aserve.features.files.x_sendfile import XSendfile


def test_nothing_is_in_front_of_an_app():
    """Unasked features cost no request a step."""
    assert extensions_of(Config()).wrap_app(apps.hello) is apps.hello


def test_the_order_of_steps_is_fixed(tmp_path):
    """Files are looked for before the app, and go out unchanged; files named by the app are looked at next to it."""
    settings = {"static": f"/s={tmp_path}", "x_sendfile": str(tmp_path), "compress": True}
    outer = extensions_of(Config(**settings)).wrap_app(apps.hello)
    assert type(outer) is StaticFiles and type(outer._app) is Compressing
    assert type(outer._app._app) is XSendfile and outer._app._app._app is apps.hello


def test_compression_by_the_settings():
    """Without --compress there is none."""
    assert not Compress.is_on(Config())
    config = Config(compress=True, compress_min_bytes=7)
    outer = Compress(config).wrap_app(apps.hello)
    assert Compress.is_on(config) and type(outer) is Compressing and outer._app is apps.hello and outer.min_bytes == 7
