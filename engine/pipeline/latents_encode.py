"""Encodes a video to a file of latents, slice by slice: read, turned as seen, padded, encoded."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.core import atomic_file, paths
from engine.core.control import Control, awake_seconds
from engine.core.errors import (
    ContainerMismatch,
    FeatureMissing,
    OutOfMemory,
    PlanDoesNotFit,
    UnreadableMedia,
)
from engine.core.file_access import writing
from engine.core.geometry import Size
from engine.core.units import memory_text, parse_clock
from engine.hardware import torch_memory
from engine.hardware.budget import PROGRAM_BYTES, Budget, measure_budget
from engine.models import registry
from engine.models.latents import LatentFilm, LatentFormat
from engine.models.planning.memory import PhaseMemory, Room
from engine.ops.precision import arithmetic_of
from engine.pipeline.display import turn
from engine.pipeline.model_file_check import ready_vae
from engine.pipeline.prepare import check_output, examined_source, probe_film, try_output
from engine.pipeline.publication import part_path, publish
from engine.pipeline.recovery import attempt
from engine.pipeline.stages.restore import SourceColours
from engine.planner.downgrade import next_work
from engine.planner.notices import refusals
from engine.planner.plan_job import device_of, with_fastest_dtype
from engine.planner.rates import Rates
from engine.planner.times import model_seconds
from engine.protocol.media import MediaInfo
from engine.protocol.plan import WeightsPlan, WorkPlan
from engine.protocol.report import EncodedLatents
from engine.settings.schema import EngineSettings, JobSettings
from engine.settings.switches import switches_of
from engine.video.film_preparation import deinterlaced, deinterlacing_of
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame

Progress = Callable[[int, int], None]  # frames encoded; all frames, 0 while unknown


def encode_latents(
    source: Path,
    output: Path,
    model: str,
    settings: JobSettings,
    machine: EngineSettings,
    *,
    report: Progress = lambda done, total: None,
    control: Control | None = None,
) -> EncodedLatents:
    """Write a video as latents, as ComfyUI's nodes load them.

    Sides that are no multiple of the VAE's step get their last column and row again, and a video
    that has not 4n+1 frames its last frame; a note in the file makes our own decoding cut both off
    again. Frames are encoded as seen: turned, and of the range 0 to 1.

    Args:
        source: Video, image or folder of images.
        output: The file; its name ends in ".latent".
        model: "wan21-vae" or "wan22-vae".
        settings: Start, stop, overwriting, device, precision, tile, reading and VAE of latents.
        machine: Settings of the program.
        report: Called after each slice.
        control: Cancels the work; None: nothing does.

    Raises:
        InputError, OutputError, WeightsError, CapacityError: Why it cannot be written.
        Cancelled: The user stopped; no file is left.

    Memory: some frames and the VAE, however long the video is.
    """
    begin = awake_seconds()
    latents = registry.latent_format_of(model)
    if output.suffix.lower() != latents.suffix:
        raise ContainerMismatch("not-latents", name=output.name, suffix=latents.suffix)
    media, output = examined_source(probe_film(source)), paths.openable(output)
    media = deinterlaced(media, deinterlacing_of(media, settings))
    check_output(media, output, overwrite=settings.overwrite)
    try_output(output)
    vae = ready_vae(model, settings.latent_vae, control=control)
    budget = measure_budget(machine, output, output.parent, device=settings.device)
    encoding = _Encoding(media, latents, model, settings, report, control or Control())
    part = part_path(output, secrets.token_hex(3))
    try:
        with torch_memory.selected(settings.device):
            room = encoding.room(budget)
            written = encoding.run(encoding.planned(vae, room), room, part)
        publish(part, output, overwrite=settings.overwrite)
    finally:
        atomic_file.discard(part)
    return EncodedLatents(
        source=media.path,
        output=output,
        model=model,
        reading="normalised" if settings.latents == "normalised" else "raw",
        size=media.video.seen_size,
        padded=encoding.padded,
        frames=encoding.frames,
        padded_frames=1 + latents.frames_per_latent * (encoding.latents - 1),
        latents=encoding.latents,
        bytes=written,
        seconds=awake_seconds() - begin,
    )


@dataclass(slots=True)
class _Encoding:
    """One video; `frames` and `latents` are counted while it runs."""

    media: MediaInfo
    format: LatentFormat
    model: str
    settings: JobSettings
    report: Progress
    control: Control
    frames: int = 0
    latents: int = 0

    @property
    def padded(self) -> Size:
        """Size of the frames that the VAE takes."""
        return self.format.padded(self.model, self.media.video.seen_size)

    def room(self, budget: Budget) -> Room:
        """Memory that the work may take."""
        family, frames = registry.latent_family(self.model), self.media.video.frame_count

        def peak(work: WorkPlan) -> PhaseMemory:
            needs = family.needs(work)
            on_cpu = needs.device if work.device == "cpu" else 0
            return PhaseMemory(needs.device, PROGRAM_BYTES + needs.host + on_cpu)

        return Room(
            budget=budget,
            frames=frames,
            peak=peak,
            seconds=lambda work: model_seconds(work, frames, budget, Rates()),
        )

    def planned(self, vae: WeightsPlan, room: Room) -> WorkPlan:
        """The fastest plan within a budget.

        Raises:
            FeatureMissing: The device cannot carry out one of the choices.
            PlanDoesNotFit: Even the smallest tiles need too much.
        """
        settings, video, budget = self.settings, self.media.video, room.budget
        device, family = device_of(settings, budget), registry.latent_family(self.model)
        for notice in refusals(settings, [family.name], device, budget.capability):
            raise FeatureMissing(notice.case, **notice.params)
        settings = with_fastest_dtype(settings, device, budget)
        work = replace(
            self.format.encoding(self.model, vae, video.seen_size, settings, device, budget),
            threads=budget.threads,
        )
        switches = switches_of(
            settings.switches, device, budget.capability, is_careful=budget.gpu_losses > 0
        )
        work = family.with_switches(work, switches)
        found: WorkPlan = family.fitted(work, room)
        if room.holds(found):
            return found
        needed = family.needs(found).device + family.needs(found).host
        raise PlanDoesNotFit("encoding", size=memory_text(needed), needed=needed)

    def run(self, work: WorkPlan, room: Room, part: Path) -> int:
        """Write the part file, with another plan if need be; returns its bytes.

        Raises:
            OutOfMemory, NumericOverflow: There is no smaller tile, no wider dtype.
        """
        torch.set_num_threads(work.threads)
        made = 0

        def encode() -> None:
            nonlocal made
            self.frames = 0
            with arithmetic_of(work.switches.run):
                self.latents, made = self.format.encode(
                    part,
                    work,
                    self._slices(work.device),
                    self._film,
                    normalised=self.settings.latents == "normalised",
                    check=self.control.check,
                )

        while True:
            with writing(part):
                failure = attempt(encode)
            if failure is None:
                return made
            assert failure.why is not None  # nothing gives memory back here
            other = next_work(
                work,
                failure.why,
                lambda: room,
                of_main_memory=failure.of_main_memory,
                part=failure.part,
            )
            if other is None:
                is_overflow = failure.why == "overflow"
                raise failure.error if is_overflow else OutOfMemory("encoding-latents")
            work = other

    def _film(self) -> LatentFilm:
        video = self.media.video
        rate = video.frame_rate or self.format.rates[self.model]
        return LatentFilm(size=video.seen_size, frames=self.frames, rate=rate)

    def _slices(self, device: str) -> Iterator[tuple[Tensor, bool]]:
        """Padded frames [4n (+1 at the start), 3, H, W] in [-1, 1], and whether they are the last.

        Raises:
            UnreadableMedia: There is none.
        """
        video, settings, each = self.media.video, self.settings, self.format.frames_per_latent
        start, stop = (
            parse_clock(text) if text else None for text in (settings.start, settings.stop)
        )
        is_part = bool(settings.start or settings.stop)
        colours = SourceColours(video, device)
        with FrameReader(self.media, start=start, stop=stop) as reader:
            source = iter(reader)
            waiting = list(islice(source, 1 + each))
            while waiting:
                self.control.check()
                following = list(islice(source, each))
                yield self._prepared(waiting, colours, begins=not self.frames), not following
                self.frames += len(waiting)
                total = 0 if is_part else max(self.frames, video.frame_count)  # 0: unknown
                self.report(self.frames, total if following else self.frames)
                waiting = following
        if not self.frames:
            raise UnreadableMedia("nothing-in-part", name=self.media.path.name)

    def _prepared(
        self, frames: list[PlanarFrame], colours: SourceColours, *, begins: bool
    ) -> Tensor:
        video = self.media.video
        rgb, _ = colours.rgb(frames)
        rgb = turn(rgb, video.rotation, video.is_mirrored).clamp(0, 1).mul_(2).sub_(1)
        height, width = rgb.shape[-2:]
        margins = (0, self.padded.width - width, 0, self.padded.height - height)
        rgb = F.pad(rgb, margins, mode="replicate")
        each = self.format.frames_per_latent
        whole = begins + math.ceil((len(rgb) - begins) / each) * each
        return torch.cat([rgb, rgb[-1:].expand(whole - len(rgb), -1, -1, -1)])
