"""Certificates for the tests, made by the openssl command: an authority, servers, clients.

Python has no maker of certificates, and the packages for them lack wheels for PyPy 3.9.
"""

from __future__ import annotations

import datetime
import pathlib
import shutil
import ssl
import subprocess
from typing import NamedTuple

from aserve.tls.errors import guard

HAS_OPENSSL = shutil.which("openssl") is not None

DATE = "%Y%m%d%H%M%SZ"
# Of `openssl ca`: it alone takes the dates unchanged. `x509 -days` refuses a number below zero from OpenSSL 3.5 on, and has dates from 3.4 on.
CONFIGURATION = """
[ca]
default_ca = this
[this]
database = {folder}/index
new_certs_dir = {folder}
default_md = sha256
rand_serial = yes
unique_subject = no
preserve = yes
policy = any
[any]
countryName = optional
organizationName = optional
organizationalUnitName = optional
commonName = optional
emailAddress = optional
"""


def openssl(*arguments: object, stdin: bytes = b"") -> bytes:
    """Run the openssl command; return its output."""
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=30)
    assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
    return done.stdout


class Issued(NamedTuple):
    """A certificate and its key."""

    certificate: pathlib.Path
    key: pathlib.Path

    @property
    def flags(self) -> list[str]:
        """Return flags of a command that serves with it, on a free port of loopback."""
        return ["--bind", "https://127.0.0.1:0", "--certificate", str(self.certificate), "--key", str(self.key)]


class Authority:
    """A certificate authority with its own folder."""

    def __init__(self, folder: pathlib.Path, name: str = "aserve's tests") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._count = 0
        self._key = self._new_key("authority")
        self.certificate = folder / "authority.pem"
        openssl(
            "req", "-x509", "-new", "-key", self._key, "-days", 2, "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign", "-out", self.certificate,
        )  # fmt: skip
        self._configuration = folder / "authority.cnf"
        self._configuration.write_text(CONFIGURATION.format(folder=folder))
        (folder / "index").touch()

    def issue(self, *names: str, subject: str = "", days: int = 2, key: pathlib.Path | None = None) -> Issued:
        """Issue a certificate for a server of these names, or for a client; -1 day: expired."""
        self._count += 1
        stem = f"issued-{self._count}"
        key = key or self._new_key(stem)
        request, certificate = self.folder / f"{stem}.csr", self.folder / f"{stem}.pem"
        openssl("req", "-new", "-utf8", "-key", key, "-subj", subject or f"/CN={names[0]}", "-out", request)
        extensions = self.folder / f"{stem}.ext"
        kinds = [f"{'IP' if name[:1].isdigit() else 'DNS'}:{name}" for name in names]
        # RFC 5280 4.2.1: from 3.13 on, Python wants the authority's key named, and its use above.
        subject_names = f"subjectAltName={','.join(kinds)}\n" if names else ""
        extensions.write_text(f"basicConstraints=CA:FALSE\nauthorityKeyIdentifier=keyid\n{subject_names}")
        now = datetime.datetime.now(datetime.timezone.utc)
        end = now + datetime.timedelta(days=days)
        begin = min(now, end - datetime.timedelta(days=1))
        openssl(
            "ca", "-batch", "-notext", "-config", self._configuration, "-in", request,
            "-cert", self.certificate, "-keyfile", self._key, "-extfile", extensions, "-out", certificate,
            "-startdate", begin.strftime(DATE), "-enddate", end.strftime(DATE),
        )  # fmt: skip
        return Issued(certificate, key)

    def _new_key(self, stem: str) -> pathlib.Path:
        path = self.folder / f"{stem}.key"
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        return path


class MemoryClient:
    """A TLS client with octets in memory: sent ones are in `outgoing`."""

    def __init__(self, authority: Authority, issued: Issued | None = None, **settings: object) -> None:
        self.context = ssl.create_default_context(cafile=str(authority.certificate))
        if issued is not None:
            self.context.load_cert_chain(*map(str, issued))  # PyPy wants text
        server_name = settings.pop("server_name", "localhost")
        protocols = settings.pop("protocols", None)
        if protocols is not None:
            self.context.set_alpn_protocols(protocols)
        for name, value in settings.items():
            setattr(self.context, name, value)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = self.context.wrap_bio(self.incoming, self.outgoing, server_hostname=server_name)

    def shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done."""
        try:
            guard(self.session.do_handshake)()
        except ssl.SSLWantReadError:
            return False
        return True

    def read(self) -> bytes:
        """Return the received octets; b"" is a closure alert, SSLWantReadError nothing."""
        return guard(self.session.read)(1 << 20)

    @property
    def peer_name(self) -> str:
        """The common name of the server's certificate."""
        return dict(part[0] for part in self.session.getpeercert()["subject"])["commonName"]
