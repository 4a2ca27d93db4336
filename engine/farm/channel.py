"""Short messages between two computers that do not trust each other yet: a line of JSON each."""

from __future__ import annotations

import json
import ssl
import time
from typing import Any

from engine.core.serialization import parse_json

_MOST_BYTES = 8192  # of a message


class Channel:
    """A connection of TLS; whatever is no message, or comes too late, is an exception.

    Args:
        connection: The other computer may be any.
        seconds: In which all messages have to have come; `patience` gives more.

    Memory: some messages at most, whatever comes.
    """

    def __init__(self, connection: ssl.SSLSocket, seconds: float) -> None:
        self._connection = connection
        self._received = bytearray()
        self.patience(seconds)

    def patience(self, seconds: float) -> None:
        """Wait for so long from now on, in all."""
        self._end = time.monotonic() + seconds

    @property
    def is_too_late(self) -> bool:
        """Whether all that time has passed."""
        return time.monotonic() >= self._end

    def send(self, message: dict[str, Any]) -> bytes:
        """Send a message; its bytes.

        Raises:
            OSError: The connection has ended, or the other side reads nothing.
        """
        data = json.dumps(message).encode()
        self._connection.settimeout(max(self._end - time.monotonic(), 0.01))
        self._connection.sendall(data + b"\n")
        return data

    def receive(self) -> bytes:
        """The next message.

        Raises:
            TimeoutError: It has not come in time.
            OSError: The connection has ended.
            ValueError: It is too long.
        """
        while (data := self.received(self._end - time.monotonic())) is None:
            if self.is_too_late:
                raise TimeoutError
        return data

    def received(self, seconds: float) -> bytes | None:
        """The next message where one comes within this time; otherwise as `receive`."""
        end = time.monotonic() + seconds
        while (length := self._received.find(b"\n")) < 0:
            if len(self._received) > _MOST_BYTES:
                raise ValueError("a message that is too long")
            self._connection.settimeout(max(end - time.monotonic(), 0.001))
            try:
                piece = self._connection.recv(_MOST_BYTES)
            except TimeoutError:
                return None
            if not piece:
                raise ConnectionError("the connection has ended")
            self._received += piece
        if length > _MOST_BYTES:
            raise ValueError("a message that is too long")
        data = bytes(self._received[:length])
        del self._received[: length + 1]
        return data


def read(data: bytes) -> dict[str, Any]:
    """A message as plain data.

    Raises:
        ValueError: It is no table of JSON.
    """
    message = parse_json(data)
    if not isinstance(message, dict):
        raise ValueError("no table")
    return message
