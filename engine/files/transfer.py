"""Transfer of one file from one server; handles servers that are cut off, slow, wrong or lying."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from engine.core.control import Control
from engine.core.errors import DownloadFailed
from engine.core.messages import message
from engine.files import http_client
from engine.files.hashing import OnProgress, PartFile, ignore_progress
from engine.files.http_client import HttpError

logger = logging.getLogger(__name__)

_PROGRESS_BYTES = 10**6  # a try that brings as many does not count as failed
_LONGEST_WAIT_S = 60.0
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
_CANCEL_CHECK_S = 0.1
_WHOLE, _PART, _NO_MORE = 200, 206, 416
_HELP = {_WHOLE: "web-page", 401: "login", 403: "refused", 404: "moved", 410: "removed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file on servers, and what its content has to be."""

    id: str  # for logs, errors and locks
    name: str  # name of the file in the folder
    urls: tuple[str, ...]  # tried in this order
    sha256: str
    bytes: int = 0  # 0 while unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits by which a server has failed, and how often it is asked again."""

    first_tries: int = 3  # failures in a row before any byte came: perhaps there is no network
    tries: int = 8  # failures in a row after that: two minutes
    timeout_s: float = 30.0  # without one byte
    first_wait_s: float = 1.0  # before the second try; doubled each time
    slowest: float = 2_000.0  # bytes a second over `slow_s`; below it we connect again
    slow_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Receives the progress of a download or another long task on files, and may cancel it."""

    on_progress: OnProgress = ignore_progress
    control: Control = field(default_factory=Control)
    retry: RetryPolicy = RetryPolicy()

    @classmethod
    def of(cls, task: Any) -> Self:
        """Listener of a running task, a `RunningTask`."""
        return cls(on_progress=task.progress, control=task.control)


class _TryFailed(HttpError):
    """The server answered, but not with what was asked for; another try may succeed."""

    def __init__(self, case: str, /, *, wait_s: float = 0.0, **params: object) -> None:
        super().__init__(case, **params)
        self.wait_s = wait_s


class Transfer:
    """Fills a part file with a remote file.

    Headers of a server are hints only: the file is complete when its SHA-256 is right. Nothing
    that was downloaded is discarded here: where a server does not support ranges, the bytes that
    the part has already are skipped in its answer.
    """

    def __init__(
        self,
        file: RemoteFile,
        part: PartFile,
        need: Callable[[int], None],
        listener: Listener,
    ) -> None:
        """No request is sent yet; `need` refuses bytes that the disk cannot take."""
        self._file = file
        self._part = part
        self._need = need
        self._on_progress = listener.on_progress
        self._control = listener.control
        self._retry = listener.retry
        self._whole = file.bytes  # 0 while unknown
        self._use_range = True  # False once a server answered a range with something else

    def run(self, url: str) -> bool:
        """Request from one address until the SHA-256 is right or the server has no more bytes.

        Returns:
            True when the part has the content of the file.
        """
        failures, has_bytes = 0, False
        while not self._is_right:
            before = self._part.bytes
            error: HttpError | None = None
            try:
                self._request(url)
            except http_client.PermanentHttpError as err:
                raise self._failed(url, err) from err
            except HttpError as err:  # perhaps only for now
                error = err
            self._control.check()
            if error is None:
                break
            has_bytes = has_bytes or self._part.bytes > before
            failures = 1 if self._part.bytes - before >= _PROGRESS_BYTES else failures + 1
            logger.info("%s from %s: %s, %d times", self._file.id, host(url), error, failures)
            if failures >= (self._retry.tries if has_bytes else self._retry.first_tries):
                raise self._failed(url, error) from error
            wait_s = self._retry.first_wait_s * 2 ** (failures - 1)
            self._wait(max(wait_s, getattr(error, "wait_s", 0.0)))
        return self._is_right

    @property
    def _is_right(self) -> bool:
        return self._part.sha256 == self._file.sha256

    def _request(self, url: str) -> None:
        """One request and the content of its answer."""
        begin = self._part.bytes if self._use_range else 0
        with http_client.get(
            url, begin=begin, timeout_s=self._retry.timeout_s, control=self._control
        ) as reply:
            self._check(reply)
            at, whole = self._range(reply)
            self._whole = self._file.bytes or reply.announced_bytes or whole
            if 0 < self._whole <= self._part.bytes:
                return  # right or wrong, nothing is missing
            self._need(max(0, self._whole - self._part.bytes))
            self._copy(reply, at)
        if self._part.bytes < self._whole and not self._is_right:
            raise _TryFailed("cut")

    def _check(self, reply: http_client.Reply) -> None:
        """Refuse answers that are no part of the file."""
        if reply.announced_sha256 not in ("", self._file.sha256):
            raise self._failed(reply.url, HttpError("other-file"))
        if reply.status in _TEMPORARY:
            text = reply.header("Retry-After")  # a date is ignored
            wait_s = float(text) if text.isdecimal() else 0.0
            raise _TryFailed("status", wait_s=wait_s, status=reply.status)
        if reply.status not in (_WHOLE, _PART, _NO_MORE):
            error = HttpError("status", status=reply.status)
            raise self._failed(reply.url, error, reply.status)
        if reply.status != _NO_MORE and reply.is_web_page:
            raise self._failed(reply.url, HttpError("web-page"), _WHOLE)
        if reply.header("Content-Encoding") not in ("", "identity"):
            raise self._failed(reply.url, HttpError("compressed"))

    def _range(self, reply: http_client.Reply) -> tuple[int, int]:
        """First byte of an answer's content, and size of the whole file (0 while unknown)."""
        if reply.status == _WHOLE:
            return 0, reply.content_bytes
        begin, whole = reply.content_range
        has = self._part.bytes
        if reply.status == _NO_MORE and 0 < whole == has:
            return whole, whole
        if reply.status == _PART and begin is not None and begin <= has:
            return begin, whole
        self._use_range = False
        raise _TryFailed("other-part")

    def _copy(self, reply: http_client.Reply, at: int) -> None:
        """Append content that begins at byte `at`; what the part has of it is skipped."""
        since, received = time.monotonic(), 0
        while piece := reply.read():
            self._control.check()
            missing = piece[self._part.bytes - at :]
            at += len(piece)
            self._part.write(missing[: self._whole - self._part.bytes] if self._whole else missing)
            self._on_progress(self._part.bytes, self._whole)
            if self._part.bytes == self._whole:
                return
            received += len(piece)
            passed = time.monotonic() - since
            if passed > self._retry.slow_s:
                if received < self._retry.slowest * passed:
                    raise _TryFailed("too-slow")
                since, received = time.monotonic(), 0
        if at < self._part.bytes:
            raise _TryFailed("too-short")

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + min(seconds, _LONGEST_WAIT_S)
        while (left := end - time.monotonic()) > 0:
            self._control.check()
            time.sleep(min(left, _CANCEL_CHECK_S))

    def _failed(self, url: str, error: HttpError, status: int = 0) -> DownloadFailed:
        return DownloadFailed(
            "server",
            host=host(url),
            name=self._file.name,
            file=self._file.id,
            why=error.why,
            help=message(f"help.transfer.{_HELP.get(status, 'connection')}"),
        )


def host(url: str) -> str:
    """The server of an address, without name and password."""
    try:
        return urlsplit(url).hostname or url
    except ValueError:  # of brackets
        return url.rpartition("@")[2]
