"""The app's place in a Django project."""

from telling import application as application
