"""Until when the certificates of the https binds are valid.

Owns:     CertificateFiles: their paths, and the dates in them.
Thread:   that of its owner: a supervisor's, or an event loop's. It reads a small file for each certificate.
Not here: loading them for TLS (tls/certificates.py), renewing them (features/https/).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator

from ...settings import EngineSettings, split_sni
from ...tls.certificates import PEM_CERTIFICATE
from ...tls.validity import PLACEHOLDER, read_validity


class CertificateFiles:
    """The files of the present settings."""

    def __init__(self, config: EngineSettings) -> None:
        self._config, self._paths = config, _paths_of(config)  # now: apps may chdir()

    def ends(self, config: EngineSettings) -> Iterator[tuple[str, float]]:
        """Return each file, and until when its certificate is valid: seconds since 1970, 0 for a placeholder. Leave out what cannot be read."""
        if config is not self._config:  # a reload
            self._config, self._paths = config, _paths_of(config)
        for path in self._paths:
            end = _end_of(path)
            if end is not None:
                yield path, end


def _paths_of(config: EngineSettings) -> list[str]:
    found = []
    for bind in config.tls_binds:
        settings = config.tls_settings(bind)
        found += [settings.certificate, *(split_sni(text)[1] for text in settings.sni)]
    return list(dict.fromkeys(map(os.path.abspath, found)))


def _end_of(path: str) -> float | None:
    try:
        with open(path, "rb") as file:
            found = PEM_CERTIFICATE.search(file.read())
        octets = base64.b64decode(found[1] if found is not None else b"")
        return 0 if PLACEHOLDER.encode() in octets else read_validity(octets)[1].timestamp()
    except (OSError, ValueError, IndexError):
        return None
