"""The app that `manage.py runaserve` serves.

Owns:     application: the project's WSGI_APPLICATION, with its URL tables and views imported; with DEBUG, behind its static files, as with runserver.
Thread:   the main thread, at import.
Not here: the command (management/commands/runaserve.py).
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import get_internal_wsgi_application
from django.urls import get_resolver

application: Any = get_internal_wsgi_application()
if hasattr(settings, "ROOT_URLCONF"):
    # Otherwise the first request imports them, and a mistake is a 500 without a page: Django's own page needs the tables.
    _ = get_resolver().url_patterns
if settings.DEBUG and apps.is_installed("django.contrib.staticfiles"):
    application = StaticFilesHandler(application)
