"""A film to a file of latents: read, turned as seen, padded, encoded in one go however long."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.core import windows_paths
from engine.core.control import Control
from engine.core.errors import (
    ContainerMismatch,
    OutOfMemory,
    PlanDoesNotFit,
    UnreadableMedia,
)
from engine.core.geometry import Size
from engine.core.units import memory_text, parse_clock
from engine.hardware.budget import PROGRAM_BYTES, Budget, measure_budget
from engine.models.planning.search import Needs, fits
from engine.models.planning.tile_sizes import next_tile, tile_of
from engine.models.wan.files import WanFiles
from engine.models.wan.latents.file import SUFFIX, FilmNote
from engine.models.wan.latents.spaces import (
    MODELS,
    TEMPORAL_FACTOR,
    LatentSpace,
    frames_of,
    normalised,
)
from engine.models.wan.latents.writer import LatentWriter
from engine.models.wan.planning import choose
from engine.models.wan.planning.requirements import Pass, encode_needs
from engine.models.wan.vae.load import load_wan
from engine.models.wan.vae.streams import EncodeStream, Streaming
from engine.ops.precision import arithmetic_of
from engine.pipeline.display import turn
from engine.pipeline.latent_vae import ready_vae
from engine.pipeline.output import check_output, part_path, publish, translated
from engine.pipeline.recovery import Failure, attempt
from engine.pipeline.sources import probe_film
from engine.pipeline.stages.source import SourceColours
from engine.planner.model_choice import device_of
from engine.protocol.media import MediaInfo, Reading
from engine.protocol.report import EncodedLatents
from engine.settings.schema import EngineSettings, JobSettings
from engine.settings.switches import Switches, switches_of
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame

Progress = Callable[[int, int], None]  # frames encoded, and of all as far as is known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How it is encoded."""

    device: str
    dtype: str
    tile: Size | None
    threads: int
    switches: Switches


def encode_latents(
    source: Path,
    output: Path,
    model: str,
    settings: JobSettings,
    machine: EngineSettings,
    *,
    tell: Progress = lambda done, total: None,
    control: Control | None = None,
) -> EncodedLatents:
    """Write a film as latents, as ComfyUI's nodes load them.

    Sides that are no multiple of the VAE's step get their last column and row again, and a film
    that has not 4n+1 frames its last frame; a note in the file makes our own decoding cut both off
    again. Frames are encoded as seen: turned, and of the range 0 to 1.

    Args:
        source: Film, picture or folder of pictures.
        output: The file; its name ends in ".latent".
        model: "wan21-vae" or "wan22-vae".
        settings: Start, stop, overwriting, device, precision, tile, reading and VAE of latents.
        machine: Settings of the program.
        tell: Told how far it is.
        control: May stop it.

    Raises:
        InputError, OutputError, WeightsError, CapacityError: What stood in the way.
        Cancelled: The user stopped; nothing is left behind.

    Memory: some frames and the VAE, however long the film is.
    """
    begin = time.monotonic()
    if output.suffix.lower() != SUFFIX:
        raise ContainerMismatch(
            f"{output.name} is no name of a file of latents.",
            hint=f"Let the name end in {SUFFIX}.",
        )
    media, output = probe_film(source), windows_paths.openable(output)
    check_output(media, output, overwrite=settings.overwrite)
    vae = ready_vae(model, settings.latent_vae, control=control)
    budget = measure_budget(machine, output, output.parent)
    encoding = _Encoding(media, MODELS[model], settings, tell, control or Control())
    part = part_path(output, secrets.token_hex(3))
    try:
        written = encoding.run(vae, budget, part)
        publish(part, output, overwrite=settings.overwrite)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return EncodedLatents(
        source=media.path,
        output=output,
        model=model,
        reading=encoding.reading,
        size=media.video.seen_size,
        padded=encoding.padded,
        frames=encoding.frames,
        padded_frames=frames_of(encoding.latents),
        latents=encoding.latents,
        bytes=written,
        seconds=time.monotonic() - begin,
    )


class _Encoding:
    """One film; `frames` and `latents` are counted while it runs."""

    def __init__(
        self,
        media: MediaInfo,
        space: LatentSpace,
        settings: JobSettings,
        tell: Progress,
        control: Control,
    ) -> None:
        self._media, self._space, self._settings = media, space, settings
        self._tell, self._control = tell, control
        size, step = media.video.seen_size, space.factor
        self.padded = Size(*(-(-side // step) * step for side in (size.width, size.height)))
        self.reading: Reading = "normalised" if settings.latents == "normalised" else "raw"
        self.frames = self.latents = 0

    def run(self, vae: WanFiles, budget: Budget, part: Path) -> int:
        """Write the file under its name for now; its size in bytes.

        Raises:
            OutOfMemory, NumericOverflow: There is no smaller tile, no wider format.
        """
        way = self._way(vae, budget)
        made: list[int] = []
        while not made:

            def work(way: _Way = way) -> None:
                made.append(self._attempt(vae.vae.path, way, part))

            try:
                failure = attempt(work)
            except OSError as err:
                raise translated(err, part) from err
            if failure is not None:
                way = self._other(way, failure)
        return made[0]

    def _way(self, vae: WanFiles, budget: Budget) -> _Way:
        settings = self._settings
        device = device_of(settings, budget)
        dtype, tile = choose.fitted_encode(vae.config, self.padded, device, budget)
        way = _Way(
            device=device,
            dtype=dtype if settings.vae_precision == "auto" else settings.vae_precision,
            tile=tile_of(settings.encode_tile, self.padded) or tile,
            threads=budget.threads,
            switches=switches_of(settings.switches, device, budget.capability),
        )
        asked = Pass(
            config=vae.config, frame=self.padded, device=device, dtype=way.dtype, tile=way.tile
        )
        _check_fits(encode_needs(asked), device, budget)
        return way

    def _other(self, way: _Way, failure: Failure) -> _Way:
        """The next smaller or wider way after a failure that calls for it."""
        if failure.why == "overflow":
            if way.dtype == "float32":
                raise failure.error
            return replace(way, dtype="float32")
        tile = next_tile(way.tile, self.padded)
        if tile is None:
            raise OutOfMemory(
                "There is not enough memory to encode even the smallest tiles.",
                hint="Close other programs and try again.",
            )
        return replace(way, tile=tile)

    def _attempt(self, path: Path, way: _Way, part: Path) -> int:
        torch.set_num_threads(way.threads)
        dtype: torch.dtype = getattr(torch, way.dtype)
        vae = load_wan(path, form="fast", device=way.device, dtype=dtype, switches=way.switches.vae)
        stream = EncodeStream(vae, self.padded, Streaming(tile=way.tile), self._control.check)
        step = self._space.factor
        grid = Size(self.padded.width // step, self.padded.height // step)
        writer = LatentWriter(part, self._space.channels, grid)
        self.frames = 0
        try:
            with torch.inference_mode(), arithmetic_of(way.switches.run):
                for frames, last in self._slices(way.device):
                    latents = stream.push(frames.to(dtype), last=last)[0].float()
                    writer.add(normalised(latents) if self.reading == "normalised" else latents)
            self.latents = writer.length
            return writer.close(self._note().metadata())
        finally:
            writer.discard()

    def _note(self) -> FilmNote:
        video = self._media.video
        rate = video.frame_rate or self._space.rate
        return FilmNote(size=video.seen_size, frames=self.frames, rate=rate)

    def _slices(self, device: str) -> Iterator[tuple[Tensor, bool]]:
        """Frames [4n (+1 at the start), 3, H, W] in [-1, 1], padded; and whether they are the last.

        Raises:
            UnreadableMedia: There is none.
        """
        colours = SourceColours(self._media.video, device)
        with self._reader() as reader:
            source = iter(reader)
            waiting = list(islice(source, 1 + TEMPORAL_FACTOR))
            while waiting:
                self._control.check()
                following = list(islice(source, TEMPORAL_FACTOR))
                yield self._prepared(waiting, colours, begins=not self.frames), not following
                self.frames += len(waiting)
                self._tell(self.frames, self._expected() if following else self.frames)
                waiting = following
        if not self.frames:
            raise UnreadableMedia(
                f"{self._media.path.name} shows no picture in the part that was asked for.",
                hint="Choose another start or end.",
            )

    def _reader(self) -> FrameReader:
        start, stop = (
            parse_clock(text) if text else None
            for text in (self._settings.start, self._settings.stop)
        )
        return FrameReader(self._media, start=start, stop=stop)

    def _expected(self) -> int:
        """Frames in all; 0 where a part was asked for, whose number nobody knows."""
        is_part = self._settings.start or self._settings.stop
        return 0 if is_part else max(self.frames, self._media.video.frame_count)

    def _prepared(
        self, frames: list[PlanarFrame], colours: SourceColours, *, begins: bool
    ) -> Tensor:
        video = self._media.video
        rgb, _ = colours.rgb(frames)
        rgb = turn(rgb, video.rotation, video.is_mirrored).clamp(0, 1).mul_(2).sub_(1)
        height, width = rgb.shape[-2:]
        beside = (0, self.padded.width - width, 0, self.padded.height - height)
        rgb = F.pad(rgb, beside, mode="replicate")
        whole = begins + math.ceil((len(rgb) - begins) / TEMPORAL_FACTOR) * TEMPORAL_FACTOR
        return torch.cat([rgb, rgb[-1:].expand(whole - len(rgb), -1, -1, -1)])


def _check_fits(needs: Needs, device: str, budget: Budget) -> None:
    """Refuse what cannot work before minutes have gone by.

    Raises:
        PlanDoesNotFit: Even the smallest tiles need too much.
    """
    if fits(needs, device, budget, PROGRAM_BYTES):
        return
    raise PlanDoesNotFit(
        f"This needs {memory_text(needs.device + needs.host)} of memory, even in small tiles.",
        hint="Close other programs, or choose the processor: --set device=cpu.",
        needed=needs.device + needs.host,
    )
