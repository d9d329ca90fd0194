"""TLS contexts: from files of certificates to the function that wraps a connection.

Owns:     loading certificates, keys and authorities, with a message for each fault in them; the allowed versions and ciphers; the choice by server
          name; reloading; a client's certificate in the environ.
Spec:     RFC 9325 (what is allowed); RFC 7301 (ALPN); RFC 4514 (names of
          clients).
Not here: octets (connections/accepting/tls_transport.py), a client's wishes (client_hello.py), dates (validity.py), the settings' grammar
          (settings/kinds.py).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import ssl
from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Callable, NoReturn, Optional

from ..core.accounts import name_user
from ..core.patterns import lazy_pattern
from ..settings import ConfigError, EngineSettings, TLSSettings, split_sni
from .errors import guard
from .sessions import OwnContext, OwnSession, PythonSession, TLSSession, why_no_library

logger = logging.getLogger("aserve")

# Argument: the server name that the client asks for. Returns the context of its handshake, after which the connection ends; None: there is none.
NewContext = Callable[[str], Optional[ssl.SSLContext]]
NO_CONTEXTS: Mapping[str, NewContext] = MappingProxyType({})
Stamp = Optional[tuple[int, int, int, int]]  # of a file; None: there is none

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
VERIFY_MODES = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# RFC 7301 6: the names of HTTP/1.x. curl, asked for HTTP/1.0, offers only the second.
ALPN_PROTOCOLS = ("http/1.1", "http/1.0")

ANY_NAME = ""  # the key of the context for all other names

OPTIONS = (
    ssl.OP_NO_COMPRESSION  # RFC 9325 3.3: CRIME
    | ssl.OP_CIPHER_SERVER_PREFERENCE
    # RFC 9325 3.5; the name is missing on PyPy 3.9, the number is OpenSSL's.
    | getattr(ssl, "OP_NO_RENEGOTIATION", 0x40000000)
)

# No keys below 112 bits of security, Python's own level from 3.10 on. LibreSSL knows no levels.
SECURITY_LEVEL = "" if ssl.OPENSSL_VERSION.startswith("LibreSSL") else "@SECLEVEL=2:"

PEM_CERTIFICATE = lazy_pattern(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL)
_KEY = lazy_pattern(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


class Certificates:
    """The contexts of all https binds, open to a reload while in use."""

    def __init__(self, all_settings: Iterable[TLSSettings], protocols: Iterable[str] = ()) -> None:
        """
        Load everything. `protocols`: further names for ALPN, preferred to the names of HTTP/1.x.

        Raises:
            ConfigError: a file or a setting cannot be used; the text has the remedy.
        """
        self._all_settings = [_with_absolute_paths(settings) for settings in all_settings]
        self._protocols = [*protocols, *ALPN_PROTOCOLS]
        self.followers: list[Callable[[], None]] = []  # called after each load
        self._paths = [path for settings in self._all_settings for path in _paths_of(settings)]
        self._stamps = self._last_stamps = [_stamp(path) for path in self._paths]
        self._load()

    def wrap_by(self, settings: TLSSettings) -> Wrap:
        """Return the function that begins a connection's session by the contexts that are current at that time."""
        return Wrap(self, _with_absolute_paths(settings))

    def begin(self, settings: TLSSettings, name: str) -> TLSSession:
        """See Wrap; `settings`: with absolute paths."""
        contexts = self._contexts[settings]
        name = name.lower()
        # RFC 9525 6.3: a wildcard stands for one label.
        context = contexts.get(name) or contexts.get("*." + name.partition(".")[2]) or contexts[ANY_NAME]
        own = self._own.get(context)
        return PythonSession(context) if own is None else OwnSession.of(own)

    def only(self, settings: TLSSettings) -> OwnContext | None:
        """See Wrap."""
        contexts = self._contexts[settings]
        return self._own.get(contexts[ANY_NAME]) if len(contexts) == 1 else None

    def reload(self) -> bool:
        """Load everything anew; if any file cannot be used, keep the old contexts, log why, and return False."""
        self._stamps = self._last_stamps = [_stamp(path) for path in self._paths]
        try:
            self._load()
        except ConfigError as fault:
            logger.error("TLS: %s; keeping the certificates loaded before", fault)
            return False
        logger.info("TLS: certificates loaded anew")
        self.log_warnings()
        return True

    def _load(self) -> None:
        contexts, self.warnings = _load(self._all_settings, self._protocols)
        own = {}
        for settings, by_name in contexts.items() if not why_no_library() else ():
            if not needs_python(settings):
                for name, certificate, key in _files_of(settings):
                    own[by_name[name]] = self._own_context(by_name[name], certificate, key, settings)
        self._contexts, self._own = contexts, {like: context for like, context in own.items() if context is not None}
        for follow in self.followers:
            follow()

    def _own_context(
        self, like: ssl.SSLContext, certificate: str, key: str | None, settings: TLSSettings
    ) -> OwnContext | None:
        try:
            return OwnContext(like, certificate, key, SECURITY_LEVEL + settings.ciphers, self._protocols)
        except OSError as exc:
            logger.warning("TLS: %s: %s; Python serves its connections", certificate, exc)
            return None

    def log_warnings(self) -> None:
        """Log the faults of usable certificates."""
        for warning in self.warnings:
            logger.warning("TLS: %s", warning)

    def on_second(self) -> None:
        """Load everything anew when a file has changed, and then not for a second; called once a second."""
        stamps = [_stamp(path) for path in self._paths]
        # A certificate and a key are two files: between their changes the two do not match.
        is_settled = stamps == self._last_stamps
        self._last_stamps = stamps
        if is_settled and stamps != self._stamps:
            self.reload()


class Wrap:
    """Begins the sessions of a listener by the contexts that are current at that time."""

    def __init__(self, certificates: Certificates, settings: TLSSettings) -> None:
        self._certificates, self._settings = certificates, settings

    def __call__(self, name: str) -> TLSSession:
        """Begin a session; `name`: the server that the client asks for."""
        return self._certificates.begin(self._settings, name)

    @property
    def only(self) -> OwnContext | None:
        """The context of all sessions; None: a name decides, or Python's ssl module begins them."""
        return self._certificates.only(self._settings)

    def follow(self, renew: Callable[[], None]) -> None:
        """Call `renew` now, and whenever there are new contexts."""
        self._certificates.followers.append(renew)
        renew()


def _with_absolute_paths(settings: TLSSettings) -> TLSSettings:
    """Make paths absolute: apps may chdir()."""
    sni = [
        (name, os.path.abspath(certificate), os.path.abspath(key) if key else None)
        for name, certificate, key in map(split_sni, settings.sni)
    ]
    return settings._replace(
        certificate=os.path.abspath(settings.certificate),
        key=os.path.abspath(settings.key) if settings.key else None,
        sni=tuple(f"{name}={certificate}" + (f":{key}" if key else "") for name, certificate, key in sni),
        client_ca=os.path.abspath(settings.client_ca) if settings.client_ca else None,
    )


def _paths_of(settings: TLSSettings) -> list[str]:
    pairs = [split_sni(text)[1:] for text in settings.sni]
    paths = [settings.certificate, settings.key, settings.client_ca, *(path for pair in pairs for path in pair)]
    return [path for path in paths if path is not None]


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# Loading


def _load(
    all_settings: Iterable[TLSSettings], protocols: list[str]
) -> tuple[dict[TLSSettings, dict[str, ssl.SSLContext]], list[str]]:
    warnings: list[str] = []
    contexts = {}
    for settings in all_settings:
        contexts[settings] = {
            name: _new_context(settings, certificate, key, warnings) for name, certificate, key in _files_of(settings)
        }
        for context in contexts[settings].values():
            context.set_alpn_protocols(protocols)
    return contexts, list(dict.fromkeys(warnings))


def _files_of(settings: TLSSettings) -> list[tuple[str, str, str | None]]:
    """Return each name, with the files of its certificate and its key."""
    return [(ANY_NAME, settings.certificate, settings.key), *map(split_sni, settings.sni)]


def needs_python(settings: TLSSettings) -> bool:
    """Whether a listener needs what only Python's ssl module does: certificates of clients."""
    return settings.client_certificate != "none"


def _new_context(settings: TLSSettings, certificate: str, key: str | None, warnings: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[settings.tls_min]
    context.options |= OPTIONS
    try:
        guard(context.set_ciphers)(SECURITY_LEVEL + settings.ciphers)
    except ssl.SSLError:
        raise ConfigError(
            f"--ciphers {settings.ciphers}: no cipher suite is of that name; see `openssl ciphers -v`"
        ) from None
    _load_chain(context, certificate, key, warnings)
    if settings.client_ca is not None:
        _load_client_ca(context, settings.client_ca)
    context.verify_mode = VERIFY_MODES[settings.client_certificate]
    return context


class _PassphraseNeeded(Exception):
    """Raised through OpenSSL, in place of a question for the passphrase on the terminal."""


def _refuse_passphrase() -> NoReturn:
    raise _PassphraseNeeded


def _load_chain(context: ssl.SSLContext, certificate: str, key: str | None, warnings: list[str]) -> None:
    chain = _read(certificate, "certificate")
    first = PEM_CERTIFICATE.search(chain)
    if first is None:
        raise ConfigError(f"the certificate {certificate} has no BEGIN CERTIFICATE in it: it must be PEM")
    if not _KEY.search(_read(key, "key") if key else chain):
        if key is None:
            raise ConfigError(f"the certificate {certificate} has no private key with it; name the key's file, too")
        raise ConfigError(f"the key {key} has no BEGIN PRIVATE KEY in it: it must be PEM")
    try:
        guard(context.load_cert_chain)(certificate, key, _refuse_passphrase)
    except _PassphraseNeeded:
        raise ConfigError(
            f"the key {key or certificate} has a passphrase, and a server cannot ask for it; "
            "`openssl pkey -in WITH -out WITHOUT` takes it off"
        ) from None
    except OSError as exc:  # an SSLError is one
        reason = reason_of(exc)
        if reason == "key values mismatch":
            reason = f"the key {key or 'in it'} is not its key (the server's own certificate must come first)"
        elif reason == "PEM lib":
            reason = "it or its key is damaged"
        raise ConfigError(f"the certificate {certificate} cannot be used: {reason}") from None
    from .validity import warn_of_dates  # datetime, for a millisecond

    warnings += warn_of_dates(certificate, first[1])


def _load_client_ca(context: ssl.SSLContext, path: str) -> None:
    _read(path, "client-ca")
    try:
        guard(context.load_verify_locations)(path)
    except OSError as exc:
        raise ConfigError(f"--client-ca {path} cannot be used: {reason_of(exc)}; it must be PEM") from None


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as exc:
        # With --user the file is read after root was given up, as at a reload.
        if exc.errno == errno.EACCES:
            raise ConfigError(f"cannot read the {what} {path}: {_who_may_not(path)}") from None
        raise ConfigError(f"cannot read the {what} {path}: {exc.strerror}") from None


def _who_may_not(path: str) -> str:
    """Return the user without the right to read a file, and the remedy: with --user the file is read after root was given up, as at a reload."""
    who, place = name_user(os.geteuid()), os.path.abspath(path)
    closed = next((folder for folder in _folders_of(place) if not os.access(folder, os.X_OK)), None)
    if closed is not None:
        return f"{who} may not enter the folder {closed}; put a copy where it may, or let it in: chmod o+x {closed}"
    return f"{who} may not read it; let that user's group read it: chgrp GROUP {place} and chmod g+r {place}"


def _folders_of(path: str) -> list[str]:
    """Return the folders above a file, from the root on."""
    folder = os.path.dirname(path)
    return [*(_folders_of(folder) if folder != os.path.dirname(folder) else []), folder]


def reason_of(exc: Exception) -> str:
    """Return OpenSSL's reason, unwrapped."""
    reason = getattr(exc, "reason", None)
    return reason.lower().replace("_", " ") if reason else re.sub(r"\A\[\w+\] | \(_ssl\.c:\d+\)\Z", "", str(exc))


# A client


def describe_client(ssl_object: TLSSession) -> dict[str, str]:
    """
    Return a connection's entries for the environ, with the names of Apache's mod_ssl.

    Raises:
        ValueError: a name in the client's certificate is not text.
    """
    cipher = ssl_object.cipher()
    vars = {
        "SSL_PROTOCOL": ssl_object.version() or "",
        "SSL_CIPHER": cipher[0] if cipher else "",
        "SSL_CLIENT_VERIFY": "NONE",
    }
    certificate: dict[str, Any] | None = ssl_object.getpeercert()
    if certificate:
        vars["SSL_CLIENT_VERIFY"] = "SUCCESS"  # otherwise the handshake would have failed
        vars["SSL_CLIENT_S_DN"] = format_name(certificate["subject"])
        vars["SSL_CLIENT_I_DN"] = format_name(certificate["issuer"])
        vars["SSL_CLIENT_M_SERIAL"] = certificate["serialNumber"]
        vars["SSL_CLIENT_V_START"] = certificate["notBefore"]
        vars["SSL_CLIENT_V_END"] = certificate["notAfter"]
        vars["SSL_CLIENT_CERT"] = ssl.DER_cert_to_PEM_cert(ssl_object.getpeercert(binary_form=True) or b"")
    return vars


# The ssl module uses long names; RFC 4514 3 and OpenSSL have short ones.
_SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "givenName": "GN",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "street",
    "surname": "SN",
    "userId": "UID",
}
_SPECIAL = lazy_pattern(r'[,+"\\<>;]|\A[# ]| \Z|[\x00-\x1f\x7f]')


def format_name(name: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return a distinguished name in the form of RFC 2253 (now RFC 4514); octets above ASCII in the environ's form."""
    parts = [
        "+".join(f"{_SHORT_NAMES.get(kind, kind)}={_SPECIAL.sub(_escape, value)}" for kind, value in reversed([*part]))
        for part in name
    ]
    return ",".join(reversed(parts)).encode("utf-8").decode("latin-1")


def _escape(match: re.Match[str]) -> str:
    return "\\" + (match[0] if match[0].isprintable() else f"{ord(match[0]):02X}")


def load_certificates(
    config: EngineSettings, protocols: Iterable[str] = (), without: Container[str] = ()
) -> Certificates:
    """
    Load the files of the https binds of these settings, but for those of `without`; `protocols`: see Certificates.

    Raises:
        ConfigError: a file or a setting cannot be used.
    """
    found = [tls for tls in map(config.tls_settings, config.tls_binds) if tls.certificate not in without]
    kept = [[text for text in tls.sni if split_sni(text)[1] not in without] for tls in found]
    return Certificates((tls._replace(sni=tuple(sni)) for tls, sni in zip(found, kept)), protocols)


def warn_of_files(config: EngineSettings) -> Iterator[str]:
    """Return a warning for each certificate of the https binds that is not valid now, as the files are now; leave out what cannot be read."""
    from .validity import warn_of_dates

    paths = [path for tls in map(config.tls_settings, config.tls_binds) for _, path, _ in _files_of(tls)]
    for path in dict.fromkeys(paths):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if first := PEM_CERTIFICATE.search(file.read()):
                yield from warn_of_dates(path, first[1])
