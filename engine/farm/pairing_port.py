"""The port at which this computer can be paired, open only while a user wants it.

Anybody in the network may connect, so all is bounded: connections, in all and of each host, their
time and their bytes (`PendingConnections`, `Channel`); one pairing at a time reaches the user, and
few a minute do, in all and of each host.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import reason_of, reported
from engine.farm import pairing
from engine.farm.endpoint import JOBS_PORT, PAIRING_PORT
from engine.farm.errors import MachineUnreachable
from engine.farm.identity import Peer, own_identity
from engine.farm.pairing import PairingOffer, Show
from engine.workers.pending_connections import (
    FIRST_BYTE_S,
    PendingConnections,
    is_silent,
    network_of,
    plain_address,
)

logger = logging.getLogger(__name__)

_MOST_SILENT, _MOST_SILENT_OF_ONE = 128, 64  # connections that have said nothing: no thread yet
_MOST_BEGUN, _MOST_BEGUN_OF_ONE = 16, 4  # conversations before the words, with a thread each
_MOST_SHOWN, _MOST_SHOWN_OF_ONE = 20, 5  # pairings in `_MINUTE_S`
_MINUTE_S = 60.0
_LOOK_S = 0.2  # polling interval of its end

Ended = Callable[["Peer | EngineError"], None]


class PairingPort:
    """A context manager: inside, other computers can begin a pairing.

    Args:
        show: Shows the words, like that of `pairing.ask`; called in a thread of a conversation.
        ended: Takes how a pairing ended whose words were shown, in that thread, and before the
            next one may be shown.
        port: 0 for any that is free.
        jobs_port: Port for jobs of this computer, for the other one.
        host: Address that it listens at; "" for all.
        turn: Held by the pairing that this user sees or has begun, whichever it is.

    Memory: some hundred kB for each conversation, of which there are 17 at most.
    """

    def __init__(
        self,
        show: Show,
        ended: Ended,
        *,
        port: int = PAIRING_PORT,
        jobs_port: int = JOBS_PORT,
        host: str = "",
        turn: threading.Lock | None = None,
    ) -> None:
        self._show, self._ended, self._jobs_port = show, ended, jobs_port
        self._host, self._wanted_port = host, port
        self._turn = turn or threading.Lock()
        self._is_closed = threading.Event()
        self._silent = PendingConnections[socket.socket](
            _MOST_SILENT, _MOST_SILENT_OF_ONE, is_silent
        )
        self._begun = PendingConnections[ssl.SSLSocket](_MOST_BEGUN, _MOST_BEGUN_OF_ONE)
        self._waiting: dict[socket.socket, tuple[str, float]] = {}  # host, and when it is too late
        self._last: tuple[tuple[str, float], ...] = ()  # pairings that were shown: whose, and when
        self._threads: dict[ssl.SSLSocket, threading.Thread] = {}

    @property
    def port(self) -> int:
        """Port at which it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> PairingPort:
        """Listen.

        Raises:
            MachineUnreachable: The port cannot be used.
            IdentityDamaged, OutputError: Own files of this computer cannot be used.
        """
        identity = own_identity()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.num_tickets = 0  # no conversation follows another one
        self._context.load_cert_chain(identity.certificate, identity.key)
        try:
            self._listener = _listener(self._host, self._wanted_port)
        except OSError as err:
            reason = reason_of(err)
            raise MachineUnreachable("port", port=self._wanted_port, reason=reason) from err
        self._acceptor = threading.Thread(
            target=self._accept, name=f"pairing {self.port}", daemon=True
        )
        self._acceptor.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_closed.set()
        self._acceptor.join()
        self._listener.close()
        for connection in list(self._threads):
            self._break(connection)

    def _accept(self) -> None:
        """Accept connections, and serve those that have sent something; in a thread of its own."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._is_closed.is_set():
                for key, _ in selector.select(_LOOK_S):
                    if key.fileobj is self._listener:
                        self._let_in(selector)
                    elif key.fileobj in self._waiting:  # and has not had to go just now
                        connection, host = self._taken(selector, key.fileobj)
                        self._receive(connection, host)
                now = time.monotonic()
                for connection in [one for one, (_, end) in self._waiting.items() if now > end]:
                    self._taken(selector, connection)[0].close()
            for connection in list(self._waiting):
                self._taken(selector, connection)[0].close()

    def _let_in(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, address = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as err:  # no file is free, or the guest has gone
            logger.info("no connection to the pairing port: %s", err)
            self._is_closed.wait(_LOOK_S)
            return
        connection.setblocking(False)
        host = plain_address(address[0])
        gone = self._silent.admit(connection, host)
        self._waiting[connection] = (host, time.monotonic() + FIRST_BYTE_S)
        selector.register(connection, selectors.EVENT_READ)
        if gone is not None:
            self._taken(selector, gone)[0].close()

    def _taken(
        self, selector: selectors.BaseSelector, connection: Any
    ) -> tuple[socket.socket, str]:
        """A connection that waits no more for its first byte, and its host."""
        self._silent.leave(connection)
        selector.unregister(connection)
        return connection, self._waiting.pop(connection)[0]

    def _receive(self, connection: socket.socket, host: str) -> None:
        """Begin a conversation in a thread of its own, which closes the connection."""
        try:
            connection.settimeout(pairing.ANSWER_S)
            secure = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        except OSError as err:  # it has gone
            logger.info("%s cannot be served: %s", host, err)
            connection.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(secure, host), name=f"pairing {self.port}", daemon=True
        )
        gone, self._threads[secure] = self._begun.admit(secure, host), thread
        if gone is not None:
            self._break(gone)
        try:
            thread.start()
        except RuntimeError as err:
            logger.info("no thread for %s: %s", host, err)
            self._forget(secure)

    def _break(self, connection: ssl.SSLSocket) -> None:
        """End a conversation, and wait for its thread, which closes the connection."""
        thread = self._threads.get(connection)
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        if thread is not None:
            thread.join()

    def _serve(self, secure: ssl.SSLSocket, host: str) -> None:
        try:
            secure.do_handshake()
            self._converse(secure, host)
        except OSError as err:
            logger.info("%s does not pair: %s", host, err)
        finally:
            self._forget(secure)

    def _forget(self, secure: ssl.SSLSocket) -> None:
        self._begun.leave(secure)
        self._threads.pop(secure, None)
        secure.close()

    def _converse(self, secure: ssl.SSLSocket, host: str) -> None:
        shown: list[PairingOffer] = []

        def show(offer: PairingOffer) -> Future[bool]:
            shown.append(offer)
            return self._show(offer)

        with contextlib.ExitStack() as turn:

            def may_begin() -> bool:
                return not (self._turn.locked() or self._had_many(host))

            def begins() -> bool:
                return self._begun.leave(secure) and self._begins(host, turn)

            try:
                ended: Peer | EngineError = pairing.answer(
                    secure, host, show, self._jobs_port, may_begin, begins
                )
            except Cancelled:
                return
            except EngineError as err:
                logger.info("a pairing with %s ended: %s", host, err)
                ended = err
            except Exception as err:  # noqa: BLE001 - the outermost frame of a thread
                ended = reported(err, "pairing", logger)
            if shown:
                self._ended(ended)

    def _had_many(self, host: str) -> bool:
        """Whether enough pairings have reached the user in the last minute."""
        since = time.monotonic() - _MINUTE_S
        recent = [network for network, begun in self._last if begun > since]
        return len(recent) >= _MOST_SHOWN or recent.count(network_of(host)) >= _MOST_SHOWN_OF_ONE

    def _begins(self, host: str, turn: contextlib.ExitStack) -> bool:
        """Whether a pairing reaches the user now; `turn` then ends with it."""
        if not self._turn.acquire(blocking=False):
            return False
        turn.callback(self._turn.release)
        if self._had_many(host):
            return False
        self._last = (*self._last, (network_of(host), time.monotonic()))[-_MOST_SHOWN:]
        return True


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens, for IPv4 and IPv6 where it is for all addresses."""
    if not host and socket.has_dualstack_ipv6():
        found = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        found = socket.create_server((host, port))
    found.setblocking(False)
    return found
