"""The command `aserve init`: writes the files with which a site begins, for the app that is in this folder.

Owns:     init: which app, which names, and that no file is overwritten.
Thread:   the main thread.
Not here: the texts (site_files.py), finding apps (finding.py).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence

from ..core.accounts import user_name
from ..features import Config
from ..settings import ConfigError
from .finding import find_apps
from .site_files import SiteFiles

ABOUT = """\
Write aserve.toml, a unit of systemd and a server block of nginx into this
folder, for the app that is found here or named.  A file that is there already
is left as it is.  Nothing is imported, started or installed.  With --https
aserve serves the site by itself, with a certificate of Let's Encrypt."""
TERMS = f"With acme-terms in aserve.toml you agree to the terms of Let's Encrypt: {Config.LETS_ENCRYPT_TERMS}\n"
USER = "www-data"  # of a unit, for a folder that belongs to root
STATIC = ("staticfiles", "static")  # usual names; Django collects into the first what developers write into the second


def init(argv: Sequence[str], folder: str) -> str:
    """
    Write the files into a folder, and return what was done; `argv`: what follows the word init.

    Raises:
        ConfigError: no app was named, and none, or several, were found; or the folder cannot be written to; or --https has no valid name, or lacks a library.
    """
    parser = argparse.ArgumentParser(
        prog="aserve init", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("app", metavar="APP", nargs="?", help="as for aserve: module:name")
    parser.add_argument(
        "--https", metavar="NAME", default="", help="a public site: the name that leads to this machine"
    )
    args = parser.parse_args(argv)
    config = Config.from_sources({"https": args.https, "acme_terms": "accept"}) if args.https else None
    files = SiteFiles(
        _name_of(folder), args.app or _only_app(folder), folder, _command(), _user_of(folder), _static_of(folder),
        config.https[0] if config else "", os.stat(folder).st_uid == 0,
    )  # fmt: skip
    done = "".join(f"{name}: {_write(os.path.join(folder, name), text)}\n" for name, text in files.texts().items())
    if config:
        return f"{done}{TERMS}Next, as root: {files.enable()}\nThen aserve status, as root, shows the certificate.\n"
    return f"{done}Next: aserve --config aserve.toml --check, then without --check. The first lines of the others say where they go.\n"


def _only_app(folder: str) -> str:
    specs = list(dict.fromkeys(one.spec for one in find_apps(folder) if one.spec and "..." not in one.spec))
    if not specs:
        raise ConfigError(f"no app was found in {folder}; name it: aserve init module:app")
    if len(specs) > 1:
        commands = " or ".join(f"aserve init {shlex.quote(spec)}" for spec in specs)
        raise ConfigError(f"{len(specs)} apps were found in {folder}; choose one: {commands}")
    return specs[0]


def _write(path: str, text: str) -> str:
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return "is there already, and stays as it is"
    except OSError as fault:
        raise ConfigError(f"cannot write {path}: {fault.strerror}") from None
    return "written"


def _name_of(folder: str) -> str:
    """Return the folder's name, of characters that units, paths and host names all may have."""
    return re.sub(r"[^a-z0-9]+", "-", os.path.basename(folder).lower()).strip("-") or "site"


def _command() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "aserve")
    return beside if os.path.exists(beside) else shutil.which("aserve") or beside


def _static_of(folder: str) -> str:
    return next((name for name in STATIC if os.path.isdir(os.path.join(folder, name))), STATIC[-1])


def _user_of(folder: str) -> str:
    owner = os.stat(folder).st_uid
    return user_name(owner) if owner else USER
