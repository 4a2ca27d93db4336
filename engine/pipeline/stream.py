"""Bounded queues between threads, and the group of threads that they join."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, TypeVar

T = TypeVar("T")
_POLL_S = 0.1


class StreamAborted(Exception):
    """Another thread of the group failed; this one just ends."""


class NothingWanted(Exception):
    """The reader of a stream has all that it wants; the thread that writes just ends."""


class _End:
    """Last item of a stream."""


class Stream(Generic[T]):
    """A bounded queue from one thread to another; peak memory is `capacity` items.

    The writer calls `put` and at last `close`; the reader iterates. When the group is aborted both
    get StreamAborted instead of waiting for ever. A reader that wants no more says `enough`: the
    writer gets NothingWanted.
    """

    def __init__(self, capacity: int, aborted: threading.Event) -> None:
        self._queue: queue.Queue[T | _End] = queue.Queue(capacity)
        self._aborted = aborted
        self._has_enough = threading.Event()

    def put(self, item: T) -> None:
        """Hand over one item; waits while the queue is full."""
        self._put(item)

    def close(self) -> None:
        """End the stream: nothing follows."""
        self._put(_End())

    def enough(self) -> None:
        """Said by the reader: it takes nothing more."""
        self._has_enough.set()

    def __iter__(self) -> Iterator[T]:
        while True:
            item = self._get()
            if isinstance(item, _End):
                return
            yield item

    def _put(self, item: T | _End) -> None:
        with _waiting():
            while True:
                self._check()
                if self._has_enough.is_set():
                    raise NothingWanted
                try:
                    self._queue.put(item, timeout=_POLL_S)
                except queue.Full:
                    continue
                return

    def _get(self) -> T | _End:
        with _waiting():
            while True:
                self._check()
                try:
                    return self._queue.get(timeout=_POLL_S)
                except queue.Empty:
                    continue

    def _check(self) -> None:
        if self._aborted.is_set():
            raise StreamAborted


Worked = Callable[[str, float], None]
"""Called by a thread, with its name and the seconds that it worked since it waited for a stream."""


class _Worker(threading.Thread):
    """A thread that counts its work, without the time that it waits for streams."""

    def __init__(self, name: str, work: Callable[[], None], worked: Worked) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._worked = work, worked
        self._since = 0.0

    def run(self) -> None:
        """Do the work."""
        self._since = time.monotonic()
        try:
            self._work()
        finally:
            self._worked(self.name, time.monotonic() - self._since)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what is no work."""
        self._worked(self.name, time.monotonic() - self._since)
        try:
            yield
        finally:
            self._since = time.monotonic()


def _waiting() -> AbstractContextManager[None]:
    thread = threading.current_thread()
    return thread.waiting() if isinstance(thread, _Worker) else nullcontext()


class Workers:
    """Threads that end together: the first error of any of them ends all and is raised by `join`.

    Use as a context manager around the work of the calling thread, which counts as one of them.

    Args:
        worked: Counts the work of all others.
    """

    def __init__(self, worked: Worked = lambda name, seconds: None) -> None:
        self.aborted = threading.Event()
        self._worked = worked
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def stream(self, capacity: int, kind: type[T]) -> Stream[T]:
        """A stream of `kind` that ends with this group."""
        del kind  # for the reader and the type checker only
        return Stream(capacity, self.aborted)

    def start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Run `work` in a thread of its own, which `__exit__` waits for."""
        thread = _Worker(name, lambda: self._guard(work), self._worked)
        thread.start()
        self._threads.append(thread)  # one that did not start cannot be waited for
        return thread

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._fail(error)
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except NothingWanted:
            pass
        except BaseException as err:  # noqa: BLE001 - raised again in the thread that joins
            self._fail(err)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None and not isinstance(error, StreamAborted):
                self._error = error
        self.aborted.set()
