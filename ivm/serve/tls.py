"""The TLS of a server: with a given certificate, or one that it makes for itself.

A certificate that the server makes encrypts, and its clients cannot know by whom it was made unless
they are given the file. It lies beside the log, and is made again when it is about to end.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
import ssl
from importlib.util import find_spec
from pathlib import Path

from ivm.serve.settings import ServerSettings
from ivm.storage.errors import InputError, UnavailableError

_log = logging.getLogger("ivm.serve")
_YEARS = 10
_DAYS_LEFT = 30


def server_context(settings: ServerSettings, folder: Path) -> ssl.SSLContext | None:
    """The context for encrypted connections; None if the settings have no TLS.

    Args:
        settings: of the server.
        folder: where a certificate of its own is kept.

    Raises:
        InputError: a certificate cannot be read, or is none.
        UnavailableError: a package that makes one is missing.
    """
    if not settings.has_tls:
        return None
    certificate, key = settings.certificate, settings.key or settings.certificate
    if not certificate:
        certificate, key = _self_made(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        raise InputError(
            f"the certificate {certificate} with the key {key} cannot be used: {error}. Both are "
            "PEM files, and belong together"
        ) from error
    except OSError as error:
        raise InputError(
            f"the certificate {certificate} with the key {key} cannot be used: {error}"
        ) from error
    _warn_if_over(certificate)
    return context


def _no_password() -> str:
    """Is asked for the password of a key; else OpenSSL would ask at the terminal, and wait."""
    raise InputError("the key has a password: write one without, as openssl pkey -in … -out … does")


def _warn_if_over(certificate: str) -> None:
    if find_spec("cryptography") is None:
        return
    from cryptography import x509

    first, *_ = x509.load_pem_x509_certificates(Path(certificate).read_bytes())
    if first.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        _log.warning(
            "the certificate %s has ended on %s: clients that check it will not come in",
            *(certificate, f"{first.not_valid_after_utc:%Y-%m-%d}"),
        )


def _self_made(folder: Path) -> tuple[str, str]:
    certificate, key = folder / "server.crt", folder / "server.key"
    if not (_is_good(certificate) and key.exists()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _make(certificate, key)
        except OSError as error:
            raise InputError(f"a certificate cannot be kept in {folder}: {error}") from error
    return str(certificate), str(key)


def _is_good(certificate: Path) -> bool:
    _demand_cryptography()
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return False
    now = datetime.datetime.now(datetime.UTC)
    return found.not_valid_after_utc - now > datetime.timedelta(days=_DAYS_LEFT)


def _demand_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise UnavailableError("a certificate cannot be made: pip install ivmdb[server]")


def _make(certificate: Path, key: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, socket.gethostname()[:64])])
    now = datetime.datetime.now(datetime.UTC)
    names = {"localhost", socket.gethostname()}
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in sorted(names)]), False)
        .sign(private, hashes.SHA256())
    )
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with open(os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text)
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
