"""Accept-Encoding."""

import pytest

from aserve.features.files.codings import ranked

OFFERED = ("br", "zstd", "gzip")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("gzip, deflate, br, zstd", ("br", "zstd", "gzip")),
        ("gzip", ("gzip",)),
        ("GZIP", ("gzip",)),
        ("x-gzip", ("gzip",)),
        ("gzip;q=1.0, br;q=0.5", ("gzip", "br")),
        ("gzip ; q=0.5 ,br; Q=0.501", ("br", "gzip")),
        ("*", OFFERED),
        ("br;q=0, *", ("zstd", "gzip")),
        ("br;q=0,gzip", ("gzip",)),
        ("*;q=0", ()),
        ("gzip;q=0.000", ()),
        ("identity", ()),
        ("identity, gzip;q=0.5", ()),  # it prefers plain octets
        ("identity;q=0.5, gzip;q=0.5", ("gzip",)),
        ("identity;q=0, *;q=0", ()),
        ("", ()),
        (", ,", ()),
        ("gzip;q=2", ()),
        ("gzip;q=0.1234", ()),
        ("gzip;level=9", ()),
        ("deflate", ()),
        ("gzip," + " " * 600, ()),
    ],
)
def test_ranked_by_weight_then_offer(field, expected):
    """Codings come by weight, then as offered; unreadable fields say nothing."""
    assert ranked(field, OFFERED) == expected
