"""`flask --app NAME aserve`: flask run, by aserve.

Owns:     the command, and the app for aserve; with --debug, Werkzeug's debugger in front of the app.
Thread:   the main thread.
Not here: becoming aserve (becoming.py).
"""

from __future__ import annotations

from typing import Any

import click
from flask.cli import ScriptInfo, pass_script_info
from flask.helpers import get_debug_flag
from werkzeug.debug import DebuggedApplication

from ..wsgi.wrapping import named_as
from .becoming import become_aserve, words_of

RUN_FLAGS = {"-h": "--host", "-p": "--port"}  # of flask run; aserve has --help and nothing there


def load(name: str | None) -> Any:
    """Return the app by flask's search, by the value of --app or FLASK_APP; None: in app.py or wsgi.py. With --debug the app has flask run's
    debugger."""
    app = ScriptInfo(app_import_path=name).load_app()
    return named_as(DebuggedApplication(app, evalex=True), app) if app.debug else app


@click.command("aserve", context_settings={"ignore_unknown_options": True})
@click.option("--reload/--no-reload", default=None, help="Serve saved code at once; by default with --debug.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@pass_script_info
def command(info: ScriptInfo, reload: bool | None, flags: tuple[str, ...]) -> None:
    """Serve the app by aserve; further flags are aserve's, and -h and -p those of flask run."""
    wants_reload = get_debug_flag() if reload is None else reload
    words = [RUN_FLAGS.get(flag, flag) for flag in flags]
    become_aserve(words_of(f"aserve.contrib.flask:load({info.app_import_path!r})", wants_reload, None, words))
