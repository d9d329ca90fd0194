"""A Django-like project."""
