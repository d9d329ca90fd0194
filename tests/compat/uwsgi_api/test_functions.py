"""The results of the module's functions, as uWSGI's: True, None, bytes."""

import pytest

from aserve.compat.uwsgi_api import functions, memory
from aserve.compat.uwsgi_api.functions import FUNCTIONS
from aserve.compat.uwsgi_api.signals import UwsgiSignals

CACHES = ("items=10,blocksize=16,name=first", "items=10,name=b")


@pytest.fixture(autouse=True)
def shared_memory(open_memory, monkeypatch):
    """The memory of this process, with two caches."""
    monkeypatch.setattr(memory, "_memory", open_memory(*CACHES))
    monkeypatch.setattr(functions, "SIGNALS", UwsgiSignals(memory.shared))


def test_locks_default_to_lock_0():
    functions.lock()
    assert functions.is_locked() is True and functions.is_locked(1) is False
    functions.unlock()
    assert functions.is_locked() is False


def test_cache_functions_answer_none_if_undone():
    assert functions.cache_get("k") is None and functions.cache_exists("k") is None and functions.cache_del("k") is None
    assert functions.cache_set("k", "é") is True and functions.cache_get(b"k") == "é".encode()
    assert functions.cache_set("k", b"2", 10) is None and functions.cache_update("k", b"2", 10) is True
    assert functions.cache_update("k", b"x" * 17) is None
    assert functions.cache_exists("k") is True and functions.cache_keys() == [b"k"]
    assert functions.cache_del("k") is True and functions.cache_keys() == []
    functions.cache_set("k", b"1")
    assert functions.cache_clear() is True and functions.cache_get("k") is None


def test_numbers_have_uwsgis_defaults():
    assert functions.cache_inc("n") is True and functions.cache_inc("n", 9) is True and functions.cache_num("n") == 10
    assert functions.cache_dec("n") is True and functions.cache_num("n") == 9
    assert functions.cache_mul("n") is True and functions.cache_num("n") == 18
    assert functions.cache_div("n", -4) is True and functions.cache_num("n") == -4
    assert functions.cache_div("n") is True and functions.cache_num("n") == -2
    assert functions.cache_div("n", 0) is True and functions.cache_num("n") == 0
    functions.cache_set("t", b"text")
    assert functions.cache_inc("t") is None


@pytest.mark.parametrize("count", [functions.cache_inc, functions.cache_dec, functions.cache_mul, functions.cache_div])
def test_amounts_have_64_bits(count):
    """Amounts are whole and have 64 bits, as in C; a wrong amount is refused before all processes wait."""
    functions.cache_inc("n", 5)
    for amount in ("1", 1.5, None):
        with pytest.raises(TypeError):
            count("n", amount)
    for amount in (1 << 63, -(1 << 63) - 1, 1 << 10**6):
        with pytest.raises(OverflowError, match="64 bits"):
            count("n", amount)
    assert functions.cache_num("n") == 5 and count("n", -(1 << 63)) is True


def test_types_of_the_app():
    class Text(str):
        def encode(self, *arguments):
            return 5

    class Octets(bytes):
        def __bytes__(self):
            raise RuntimeError

    assert functions.cache_set(Text("k"), Octets(b"v")) is True and functions.cache_get(bytearray(b"k")) == b"v"


@pytest.mark.parametrize("number", [1.0, "1", None])
def test_signals_have_whole_numbers(number):
    """A wrong number leaves no signal behind that nobody can look at."""
    for use in (
        lambda: functions.register_signal(number, "", print),
        lambda: functions.signal(number),
        lambda: functions.signal_registered(number),
        lambda: functions.add_timer(number, 5),
    ):
        with pytest.raises(TypeError):
            use()
    assert functions.free_signal() == 0


@pytest.mark.parametrize("name", ["first", b"first", None, ""])
def test_the_first_cache_is_meant(name):
    functions.cache_set("k", b"1", 0, name)
    functions.cache_set("k", b"2", 0, "b")
    assert functions.cache_get("k") == b"1" and functions.cache_get("k", "b") == b"2"


def test_no_such_cache(open_memory, monkeypatch):
    with pytest.raises(ValueError, match="there is no cache 'c'; --uwsgi-cache name=c,items=1000 has one"):
        functions.cache_set("k", "v", 0, "c")
    assert functions.cache_get("k", "c") is None
    with pytest.raises(ValueError, match="another server's"):
        functions.cache_get("k", "first@10.0.0.1:3031")
    monkeypatch.setattr(memory, "_memory", open_memory())
    for use in (lambda: functions.cache_set("k", "v"), lambda: functions.cache_get("k")):
        with pytest.raises(ValueError, match="--uwsgi-cache name=default,items=1000"):
            use()


def test_types_beyond_bytes_and_text_are_mistakes():
    with pytest.raises(TypeError, match="bytes or text, not int: 5"):
        functions.cache_set("k", 5)
    with pytest.raises(TypeError, match="bytes or text, not NoneType"):
        functions.cache_get(None)


def test_signals_are_registered_and_asked_for():
    assert functions.signal_registered(3) is False and functions.free_signal() == 0
    functions.register_signal(3, b"workers", print)
    functions.register_signal(0, "", print)
    assert functions.signal_registered(3) is True and functions.free_signal() == 1
    functions.signal(3)
    functions.add_timer(0, 5)
    functions.add_rb_timer(0, 5, 2)
    functions.add_cron(0, -1, -1, -1, -1, -1)
    functions.add_file_monitor(0, b"f")
    with pytest.raises(ValueError, match="signal 7 has no function here"):
        functions.signal(7)


@pytest.mark.parametrize("seconds", [0, -1, 1e10, float("nan")])
def test_no_timer_without_a_time(seconds):
    for add in (functions.add_timer, functions.add_rb_timer):
        with pytest.raises(ValueError, match="is none"):
            add(0, seconds)


def test_all_signals_taken():
    """There are 256."""
    for number in range(256):
        functions.register_signal(number, "", print)
    with pytest.raises(ValueError, match="all 256 signals have functions"):
        functions.free_signal()


def test_names_are_uwsgis_own():
    assert all(FUNCTIONS[name].__name__ == name for name in FUNCTIONS) and "free_signal" not in FUNCTIONS
