"""Addresses, ports and certificates at which computers reach each other. Loads fast.

Addresses are typed and shown as "host", "host:port" or "[::1]:47111".
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine.farm.errors import MachineUnreachable
from engine.farm.identity import Peers, own_identity

if TYPE_CHECKING:
    from distributed.security import Security

JOBS_PORT = 47110  # of the computer with the video, while others may join its job
PAIRING_PORT = 47111  # of a computer that waits to be paired
_MOST_CHARACTERS = 253  # of a name in DNS
_CONNECT_S = 1.0
_MOST_AT_ONCE = 16  # addresses that are tried


def split(address: str, default_port: int) -> tuple[str, int]:
    """Host and port of an address.

    Raises:
        MachineUnreachable: It is none.
    """
    text = address.strip()
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):  # IPv6 without a port
        host, port = text, str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    is_host = bool(host) and len(host) <= _MOST_CHARACTERS and host.isprintable()
    is_whole = " " not in host and ("[" in text) == ("]" in text)
    if not (is_number and is_host and is_whole and 0 < int(port) < 2**16):
        raise MachineUnreachable("no-address", address=text)
    return host, int(port)


def joined(host: str, port: int) -> str:
    """The inverse of `split`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_addresses() -> list[str]:
    """IPv4 addresses of this computer in its networks, private networks first."""
    found = []
    for name, about in psutil.net_if_addrs().items():
        stats = psutil.net_if_stats().get(name)
        if stats is None or stats.isup:
            found += [one.address for one in about if one.family == socket.AF_INET]
    known = [ipaddress.ip_address(text) for text in found]
    usable = [one for one in known if not one.is_loopback and not one.is_link_local]
    return [str(one) for one in sorted(usable, key=lambda one: not one.is_private)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One end of connections for jobs: its certificate, whom it trusts, and where it listens."""

    certificate: Path  # PEM file of this computer
    key: Path  # PEM file of its private key
    trusted: Path  # PEM file with the certificates of all paired computers, and its own
    name: str  # name of this computer
    names: Mapping[str, str] = field(default_factory=dict)  # names of paired ones, by fingerprint
    port: int = JOBS_PORT  # at which the scheduler of a job listens
    network: str = "0.0.0.0"  # noqa: S104 - own address; TLS asks for a certificate at all of them
    # A computer that sends nothing for so long has gone, as Dask writes times. Its workers send
    # something every 0.5 s from a thread that does not compute.
    silence: str = "30s"

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
    def listening(self) -> dict[str, Any]:
        """Arguments of a scheduler that workers of this computer reach without the network."""
        hosts, ports = ["127.0.0.1", self.network], [0, self.port]
        return {"host": hosts, "port": ports, "worker_ttl": self.silence}


def own_endpoint(port: int = JOBS_PORT) -> Endpoint:
    """The endpoint of this computer, for the computers that it is paired with now.

    Raises:
        IdentityDamaged, OutputError: Its certificates cannot be used.
    """
    identity, peers = own_identity(), Peers()
    return Endpoint(
        certificate=identity.certificate,
        key=identity.key,
        trusted=peers.trusted_file(),
        name=identity.name,
        names={peer.fingerprint: peer.name for peer in peers.all()},
        port=port,
    )


def reachable(hosts: Sequence[str], endpoint: Endpoint) -> tuple[str, ...]:
    """Addresses at which a paired computer listens, of those that may be anybody's.

    All are tried at once: one that does not answer, or is a stranger's, holds up no other one.

    Args:
        hosts: "host:port" each.
        endpoint: Endpoint of this computer.
    """
    if not hosts:
        return ()
    try:
        context = ssl.create_default_context(cafile=endpoint.trusted)
        context.check_hostname = False  # the certificate itself is known
        context.load_cert_chain(endpoint.certificate, endpoint.key)
    except OSError:  # a file is being written
        return ()
    with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(hosts)), "reachable") as pool:
        found = pool.map(partial(_answers, context), hosts)
        return tuple(host for host, answers in zip(hosts, found, strict=True) if answers)


def _answers(context: ssl.SSLContext, host: str) -> bool:
    try:
        with socket.create_connection(split(host, JOBS_PORT), _CONNECT_S) as one:
            context.wrap_socket(one).close()
    except (OSError, UnicodeError, MachineUnreachable):
        return False
    return True
