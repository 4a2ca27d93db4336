"""A relay between two ports of this machine: it records, holds and cuts what goes through it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time

from engine.farm.identity import Identity


class RecordingRelay:
    """A context manager; connections to its port go on to another one.

    Args:
        port: That it goes on to.
        decrypting_as: It ends TLS with this certificate and begins another one; None hands on the
            bytes as they are.

    Attributes:
        sent: Bytes of the side that connects, a piece for each read.
    """

    def __init__(self, port: int, decrypting_as: Identity | None = None) -> None:
        self._to, self._identity = port, decrypting_as
        self.sent: list[bytes] = []
        self._last = time.monotonic()
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> RecordingRelay:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)
        for one in self._sockets:
            one.close()

    def hold(self) -> None:
        """Hand on nothing any more, as with a cable that is out."""
        self._held = time.monotonic()
        self._flows.clear()

    def wait_for_more(self) -> None:
        """Until something has come that is held, and its sender has had time to go on."""
        while self._last < self._held:
            time.sleep(0.02)
        self.wait_until_quiet()

    def cut(self) -> None:
        """End all connections."""
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)
        self._flows.set()

    def wait_until_quiet(self) -> None:
        """Until nothing has come for a while."""
        while time.monotonic() - self._last < 0.3:
            time.sleep(0.02)

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                if self._identity is not None:
                    here, there = _decrypted(here, there, self._identity)
                self._sockets += [here, there]
                self._start(self._copy, here, there, self.sent)
                self._start(self._copy, there, here, [])

    def _copy(self, source: socket.socket, target: socket.socket, seen: list[bytes]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._last = time.monotonic()
                seen.append(data)
                self._flows.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            socket.socket.shutdown(target, socket.SHUT_WR)


def _decrypted(
    here: socket.socket, there: socket.socket, identity: Identity
) -> tuple[socket.socket, socket.socket]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(identity.certificate, identity.key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server.wrap_socket(here, server_side=True), client.wrap_socket(there)
