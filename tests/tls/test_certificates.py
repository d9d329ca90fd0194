"""Contexts: sources, permissions, faults, and changes."""

import base64
import datetime
import errno
import logging
import os
import re
import shutil
import ssl

import pytest
from harness.certificates import Issued, MemoryClient, openssl

from aserve import Config, ConfigError
from aserve.settings import TLSSettings, parse_bind
from aserve.tls import certificates as tls_certificates
from aserve.tls.certificates import Certificates, describe_client, format_name
from aserve.tls.client_hello import FirstOctets
from aserve.tls.validity import read_validity

pytestmark = pytest.mark.long_on_pypy
SETTINGS = TLSSettings("", None, (), None, "none", "1.2", Config().ciphers)


@pytest.fixture
def settings(localhost):
    """Return working settings."""
    return SETTINGS._replace(certificate=str(localhost.certificate), key=str(localhost.key))


def error_of(settings):
    """Return the one line of error when these settings are loaded."""
    with pytest.raises(ConfigError) as caught:
        Certificates([settings])
    text = str(caught.value)
    assert text and "\n" not in text and "_ssl.c" not in text
    return text


def shake_hands(certificates, settings, client):
    """Return the server's session with this client."""
    client.shake_hands()
    hello = client.outgoing.read()
    octets = FirstOctets()
    octets.feed(hello)
    session = certificates.wrap_by(settings)(octets.parse().server_name)
    session.feed(hello)
    is_done = False
    while not (client.shake_hands() and is_done):
        session.feed(client.outgoing.read())
        try:
            session.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        client.incoming.write(session.take())
    return session


def name_for(certificates, settings, authority, server_name):
    """Return the common name of the certificate shown to a client asking for this name."""
    client = MemoryClient(authority, check_hostname=False, server_name=server_name)
    shake_hands(certificates, settings, client)
    return client.peer_name


# Faults


@pytest.mark.parametrize("closed", ["the file", "a folder"])
def test_files_of_others(settings, tmp_path, monkeypatch, closed):
    """The error tells the user without the right to read, and the remedy; with a closed folder, the folder."""
    folder = tmp_path / "closed"

    def refuse(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tls_certificates, "open", refuse, raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: closed == "the file" or path != str(folder))
    text = error_of(settings._replace(certificate=str(folder / "a.pem")))
    assert text.startswith(f"cannot read the certificate {folder}/a.pem: user ")
    assert (f"may not enter the folder {folder}; " if closed == "a folder" else "may not read it; ") in text
    assert (f"chmod o+x {folder}" if closed == "a folder" else f"chgrp GROUP {folder}/a.pem and chmod g+r") in text


def test_missing_files_are_named_with_their_use(settings, tmp_path):
    missing = str(tmp_path / "missing")
    assert error_of(settings._replace(certificate=missing)) == (
        f"cannot read the certificate {missing}: No such file or directory"
    )
    assert "cannot read the key " + missing in error_of(settings._replace(key=missing))
    assert "cannot read the certificate " + missing in error_of(settings._replace(sni=(f"a.org={missing}",)))
    wrong = settings._replace(client_ca=missing, client_certificate="required")
    assert "cannot read the client-ca " + missing in error_of(wrong)
    assert "Is a directory" in error_of(settings._replace(key=str(tmp_path)))


def test_not_pem_is_refused_by_file(settings, localhost, tmp_path):
    text = tmp_path / "text"
    text.write_text("nothing\n")
    assert "no BEGIN CERTIFICATE" in error_of(settings._replace(certificate=str(text)))
    assert "no BEGIN CERTIFICATE" in error_of(settings._replace(certificate=str(localhost.key)))
    assert "no BEGIN PRIVATE KEY" in error_of(settings._replace(key=str(localhost.certificate)))
    assert "name the key's file, too" in error_of(settings._replace(key=None))
    wrong = settings._replace(client_ca=str(text), client_certificate="required")
    assert re.search(r"--client-ca .*text cannot be used: .*; it must be PEM", error_of(wrong))


def test_damaged_files_are_told_in_openssls_words(settings, localhost, tmp_path):
    (damaged := tmp_path / "damaged").write_text(localhost.certificate.read_text().replace("MII", "AAA", 1))
    assert re.search("damaged cannot be used: it or its key", error_of(settings._replace(certificate=str(damaged))))


def test_key_of_another(settings, authority):
    """A key of a foreign certificate is not taken."""
    other = str(authority.issue("localhost").key)
    text = error_of(settings._replace(key=other))
    assert f"the key {other} is not its key" in text and "must come first" in text


@pytest.mark.parametrize("command", [["ec", "-aes128"], ["pkey", "-aes128"]])
def test_passphrase_of_a_key_is_refused(settings, localhost, tmp_path, command):
    """Nobody is asked on the terminal."""
    locked = tmp_path / "locked.key"
    openssl(*command, "-passout", "pass:secret", "-in", localhost.key, "-out", locked)
    text = error_of(settings._replace(key=str(locked)))
    assert str(locked) in text and "passphrase" in text and "openssl pkey -in" in text


def test_weak_key_of_1024_bits_is_refused(settings, authority, tmp_path):
    """Security level 2: an RSA key of 1024 bits is not taken, on any Python."""
    key = tmp_path / "weak.key"
    openssl("genrsa", "-out", key, 1024)
    weak = authority.issue("localhost", key=key)
    text = error_of(settings._replace(certificate=str(weak.certificate), key=str(weak.key)))
    assert "key too small" in text


@pytest.mark.parametrize("ciphers", ["FOO", "ECDHE+FOO", "RC4-NONE"])
def test_ciphers_of_no_name(settings, ciphers):
    """Ciphers unknown to OpenSSL are refused."""
    assert "no cipher suite" in error_of(settings._replace(ciphers=ciphers))


def test_dates_of_expiry_are_warned_of(settings, authority, caplog):
    """The warning says since when the certificate has expired."""
    expired = authority.issue("localhost", days=-1)
    settings = settings._replace(certificate=str(expired.certificate), key=str(expired.key))
    certificates = Certificates([settings, settings._replace(tls_min="1.3")])
    yesterday = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    [warning] = certificates.warnings
    assert re.search(rf"{expired.certificate} expired on \d{{4}}-\d\d-\d\d \d\d:\d\d UTC", warning)
    assert read_validity(der_of(expired))[1] <= yesterday + datetime.timedelta(minutes=5)
    certificates.log_warnings()
    assert caplog.records[-1].levelno == logging.WARNING and "expired on" in caplog.text


def test_not_valid_yet(settings, localhost, monkeypatch):
    """A certificate not yet valid has a warning, too."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2001, 1, 1, tzinfo=tz)

    monkeypatch.setattr("aserve.tls.validity.datetime.datetime", Clock)
    [warning] = Certificates([settings]).warnings
    assert "is not valid before 20" in warning


def test_valid_certificates_have_no_warning(settings):
    assert Certificates([settings]).warnings == []


def der_of(issued):
    return ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())


def test_unreadable_validity_is_no_failure(settings, localhost, monkeypatch):
    """Dates readable only for OpenSSL are no reason to fail."""
    real = base64.b64decode
    monkeypatch.setattr("aserve.tls.validity.base64.b64decode", lambda text: real(text)[:20])
    assert Certificates([settings]).warnings == []


# Permissions


def test_hardened_contexts_follow_rfc_9325(settings):
    """RFC 9325: no compression, no renegotiation, our preference, only suites with forward secrecy and AEAD."""
    certificates = Certificates([settings])
    [context] = certificates._contexts[settings].values()
    for option in (ssl.OP_NO_COMPRESSION, ssl.OP_CIPHER_SERVER_PREFERENCE, 0x40000000):
        assert context.options & option
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    names = [cipher["name"] for cipher in context.get_ciphers()]
    assert any(name.startswith("TLS_") for name in names)
    for name in names:
        assert re.fullmatch(r"(TLS|ECDHE-(ECDSA|RSA))[-_](.*GCM.*|CHACHA20.POLY1305.*)", name)


def test_versions_are_spoken_where_allowed(settings, authority):
    old = {"maximum_version": ssl.TLSVersion.TLSv1_2}
    new = settings._replace(tls_min="1.3")
    certificates = Certificates([settings, new])
    assert shake_hands(certificates, settings, MemoryClient(authority)).version() == "TLSv1.3"
    assert shake_hands(certificates, settings, MemoryClient(authority, **old)).version() == "TLSv1.2"
    assert shake_hands(certificates, new, MemoryClient(authority)).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        shake_hands(certificates, new, MemoryClient(authority, **old))


def test_server_preference_decides_the_suite(settings, authority):
    client = MemoryClient(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    client.context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256")
    client.session = client.context.wrap_bio(client.incoming, client.outgoing, server_hostname="localhost")
    settings = settings._replace(ciphers="ECDHE+AES128:ECDHE+CHACHA20:!SHA1:!SHA256")
    assert shake_hands(Certificates([settings]), settings, client).cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["http/1.0"], "http/1.0"), (None, None)]
)
def test_alpn_chooses_http_1_1(settings, authority, offered, chosen):
    """RFC 7301: HTTP/1.1 is chosen where offered. (tls_transport.py meets clients without HTTP/1.1.)"""
    session = shake_hands(Certificates([settings]), settings, MemoryClient(authority, protocols=offered))
    assert session.selected_alpn_protocol() == chosen


# Server names


def test_server_names_choose_the_certificate(settings, authority):
    """RFC 6066 3: the certificate is chosen by name, in any case; a wildcard stands for one label."""
    issued = {
        name: authority.issue(name) for name in ("a.example.org", "*.example.org", "b.org", "xn--mnchen-3ya.example")
    }
    texts = [f"{name}={files.certificate}:{files.key}" for name, files in issued.items()]
    texts[3] = texts[3].replace("xn--mnchen-3ya.example=", "München.example=")
    settings = settings._replace(sni=tuple(texts))
    certificates = Certificates([settings])
    for asked, name in {
        "a.example.org": "a.example.org",
        "A.EXAMPLE.org": "a.example.org",
        "x.example.org": "*.example.org",
        "x.y.example.org": "localhost",
        "example.org": "localhost",
        "b.org": "b.org",
        "c.b.org": "localhost",
        "xn--mnchen-3ya.example": "xn--mnchen-3ya.example",
        None: "localhost",
        "127.0.0.1": "localhost",  # an address is no name: RFC 6066 3
    }.items():
        assert name_for(certificates, settings, authority, asked) == name, asked


def test_one_file_has_certificate_and_key(settings, localhost, tmp_path):
    both = tmp_path / "both.pem"
    both.write_text(localhost.key.read_text() + localhost.certificate.read_text())
    for one in (
        settings._replace(certificate=str(both), key=None),
        settings._replace(sni=(f"a.org={both}",)),
    ):
        Certificates([one])


# Clients


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates_follow_their_mode(settings, authority, version):
    """Required means required, optional takes none for an answer, and none does not ask."""
    client = authority.issue(subject="/CN=somebody")
    by_mode = {
        mode: settings._replace(
            client_certificate=mode, client_ca=str(authority.certificate) if mode[0] != "n" else None
        )
        for mode in ("none", "optional", "required")
    }
    certificates = Certificates(by_mode.values())

    def verified(mode, issued):
        session = shake_hands(certificates, by_mode[mode], MemoryClient(authority, issued, maximum_version=version))
        return describe_client(session)["SSL_CLIENT_VERIFY"]

    assert verified("none", None) == verified("none", client) == "NONE"
    assert verified("optional", None) == "NONE"
    assert verified("optional", client) == verified("required", client) == "SUCCESS"
    with pytest.raises(ssl.SSLError):
        verified("required", None)


def test_client_of_another_authority(settings, authority, tmp_path):
    """A client unknown to our authority is refused, even with certificates optional."""
    stranger = type(authority)(tmp_path / "other", "another").issue(subject="/CN=stranger")
    settings = settings._replace(client_certificate="optional", client_ca=str(authority.certificate))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate_verify_failed"):
        shake_hands(Certificates([settings]), settings, MemoryClient(authority, stranger))


def test_client_where_another_name_was_asked_for(settings, authority):
    """Another server name is no way round the client's certificate."""
    other = authority.issue("other.org")
    settings = settings._replace(
        sni=(f"other.org={other.certificate}:{other.key}",),
        client_certificate="required",
        client_ca=str(authority.certificate),
    )
    certificates = Certificates([settings])
    with pytest.raises(ssl.SSLError):
        shake_hands(certificates, settings, MemoryClient(authority, server_name="other.org"))
    somebody = MemoryClient(authority, authority.issue(subject="/CN=somebody"), server_name="other.org")
    session = shake_hands(certificates, settings, somebody)
    assert somebody.peer_name == "other.org"
    assert describe_client(session)["SSL_CLIENT_S_DN"] == "CN=somebody"


def test_describe_client_speaks_as_mod_ssl(settings, authority):
    subject = "/C=DE/O=Ex, ample/OU=A/CN=J\\/örg/emailAddress=j@example.org"
    client = authority.issue(subject=subject)
    settings = settings._replace(client_certificate="required", client_ca=str(authority.certificate))
    vars = describe_client(shake_hands(Certificates([settings]), settings, MemoryClient(authority, client)))
    name = openssl("x509", "-in", client.certificate, "-noout", "-subject", "-nameopt", "RFC2253,-esc_msb,utf8")
    serial = openssl("x509", "-in", client.certificate, "-noout", "-serial").decode().strip().partition("=")[2]
    assert vars.pop("SSL_CIPHER").startswith("TLS_")
    assert [date.endswith(" GMT") for date in (vars.pop("SSL_CLIENT_V_START"), vars.pop("SSL_CLIENT_V_END"))]
    assert ssl.PEM_cert_to_DER_cert(vars.pop("SSL_CLIENT_CERT")) == der_of(client)
    assert vars == {
        "SSL_PROTOCOL": "TLSv1.3",
        "SSL_CLIENT_VERIFY": "SUCCESS",
        "SSL_CLIENT_S_DN": name.decode("latin-1").strip().partition("=")[2],
        "SSL_CLIENT_I_DN": "CN=aserve's tests",
        "SSL_CLIENT_M_SERIAL": serial,
    }
    assert vars["SSL_CLIENT_S_DN"].startswith("emailAddress=j@example.org,CN=J/\xc3\xb6rg,OU=A,O=Ex\\, ample,")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ((), ""),
        (((("commonName", "a"),),), "CN=a"),
        (((("countryName", "DE"),), (("organizationName", "o"),)), "O=o,C=DE"),
        (((("userId", "u"), ("commonName", "a")),), "CN=a+UID=u"),
        (((("1.2.3", "x"),),), "1.2.3=x"),
        (((("commonName", '# "a" <b>;c+d\\ '),),), r"CN=\# \"a\" \<b\>\;c\+d\\\ "),
        (((("commonName", "a\nX-Admin: 1\x00"),),), r"CN=a\0AX-Admin: 1\00"),
        (((("commonName", "é"),),), "CN=\xc3\xa9"),
    ],
)
def test_format_name_escapes_as_rfc_2253(name, text):
    """RFC 2253: the last part first, special characters behind a backslash; controls always escaped."""
    assert format_name(name) == text


# Changing


def put(source, target, age_seconds=0):
    """Copy a certificate and key over existing files."""
    for name in ("certificate", "key"):
        path = getattr(target, name)
        temporary = path.with_suffix(".new")
        shutil.copy(getattr(source, name), temporary)
        os.replace(temporary, path)


@pytest.fixture
def used(localhost, tmp_path):
    """Return files free to be changed."""
    used = Issued(tmp_path / "used.pem", tmp_path / "used.key")
    put(localhost, used)
    return used


@pytest.fixture
def used_settings(used):
    """Return settings with these files."""
    return SETTINGS._replace(certificate=str(used.certificate), key=str(used.key))


def test_reload_serves_the_new_certificate(used_settings, used, authority, caplog):
    caplog.set_level(logging.INFO)
    certificates = Certificates([used_settings])
    assert name_for(certificates, used_settings, authority, None) == "localhost"
    put(authority.issue("new.org", days=-1), used)
    assert certificates.reload()
    client = MemoryClient(authority, check_hostname=False, verify_mode=ssl.CERT_NONE)
    shake_hands(certificates, used_settings, client)
    assert b"new.org" in client.session.getpeercert(binary_form=True)
    assert "loaded anew" in caplog.text and "expired on" in caplog.text


def test_failed_reload_changes_nothing(used_settings, used, settings, authority, caplog):
    """If one certificate cannot be used, none is changed, and one line says the reason."""
    certificates = Certificates([used_settings, settings])
    put(authority.issue("new.org"), used)
    used.key.write_text("")
    assert not certificates.reload()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert re.search(r"no BEGIN PRIVATE KEY.*keeping the certificates loaded before", record.getMessage())
    assert name_for(certificates, used_settings, authority, None) == "localhost"


def test_watching_loads_a_change_once(used_settings, used, authority, caplog):
    """A change is loaded a second after the sight of the change."""
    caplog.set_level(logging.INFO)
    certificates = Certificates([used_settings])
    for _ in range(3):
        certificates.on_second()
    assert not caplog.records
    put(authority.issue("new.org"), used)
    certificates.on_second()
    assert not caplog.records
    certificates.on_second()
    assert name_for(certificates, used_settings, authority, None) == "new.org"
    for _ in range(3):
        certificates.on_second()
    assert len(caplog.records) == 1


def test_watching_two_changes(used_settings, used, authority, caplog):
    """A certificate whose key comes a moment later is not taken for a mistake."""
    certificates = Certificates([used_settings])
    new = authority.issue("new.org")
    shutil.copy(new.certificate, used.certificate)
    certificates.on_second()
    shutil.copy(new.key, used.key)
    certificates.on_second()
    certificates.on_second()
    assert not caplog.records
    assert name_for(certificates, used_settings, authority, None) == "new.org"


def test_watching_a_mistake(used_settings, used, authority, caplog):
    """A mistake is told once; the mended files are loaded."""
    certificates = Certificates([used_settings])
    new = authority.issue("new.org")
    shutil.copy(new.certificate, used.certificate)
    for _ in range(4):
        certificates.on_second()
    assert len(caplog.records) == 1 and "is not its key" in caplog.text
    os.unlink(used.key)
    for _ in range(4):
        certificates.on_second()
    assert len(caplog.records) == 2 and "cannot read the key" in caplog.text
    shutil.copy(new.key, used.key)
    for _ in range(2):
        certificates.on_second()
    assert name_for(certificates, used_settings, authority, None) == "new.org"


def test_watching_a_link(localhost, authority, tmp_path):
    """certbot and Kubernetes set a link on another file."""
    files = [tmp_path / name for name in ("one", "two", "link")]
    for file, issued in zip(files, (localhost, authority.issue("new.org"))):
        file.write_bytes(issued.certificate.read_bytes() + issued.key.read_bytes())
    files[2].symlink_to(files[0])
    settings = SETTINGS._replace(certificate=str(files[2]))
    certificates = Certificates([settings])
    files[2].unlink()
    files[2].symlink_to(files[1])
    certificates.on_second()
    certificates.on_second()
    assert name_for(certificates, settings, authority, None) == "new.org"


def test_another_folder_leaves_relative_paths(used_settings, used, authority, tmp_path, monkeypatch):
    """Relative paths are those of the folder at the start."""
    monkeypatch.chdir(tmp_path)
    relative = SETTINGS._replace(
        certificate="used.pem", key="used.key", client_ca="used.pem", sni=("a.org=used.pem:used.key",),
        client_certificate="optional",
    )  # fmt: skip
    certificates = Certificates([relative])
    wrap = certificates.wrap_by(relative)
    monkeypatch.chdir("/")
    put(authority.issue("new.org"), used)
    assert certificates.reload()
    assert wrap("") is not None


def test_nothing_to_load():
    """A server without https binds has nothing to look after."""
    certificates = Certificates(())
    certificates.on_second()
    certificates.log_warnings()
    assert certificates.reload()


def test_settings_of_binds(localhost, authority):
    """Loaded settings are a Config's, the binds' own options included."""
    other = authority.issue("other.org")
    config = Config(
        bind=[":80", "https://:443", f"https://:444?certificate={other.certificate}&key={other.key}"],
        certificate=localhost.certificate,
        key=localhost.key,
    )
    all_settings = [config.tls_settings(parse_bind(bind)) for bind in config.bind[1:]]
    certificates = Certificates(all_settings)
    names = [name_for(certificates, settings, authority, None) for settings in all_settings]
    assert names == ["localhost", "other.org"]
