"""Applications of gunicorn's: classes that programs derive theirs from."""
