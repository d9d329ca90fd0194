"""A file in a folder that is no package; its imports are in the folder above."""

from telling import application as application
