"""Objects that are no WSGI app, and why."""

import sys

import pytest
from harness.apps import hello

from aserve.lifecycle.app_check import describe, why_no_app


class AsyncApp:
    """An ASGI app as an object."""

    async def __call__(self, scope, receive, send):
        """Answer."""


class App:
    """A WSGI app as an object."""

    def __call__(self, environ, start_response):
        """Answer."""


@pytest.mark.parametrize("app", [hello, App(), lambda *arguments: [], dict])
def test_apps_take_two_arguments(app):
    """An object callable with two arguments is an app, as far as can be told; C's may have no signature."""
    assert why_no_app(app, "app") == ""


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({}, "app is a dict, which cannot be called; "),
        (AsyncApp(), "app is an ASGI app"),
        (lambda scope, receive, send: None, "app is an ASGI app"),
        (lambda: hello, "is it a factory? write app()"),
        (lambda one: one, "app cannot be called with (environ, start_response); is it a factory? write app(ARGUMENTS)"),
    ],
)
def test_no_apps_are_told_with_a_remedy(found, text):
    assert text in why_no_app(found, "app")


def test_a_factory_without_an_app_is_asked_for_it():
    assert why_no_app(None, "make()").endswith("; let the factory return the app")
    assert why_no_app(None, "app").endswith("; a WSGI app is called with (environ, start_response)")


@pytest.mark.parametrize(("value", "text"), [(sys, "the module sys"), (3, "an int"), ({}, "a dict")])
def test_a_description_has_article_and_type(value, text):
    assert describe(value) == text
