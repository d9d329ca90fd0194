"""A factory, and its app."""

import telling

try:
    import uwsgi  # noqa: F401
except ImportError:
    pass


def create_app(config="dev"):
    return telling.application


app = create_app()
