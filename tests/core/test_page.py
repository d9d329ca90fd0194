"""A page, and the facts of a process in it."""

from aserve.core.page import PAGE_BYTES, WORD_BYTES, Field, Process, new_page


def test_fields_fit_without_sharing_words():
    """No two fields share a word, and all fit into a page."""
    assert len(set(Field)) == len(Field.__members__)
    assert max(Field) < PAGE_BYTES // WORD_BYTES


def test_a_page_of_its_own():
    one, other = new_page(), new_page()
    assert one.tolist() == other.tolist() == [0] * (PAGE_BYTES // WORD_BYTES)
    one[Field.REQUESTS] = 2**64 - 1
    assert one[Field.REQUESTS] == 2**64 - 1 and not other[Field.REQUESTS]


def test_which_it_is():
    """A pid may be another's later; the generation of a slot is nobody else's."""
    one = Process(2, 4321, 7, "ready", 0.0, new_page(), False, list, float)
    assert one.key == one._replace(pid=1, state="draining").key != one._replace(generation=8).key
