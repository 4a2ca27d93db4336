"""Computers that announce themselves in the local network (DNS-SD by multicast).

Announcements are untrusted: they add addresses to try, and replace none; TLS authenticates who
answers there. Anybody may announce anything, also the fingerprint of another computer.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.core.file_access import reason_of
from engine.farm.endpoint import JOBS_PORT, joined, own_addresses
from engine.farm.errors import IdentityDamaged, MachineUnreachable
from engine.farm.identity import Peers, clean_name, own_identity

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, Zeroconf

logger = logging.getLogger(__name__)

_TYPE = "_upreel._tcp.local."
_ANSWER_MS = 3000
_MOST_ASKED = 64  # computers that are asked for the rest of their announcement, at once
_MOST_FOUND = 256  # announcements of computers that are not paired
_MOST_OF_ONE = 8  # announcements with one fingerprint
_MOST_ADDRESSES = 4  # of an announcement


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """Announcement of a computer."""

    fingerprint: str  # SHA-256 of the certificate that it claims to have, in hexadecimal
    name: str  # name that it gives itself
    pairing_address: str  # "host:port"; "" while it does not wait to be paired
    jobs_addresses: tuple[str, ...]  # "host:port" each, of one port; () while it has none for jobs


@contextlib.contextmanager
def announced(
    *, pairing_port: int = 0, jobs_port: int = 0, interfaces: Sequence[str] | None = None
) -> Iterator[None]:
    """Announce this computer while the context is open; takes about a second to begin.

    Args:
        pairing_port: 0 while it does not wait to be paired.
        jobs_port: 0 while it has none.
        interfaces: Own addresses that it uses; None for all.

    Raises:
        MachineUnreachable: There is no network.
        IdentityDamaged, OutputError: Own files of this computer cannot be used.
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

    Memory: some MB for zeroconf, and 256 announcements at most beside those of paired computers.
    """

    def __init__(self, interfaces: Sequence[str] | None = None) -> None:
        self._interfaces = interfaces
        self._found: dict[tuple[str, Announced], None] = {}  # with their keys, the oldest first
        self._asked: dict[str, Future[bool]] = {}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Browser:
        """Begin to look.

        Raises:
            MachineUnreachable: There is no network.
            IdentityDamaged, OutputError: Own files of this computer cannot be used.
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
        """Announcements, the oldest first; one computer may have several."""
        with self._lock:
            found = dict.fromkeys(one for _, one in self._found)
        return tuple(one for one in found if one.fingerprint != self._own)

    def add_service(self, network: Zeroconf, kind: str, key: str) -> None:
        """Takes an announcement; called by zeroconf in its thread.

        The thread waits for no answer: one announcement would hold up all others.
        """
        from zeroconf import ServiceInfo

        info = ServiceInfo(kind, key)
        if info.load_from_cache(network):
            self._keep(key, _read(info))
            return
        assert network.loop is not None
        asked = asyncio.run_coroutine_threadsafe(
            info.async_request(network, _ANSWER_MS), network.loop
        )
        with self._lock:
            before = [self._asked.pop(key)] if key in self._asked else []
            if len(self._asked) >= _MOST_ASKED:
                before.append(self._asked.pop(next(iter(self._asked))))
            self._asked[key] = asked
        for one in before:
            one.cancel()
        asked.add_done_callback(lambda _: self._answered(key, info, asked))

    update_service = add_service

    def _answered(self, key: str, info: ServiceInfo, asked: Future[bool]) -> None:
        with self._lock:
            if self._asked.get(key) is not asked:  # it was asked again, or is not waited for
                return
            del self._asked[key]
        is_complete = not asked.cancelled() and asked.exception() is None and asked.result()
        if is_complete:
            self._keep(key, _read(info))

    def _keep(self, key: str, found: Announced | None) -> None:
        """Add what was announced; what was announced under this key before may be right."""
        with self._lock:
            if found is not None and (key, found) not in self._found and self._has_room(found):
                self._found[key, found] = None

    def _has_room(self, found: Announced) -> bool:
        """Whether an announcement is kept: no stranger takes the room of a paired computer."""
        known = [one.fingerprint for _, one in self._found]
        if known.count(found.fingerprint) >= _MOST_OF_ONE:
            return False
        paired = _paired()
        return found.fingerprint in paired or (
            sum(one not in paired for one in known) < _MOST_FOUND
        )

    def remove_service(self, _network: Zeroconf, _kind: str, key: str) -> None:
        """Forget a computer that has gone; called by zeroconf."""
        with self._lock:
            asked = self._asked.pop(key, None)
            self._found = {one: None for one in self._found if one[0] != key}
        if asked is not None:
            asked.cancel()


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
    """The announcement; None if it makes no sense."""
    values = {name: value or "" for name, value in info.decoded_properties.items()}
    fingerprint = values.get("fingerprint", "")
    hosts = [text for text in info.parsed_addresses() if _is_reachable(text)][:_MOST_ADDRESSES]
    if not re.fullmatch("[0-9a-f]{64}", fingerprint) or not hosts:
        return None
    pairing, jobs = (_port(values.get(name, "")) for name in ("pairing", "jobs"))
    return Announced(
        fingerprint=fingerprint,
        name=clean_name(values.get("name", "")),
        pairing_address=joined(hosts[0], pairing) if pairing else "",
        jobs_addresses=tuple(joined(host, jobs) for host in hosts) if jobs else (),
    )


def _paired() -> frozenset[str]:
    """Fingerprints of the paired computers; none where their list is damaged."""
    with contextlib.suppress(IdentityDamaged):
        return frozenset(peer.fingerprint for peer in Peers().all())
    return frozenset()


def _is_reachable(host: str) -> bool:
    address = ipaddress.ip_address(host)
    return not (address.is_multicast or address.is_unspecified)


def _port(text: str) -> int:
    number = int(text) if re.fullmatch("[0-9]{1,5}", text) else 0
    return number if number < 2**16 else 0
