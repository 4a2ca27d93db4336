"""The key and certificate of this computer, and the certificates of those that it is paired with.

farm/identity.pem     private key and certificate, made at the first use
farm/machines.json    the paired computers with their certificates
farm/trusted.pem      all certificates that TLS accepts, made from the two others

No certificate can sign another one, and none expires: what counts is that it is in the list.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import secrets
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock

from engine.core import atomic_file, paths
from engine.core.file_access import writing
from engine.core.serialization import from_plain, read_json, to_plain
from engine.farm.errors import IdentityDamaged, UnknownMachine

_IDENTITY, _PEERS, _TRUSTED, _LOCK = "identity.pem", "machines.json", "trusted.pem", "lock"
_MOST_BYTES = 20_000  # of a key with its certificate
_BEGIN = "-----BEGIN CERTIFICATE-----"
LONGEST_NAME = 40  # characters of the name of a computer


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity of this computer among others."""

    name: str  # name of this computer in its system
    fingerprint: str  # SHA-256 of its certificate, in hexadecimal
    certificate: Path  # PEM file with the certificate
    key: Path  # PEM file with the private key; the same file, so that both are written in one step

    @property
    def certificate_text(self) -> str:
        """The certificate alone, as PEM."""
        text = self.certificate.read_text("ascii")
        return text[text.index(_BEGIN) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A computer that this one is paired with."""

    fingerprint: str  # SHA-256 of its certificate, in hexadecimal
    name: str  # name that it gave itself
    address: str  # "host:port" of its jobs, that it had at the pairing
    certificate: str  # PEM


def own_identity() -> Identity:
    """The identity of this computer for this user; made at the first use.

    Raises:
        IdentityDamaged: Its file makes no sense.
        OutputError: It cannot be written.
    """
    path = _folder() / _IDENTITY
    if not path.is_file():
        with _held():
            if not path.is_file():
                atomic_file.write_bytes(path, _new_identity(), is_private=True)
    return _read_identity(path)


def fingerprint_of(certificate: str) -> str:
    """SHA-256 of a certificate, in hexadecimal.

    Args:
        certificate: Certificate (PEM).

    Raises:
        ValueError: It is no certificate.
    """
    data = ssl.PEM_cert_to_DER_cert(certificate.strip())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=data)  # it parses
    if context.cert_store_stats()["x509"] != 1:
        raise ValueError("more than one certificate")
    return hashlib.sha256(data).hexdigest()


def fingerprints_in(file: Path) -> frozenset[str]:
    """SHA-256 of each certificate of a PEM file.

    Raises:
        OSError: It cannot be read.
        ValueError: It makes no sense.
    """
    text = file.read_text("ascii")
    return frozenset(fingerprint_of(_BEGIN + one) for one in text.split(_BEGIN)[1:])


def clean_name(name: str) -> str:
    """The name of a computer as it is shown: printable, in one line, not long."""
    text = "".join(one if one.isprintable() else " " for one in name)
    return " ".join(text.split())[:LONGEST_NAME].strip() or "?"


class Peers:
    """The computers that this one is paired with; other processes may change them, too."""

    def all(self) -> tuple[Peer, ...]:
        """All of them, by name.

        Raises:
            IdentityDamaged: The list makes no sense.
        """
        path = _folder() / _PEERS
        try:
            found = from_plain(tuple[Peer, ...], read_json(path))
            if any(fingerprint_of(peer.certificate) != peer.fingerprint for peer in found):
                raise ValueError("a certificate is not that of its fingerprint")
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, KeyError) as err:
            raise IdentityDamaged("machines", file=path, reason=err) from err
        return tuple(sorted(found, key=lambda peer: (peer.name.casefold(), peer.fingerprint)))

    def named(self, text: str) -> Peer:
        """The one with this name, or whose fingerprint begins like this.

        Raises:
            UnknownMachine: There is none, or more than one.
        """
        found = [one for one in self.all() if one.name.casefold() == text.casefold()]
        if not found and text:
            found = [one for one in self.all() if one.fingerprint.startswith(text.lower())]
        if not found:
            raise UnknownMachine("none", name=text)
        if len(found) > 1:
            raise UnknownMachine(
                "several", name=text, fingerprints=tuple(one.fingerprint[:16] for one in found)
            )
        return found[0]

    def add(self, certificate: str, name: str, address: str) -> Peer:
        """Trust a computer; one that is paired already gets the new name and address.

        Args:
            certificate: Certificate (PEM).
            name: Name that it gave itself.
            address: "host:port" of its jobs.

        Raises:
            ValueError: It is no certificate.
            IdentityDamaged: The list makes no sense.
            OutputError: It cannot be written.
        """
        fingerprint, name = fingerprint_of(certificate), clean_name(name)
        peer = Peer(fingerprint=fingerprint, name=name, address=address, certificate=certificate)
        with _held():
            _write([one for one in self.all() if one.fingerprint != fingerprint] + [peer])
        self.trusted_file()
        return peer

    def forget(self, fingerprint: str) -> None:
        """Revoke trust. Open connections are closed when `trusted_file` changes.

        Raises:
            UnknownMachine: It is not paired.
            IdentityDamaged, OutputError: See `add`.
        """
        with _held():
            found = self.all()
            left = [one for one in found if one.fingerprint != fingerprint]
            if len(left) == len(found):
                raise UnknownMachine("none", name=fingerprint)
            _write(left)
        self.trusted_file()

    def trusted_file(self) -> Path:
        """PEM file with the certificates that TLS accepts: those of the peers, and the own one.

        It changes with them; a context of TLS that has read it does not notice that.

        Raises:
            IdentityDamaged, OutputError: See `add`.
        """
        path = _folder() / _TRUSTED
        own = own_identity().certificate_text
        with _held():
            content = "".join([own, *(one.certificate.strip() + "\n" for one in self.all())])
            if not path.is_file() or path.read_text("ascii", "replace") != content:
                atomic_file.write_text(path, content)
        return path


def _folder() -> Path:
    return paths.data_folder() / "farm"


@contextlib.contextmanager
def _held() -> Iterator[None]:
    """Keep other processes from writing; whatever the system refuses is an OutputError."""
    folder = _folder()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with filelock.FileLock(folder / _LOCK):
            yield


def _write(peers: list[Peer]) -> None:
    atomic_file.write_json(_folder() / _PEERS, to_plain(peers), indent=1)


def _read_identity(path: Path) -> Identity:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii")
        fingerprint = fingerprint_of(text[text.index(_BEGIN) :])
        # The key is that of the certificate, and no password is asked for.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, password=lambda: "")
    except (OSError, ValueError) as err:  # ssl.SSLError is an OSError
        raise IdentityDamaged("own", file=path, reason=err) from err
    return Identity(
        name=clean_name(platform.node()), fingerprint=fingerprint, certificate=path, key=path
    )


def _new_identity() -> bytes:
    """A key and the certificate that it signs itself, as PEM; some milliseconds."""
    from datetime import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Upreel {secrets.token_hex(8)}")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1))  # whatever the clocks of both computers say
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59))  # RFC 5280: no end
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    encoded_key = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return encoded_key + certificate.public_bytes(serialization.Encoding.PEM)
