"""A process of a lending computer: one device, one job after the other.

It asks a host what the plan of its job needs, joins as a Dask worker if that is available, and
stays until the job has ended. Its files are in a folder of its own, which is deleted with the job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from distributed import Worker, rpc
from distributed.utils import get_ip

from engine import __version__
from engine.core.errors import NumericOverflow
from engine.core.file_access import advised
from engine.core.messages import Message
from engine.core.serialization import from_plain, to_plain
from engine.farm import fit
from engine.farm.endpoint import JOBS_PORT, reachable, split
from engine.farm.fit import Lent, Requirements
from engine.farm.transfer import RemoteSource, send_segment
from engine.models import registry
from engine.protocol.events import PreviewReady
from engine.protocol.plan import WorkPlan
from engine.video.read.media_file import lies_elsewhere
from engine.workers.worker import ANSWER_S, JobOrder, SpanWorker

logger = logging.getLogger(__name__)

_TRY_S = 2.0  # between two questions
_IDLE_S = 60.0  # without an answer, after which it ends and gives its memory back
_CONNECT_S = 5.0
_STALLED_S = 10.0  # after the end of a job, in which the work has to end as well
_ALONE_S = 15.0  # most, after the parent has gone; what it has written goes at the next start
_REFUSED_S = 10.0  # until it asks again: the owner may have put a file there
_VARIANTS = {WorkPlan: registry.plan_class}


def work(lent: Lent, parent: Connection) -> None:
    """Work for other computers until the parent ends it, or none has had work for a minute."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it would write to the console
    asyncio.run(_Process(lent, parent).run())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A job of a host, as it answered."""

    host: str
    number: int
    order: JobOrder
    size: int  # bytes of the source


class _Process:
    """The thread with the connections; spans are made in another one."""

    def __init__(self, lent: Lent, parent: Connection) -> None:
        self._lent, self._parent = lent, parent
        self._args = lent.endpoint.security.get_connection_args("worker")
        self._refused_until = 0.0

    async def run(self) -> None:
        self._ending, self._why = asyncio.Event(), "ended"
        listen = partial(self._listen, asyncio.get_running_loop())
        threading.Thread(target=listen, name="parent", daemon=True).start()
        answered = time.monotonic()
        while not self._ending.is_set() and time.monotonic() - answered < _IDLE_S:
            hosts = self._lent.hosts
            if len(hosts) > 1:  # one that does not answer would hold up the others
                hosts = await asyncio.to_thread(reachable, hosts, self._lent.endpoint)
            for host in hosts:
                if not self._ending.is_set() and await self._served(host):
                    answered = time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TRY_S)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the parent says why it ends, or has gone; in a thread of its own."""
        has_parent = True
        try:
            self._why = self._parent.recv()
        except (EOFError, OSError):
            has_parent = False
        with suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(self._ending.set)
        if not has_parent:  # the parent would end what does not end by itself
            time.sleep(_ALONE_S)
            os._exit(1)

    async def _served(self, host: str) -> bool:
        """Work for a host until its job has ended; False if it does not answer."""
        if time.monotonic() < self._refused_until:
            return True
        try:
            job = await self._job_of(host)
        except (OSError, TimeoutError):
            return False
        except Exception:  # Dask raises errors of many classes for an answer that makes no sense
            logger.warning("%s sent an invalid reply", host, exc_info=True)
            job = None
        if job is None:
            self._refused_until = time.monotonic() + _REFUSED_S
            return True
        try:
            await self._work(job)
        except Exception:  # logged; a mistake at one job must not end the loan to the next ones
            logger.warning("the work for %s ended", host, exc_info=True)
        self._tell("idle", "")
        return True

    async def _job_of(self, host: str) -> _Job | None:
        """Ask a host for its job; None if this computer does not suit it."""
        lent, name = self._lent, self._lent.endpoint.name
        async with rpc(f"tls://{host}", timeout=_CONNECT_S, connection_args=self._args) as there:
            question = there.upreel_ask(version=__version__, name=name)
            reply = await asyncio.wait_for(question, ANSWER_S)
            if "needs" in reply:
                needs = from_plain(Requirements, reply["needs"])
                files = await asyncio.to_thread(fit.own_files, needs)
                device = fit.now(lent.device)
                offer = await asyncio.to_thread(fit.offer_of, device, files)
                question = there.upreel_join(offer=to_plain(offer), name=name)
                reply = await asyncio.wait_for(question, ANSWER_S)
        if "refused" in reply:
            self._tell("refused", str(from_plain(Message, reply["refused"])))
            return None
        order = from_plain(JobOrder, reply["order"], _VARIANTS)
        plan = fit.moved(order.plan, tuple(filter(None, files)), lent.device.gpu)
        order = replace(order, plan=plan, folder=lent.folder, gpus=())
        return _Job(host=host, number=reply["number"], order=order, size=reply["size"])

    async def _work(self, job: _Job) -> None:
        spans = LentWorker(job.order, job.size)
        self._tell("working", job.host)
        self._lent.folder.mkdir(parents=True, exist_ok=True)
        try:
            async with self._worker(job, spans) as worker:
                await self._until_ended(worker, job.number)
                await worker.close()
        finally:
            spans.close()
            await asyncio.to_thread(shutil.rmtree, self._lent.folder, ignore_errors=True)

    def _worker(self, job: _Job, spans: LentWorker) -> Worker:
        """A worker that listens for itself alone; its address is that of this computer."""
        host, port = split(job.host, JOBS_PORT)[0], _free_port()
        return Worker(
            f"tls://{job.host}",
            nthreads=1,
            name=str(job.number),
            host="127.0.0.1",
            port=port,
            contact_address=f"tls://{get_ip(host)}:{port}",
            security=self._lent.endpoint.security,
            local_directory=str(self._lent.folder / "dask"),
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            death_timeout=ANSWER_S,
            plugins=(spans,),
        )

    async def _until_ended(self, worker: Worker, number: int) -> None:
        """Wait until the job has ended, or the owner of this computer wants it back."""
        ways = [asyncio.create_task(one) for one in (worker.finished(), self._ending.wait())]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if self._ending.is_set():
            with suppress(OSError, TimeoutError):
                leaving = worker.scheduler.upreel_leave(number=number, state=self._why)
                await asyncio.wait_for(leaving, _CONNECT_S)
        for way in ways:
            way.cancel()

    def _tell(self, state: str, what: str) -> None:
        with suppress(OSError):
            self._parent.send((state, what))


class LentWorker(SpanWorker):
    """Makes spans of a video that is on another computer.

    Memory: that of the plan, and 64 MiB of the source.

    Args:
        order: Order of the job, as it is carried out here.
        size: Bytes of the source.
    """

    def __init__(self, order: JobOrder, size: int) -> None:
        super().__init__(order)
        self._size = size
        self._mounted = ExitStack()

    def setup(self, worker: Worker) -> None:
        """Begin, in the thread of the connections."""
        super().setup(worker)
        source = RemoteSource(
            self._order.media.path,
            self._size,
            lambda begin, count: self.ask("read", begin=begin, count=count),
        )
        self._mounted.enter_context(lies_elsewhere(source.path, source.open))

    def teardown(self, worker: Worker) -> None:
        """End what is under way; with the process, if it stalls: another one takes its place."""
        self.control.cancel()
        watch = threading.Timer(_STALLED_S, self._end_if_stalled)
        watch.daemon = True
        watch.start()

    def _end_if_stalled(self) -> None:
        if self.is_making:
            logger.error("what was computed has not stopped: the process ends")
            os._exit(1)

    def close(self) -> None:
        """Give everything back; the thread that computes has ended."""
        self._let_go()
        self._mounted.close()

    def delivered(self, path: Path, number: int) -> None:
        """Send a segment to the host; nothing of it stays here."""

        def send(begin: int, piece: bytes, sha256: str) -> bool:
            about = {"segment": number, "begin": begin, "piece": piece, "sha256": sha256}
            return bool(self.ask("keep", **about).result(ANSWER_S))

        send_segment(path, send)

    def shown(self, preview: PreviewReady | None) -> None:
        """Send a preview to the host, which cannot fetch the result of a task from here."""
        if preview is None:
            return
        pixels = [picture and picture.rgb for picture in (preview.source, preview.result)]
        question = self.ask("picture", preview=to_plain(preview), pixels=pixels)
        advised(lambda: question.result(ANSWER_S), None)

    def ends_job(self, error: Exception) -> bool:
        """Whether any worker would fail like this: a disk, a driver, a link are this computer's."""
        return isinstance(error, NumericOverflow)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
