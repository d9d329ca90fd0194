"""The settings of certificates by ACME: names, folder, authority.

Owns:     HTTPSSettings; the grammar of names; the certificate files of the names; the default folder; times and what clients get as texts.
Thread:   any; pure, but for the user of the process and systemd's variable.
Spec:     RFC 1123 section 2.1 (names of hosts), RFC 8555.
Not here: the files (folder.py), getting certificates (renewal.py).
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.patterns import lazy_pattern
from ...core.systemd import state_folder
from ...settings import ConfigError, EngineSettings, Needs, parse_bind, row
from ...settings.kinds import FILE, Kind, choice, count, matching, optional, parse_list, show_text, show_texts
from ...settings.paths import whole
from ..sharing.settings import SharingSettings

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
BINDS = ("https://:443", ":80")
HTTP_01, TLS_ALPN_01 = "http-01", "tls-alpn-01"  # the kinds of challenges
PORTS = {HTTP_01: 80, TLS_ALPN_01: 443}  # of an authority's questions: RFC 8555 8.3, RFC 8737 3
# Guess: more than a site has; each takes a separate order.
MAX_NAMES = 100
# RFC 1035 2.3.4: at most 63 octets in a label, and 253 in a name without the root.
MAX_NAME = 253
_LABELS = lazy_pattern(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*\Z")
_PORT = count(1, 65535)
_HSTS_WORDS = ("includeSubDomains", "preload")
_HSTS = lazy_pattern(r"\s*(?:max-age=)?([0-9]{1,10})((?:\s*;\s*(?:includeSubDomains|preload))*)\s*\Z", re.IGNORECASE)
_EMAIL = lazy_pattern(r"[^\s@<>,]+@[^\s@<>,]+\.[^\s@<>,]+\Z")


def parse_name(text: str) -> str:
    """
    Return the name of a host in the form of DNS: lower case, ASCII, without a dot at the end.

    Raises:
        ValueError: no such name, or no certificate for the name here; the text has the remedy.
    """
    if "://" in text or "/" in text:
        raise ValueError(f"{text!r} is an address; write the name alone, such as shop.example.org")
    if "*" in text:
        raise ValueError(
            f"{text!r} has an asterisk, which takes a proof by DNS (DNS-01), and aserve gives none; name each host, or let "
            "certbot get that certificate, and name its files with --certificate and --key"
        )
    if _is_address(text):
        raise ValueError(f"{text!r} is an IP address; give the name that leads to it")
    host, colon, port = text.partition(":")
    if colon and not host:  # the form of uWSGI's flag of this name
        raise ValueError(
            f"{text!r} is an address to listen at; write --bind https://{text}, and here the name of the site"
        )
    if colon:
        raise ValueError(f"{text!r} has a port; write {host!r} here, and the port in --bind https://:{port or '8443'}")
    try:
        name = text.rstrip(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        name = ""
    if not name or len(name) > MAX_NAME or not _LABELS.match(name):
        raise ValueError(f"{text!r} is not the name of a host, such as shop.example.org")
    return name


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _parse_names(value: object) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(map(parse_name, parse_list(value))))
    if len(names) > MAX_NAMES:
        raise ValueError(f"{len(names)} names are more than {MAX_NAMES}")
    return names


def _parse_directory(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("https://") or len(value) < len("https://x"):
        raise ValueError(f"{value!r} does not begin with https://")
    return value


def _parse_redirect(value: object) -> int | str | None:
    return value if value in (None, "auto", "off") else _PORT.parse(value)  # type: ignore[return-value]


@optional
def _parse_hsts(value: object) -> str:
    """Return the value of Strict-Transport-Security (RFC 6797 section 6.1)."""
    match = _HSTS.match(str(value))
    if isinstance(value, bool) or match is None:
        raise ValueError(f"{value!r} is not a number of seconds, with '; includeSubDomains' or '; preload' behind it")
    return f"max-age={match[1]}{''.join(f'; {word}' for word in _HSTS_WORDS if word.lower() in match[2].lower())}"


NAMES = Kind(
    "NAME", "names of hosts, such as shop.example.org; repeatable, or separated by commas", _parse_names, show_texts
)
DIRECTORY = Kind("URL", "a URL that begins with https://", _parse_directory)
EMAIL = Kind(
    "ADDRESS",
    "an address such as admin@example.org",
    optional(matching(_EMAIL, "is not an address of mail")),
    show_text,
)
REDIRECT = Kind("auto|off|PORT", "auto, off, or a port", _parse_redirect)
HSTS = Kind(
    "SECONDS", "seconds, such as 31536000; '; includeSubDomains' and '; preload' may follow", _parse_hsts, show_text
)
GROUP = "Certificates"
_NAMED = Needs(("https",))


class HTTPSSettings(SharingSettings):
    """The settings of this feature."""

    LETS_ENCRYPT_TERMS = "https://letsencrypt.org/repository/"
    # fmt: off
    https: Sequence[str] = row(
        (), GROUP, "--https", NAMES,
        "serve this name over TLS, with a certificate from Let's Encrypt, renewed by aserve; repeatable; without --bind, "
        "listen on ports 443 and 80; see `aserve docs letsencrypt`",
        "Only you know your name, and whether you accept the authority's terms. This needs acme (pip install 'aserve-wsgi[acme]').",
    )
    https_folder: str | None = row(
        None, GROUP, "--https-folder", FILE,
        "folder of the certificates, their keys and the account's; no other user may read the folder",
        "The folder https in systemd's $STATE_DIRECTORY; else, for root and with --user, /var/lib/aserve/https; for any other "
        "user ~/.local/share/aserve/https.",
        needs=_NAMED,
        path=whole,
    )
    acme_directory: str = row(
        LETS_ENCRYPT, GROUP, "--acme-directory", DIRECTORY,
        "URL of the authority's directory",
        "Let's Encrypt is free, and every browser trusts Let's Encrypt. https://acme-staging-v02.api.letsencrypt.org/directory "
        "is for trials, with higher limits, and without any browser's trust.",
        needs=_NAMED,
    )
    acme_terms: str = row(
        "no", GROUP, "--acme-terms", choice("accept", "no"),
        "accept: you have read the terms of the authority, and agree; without this the authority gives no certificate",
        "Only you can agree.",
        needs=_NAMED,
    )
    acme_email: str | None = row(
        None, GROUP, "--acme-email", EMAIL,
        "your mail address for the authority",
        "Let's Encrypt writes no mail; other authorities may want an address.",
        needs=_NAMED,
    )
    acme_ca: str | None = row(
        None, GROUP, "--acme-ca", FILE,
        "PEM file of the authorities behind the directory's own TLS, for a private directory",
        "Public authorities are known to the library.",
        needs=_NAMED,
        path=whole,
    )
    https_redirect: int | str = row(
        "auto", GROUP, "--https-redirect", REDIRECT,
        "send requests without TLS to https:// at this port, by 308; auto: with --https, to the port of this bind; off: the app answers",
        "A site with certificates is to be read over TLS. Health checks, the authority's questions, and requests whose trusted "
        "proxy says https are answered. Name the port where clients use another, as a container's published port, or with a "
        "certificate of your own.",
    )
    hsts: str | None = row(
        None, GROUP, "--hsts", HSTS,
        "have browsers use nothing but https:// for this site, for so long: Strict-Transport-Security in each response over TLS",
        "You cannot take HSTS back: until the time is over, a browser with this field refuses the site without a valid "
        "certificate. Begin with 300; a year is 31536000.",
        needs=Needs(("https://",)),
    )
    # fmt: on

    def check(self) -> None:
        """See Settings."""
        if not self.https:
            return
        if not self.tls_binds:
            raise ConfigError(
                f"--https {self.https[0]} needs a bind that speaks TLS, and {', '.join(self.bind)} does not: write https:// before its "
                "address, or leave --bind out for ports 443 and 80"
            )
        dotless = [name for name in self.https if "." not in name]
        if dotless and self.acme_directory == LETS_ENCRYPT:
            raise ConfigError(f"--https {dotless[0]}: Let's Encrypt knows no name without a dot; give the public one")
        if ":" in folder_of(self):
            raise ConfigError(f"--https-folder {folder_of(self)} has a colon in it; name another folder")
        if self.acme_terms != "accept":
            where = (
                f"of Let's Encrypt, {self.LETS_ENCRYPT_TERMS}"
                if self.acme_directory == LETS_ENCRYPT
                else "of the authority"
            )
            raise ConfigError(f"--https: read the terms {where}, and accept them: --acme-terms accept")
        if importlib.util.find_spec("acme") is None:
            raise ConfigError("--https needs acme, which is not installed; pip install 'aserve-wsgi[acme]'")

    @property
    def redirects(self) -> bool:
        """Whether requests without TLS are sent to TLS."""
        return bool(self.https) if self.https_redirect == "auto" else self.https_redirect != "off"

    def advise(self, status: Mapping[str, Any]) -> list[tuple[str, str]]:
        """See EngineSettings; warn of a certificate that could not be had or renewed."""
        found = super().advise(status)
        for one in status.get("certificates", ()):
            if one["fault"]:
                text = f"No new certificate for {one['name']}: {one['fault']}."
                found.append((text, f"The next try is at {one['again']}; {show_served(one['until'], time.time())}."))
        return found

    def lines_of_check(self) -> list[str]:
        """Return the lines of --check: the names, the authority, the folder, the answerable challenges; none without --https."""
        if not self.https:
            return []
        return [
            f"https:   {', '.join(self.https)}",
            f"acme-directory: {self.acme_directory}",
            f"https-folder: {folder_of(self)}",
            f"challenges: {', or '.join(f'{kind.upper()} at port {PORTS[kind]}' for kind in self.challenges)}",
        ]

    @property
    def challenges(self) -> list[str]:
        """The answerable kinds of challenges, the better first: TLS-ALPN-01 needs no port but the site's own."""
        has_http = any(parse_bind(text).protocol == "http" for text in self.bind)
        if has_http and self.shared is not None:
            return [HTTP_01]  # each host can answer HTTP-01
        kinds = [TLS_ALPN_01, HTTP_01] if serves_tls_alpn(self) else [HTTP_01, TLS_ALPN_01]
        return kinds if has_http else [TLS_ALPN_01]

    def missing_certificates(self) -> set[str]:
        """Return the files of certificates still to be made by a start."""
        return {path for name in self.https if not os.path.exists(path := certificate_of(self, name))}

    @classmethod
    def implied(cls, values: Mapping[str, Any], is_at_terminal: bool) -> Mapping[str, Any]:
        """See Settings: the ports of a site."""
        implied = super().implied(values, is_at_terminal)
        return {"bind": BINDS, **implied} if values.get("https") else implied

    def tls_values(self) -> dict[str, Any]:
        """See EngineSettings: the certificates of the names, the first also for clients with any further name."""
        values = super().tls_values()
        texts = [f"{name}={certificate_of(self, name)}" for name in self.https]
        if texts and values["certificate"] is None:
            values["certificate"] = texts.pop(0).partition("=")[2]
        return {**values, "sni": (*values["sni"], *texts)}


def folder_of(config: HTTPSSettings) -> str:
    """Return the folder of the certificates, by the whole path, the same before and after root is given up."""
    if config.https_folder is not None:
        return os.path.abspath(config.https_folder)
    state = state_folder()
    if state is None:
        is_machines = config.user is not None or os.geteuid() == 0
        state = "/var/lib/aserve" if is_machines else os.path.expanduser("~/.local/share/aserve")
    return os.path.join(state, "https")


def certificate_of(config: HTTPSSettings, name: str) -> str:
    """Return the file of a name's certificate and key."""
    return os.path.join(folder_of(config), "certificates", f"{name}.pem")


def serves_tls_alpn(config: EngineSettings) -> bool:
    """Whether the authority may reach a bind for TLS at port 443: the bind has that port, or an unknown one bound by another process."""
    return any(bind.port == 443 or bind.is_given for bind in config.tls_binds)


def show_time(at: float) -> str:
    """Return a time for the log and a status."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def show_served(until: str | None, now: float) -> str:
    """Return what clients get while there is no new certificate; `until`: of the present certificate, by show_time; None: a placeholder."""
    if until is None:
        return "browsers warn of a placeholder"
    if until <= show_time(now):  # texts of this form have the order of their times
        return f"browsers refuse the present one, which was valid until {until}"
    return f"the present one is valid until {until}"
