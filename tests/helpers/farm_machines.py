"""Machines of a farm on this one: each with a certificate, processes and a folder of its own."""

from __future__ import annotations

import datetime
import hashlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from engine.workers.door import Door
from engine.workers.fit import Device, own_devices
from engine.workers.lend import Lending


@dataclass(frozen=True, slots=True)
class Paired:
    """Machines that know each other: the one with the film, and those that help."""

    host: Door
    others: tuple[Door, ...]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.host.port}"


def processor() -> Device:
    """What a machine of a test lends."""
    return next(one for one in own_devices() if not one.gpu)


def paired(folder: Path, count: int, *, silence: str = "30s") -> Paired:
    """Certificates of a host and of some machines."""
    doors = [_door(folder / f"machine_{n}", f"machine {n}", silence) for n in range(count + 1)]
    prints = {_fingerprint(one): one.name for one in doors}
    texts = [one.certificate.read_text() for one in doors]
    host = replace(doors[0], names=prints, port=free_port(), network="127.0.0.1")
    host.trusted.write_text("".join(texts))
    for one, text in zip(doors[1:], texts[1:], strict=True):
        one.trusted.write_text(texts[0] + text)
    return Paired(host, tuple(doors[1:]))


@contextmanager
def lent(machines: Paired, folder: Path, *, addresses: Sequence[str] = ()) -> Iterator[list[Lending]]:
    """All machines work for the host, each reached at its address of `addresses` where given."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Lending(
                    door,
                    lambda where=where: (where,),
                    folder=folder / f"lent_{number}",
                    devices=(processor(),),
                )
            )
            for number, (door, where) in enumerate(
                zip(
                    machines.others,
                    addresses or [machines.address] * len(machines.others),
                    strict=True,
                ),
                start=1,
            )
        ]


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _door(folder: Path, name: str, silence: str) -> Door:
    folder.mkdir(parents=True)
    key = ec.generate_private_key(ec.SECP256R1())
    title = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(title)
        .issuer_name(title)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2000, 1, 1))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    none = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, private, none))
    return Door(
        certificate=folder / "certificate.pem",
        key=folder / "key.pem",
        trusted=folder / "trusted.pem",
        name=name,
        silence=silence,
    )


def _fingerprint(door: Door) -> str:
    found = x509.load_pem_x509_certificate(door.certificate.read_bytes())
    return hashlib.sha256(found.public_bytes(serialization.Encoding.DER)).hexdigest()
