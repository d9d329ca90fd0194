"""Files read at a start: the folder, and a placeholder for each name without a certificate.

Owns:     provide.
Thread:   the main thread, or the event loop before serving; a placeholder takes half a second.
Not here: real certificates (renewal.py).
"""

from __future__ import annotations

import logging
import os
import ssl

from ...lifecycle.privileges import find_account
from ...settings import ConfigError
from ...tls.certificates import reason_of
from ...tls.errors import guard
from .child import ChildError, OrderProcess
from .folder import FileOwner, Folder
from .settings import HTTPSSettings, folder_of

logger = logging.getLogger("aserve")


def provide(config: HTTPSSettings, is_check: bool = False) -> None:
    """
    Make missing files, for the user of the server; `is_check`: only look.

    Raises:
        ConfigError: the folder cannot be used, or the libraries do not work.
    """
    if config.acme_ca is not None and not os.access(config.acme_ca, os.R_OK):
        raise ConfigError(
            f"--acme-ca {config.acme_ca} cannot be read; it is the PEM file of a private authority's root"
        )
    owner = _owner(config)
    folder = Folder(folder_of(config))
    if is_check:
        folder.look(owner)
        return
    folder.make(owner)
    missing = [name for name in config.https if not _is_usable(folder.certificate(name))]
    if not missing:
        return
    try:
        OrderProcess({"do": "placeholders", "folder": folder.path, "names": missing}, owner=owner).wait()
    except ChildError as fault:
        raise ConfigError(
            f"--https: no placeholder could be made for {missing[0]}: {fault}; see that this user may run Python, and that the "
            "packages of aserve-wsgi[acme] work"
        ) from None


def _owner(config: HTTPSSettings) -> FileOwner | None:
    account = find_account(config.user, config.group, config.add_group) if os.geteuid() == 0 else None
    return FileOwner(account.uid, account.gid) if account is not None else None


def _is_usable(path: str) -> bool:
    """Whether there is a certificate with a key; set a damaged one aside, as the server would not start with the file."""
    if not os.path.exists(path):
        return False
    try:
        guard(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain)(path, None, str)  # asks for no passphrase
    except ssl.SSLError as exc:
        os.rename(path, f"{path}.damaged")
        logger.warning(
            "https: %s is damaged (%s), and is now %s.damaged; it is ordered anew", path, reason_of(exc), path
        )
        return False
    except OSError as exc:  # such as too many open files: the certificate may be a good one
        raise ConfigError(f"--https: the certificate {path} cannot be read: {exc.strerror}") from None
    return True
