"""Certificates and keys that cannot be used, or not for long, are told at the start."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ivm.serve.settings import ServerSettings
from ivm.serve.tls import server_context
from ivm.storage.errors import InputError


def made(folder: Path, days: int, password: str = "") -> ServerSettings:
    """Settings with a certificate that ends in some days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    found = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else None
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    )
    (folder / "a.crt").write_bytes(found.public_bytes(serialization.Encoding.PEM))
    (folder / "a.key").write_bytes(text)
    return ServerSettings(certificate=str(folder / "a.crt"), key=str(folder / "a.key"))


def test_a_certificate_that_has_ended_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert server_context(made(tmp_path, 1), tmp_path) is not None
    assert not caplog.text
    assert server_context(made(tmp_path, -1), tmp_path) is not None
    assert "a.crt has ended on" in caplog.text


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the key has a password"):
        server_context(made(tmp_path, 1, "geheim"), tmp_path)


@pytest.mark.parametrize("text", ["", "no PEM"])
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    settings = made(tmp_path, 1)
    Path(settings.key).write_text(text)
    with pytest.raises(InputError, match="PEM files, and belong together"):
        server_context(settings, tmp_path)
    Path(settings.key).unlink()
    with pytest.raises(InputError, match="No such file"):
        server_context(settings, tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(InputError, match=r"cannot be kept in .*taken"):
        server_context(ServerSettings(tls="self-made"), tmp_path / "taken")


def test_a_key_alone_encrypts_nothing() -> None:
    with pytest.raises(InputError, match="of no use without certificate"):
        ServerSettings(key="a.key")
