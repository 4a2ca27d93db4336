"""A slow link between two programs of this machine, which can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType

_PIECE = 1 << 16
_ON_THE_WAY = 64  # pieces


class Relay:
    """Passes connections on to a port; a context manager.

    Args:
        port: Of this machine, where they go.
        delay_s: That each byte takes, in each direction.
        rate: Bytes/s of all connections in one direction together.

    Attributes:
        port: Where connections come in.
        passed: Bytes so far.
    """

    def __init__(self, port: int, *, delay_s: float = 0.02, rate: float = 100e6 / 8) -> None:
        self.port = self.passed = 0
        self._to, self._delay, self._rate = port, delay_s, rate
        self._free = [0.0, 0.0]  # when each direction has passed on what it has
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name="relay", daemon=True
        )

    def cut(self) -> None:
        """End all connections, and let none pass until `mend`."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._end_all)

    def mend(self) -> None:
        """Let connections pass again."""
        self._is_cut = False

    def __enter__(self) -> Relay:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()
        self._end_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if not self._is_cut:
                there_reader, there = await asyncio.open_connection("127.0.0.1", self._to)
                self._writers.add(there)
                await asyncio.gather(
                    self._pass(0, reader, there), self._pass(1, there_reader, writer)
                )
                there.close()
                self._writers.discard(there)
        writer.close()
        self._writers.discard(writer)

    async def _pass(
        self, way: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One direction of a connection; its end ends the other one, too."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_ON_THE_WAY)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._take(way, reader, pieces))
            both.create_task(self._give(pieces, writer))

    async def _take(
        self, way: int, reader: asyncio.StreamReader, pieces: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        piece = b"-"
        while piece:
            try:
                piece = await reader.read(_PIECE)
            except OSError:
                piece = b""
            self._free[way] = max(self._free[way], self._loop.time()) + len(piece) / self._rate
            await pieces.put((self._free[way] + self._delay, piece))
            self.passed += len(piece)

    async def _give(
        self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - self._loop.time())
            if not piece:
                writer.close()
                return
            with contextlib.suppress(OSError):
                writer.write(piece)
                await writer.drain()

    def _end_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
