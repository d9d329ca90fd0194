"""`manage.py runaserve [ADDRESS] [-- FLAGS]`: runserver, by aserve.

Owns:     the command's arguments.
Thread:   the main thread.
Not here: the app (../../app.py), becoming aserve (../../../becoming.py).
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from ....becoming import become_aserve, words_of

APP = "aserve.contrib.django.app:application"


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Serve the project, and reload it when a file is saved."""

    help = "Serves the project by aserve, and reloads it when a file is saved."
    requires_system_checks: Any = "__all__"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take runserver's arguments; flags of aserve after --."""
        parser.add_argument("address", nargs="?", help="port, or address:port; default: 127.0.0.1:8000")
        parser.add_argument("--noreload", action="store_true", help="do not look whether files are saved")
        parser.add_argument("flags", nargs="*", help="behind --: flags of aserve, such as -- 8000 --threads 4")

    def handle(self, *args: Any, **options: Any) -> None:
        """Become aserve."""
        address, flags = options["address"], options["flags"]
        if address is not None and address.startswith("-"):
            address, flags = None, [address, *flags]  # there was nothing before --
        become_aserve(words_of(APP, not options["noreload"], address, flags))
