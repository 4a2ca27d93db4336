"""One window for each user: a second start gives its files to the first and ends.

Explorer starts the program once for each chosen file, all at the same time. A lock file decides
who is first, also when the one before was killed; a socket of this user takes the files.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, QThread, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app import desktop
from engine.core.serialization import parse_json

_PATIENCE_S = 8.0  # the first may still be starting, or ending
_ANSWER_MS = 30_000  # it may be loading its libraries on a slow disk
_MOST_BYTES = 1 << 20
_TAKEN = b"taken\n"


class SingleInstance(QObject):
    """Who is first, and what later starts bring.

    Args:
        folder: The user's data folder; another folder is another program.
    """

    called = Signal(list)  # list[Path]: files of a second start, or none

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        with suppress(OSError):  # then the lock fails too
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = QLockFile(str(folder / "window.lock"))
        self._lock.setStaleLockTime(0)  # held for hours; a dead owner is noticed all the same
        key = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
        self._name = f"upreel-{key}"
        self._server: QLocalServer | None = None

    def begin(self, files: Sequence[Path], *, patience_s: float = _PATIENCE_S) -> bool:
        """Whether this start shall open a window; False when another one has taken the files.

        Without an answer in time, or where nothing can be locked, a second window opens.

        Args:
            files: Absolute paths.
            patience_s: Time limit, in seconds.
        """
        deadline = time.monotonic() + patience_s
        while not self._lock.tryLock(0):
            if self._lock.error() is not QLockFile.LockError.LockFailedError:
                return True
            is_taken = _given(self._name, files)
            if is_taken is not None:
                return not is_taken
            if time.monotonic() > deadline:
                return True
            QThread.msleep(100)
        self._listen()
        return True

    def stop_listening(self) -> None:
        """Take nothing any more: the window is closed, and the engine ends."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def end(self) -> None:
        """Let the next start be first."""
        self.stop_listening()
        self._lock.unlock()

    def _listen(self) -> None:
        QLocalServer.removeServer(self._name)  # left by a program that was killed; we have the lock
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._meet)
        self._server.listen(self._name)

    def _meet(self) -> None:
        while self._server is not None:
            caller = self._server.nextPendingConnection()
            if caller is None:
                return
            caller.disconnected.connect(caller.deleteLater)
            caller.readyRead.connect(lambda caller=caller: self._receive(caller))
            self._receive(caller)  # it may have spoken already

    def _receive(self, caller: QLocalSocket) -> None:
        if caller.canReadLine():
            files = _read(bytes(caller.readLine(_MOST_BYTES).data()))
            if files is not None:
                caller.write(_TAKEN)
                caller.flush()
                self.called.emit(files)
            caller.disconnectFromServer()
        elif caller.bytesAvailable() > _MOST_BYTES:
            caller.abort()


def _given(name: str, files: Sequence[Path]) -> bool | None:
    """Whether the first program has taken the files; None when it does not listen now."""
    caller = QLocalSocket()
    caller.connectToServer(name)
    if not caller.waitForConnected(1000):
        return None
    desktop.let_come_forward()
    words = json.dumps({"files": [str(file) for file in files]}) + "\n"
    caller.write(words.encode())
    caller.flush()
    return caller.waitForReadyRead(_ANSWER_MS) and caller.readLine().data() == _TAKEN


def _read(line: bytes) -> list[Path] | None:
    """The files of a second start; None for anything else."""
    try:
        files = parse_json(line)["files"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        return None
    return [Path(file) for file in files]
