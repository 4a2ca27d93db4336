"""Where machines of a farm meet: addresses, port and certificates; loads fast."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.farm.addresses import JOBS_PORT, split
from engine.farm.errors import MachineUnreachable
from engine.farm.identity import Peers, own_identity

if TYPE_CHECKING:
    from distributed.security import Security

_SILENCE = "30s"  # after which a machine that says nothing has gone
_CONNECT_S = 1.0
_MOST_AT_ONCE = 16  # addresses that are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where other machines come in, and what they are known by.

    Attributes:
        certificate: PEM file of this machine.
        key: PEM file of its private key.
        trusted: PEM file with the certificates of all paired machines, and its own.
        name: Of this machine.
        names: Of paired machines, by the SHA-256 of their certificates.
        port: That the scheduler of a job listens at.
        network: Own address whose network others come from; "0.0.0.0" for all there are.
        silence: After which a machine that says nothing has gone, as Dask writes times. Its
            workers say something every 0.5 s from a thread that does not compute.
    """

    certificate: Path
    key: Path
    trusted: Path
    name: str
    names: Mapping[str, str] = field(default_factory=dict)
    port: int = JOBS_PORT
    network: str = "0.0.0.0"  # noqa: S104 - TLS asks whoever comes for a certificate
    silence: str = _SILENCE

    @property
    def security(self) -> Security:
        """TLS in both directions; whoever has no certificate of the list gets no answer."""
        from distributed.security import Security

        own = {
            f"tls_{role}_{part}": str(path)
            for role in ("scheduler", "worker", "client")
            for part, path in (("cert", self.certificate), ("key", self.key))
        }
        return Security(tls_ca_file=str(self.trusted), require_encryption=True, **own)

    @property
    def scheduler(self) -> dict[str, Any]:
        """Arguments of a scheduler that workers of this machine reach without the network."""
        hosts, ports = ["127.0.0.1", self.network], [0, self.port]
        return {"host": hosts, "port": ports, "worker_ttl": self.silence}


def own_door(port: int = JOBS_PORT) -> Door:
    """The door of this machine, for those that it is paired with now.

    Raises:
        IdentityDamaged, OutputError: Its certificates cannot be used.
    """
    identity, peers = own_identity(), Peers()
    return Door(
        certificate=identity.certificate,
        key=identity.key,
        trusted=peers.trusted_file(),
        name=identity.name,
        names={peer.fingerprint: peer.name for peer in peers.all()},
        port=port,
    )


def answering(hosts: Sequence[str], door: Door) -> tuple[str, ...]:
    """Where machines listen that are paired with this one, of addresses that may be anybody's.

    All are tried at once: one that does not answer, or is a stranger's, holds up no other one.

    Args:
        hosts: "host:port" each.
        door: Of this machine.
    """
    if not hosts:
        return ()
    try:
        context = ssl.create_default_context(cafile=door.trusted)
        context.check_hostname = False  # the certificate itself is known
        context.load_cert_chain(door.certificate, door.key)
    except OSError:  # a file is being written
        return ()
    with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(hosts)), "answering") as pool:
        found = pool.map(partial(_answers, context), hosts)
        return tuple(host for host, answers in zip(hosts, found, strict=True) if answers)


def _answers(context: ssl.SSLContext, host: str) -> bool:
    try:
        with socket.create_connection(split(host, JOBS_PORT), _CONNECT_S) as one:
            context.wrap_socket(one).close()
    except (OSError, UnicodeError, MachineUnreachable):
        return False
    return True
