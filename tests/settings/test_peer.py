"""An item of --trusted-proxies: each form, and refused forms."""

import pytest

from aserve.settings import peer as peer_module
from aserve.settings.peer import parse_peer


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3/32", "10.1.2.3/32"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("2001:DB8:0::/48", "2001:db8::/48"),
        ("::1", "::1"),
        ("unix", "unix"),
        ("unix:uid=33", "unix:uid=33"),
        ("unix:gid=www-data", "unix:gid=www-data"),
        ("*", "*"),
    ],
)
def test_items_are_shown_in_a_readable_form(text, shown):
    assert str(parse_peer(text)) == shown
    assert parse_peer(shown) == parse_peer(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "neither an address"),
        ("localhost", "neither an address"),
        ("10.0.0", "neither an address"),
        ("10.0.0.0/33", "neither an address"),
        ("[::1]", "neither an address"),
        ("10.0.0.1/8", "'10.0.0.0/8' has none"),
        ("0.0.0.0/0", "write '*'"),
        ("::/0", "write '*'"),
        ("::ffff:0:0/96", "write '*'"),
        ("unix:", "unix:uid=33"),
        ("unix:/run/a.sock", "unix:uid=33"),
        ("unix:uid=", "unix:uid=33"),
        ("unix:pid=1", "unix:uid=33"),
        ("unix:uid=1 ", "unix:uid=33"),
    ],
)
def test_refusals_say_the_reason(text, reason):
    with pytest.raises(ValueError) as caught:
        parse_peer(text)
    assert reason in str(caught.value)


def test_a_platform_that_does_not_tell(monkeypatch):
    """Where the kernel does not tell the peer's user, an item with a user is refused at once."""
    monkeypatch.setattr(peer_module, "SO_PEERCRED", None)
    with pytest.raises(ValueError, match="does not tell"):
        parse_peer("unix:uid=1")
