"""The traceback of an app's error begins with the app's own code."""

import types

from aserve.lifecycle import load_error
from aserve.lifecycle.load_error import app_raised


def frames_of(*names):
    """Return the places in the traceback of a fault through code of these files."""
    call = None
    for name in reversed(names):
        module = types.ModuleType("some")
        module.call = call
        exec(compile("def run():\n    call() if call else {}['missing']\n", name, "exec"), vars(module))
        call = module.run
    try:
        call()
    except KeyError as fault:
        trace = fault.__traceback__.tb_next  # behind this function
        text = app_raised("site", "importing", fault.with_traceback(trace)).app_traceback
    return [name for line in text.splitlines() for name in set(names) if f'"{name}"' in line]


def test_ours_before_the_apps():
    """Frames before the app's code are left out; aserve's code called by the app is the fault's place."""
    ours = load_error.__file__
    assert frames_of(ours, "/srv/app.py", "<frozen importlib._bootstrap>") == ["/srv/app.py"]
    assert frames_of("/srv/app.py", ours) == ["/srv/app.py", ours]
    assert frames_of(ours, ours) == [ours, ours]


def test_a_mistake_of_syntax():
    """The app's line is shown, and no importing frame of aserve's."""
    module = types.ModuleType("some")
    exec(
        compile("def load():\n    compile('def app(:', '/srv/app.py', 'exec')\n", load_error.__file__, "exec"),
        vars(module),
    )
    try:
        module.load()
    except SyntaxError as fault:
        text = app_raised("site", "importing", fault.with_traceback(fault.__traceback__.tb_next)).app_traceback
    assert '"/srv/app.py", line 1' in text and load_error.__file__ not in text
