"""Where a Django project has its app."""

from telling import application as application
