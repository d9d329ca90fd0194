"""The words of the documentation's search are of pages, and answer people's questions."""

import pathlib

import pytest
from harness.questions import QUESTIONS

from aserve.command.pages import show_pages
from aserve.command.searched import SEARCHED

pytestmark = pytest.mark.checkout
DOCS = pathlib.Path(__file__).parent.parent.parent / "docs"


def test_words_are_of_pages():
    """Each page of the table exists, and each phrase belongs to a single page."""
    assert {name for name in SEARCHED if not (DOCS / f"{name}.md").exists()} == set()
    phrases = [phrase for of_page in SEARCHED.values() for phrase in of_page]
    assert len(phrases) == len({*phrases})


def test_forty_questions_find_their_pages_in_the_terminal():
    """For at least 38 questions a page with the answer is among the first three of `aserve docs`."""
    found = {question: show_pages(question.split()).splitlines()[:6:2] for question in QUESTIONS}
    missed = {question: names for question, names in found.items() if not {*names} & {*QUESTIONS[question].split()}}
    assert len(QUESTIONS) == 40 and len(missed) <= 2, missed
