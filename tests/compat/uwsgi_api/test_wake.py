"""The waking of a thread: once set, a single wait ends at once."""

import threading

from aserve.compat.uwsgi_api.wake import Wake


def test_set_before_a_wait_it_ends_at_once():
    wake = Wake()
    wake.set()
    wake.set()
    assert wake.wait(20) and not wake.wait(0)


def test_set_meanwhile_it_ends_a_wait():
    wake, woken = Wake(), []
    thread = threading.Thread(target=lambda: woken.append(wake.wait(20)))
    thread.start()
    wake.set()
    thread.join(20)
    assert woken == [True]
