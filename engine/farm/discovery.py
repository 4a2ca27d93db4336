"""Computers that announce themselves in the local network (DNS-SD by multicast).

Whatever is announced is hearsay: it names an address to try, TLS decides who answers there.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.core.file_access import reason_of
from engine.farm.addresses import JOBS_PORT, joined, own_addresses
from engine.farm.errors import MachineUnreachable
from engine.farm.identity import clean_name, own_identity

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, Zeroconf

logger = logging.getLogger(__name__)

_TYPE = "_upreel._tcp.local."
_ANSWER_MS = 3000
_MOST_FOUND = 256  # announcements that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What a computer says of itself.

    Attributes:
        fingerprint: SHA-256 of the certificate that it claims to have, in hexadecimal.
        name: That it gives itself.
        pairing_address: "host:port"; "" while it does not wait to be paired.
        jobs_address: "host:port"; "" while it has no port for jobs.
    """

    fingerprint: str
    name: str
    pairing_address: str
    jobs_address: str


@contextlib.contextmanager
def announced(
    *, pairing_port: int = 0, jobs_port: int = 0, interfaces: Sequence[str] | None = None
) -> Iterator[None]:
    """Inside, this computer can be found; takes about a second to begin.

    Args:
        pairing_port: 0 while it does not wait to be paired.
        jobs_port: 0 while it has none.
        interfaces: Own addresses that it uses; None for all.

    Raises:
        MachineUnreachable: There is no network.
        IdentityDamaged, OutputError: Of this computer's own files.
    """
    from zeroconf import Error, ServiceInfo

    identity = own_identity()
    key = f"{identity.fingerprint[:16]}-{secrets.token_hex(2)}"  # of this process
    about = {"name": identity.name, "fingerprint": identity.fingerprint, "jobs": str(jobs_port)}
    info = ServiceInfo(
        _TYPE,
        f"{key}.{_TYPE}",
        port=jobs_port or JOBS_PORT,
        properties=about | {"pairing": str(pairing_port)},
        server=f"upreel-{key}.local.",
        parsed_addresses=list(interfaces or own_addresses()),
    )
    with _multicast(interfaces) as network:
        try:
            network.register_service(info)
        except (OSError, Error) as err:
            raise MachineUnreachable("no-network", reason=reason_of(err)) from err
        yield


class Browser:
    """A context manager that knows which computers announce themselves, but for this one.

    Args:
        interfaces: Own addresses that it uses; None for all.

    Memory: some MB for zeroconf, and 256 announcements at most.
    """

    def __init__(self, interfaces: Sequence[str] | None = None) -> None:
        self._interfaces = interfaces
        self._found: dict[str, Announced] = {}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Browser:
        """Begin to look.

        Raises:
            MachineUnreachable: There is no network.
            IdentityDamaged, OutputError: Of this computer's own files.
        """
        from zeroconf import ServiceBrowser

        self._own = own_identity().fingerprint
        network = self._stack.enter_context(_multicast(self._interfaces))
        listener: Any = self  # has the methods of a ServiceListener, which is loaded late
        ServiceBrowser(network, _TYPE, listener=listener)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def machines(self) -> tuple[Announced, ...]:
        """Those that were heard of, by name; of several with one fingerprint the last."""
        with self._lock:
            found = {one.fingerprint: one for one in self._found.values()}
        found.pop(self._own, None)
        return tuple(sorted(found.values(), key=lambda one: (one.name.casefold(), one.fingerprint)))

    def add_service(self, network: Zeroconf, kind: str, key: str) -> None:
        """As zeroconf calls it, in its thread: a computer announces itself."""
        info = network.get_service_info(kind, key, timeout=_ANSWER_MS)
        found = None if info is None else _read(info)
        with self._lock:
            if found is None:
                self._found.pop(key, None)
            elif len(self._found) < _MOST_FOUND or key in self._found:
                self._found[key] = found

    update_service = add_service

    def remove_service(self, _network: Zeroconf, _kind: str, key: str) -> None:
        """As zeroconf calls it: a computer has gone."""
        with self._lock:
            self._found.pop(key, None)


@contextlib.contextmanager
def _multicast(interfaces: Sequence[str] | None) -> Iterator[Zeroconf]:
    from zeroconf import Error, InterfaceChoice, IPVersion, Zeroconf

    try:
        network = Zeroconf(
            interfaces=list(interfaces) if interfaces else InterfaceChoice.All,
            ip_version=IPVersion.V4Only,
        )
    except (OSError, RuntimeError, Error) as err:
        raise MachineUnreachable("no-network", reason=reason_of(err)) from err
    try:
        yield network
    finally:
        network.close()


def _read(info: ServiceInfo) -> Announced | None:
    """What was announced; None where it makes no sense."""
    values = {name: value or "" for name, value in info.decoded_properties.items()}
    fingerprint = values.get("fingerprint", "")
    hosts = [text for text in info.parsed_addresses() if _is_reachable(text)]
    if not re.fullmatch("[0-9a-f]{64}", fingerprint) or not hosts:
        return None
    pairing, jobs = (_port(values.get(name, "")) for name in ("pairing", "jobs"))
    return Announced(
        fingerprint=fingerprint,
        name=clean_name(values.get("name", "")),
        pairing_address=joined(hosts[0], pairing) if pairing else "",
        jobs_address=joined(hosts[0], jobs) if jobs else "",
    )


def _is_reachable(host: str) -> bool:
    address = ipaddress.ip_address(host)
    return not (address.is_multicast or address.is_unspecified)


def _port(text: str) -> int:
    number = int(text) if re.fullmatch("[0-9]{1,5}", text) else 0
    return number if number < 2**16 else 0
