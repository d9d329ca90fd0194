"""The place of a call: a new thread, or this one."""

import threading
from typing import Any, Callable


def run_in(in_thread: bool, function: Callable[[], Any]) -> None:
    """Run a function in a new thread, and wait for its end; or here."""
    if not in_thread:
        function()
        return
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
