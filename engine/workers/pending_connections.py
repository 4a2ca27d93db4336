"""Limits for connections that have not shown yet whose they are: few in all, few of a host.

Anybody who reaches a port can open connections and say nothing, or begin a handshake and never end
it. A limit alone would let such a stranger keep all others out. Here a new connection is always
admitted; one that waits is closed for it: of the host that has the most, one that has said nothing,
and the oldest. Used by ports of Dask and by the port for pairings.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

FIRST_BYTE_S = 2.0  # for the first byte: a round trip, and a busy CPU

C = TypeVar("C", bound=Hashable)


class PendingConnections(Generic[C]):
    """Connections that wait at a port, for any thread.

    Args:
        most: Limit in all; at least 1.
        most_of_one: Limit for one host, as `network_of` tells hosts apart; at least 1.
        is_silent: Whether a connection has sent nothing yet.
    """

    def __init__(
        self, most: int, most_of_one: int, is_silent: Callable[[C], bool] = lambda one: False
    ) -> None:
        self._most, self._most_of_one, self._is_silent = most, most_of_one, is_silent
        self._waiting: dict[C, str] = {}  # networks; the oldest first
        self._lock = threading.Lock()

    def admit(self, connection: C, host: str) -> C | None:
        """Let a connection wait; returns the one to close for it, None if there is room."""
        with self._lock:
            own, (gone, counts) = network_of(host), (None, Counter(self._waiting.values()))
            if counts[own] >= self._most_of_one:
                gone = self._next(own)
            elif len(self._waiting) >= self._most:
                most = max(counts.values())
                gone = self._next(*(one for one, count in counts.items() if count == most))
            if gone is not None:
                del self._waiting[gone]
            self._waiting[connection] = own
            return gone

    def leave(self, connection: C) -> bool:
        """Stop counting a connection; False if another one has taken its place before."""
        with self._lock:
            return self._waiting.pop(connection, None) is not None

    def _next(self, *networks: str) -> C:
        """The connection of these networks to close."""
        found = [one for one, network in self._waiting.items() if network in networks]
        return next((one for one in found if self._is_silent(one)), found[0])


def network_of(host: str) -> str:
    """Whoever may own a host: for IPv6 its network of 64 bits, in which one has many addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def plain_address(host: str) -> str:
    """The address of a connection: one of IPv4 that came to a socket of IPv6 as itself."""
    return host.removeprefix("::ffff:")


def is_silent(connection: socket.socket) -> bool:
    """Whether nothing of a connection waits to be read, not even its end.

    Args:
        connection: It does not block.
    """
    try:
        socket.socket.recv(connection, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:  # it has ended
        return False
    return False
