"""Measures this machine while no job runs: the window's benchmark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.core.errors import Cancelled, EngineError, ErrorInfo
from engine.core.messages import Message
from engine.jobs.internal_error import internal
from engine.protocol import commands as c
from engine.protocol import events as e

logger = logging.getLogger(__name__)

_STOPPED = ErrorInfo(code="cancelled", message="The benchmark was stopped.")


class BenchDesk:
    """One benchmark at a time, in a thread of its own.

    Args:
        sink: Gets progress and the end.
        ended: Called in that thread just before the last word: jobs may start again.
    """

    def __init__(self, sink: e.EventSink, ended: Callable[[], None]) -> None:
        self._sink = sink
        self._ended = ended
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, command: c.RunBench) -> None:
        """Begin to measure; returns at once. The caller knows that the last one has ended."""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._work, args=(command.quick, self._stop), name="bench", daemon=True
        )
        self._thread.start()

    def refuse(self, error: EngineError) -> None:
        """Say why it is not begun."""
        self._sink.emit(e.BenchFailed(error=error.info()))

    def stop(self) -> None:
        """End at the next step; nothing happens where nothing is measured."""
        self._stop.set()

    def close(self, timeout_s: float) -> None:
        """End at the next step, or leave it alone when that takes longer."""
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self, quick: bool, stop: threading.Event) -> None:
        event = self._measured(quick, stop)
        self._ended()  # first: who hears the last word may ask for another one
        self._sink.emit(event)

    def _measured(self, quick: bool, stop: threading.Event) -> e.Event:
        """Measure, and what is to be said in the end."""
        try:
            from engine.bench import full_run

            return e.BenchDone(
                report=full_run.examine(quick=quick, report=self._tell, stop=stop.is_set)
            )
        except Cancelled:
            return e.BenchFailed(error=_STOPPED)
        except EngineError as err:
            logger.warning("benchmark: %s", err.message)
            return e.BenchFailed(error=err.info())
        except Exception as err:  # a mistake of ours ends the benchmark, not the program
            logger.exception("benchmark")
            return e.BenchFailed(error=internal(err).info())

    def _tell(self, done: int, total: int, doing: Message | str) -> None:
        self._sink.emit(e.BenchProgress(done=done, total=total, doing=doing))
