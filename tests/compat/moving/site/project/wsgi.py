"""A file in a folder that is no package; what it imports is in the folder above."""

from telling import application as application
