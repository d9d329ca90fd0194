"""What wakes a thread: once set, one wait ends at once."""

from __future__ import annotations

import threading

from aserve.compat.uwsgi_api.wake import Wake


def test_set_before():
    """Twice is once; who has waited finds it not set."""
    wake = Wake()
    wake.set()
    wake.set()
    assert wake.wait(20) and not wake.wait(0)


def test_set_meanwhile():
    """The one that waits goes on."""
    wake, woken = Wake(), []
    thread = threading.Thread(target=lambda: woken.append(wake.wait(20)))
    thread.start()
    wake.set()
    thread.join(20)
    assert woken == [True]
