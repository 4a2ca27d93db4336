"""Who has come to a port and has not shown yet whose connection it is: few in all, few of a host.

Whoever reaches a port can open connections and say nothing, or begin and go on for ever. A limit
alone lets such a stranger keep all others out. Here a new guest is always let in; one that has
waited goes for it: of the host that has the most, one that has said nothing, and the oldest.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from engine.farm.addresses import network_of

FIRST_BYTE_S = 2.0  # in which a guest has to say something: a round trip, and a busy processor

G = TypeVar("G", bound=Hashable)


class Guests(Generic[G]):
    """Guests that wait at a port, for any thread.

    Args:
        most: In all; at least 1.
        most_of_one: Limit for one host, as `network_of` tells hosts apart; at least 1.
        is_silent: Whether a guest has said nothing yet.
    """

    def __init__(
        self, most: int, most_of_one: int, is_silent: Callable[[G], bool] = lambda guest: False
    ) -> None:
        self._most, self._most_of_one, self._is_silent = most, most_of_one, is_silent
        self._waiting: dict[G, str] = {}  # the oldest first
        self._lock = threading.Lock()

    def admit(self, guest: G, host: str) -> G | None:
        """Let a guest wait; the one that has to go for it, None where there is room."""
        with self._lock:
            own, (gone, counts) = network_of(host), (None, Counter(self._waiting.values()))
            if counts[own] >= self._most_of_one:
                gone = self._next(own)
            elif len(self._waiting) >= self._most:
                most = max(counts.values())
                gone = self._next(*(one for one, count in counts.items() if count == most))
            if gone is not None:
                del self._waiting[gone]
            self._waiting[guest] = own
            return gone

    def leave(self, guest: G) -> bool:
        """A guest waits no more; False where it had to go before."""
        with self._lock:
            return self._waiting.pop(guest, None) is not None

    def _next(self, *networks: str) -> G:
        """The one that has to go, of these networks."""
        found = [guest for guest, network in self._waiting.items() if network in networks]
        return next((guest for guest in found if self._is_silent(guest)), found[0])


def says_nothing(connection: socket.socket) -> bool:
    """Whether nothing has come through a connection that waits to be read, not even its end.

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
