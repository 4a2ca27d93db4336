"""Addresses of computers as they are typed and shown: "host", "host:port", "[::1]:47111"."""

from __future__ import annotations

import ipaddress
import socket

import psutil

from engine.farm.errors import MachineUnreachable

JOBS_PORT = 47110  # of the computer that owns a film, while others may work for it
PAIRING_PORT = 47111  # of a computer that waits to be paired
_MOST_CHARACTERS = 253  # of a name in DNS


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


def plain(host: str) -> str:
    """The address of a connection: one of IPv4 that came to a socket of IPv6 as itself."""
    return host.removeprefix("::ffff:")


def network_of(host: str) -> str:
    """Who may have a host: of IPv6 its network of 64 bits, in which anybody has many addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(ipaddress.IPv6Network((address, 64), strict=False))


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
