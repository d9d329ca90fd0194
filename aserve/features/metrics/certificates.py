"""Until when the certificates of the https binds are valid.

Owns:     CertificateFiles: their paths, and the dates in them.
Thread:   that of its owner: a supervisor's, or an event loop's. It reads a small file for each certificate.
Not here: loading them for TLS (tls/certificates.py), renewing them (features/https/).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...settings import EngineSettings, split_sni
from ...tls.certificates import PEM_CERTIFICATE
from ...tls.validity import PLACEHOLDER, dates_of


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
            text = PEM_CERTIFICATE.search(file.read())
    except OSError:
        return None
    found = dates_of(text[1]) if text is not None else None
    if found is None:
        return None
    return 0 if PLACEHOLDER.encode() in found.certificate else found.end.timestamp()
