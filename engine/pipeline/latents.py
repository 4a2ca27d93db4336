"""Decodes a source of latents, once, into a video in the job's folder; the job then reads that."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core import atomic_file
from engine.core.errors import DiskFull, WeightsUnreadable
from engine.core.geometry import Box, Size
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.files.hashing import sha256_of
from engine.models import registry
from engine.models.upscalers import DecodedTile
from engine.ops.precision import using
from engine.pipeline.context import JobContext
from engine.pipeline.model_file_check import check_weights
from engine.pipeline.prepare import decoded, film_at, film_path
from engine.pipeline.recovery import Recovery, attempt, with_one_retry
from engine.pipeline.stages.progress import Progress, ShownTiles
from engine.pipeline.stream import Stream, Threads
from engine.planner import latents as choice
from engine.planner.notices import SPARE_BYTES
from engine.protocol.events import StageStarted
from engine.protocol.media import MediaInfo
from engine.video.write.segment_writer import LosslessWriter

Planes = list[NDArray[np.uint16]]

STAGE = "decode"
_WAITING = 2  # slices of frames between decoding and writing


def film_of(context: JobContext, folder: Path) -> MediaInfo:
    """The video that a job reads: its source, or what is decoded of it, now or in an earlier run.

    Args:
        context: Context of the job; its plan may become smaller meanwhile.
        folder: Folder of the job; the video stays there until the job is done.

    Raises:
        InputError: The latents cannot be used (any more).
        WeightsError: The VAE is not there or not right.
        DiskFull, OutputUnwritable: The folder cannot take the video.
        OutOfMemory, NumericOverflow: There is no smaller plan, no wider format.
        Cancelled: The user stopped.
    """
    media, plan = context.media, context.plan.latent
    found = decoded(media, context.plan, folder)
    if plan is None:
        return found or media
    if found is not None and _is_as_written(found.path, context):
        return found
    _clear(folder)
    with_one_retry(message("activity.checking-files"), lambda: check_weights(context))
    context.events.emit(StageStarted(job_id=context.job_id, stage=STAGE))
    film = film_path(media, plan, folder)
    _check_disk(media, folder)
    _decode(context, film)
    atomic_file.write_bytes(_checksum_of(film), sha256_of(film, control=context.control).encode())
    return film_at(media, film)


def _checksum_of(film: Path) -> Path:
    """Path of the SHA-256 of a decoded video: the result is compared with that video alone."""
    return film.with_suffix(".sha256")


def _is_as_written(film: Path, context: JobContext) -> bool:
    try:
        written = _checksum_of(film).read_text("ascii", "replace")
        return sha256_of(film, control=context.control) == written
    except (OSError, WeightsUnreadable):
        return False


def _clear(folder: Path) -> None:
    """Delete videos that were decoded with other settings."""
    for old in folder.glob("decoded_*"):
        with suppress(OSError):
            old.unlink()


def _check_disk(media: MediaInfo, folder: Path) -> None:
    needed = choice.film_bytes(media.video) + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        size, space = bytes_text(needed), bytes_text(free)
        raise DiskFull("decoded-film", size=size, folder=folder, free=space, path=folder)


def _decode(context: JobContext, film: Path) -> None:
    """Decode all; again with a smaller plan for lack of memory, a wider dtype after overflow.

    A pause keeps the memory: the video would have to be decoded from its beginning.
    """
    recovery = Recovery(context, "latent")

    def decode() -> None:
        with using(context.plan.work.switches.run):
            _Decoding(context, film).run()

    while (failure := attempt(decode)) is not None:
        recovery.go_on(failure, 0)


class _Decoding:
    """One attempt, from the first latent to the last."""

    def __init__(self, context: JobContext, film: Path) -> None:
        self._context, self._film = context, film
        video = context.media.video
        self._size = video.size
        self._total = video.frame_count
        self._progress = Progress(context, 0, stage=STAGE, total=self._total)
        self._tiles = ShownTiles(context)

    def run(self) -> None:
        """Write the video; it is there whole, or not at all. Decode here, compress in a thread."""
        context, latent = self._context, self._context.plan.latent
        assert latent is not None
        work = registry.pass_of(context.plan, "latent")
        torch.set_num_threads(work.threads)
        found = registry.latent_format_of(latent.model).decode(
            context.media.path,
            work,
            normalised=latent.normalised,
            watch=self._show,
            check=context.control.check,
        )
        with closing(found), Threads() as threads:  # the model that comes next needs the room
            ready = threads.stream(_WAITING, list[Planes])
            threads.start("write video", lambda: self._store(ready))
            left = self._total
            with torch.inference_mode():
                for frames in found:
                    context.check(may_end=False)
                    ready.put(_codes(frames[:left], self._size))
                    left -= len(frames)
                    self._progress.add(len(frames))
            self._tiles.finish()
            ready.close()

    def _store(self, ready: Stream[list[Planes]]) -> None:
        threads = self._context.plan.work.threads
        with LosslessWriter(self._film, self._context.media.video, threads=threads) as writer:
            for frames in ready:
                for planes in frames:
                    writer.write(planes)

    def _show(self, tile: DecodedTile) -> None:
        self._context.check("decoded tile", may_end=False)
        box, size = tile.box, self._size
        right, bottom = min(box.right, size.width), min(box.bottom, size.height)
        inside = Box(box.x, box.y, right - box.x, bottom - box.y)
        picture = tile.picture[:, : inside.height, : inside.width]
        self._tiles.show(
            picture.add(1).mul_(0.5),
            inside,
            size,
            frame=tile.frame,
            index=tile.index,
            tiles=tile.tiles,
        )


def _codes(frames: Tensor, size: Size) -> list[Planes]:
    """Frames [n, 3, H, W] in [-1, 1] as planes of 16 bits, cut to the size of the video."""
    shown = frames[:, :, : size.height, : size.width]
    codes = shown.clamp(-1, 1).add(1).mul_(65535 / 2).round_().to(torch.int32).cpu().numpy()
    return [[plane.astype(np.uint16) for plane in frame] for frame in codes]
