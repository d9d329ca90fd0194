"""Layers in front of an app."""

import io

import pytest

from aserve.wsgi import FileWrapper
from aserve.wsgi.wrapping import is_inert, named_as


def test_names_are_of_function_or_class():
    """A function has a name of its own, an object its class's."""

    class App:
        pass

    def wrapper():
        """Stand in front."""

    assert named_as(wrapper, test_names_are_of_function_or_class) is wrapper
    assert (wrapper.__module__, wrapper.__qualname__) == (__name__, "test_names_are_of_function_or_class")
    assert named_as(wrapper, App()).__qualname__.endswith("App")


@pytest.mark.parametrize(
    ("iterable", "expected"),
    [([], True), ((), True), (iter([]), False), (FileWrapper(io.BytesIO()), False)],
    ids=["list", "tuple", "iterator", "pieces"],
)
def test_inert_lists_run_no_code_of_the_app(iterable, expected):
    assert is_inert(iterable) is expected


def test_a_file_is_sent_by_the_event_loop(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    with open(tmp_path / "file", "rb", buffering=0) as file:
        assert is_inert(FileWrapper(file))
