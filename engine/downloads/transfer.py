"""Bytes of one file from whoever gives them: cut, slow, wrong and lying servers are met here."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from engine.core.control import Control
from engine.core.errors import DownloadFailed
from engine.downloads import http_client
from engine.downloads.hashing import Need, Tell, silent
from engine.downloads.part_file import PartFile
from engine.model_files.catalogue import PublishedFile

logger = logging.getLogger(__name__)

_PROGRESS_BYTES = 10**6  # a try that brought as much does not count as a failed one
_LONGEST_WAIT_S = 60.0
_LATER = (408, 425, 429, 500, 502, 503, 504)  # answers that may be others in a moment
_WATCH_S = 0.1
_WHOLE, _PART, _NO_MORE = 200, 206, 416
_HINTS = {
    _WHOLE: "Perhaps this network wants a login: open a web page, then try again.",
    401: "It wants a login. Get the file with a browser and import it, or name a UPREEL_MIRROR.",
    403: "It refuses this computer or network. Try later, or name another UPREEL_MIRROR.",
    404: "The file was moved. If you have it, import it.",
    410: "The file was taken away. If you have it, import it.",
}
_HINT = "Check the connection, then try again: it goes on where it ended."


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long we put up with a server."""

    first_tries: int = 3  # in a row, before anything has come: perhaps there is no network
    tries: int = 8  # in a row that bring nothing, after something has come: two minutes
    silence_s: float = 30.0  # without one byte
    first_wait_s: float = 1.0  # before the second try; doubled each time
    slowest: float = 2_000.0  # bytes a second over `slow_s`; below it we connect anew
    slow_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who hears how far a download is, who may stop it, and how long it tries."""

    tell: Tell = silent
    control: Control = field(default_factory=Control)
    patience: Patience = Patience()


class _Later(Exception):
    """This try failed; another one may not."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class Transfer:
    """Fills a part with one published file.

    What a server says is a hint only: the file is done when its hash is right. Nothing that was
    loaded is ever thrown away here: where a server cannot go on in the middle, what we have is
    skipped in what it sends.
    """

    def __init__(self, file: PublishedFile, part: PartFile, need: Need, listener: Listener) -> None:
        """Nothing is asked yet; `need` refuses bytes that the disk cannot take."""
        self._file = file
        self._part = part
        self._need = need
        self._tell = listener.tell
        self._control = listener.control
        self._patience = listener.patience
        self._whole = file.bytes  # 0 while unknown
        self._can_go_on = True  # False once a server answered a range with something else

    def run(self, url: str) -> bool:
        """Ask one address until the hash is right, or until it has given all it has.

        Returns:
            True when the part is the published file.

        Raises:
            DownloadFailed: It does not give it.
            DiskFull, OutputUnwritable: Our folder cannot take it.
            Cancelled: The listener's control said so.
        """
        failed, has_come = 0, False
        while not self._is_right:
            before = self._part.bytes
            trouble = self._trouble(url)
            self._control.check()
            if trouble is None:
                break
            has_come = has_come or self._part.bytes > before
            failed = 1 if self._part.bytes - before >= _PROGRESS_BYTES else failed + 1
            logger.info("%s from %s: %r, %d times", self._file.id, host(url), trouble, failed)
            if failed >= (self._patience.tries if has_come else self._patience.first_tries):
                raise self._failed(url, reason(trouble)) from trouble
            wait_s = self._patience.first_wait_s * 2 ** (failed - 1)
            self._wait(max(wait_s, getattr(trouble, "wait_s", 0.0)))
        return self._is_right

    @property
    def _is_right(self) -> bool:
        return self._part.sha256 == self._file.sha256

    def _trouble(self, url: str) -> Exception | None:
        """Try once; what went wrong, if that may pass; None when there is no more to be had."""
        try:
            self._try(url)
        except (ssl.SSLCertVerificationError, http_client.Refused) as err:
            raise self._failed(url, reason(err)) from err
        except (OSError, http.client.HTTPException, _Later) as err:
            return err
        return None

    def _try(self, url: str) -> None:
        """One request; returns when the server has no more to give."""
        begin = self._part.bytes if self._can_go_on else 0
        with http_client.get(url, begin=begin, timeout_s=self._patience.silence_s) as reply:
            self._check(reply)
            at, said = self._place(reply)
            self._whole = self._file.bytes or reply.announced_bytes or said
            if 0 < self._whole <= self._part.bytes:
                return  # right or wrong, nothing is missing
            self._need(max(0, self._whole - self._part.bytes))
            with _woken(reply, self._control):
                self._copy(reply, at)
        if self._part.bytes < self._whole and not self._is_right:
            raise _Later("the connection was cut")

    def _check(self, reply: http_client.Reply) -> None:
        """Refuse answers that are no part of the file."""
        if reply.announced_sha256 not in ("", self._file.sha256):
            raise self._failed(reply.url, "it has another file of that name now")
        if reply.status in _LATER:
            raise _Later(f"it says {reply.status}", _retry_after(reply))
        if reply.status not in (_WHOLE, _PART, _NO_MORE):
            raise self._failed(reply.url, f"it says {reply.status}", reply.status)
        if reply.status != _NO_MORE and reply.headers.get_content_type() == "text/html":
            raise self._failed(reply.url, "it gave a web page instead", _WHOLE)
        if reply.headers.get("Content-Encoding", "identity") != "identity":
            raise self._failed(reply.url, "it gave the file in a packed form")

    def _place(self, reply: http_client.Reply) -> tuple[int, int]:
        """Where the content of an answer begins, and bytes of the whole file (0 if not said)."""
        if reply.status == _WHOLE:
            return 0, reply.content_bytes
        begin, whole = reply.content_range
        has = self._part.bytes
        if reply.status == _NO_MORE and 0 < whole == has:
            return whole, whole
        if reply.status == _PART and begin is not None and begin <= has:
            return begin, whole
        self._can_go_on = False
        raise _Later("it gave another part than the wanted one")

    def _copy(self, reply: http_client.Reply, at: int) -> None:
        """Append what comes; `at` is where it begins, what we have of it is skipped."""
        since, came = time.monotonic(), 0
        while piece := reply.read():
            self._control.check()
            fresh = piece[self._part.bytes - at :]
            at += len(piece)
            self._part.write(fresh[: self._whole - self._part.bytes] if self._whole else fresh)
            self._tell(self._part.bytes, self._whole)
            if self._part.bytes == self._whole:
                return
            came += len(piece)
            passed = time.monotonic() - since
            if passed > self._patience.slow_s:
                if came < self._patience.slowest * passed:
                    raise _Later("it gave next to nothing")
                since, came = time.monotonic(), 0
        if at < self._part.bytes:
            raise _Later("it has less than we have")

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + min(seconds, _LONGEST_WAIT_S)
        while (left := end - time.monotonic()) > 0:
            self._control.check()
            time.sleep(min(left, _WATCH_S))

    def _failed(self, url: str, why: str, status: int = 0) -> DownloadFailed:
        return DownloadFailed(
            f"{host(url)} does not give {self._file.filename}: {why}.",
            hint=_HINTS.get(status, _HINT),
            file=self._file.id,
            host=host(url),
            why=why,
        )


def host(url: str) -> str:
    """The server of an address, without a name and password."""
    return urlsplit(url).hostname or url


@contextlib.contextmanager
def _woken(reply: http_client.Reply, control: Control) -> Iterator[None]:
    """Meanwhile a cancelled control ends a read at once, also one that waits for a byte."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_WATCH_S):
            if control.is_cancelled:
                reply.abort()
                return

    watcher = threading.Thread(target=watch, name="download watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _retry_after(reply: http_client.Reply) -> float:
    text = (reply.headers.get("Retry-After") or "").strip()
    return float(text) if text.isdecimal() else 0.0  # a date is as good as nothing said


def reason(trouble: Exception) -> str:
    """Why a server gave nothing, as a part of a sentence."""
    match trouble:
        case _Later() | http_client.Refused():
            return str(trouble)
        case ssl.SSLCertVerificationError(verify_message=str(text)):
            return f"its certificate is not trusted ({text})"
        case TimeoutError():
            return "it fell silent"
        case socket.gaierror():
            return "its name is not known here, perhaps for want of a connection"
        case ConnectionRefusedError():
            return "it takes no connections"
        case OSError(strerror=str(text)) if text:
            return f"the connection failed ({text})"
    return f"the connection failed ({type(trouble).__name__})"
