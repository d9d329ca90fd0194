"""Compression is on, or nothing."""

from __future__ import annotations

from harness import apps

from aserve.compressing import Compressing
from aserve.features.compress import Compress
from aserve.settings import Config


def test_by_the_settings():
    """Without --compress there is none."""
    assert Compress.from_config(Config()) is None
    outer = Compress.from_config(Config(compress=True, compress_min_bytes=7)).wrap_app(apps.hello)
    assert type(outer) is Compressing and outer._app is apps.hello and outer.min_bytes == 7
