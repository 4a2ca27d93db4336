"""The computer with the video: lets other computers join the job and answers them.

They speak with the Dask scheduler of the job, with TLS only and with a certificate that the user
has paired. A computer asks what the plan needs, offers what it has, and gets the order and a
number; then it is a worker like others. It makes all connections: no port is open there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.security import Security
from tornado.ioloop import PeriodicCallback

from engine import __version__
from engine.core.errors import EngineError
from engine.core.file_access import RetryingFile, write_error
from engine.core.messages import Message, message
from engine.core.serialization import to_plain
from engine.farm import planning, present
from engine.farm.discovery import announced
from engine.farm.endpoint import Endpoint, own_endpoint
from engine.farm.errors import MachineUnreachable, PortTaken
from engine.farm.fit import LentDevice, misfit, read_offer, requirements_of
from engine.farm.identity import clean_name, fingerprints_in
from engine.farm.transfer import PIECE_BYTES, SegmentsReceived
from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentLog
from engine.protocol.events import Picture, PreviewReady
from engine.protocol.machines import MachineInfo, MachineState
from engine.workers import dask_internals
from engine.workers.hand_out import Received, WorkerKind
from engine.workers.hand_out import hand_out as hand_out_to_workers
from engine.workers.reports import InvalidReport, Report, check, read
from engine.workers.worker import JobOrder, SpanWorker

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 22  # of the source at a time
_BYTES = (bytes, bytearray, memoryview)  # as Dask gives them
_MOST_DEVICES = 64  # of a computer
_LOOK_MS = 1000  # polling interval of the list of paired computers


def hand_out(context: JobContext, segments: SegmentLog, *, port: int) -> None:
    """Make the missing segments together with paired computers, which can find this job.

    An `engine.pipeline.context.HandOut`, as of `engine.workers.hand_out`.

    Raises:
        PortTaken: Another program listens at the port.
        IdentityDamaged: The certificates of this computer cannot be used.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(announced(jobs_port=port))
        except MachineUnreachable as err:  # whoever knows the address finds it
            logger.info("this computer cannot be announced: %s", err)
        hand_out_at(own_endpoint(port), context, segments)


def hand_out_at(
    endpoint: Endpoint,
    context: JobContext,
    segments: SegmentLog,
    worker: WorkerKind = SpanWorker,
) -> None:
    """Make the missing segments together with computers that join at an endpoint."""
    hand_out_to_workers(context, segments, partial(Host, endpoint), worker)


@dataclass(slots=True)
class _Member:
    """A device of another computer that takes part, or did, or cannot."""

    number: int
    fingerprint: str
    name: str
    address: str  # "host:port" of its connection
    device: LentDevice
    state: MachineState = "away"
    spans_done: int = 0
    frames_per_second: float = 0.0
    why: Message | None = None


class Host:
    """Other computers of a job: an `engine.workers.pool.RemoteWorkers`.

    Memory: 4 MiB for each computer at a time.

    Args:
        endpoint: Address, port and certificates for them.
        order: Order of the job.
        received: Takes reports, like those of workers, and errors that end the attempt; in any
            thread.
        is_open: Whether a segment is being made and not finished; called in any thread.
        is_finished: Whether a segment is finished; called in any thread.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        order: JobOrder,
        received: Received,
        is_open: Callable[[int], bool],
        is_finished: Callable[[int], bool],
    ) -> None:
        self._endpoint, self._order, self._needs = endpoint, order, requirements_of(order.plan)
        self.is_paused = order.is_paused
        self._received, self._is_open, self._is_finished = received, is_open, is_finished
        self._first = len(order.plan.workers)  # those before are of this computer
        self._members: dict[tuple[str, str], _Member] = {}  # by computer and device
        self._refused: dict[tuple[str, str], _Member] = {}
        self._at: dict[str, _Member] = {}  # by the address of a Dask worker
        self._segments = SegmentsReceived(order.folder)
        # more than their frames without compression: 16 bits of 4 planes, and some more
        self._most_bytes = order.plan.segment_frames * order.plan.picture.size.pixels * 12 + (
            1 << 20
        )
        self._source = RetryingFile(order.media.path)
        self._reading = threading.Lock()
        self._own = fingerprints_in(endpoint.certificate)
        self._trusted = fingerprints_in(endpoint.trusted)

    async def open(self, scheduler: Scheduler) -> None:
        """Set what is answered, in the thread of the scheduler, before it answers."""
        self._scheduler = scheduler
        for answer in (self.ask, self.join, self.read, self.keep, self.picture, self.leave):
            scheduler.handlers[f"upreel_{answer.__name__}"] = answer
        scheduler.handlers["register-worker"] = self._enter
        scheduler.add_plugin(_Connections(self))
        looks = PeriodicCallback(self._check_trust, _LOOK_MS)
        scheduler.periodic_callbacks["upreel"] = looks  # it stops them when it ends
        looks.start()

    def close(self) -> None:
        """The job has ended, and its scheduler with it."""
        present.show(())
        self._source.close()

    # --- for the pool and the thread of the job

    @property
    def security(self) -> Security:
        """Certificates of the endpoint."""
        return self._endpoint.security

    @property
    def listening(self) -> dict[str, Any]:
        """Addresses and ports of the endpoint, and of this computer."""
        return self._endpoint.listening

    def refusal(self, error: RuntimeError) -> EngineError | None:
        """PortTaken if another program has the port."""
        return PortTaken(port=str(self._endpoint.port)) if _is_port_taken(error) else None

    def name_of(self, number: int) -> str:
        """Name of the computer of a worker; "" for a worker of this one."""
        member = self._member(number)
        return "" if member is None else member.name

    def works(self, number: int, frames_per_second: float) -> None:
        """Show the speed that a worker has reported."""
        if (member := self._member(number)) is not None:
            member.frames_per_second = frames_per_second
            self._show()

    def made(self, number: int) -> None:
        """Count a span that a worker has finished."""
        if (member := self._member(number)) is not None:
            member.spans_done += 1
            self._show()

    def leave_out(self, number: int, why: Message) -> None:
        """Exclude a worker for the rest of the job."""
        member = self._member(number)
        assert member is not None
        member.state, member.why = "left-out", message("reason.machine.left-out", why=why)
        self.dismiss(number)

    def dismiss(self, number: int) -> None:
        """Close the connection of a worker, which can join again."""
        member = self._member(number)
        assert member is not None
        self._scheduler.loop.add_callback(self._dismiss, member)

    def check_sender(self, comm: Comm, number: int) -> None:
        """Accept processes of this computer, and another one under its own number."""
        if _fingerprint(comm) not in self._own:
            self._at_work(comm, number)

    def learn(self, paces: dict[int, tuple[float, float]]) -> None:
        """Keep the speed of computers for later plans."""
        members = {number: self._member(number) for number in paces}
        owners = {number: one.fingerprint if one else "" for number, one in members.items()}
        planning.learn(self._order.plan, paces, owners)

    # --- answers, in the thread of the scheduler

    async def ask(self, comm: Comm, version: str, name: str) -> dict[str, Any]:
        """Requirements of the plan; a computer with another version is refused at once."""
        if version == __version__:
            return {"needs": to_plain(self._needs)}
        nothing = LentDevice(gpu="", title="", free_bytes=0)
        version = clean_name(read(str, version))
        why = message("reason.machine.version", version=version, own=__version__)
        return self._refuse(self._known(comm, name, nothing), why)

    async def join(self, comm: Comm, offer: Any, name: str) -> dict[str, Any]:
        """The order of the job and a number, or why a computer cannot take part."""
        offered = read_offer(offer)
        why = misfit(self._needs, offered)
        member = self._known(comm, name, offered.device)
        key = (member.fingerprint, member.device.gpu)
        if why is None and member.state == "left-out":
            why = member.why
        if why is not None:
            return self._refuse(member, why)
        self._refused.pop(key, None)
        self._members[key] = member
        return {
            "number": member.number,
            "order": to_plain(dataclasses.replace(self._order, is_paused=self.is_paused)),
            "size": self._source.size,
            "film": self._order.media.name,
        }

    async def read(self, comm: Comm, number: int, begin: int, count: int) -> bytes:
        """A range of the source."""
        self._at_work(comm, number)
        begin, count = read(int, begin), read(int, count)
        return await asyncio.to_thread(self._bytes, begin, min(count, MOST_BYTES))

    async def keep(
        self, comm: Comm, number: int, segment: int, begin: int, piece: bytes, sha256: str
    ) -> bool:
        """A piece of a finished segment; False where it is damaged.

        One that another worker has finished meanwhile is not written.
        """
        self._at_work(comm, number)
        segment, begin = read(int, segment), read(int, begin)
        check(isinstance(piece, _BYTES) and len(piece) <= PIECE_BYTES, "not a piece of a segment")
        check(0 <= begin < self._most_bytes, "a segment that is too large")
        if self._is_finished(segment):
            return True
        check(self._is_open(segment), "a segment that is not being made")
        try:
            return await self._segments.take(number, segment, begin, bytes(piece), sha256)
        except OSError as err:  # no fault of that computer
            self._received(write_error(err, self._order.folder))
            return False

    async def picture(
        self, comm: Comm, number: int, preview: Any, pixels: Sequence[bytes | None]
    ) -> None:
        """Take a preview that a computer has made."""
        self._at_work(comm, number)
        shown = _read_preview(preview, pixels)
        check(shown.job_id == self._order.job_id, "a preview of another job")
        self._received(Report(number, "preview", shown))

    async def leave(self, comm: Comm, number: int, state: MachineState) -> None:
        """Let a computer go that its owner has paused or ended: its span is made elsewhere."""
        member = self._checked(comm, number)
        self._received(Report(number, "left", None))
        member.state = "paused" if state == "paused" else "away"
        await self._dismiss(member)

    # --- inside

    def connected(self, address: str) -> None:
        """Take a Dask worker in; one of this computer has no member."""
        name = str(self._scheduler.workers[address].name)
        member = self._member(int(name))
        if member is not None:
            self._at[address] = member
            member.state, member.why = "working", None
            self._received(Report(member.number, "joined", None))
            self._show()

    def disconnected(self, address: str) -> None:
        """Forget a Dask worker that has gone."""
        member = self._at.pop(address, None)
        if member is None:
            return
        self._segments.forget(member.number)
        member.frames_per_second = 0.0
        if member.state == "working":
            member.state = "away"
        self._show()

    async def _enter(self, comm: Comm, name: str, **about: Any) -> None:
        """Admit a Dask worker of this computer, or one with the number that its owner was given.

        One that comes for the job before is refused with an answer, which Dask does not give where
        this raises: it would wait for one as long as for a host, and do no work meanwhile.
        """
        try:
            if _fingerprint(comm) not in self._own:
                member = self._checked(comm, int(name))
                is_in = member.state not in ("left-out", "refused")
                check(is_in, f"{member.name} does not take part")
        except InvalidReport as err:
            answer = {"status": "error", "message": str(err), "time": time.time()}
            await comm.write(answer)  # type: ignore[no-untyped-call]  # untyped in distributed
            raise
        await self._scheduler.add_worker(comm, name=name, **about)

    async def _check_trust(self) -> None:
        """Notice computers that were paired or forgotten since the last call."""
        try:
            trusted = fingerprints_in(self._endpoint.trusted)
        except (OSError, ValueError):  # it is being written, or none is known: all stay
            return
        if trusted == self._trusted:
            return
        self._trusted = trusted
        dask_internals.renew_trust(self._scheduler, self._endpoint.security)
        for member in self._everyone:
            if member.fingerprint not in trusted:
                self._received(Report(member.number, "left", None))
                await self._dismiss(member)
        dask_internals.close_connections(
            self._scheduler, lambda comm: _fingerprint(comm) not in trusted
        )

    def _known(self, comm: Comm, name: str, device: LentDevice) -> _Member:
        """Who speaks; a new one gets the next number."""
        fingerprint = _fingerprint(comm)
        key = (fingerprint, device.gpu)
        member = self._members.get(key) or self._refused.get(key)
        if member is None:
            number = self._first + len(self._everyone)
            devices = sum(one.fingerprint == fingerprint for one in self._everyone)
            check(devices < _MOST_DEVICES, "too many devices")
            name = self._endpoint.names.get(fingerprint) or clean_name(read(str, name))
            member = _Member(number, fingerprint, name, "", device)
            self._refused[key] = member  # until it fits
        member.address, member.device = comm.peer_address.partition("://")[2], device
        return member

    def _refuse(self, member: _Member, why: Message) -> dict[str, Any]:
        is_new = member.why != why
        if member.state != "left-out":
            member.state, member.why = "refused", why
        if is_new and why.code != _OTHER_DEVICE:  # another device of that computer may fit
            self._received(Report(member.number, "refused", (member.name, why)))
        self._show()
        return {"refused": to_plain(why)}

    def _member(self, number: int) -> _Member | None:
        return next((one for one in self._everyone if one.number == number), None)

    @property
    def _everyone(self) -> tuple[_Member, ...]:
        return (*self._members.values(), *self._refused.values())

    def _at_work(self, comm: Comm, number: int) -> _Member:
        """The computer with a number, like `_checked`; its Dask worker is connected."""
        member = self._checked(comm, number)
        check(any(member is one for one in self._at.values()), "no Dask worker is there")
        return member

    def _checked(self, comm: Comm, number: int) -> _Member:
        """The computer with a number, which must be the one that speaks."""
        member = self._member(number)
        is_right = member is not None and member.fingerprint == _fingerprint(comm)
        check(is_right, "a number used by another computer")
        assert member is not None
        return member

    async def _dismiss(self, member: _Member) -> None:
        self._show()
        for address in [one for one, whose in self._at.items() if whose is member]:
            await self._scheduler.remove_worker(address=address, stimulus_id="upreel")

    def _bytes(self, begin: int, count: int) -> bytes:
        with self._reading:
            self._source.seek(begin)
            pieces, left = [], count
            while left > 0 and (piece := self._source.read(left)):
                pieces.append(piece)
                left -= len(piece)
            if self._source.failure is not None:
                raise self._source.failure
        return b"".join(pieces)

    def _show(self) -> None:
        everyone, video = self._everyone, self._order.media.name
        prints = dict.fromkeys(one.fingerprint for one in everyone)
        present.show(
            tuple(
                _info([one for one in everyone if one.fingerprint == each], video)
                for each in prints
            )
        )


class _Connections(SchedulerPlugin):
    """Notices workers that connect and disconnect."""

    name = "upreel"

    def __init__(self, host: Host) -> None:
        self._host = host

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._host.connected(worker)

    def remove_worker(self, scheduler: Scheduler, worker: str, **about: Any) -> None:
        self._host.disconnected(worker)


_OTHER_DEVICE = "reason.machine.device"
_ORDER: tuple[MachineState, ...] = ("working", "idle", "paused", "left-out", "away", "refused")


def _info(devices: list[_Member], video: str) -> MachineInfo:
    """A computer, of which several devices may take part: its state is the best one of theirs."""
    best = min(devices, key=lambda one: _ORDER.index(one.state))
    at_work = [one for one in devices if one.state == "working"]
    return MachineInfo(
        fingerprint=best.fingerprint,
        name=best.name,
        address=best.address,
        state=best.state,
        devices=tuple(one.device.title for one in at_work or [best] if one.device.title),
        free_bytes=sum(one.device.free_bytes for one in at_work or [best]),
        frames_per_second=sum(one.frames_per_second for one in at_work),
        film=video if at_work else "",
        spans_done=sum(one.spans_done for one in devices),
        why=best.why,
    )


def _fingerprint(comm: Any) -> str:
    """SHA-256 of the certificate that the other end of a connection has proved to have."""
    return hashlib.sha256(dask_internals.certificate_of(comm)).hexdigest()


def _is_port_taken(error: BaseException | None) -> bool:
    """Whether that is the cause, or the cause of the cause."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
            return True
        error = error.__cause__
    return False


def _read_preview(data: Any, pixels: Sequence[bytes | None]) -> PreviewReady:
    """A preview that another computer has sent.

    Args:
        data: Plain data without the bytes of its images.
        pixels: Bytes of the source and of the result; None for a missing image.

    Raises:
        InvalidReport: It cannot be shown.
    """
    preview = read(PreviewReady, data)
    check(isfinite(preview.seconds) and 0 <= preview.frame < 2**31, "a frame number out of range")
    check(isinstance(pixels, list | tuple) and len(pixels) == 2, "no images")
    source, result = (
        _with_pixels(preview.source, pixels[0]),
        _with_pixels(preview.result, pixels[1]),
    )
    return dataclasses.replace(preview, source=source, result=result)


def _with_pixels(picture: Picture | None, rgb: bytes | None) -> Picture | None:
    if picture is None:
        return None
    size = picture.size
    if not isinstance(rgb, bytes) or size.is_empty or len(rgb) != 3 * size.pixels:
        raise InvalidReport("an image of another size")
    return dataclasses.replace(picture, rgb=rgb)
