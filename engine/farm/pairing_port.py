"""The port at which this computer can be paired, open only while a user wants it.

Whoever reaches the network may connect, so all is bounded: conversations at once, their time and
their bytes (`Channel`); one pairing at a time reaches the user, and few a minute do.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import reason_of, reported
from engine.farm import pairing
from engine.farm.addresses import JOBS_PORT, PAIRING_PORT, plain
from engine.farm.errors import MachineUnreachable
from engine.farm.identity import Peer, own_identity
from engine.farm.pairing import PairingOffer, Show

logger = logging.getLogger(__name__)

_MOST_CONNECTIONS = 8
_MOST_PAIRINGS = 5  # in `_MINUTE_S`
_MINUTE_S = 60.0
_LOOK_S = 0.2  # how soon it notices that it is closed

Ended = Callable[["Peer | EngineError"], None]


class PairingPort:
    """A context manager: inside, other computers can begin a pairing.

    Args:
        show: As of `pairing.ask`; called in a thread of a conversation.
        ended: Takes how a pairing ended whose words were shown, in that thread.
        port: 0 for any that is free.
        jobs_port: Of this computer, for the other one.
        host: Address that it listens at; "" for all.

    Memory: some hundred kB for each connection, of which there are eight at most.
    """

    def __init__(
        self,
        show: Show,
        ended: Ended,
        *,
        port: int = PAIRING_PORT,
        jobs_port: int = JOBS_PORT,
        host: str = "",
    ) -> None:
        self._show, self._ended, self._jobs_port = show, ended, jobs_port
        self._host, self._wanted_port = host, port
        self._is_closed = threading.Event()
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._pairing = threading.Lock()  # held by the one that reaches the user
        self._begun: deque[float] = deque(maxlen=_MOST_PAIRINGS)
        self._guests: dict[threading.Thread, ssl.SSLSocket] = {}

    @property
    def port(self) -> int:
        """That it listens at."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> PairingPort:
        """Listen.

        Raises:
            MachineUnreachable: The port cannot be used.
            IdentityDamaged, OutputError: Of this computer's own files.
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
        for thread, connection in list(self._guests.items()):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # its thread closes it
            thread.join()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as err:  # no file is free, or the guest has gone
                logger.info("no connection to the pairing port: %s", err)
                self._is_closed.wait(_LOOK_S)
                continue
            if self._free.acquire(blocking=False):
                self._receive(connection, plain(address[0]))
            else:
                connection.close()

    def _receive(self, connection: socket.socket, host: str) -> None:
        """Begin a conversation in a thread of its own, which closes the connection."""
        try:
            connection.settimeout(pairing.ANSWER_S)
            secure = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
            thread = threading.Thread(
                target=self._serve, args=(secure, host), name=f"pairing {self.port}", daemon=True
            )
            self._guests[thread] = secure
            thread.start()
        except (OSError, RuntimeError) as err:  # it has gone, or there is no thread
            logger.info("%s cannot be served: %s", host, err)
            connection.close()
            self._free.release()

    def _serve(self, secure: ssl.SSLSocket, host: str) -> None:
        try:
            with secure:
                secure.do_handshake()
                self._converse(secure, host)
        except OSError as err:
            logger.info("%s does not pair: %s", host, err)
        finally:
            self._guests.pop(threading.current_thread(), None)
            self._free.release()

    def _converse(self, secure: ssl.SSLSocket, host: str) -> None:
        offers: list[PairingOffer] = []

        def show(offer: PairingOffer) -> Future[bool]:
            offers.append(offer)
            return self._show(offer)

        with contextlib.ExitStack() as turn:
            try:
                ended: Peer | EngineError = pairing.answer(
                    secure, host, show, self._jobs_port, lambda: self._begins(turn)
                )
            except Cancelled:
                return
            except EngineError as err:
                logger.info("a pairing with %s ended: %s", host, err)
                ended = err
            except Exception as err:  # noqa: BLE001 - the outermost frame of a thread
                ended = reported(err, "pairing", logger)
        if offers:
            self._ended(ended)

    def _begins(self, turn: contextlib.ExitStack) -> bool:
        """Whether a pairing may reach the user now; `turn` then ends with it."""
        if not self._pairing.acquire(blocking=False):
            return False
        turn.callback(self._pairing.release)
        now = time.monotonic()
        if len(self._begun) == _MOST_PAIRINGS and now - self._begun[0] < _MINUTE_S:
            return False
        self._begun.append(now)
        return True


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens, for IPv4 and IPv6 where it is for all addresses."""
    if not host and socket.has_dualstack_ipv6():
        found = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        found = socket.create_server((host, port))
    found.settimeout(_LOOK_S)
    return found
