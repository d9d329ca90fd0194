"""What servers and clients need for TLS: a certificate of this run, the file that `openssl s_server` serves, and a configuration of nginx.

Owns:     the certificate (RSA 2048, as most have), which lasts for the run.
Not here: the servers (servers.py), the loads (clients.py, tls_load.py).
"""

from __future__ import annotations

import pathlib
import re
import ssl
import subprocess

from procs import BenchmarkError

MAKE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 "
    "-keyout key.pem -out certificate.pem"
)
MAKE_SECONDS = 60.0  # Guess: a key on a busy machine
# An answer without a file; `listen` is in a file of its own, as the port is not known yet.
NGINX = """\
daemon off; worker_processes 1; pid nginx.pid; error_log nginx.log;
events { worker_connections 1024; }
http {
    access_log off; keepalive_requests 100000000; http2_max_requests 100000000;
    client_body_temp_path .; proxy_temp_path .; fastcgi_temp_path .; uwsgi_temp_path .; scgi_temp_path .;
    server {
        include listen.conf; ssl_certificate certificate.pem; ssl_certificate_key key.pem; ssl_protocols TLSv1.2 TLSv1.3;
        location / { default_type text/plain; return 200 "BODY"; }
    }
}
"""
PATH = "/hello"  # s_server knows no app: it answers with the file of that name


def prepare(folder: str, body: bytes) -> dict[str, str]:
    """
    Put a certificate, its key and the file into a folder; return their places, as commands name them.

    Raises:
        BenchmarkError: there is no openssl, or it makes none.
    """
    home = pathlib.Path(folder, "tls")
    home.mkdir()
    try:
        subprocess.run(MAKE.split(), cwd=home, check=True, capture_output=True, timeout=MAKE_SECONDS)
    except (OSError, subprocess.SubprocessError) as fault:
        raise BenchmarkError(f"openssl made no certificate: {fault}")
    (home / PATH[1:]).write_bytes(body)
    (home / "nginx.conf").write_text(NGINX.replace("BODY", body.decode("latin-1").replace("\n", r"\n")))
    return {"tls": str(home), "certificate": str(home / "certificate.pem"), "key": str(home / "key.pem")}


def client_context() -> ssl.SSLContext:
    """Return what a client needs that believes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def version() -> str:
    """Return openssl's version; empty: it is not there."""
    try:
        text = subprocess.run(["openssl", "version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except OSError:
        return ""
    match = re.match(r"OpenSSL (\S+)", text)
    return match[1] if match else ""
