"""Certificates that this program does not make: of another kind, expired, of an authority."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


@dataclass
class Made:
    """A key and its certificate, as PEM."""

    certificate: str
    key: str

    def write(self, folder: Path) -> Path:
        """A file with both."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "both.pem"
        file.write_text(self.key + self.certificate)
        return file


def signed_certificate(
    *,
    is_ca: bool = False,
    is_rsa: bool = False,
    until: datetime = datetime(2090, 1, 1),
    issuer: Path | None = None,
    address: str = "",
) -> Made:
    """A certificate, signed by itself, or by the key of a PEM file with a key and a certificate.

    With `address` it is valid for the server at that IP address.
    """
    key = (
        rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"made {id(key)}")])
    issuer_name, issuer_key = name, key
    if issuer is not None:
        text = issuer.read_bytes()
        issuer_name = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERT") :]).subject
        issuer_key = serialization.load_pem_private_key(text, None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if address:
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Made(certificate.public_bytes(serialization.Encoding.PEM).decode(), encoded.decode())
