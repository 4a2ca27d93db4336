"""Shots of any length through a VAE, slice by slice: the part of it on whole frames, and tiles.

Slices handed on by a carry equal the whole shot. Where whole frames do not fit, a part of the VAE,
or all of it, is given tiles. What that part takes, its entries, waits in host memory; when there
is enough for a span of latents, tile after tile goes through all of it, so that a tile's carry
moves to the device and back once for a whole span. A family describes the parts (`TiledPart`) and
how tiles become frames again (`Canvas`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.upscalers import DecodedTile, Watch
from engine.models.video_vae.frame_slices import as_clip, as_frames, check_finite, cut
from engine.models.video_vae.runner import FastSlicedVae
from engine.models.video_vae.slicing import SlicedVae, Step, slices
from engine.ops.conv.causal_conv import Carry
from engine.ops.lanes import Lanes
from engine.ops.transfer.parking import Parking
from engine.ops.transfer.pinned import pins

Done = Callable[[int, Tensor], None]
"""Called after each tile with its index and the last of its results [C, h, w]."""


class Canvas(Protocol):
    """Results of all tiles for the entries of a span, on the host."""

    def add(self, index: int, start: int, part: Tensor) -> None:
        """Take results [T, C, h, w] of a tile, the first of which has the number `start`."""
        ...

    def end(self, index: int) -> None:
        """Take note that a tile has no more; called in the order of the tiles."""
        ...

    def result(self) -> Tensor:
        """The results of whole frames, once all tiles have ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledPart:
    """The part of a VAE that is given tiles; its entries are frames or features."""

    vae: Any  # a fast VAE
    run: Callable[[Any, Tensor, Carry], tuple[Tensor, Carry]]  # entries [T, C, y, x] to results
    canvas: Callable[[int, Sequence[Box]], Canvas]  # made for n results and what tiles show
    boxes: Sequence[Box]  # tiles in features, all of one size
    shown: Sequence[Box]  # part of each tile that the canvas is given, in features
    entry: int  # positions of an entry for each feature, on each side
    result: int  # positions of a result for each feature, on each side
    entry_frames: int  # frames for each entry, the first one of a clip apart
    result_frames: int  # frames for each result, likewise
    each: int  # entries of a latent; the first latent of a clip has one
    slice_latents: int  # latents of a slice; the first one of a shot has one more
    early: int  # entries before a span that tiles warm up with; 0: they keep carries on the host
    early_of_shot: int = 0  # entries at the beginning of a shot, at most, that are all kept for it
    early_is_longer: bool = True  # the first slice of a tile that warms up has one entry more, too
    pins: bool = False  # entries wait in pinned memory

    def given(self, entries: int) -> int:
        """Number of results of n entries, counted from the start of a clip."""
        return max(0, 1 + self.entry_frames * (entries - 1) // self.result_frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Surroundings of a stream.

    Attributes:
        span: Latents that are waited for before tiles are visited, or latents handed on.
        begin: Latent of the shot that comes first. Spans end on a grid that the shot's first latent
            begins, wherever a job continues; the first slice may go beyond a line of it. None: a
            span begins where the one before it ends.
        wanted: Latents that are wanted: once they have come, nothing waits; None: all of the shot.
        parks: The carry of whole frames waits in host memory while tiles are visited.
        parking: Store in host memory for waiting carries.
        at_once: Tiles that are in work at a time, on a CUDA stream each.
        worked: Called after each slice of a tile or of whole frames with the number of frames that
            it stands for; may wait or raise.
    """

    span: int = 1
    begin: int | None = None
    wanted: int | None = None
    parks: bool = False
    parking: Parking = field(default_factory=Parking)
    at_once: int = 1
    worked: Callable[[float], None] = lambda _frames: None


class Waiting:
    """Counts entries, of which `each` are a latent, until there are enough for a span."""

    def __init__(self, about: About, each: int) -> None:
        self._about, self._each, self._enough = about, each, about.span
        self.seen = self.fresh = 0  # entries of earlier visits, and since then

    def take(self, entries: int) -> None:
        """Count some more."""
        begin, span = self._about.begin, self._about.span
        if begin is not None and not self.total:
            self._enough = -(-(begin + self._latents(entries)) // span) * span - begin
        self.fresh += entries

    @property
    def is_due(self) -> bool:
        """Whether there are enough for a visit."""
        latents, wanted = self._latents(self.total), self._about.wanted
        has_all = wanted is not None and latents >= wanted
        return has_all or latents - self._latents(self.seen) >= self._enough

    @property
    def total(self) -> int:
        """Entries since the stream began."""
        return self.seen + self.fresh

    def visited(self) -> None:
        """Begin the next span."""
        self.seen, self.fresh = self.total, 0
        self._enough = self._about.span

    def _latents(self, entries: int) -> int:
        return -(-entries // self._each)


class TileVisits:
    """Runs every tile through the entries that came since its last visit.

    Args:
        part: Part of the VAE.
        name: "encoder" or "decoder".
        about: Spans, lanes, store for waiting carries, and what is called.

    Memory: on the device a slice of one tile, and its carry, of each that is in work. On the host
    the entries and results of a span, and the carries of all tiles or, where tiles begin early,
    the entries for that.
    """

    def __init__(self, part: TiledPart, name: str, about: About) -> None:
        self.part, self._name, self._about = part, name, about
        self.shown = [box.scaled(part.result) for box in part.shown]
        self._lanes = Lanes(part.vae.device, min(about.at_once, len(part.boxes)))
        self._carries = [Carry() for _ in part.boxes]
        self._known: list[Tensor] = []  # [T, C, y, x] each, those of `early` first
        self.waiting = Waiting(about, part.each)

    def take(self, entries: Tensor) -> None:
        """Keep entries [T, C, y, x] in host memory, channels last, until all tiles have seen them.

        Pinned where the family wants it. Entries of a long span are a large part of main memory,
        and a slice of them takes a hundred times as long to compute as to copy (estimated).
        """
        lying = entries.permute(0, 2, 3, 1)
        pin = self.part.pins and pins(self.part.vae.device)
        host = torch.empty(lying.shape, dtype=lying.dtype, pin_memory=pin)
        self._known.append(host.copy_(lying).permute(0, 3, 1, 2))
        self.waiting.take(len(entries))

    @property
    def _count(self) -> int:
        """Entries that tiles go through next, those of a warm-up included."""
        return sum(map(len, self._known))

    @property
    def _has_all(self) -> bool:
        """Whether these are all since the stream began."""
        return self._count == self.waiting.total

    @property
    def due(self) -> int:
        """Results that a visit gives."""
        given, waiting = self.part.given, self.waiting
        return given(waiting.total) - given(waiting.seen)

    def visit(self, done: Done, *, last: bool) -> Tensor:
        """Run all tiles through the entries that are there.

        Args:
            done: Called with each tile.
            last: The shot ends with it.

        Returns:
            What the canvas makes of all tiles.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        canvas = self.part.canvas(self.due, self.shown)
        for index, picture in self._visited(canvas, last):  # enumerate() would keep the last one
            done(index, picture)
            del picture  # or it would wait for the next tile
        if last or not self._has_all or self._count > self.part.early_of_shot:
            self._known = _last_of(self._known, 0 if last else self.part.early)
        self.waiting.visited()
        return canvas.result()

    def _visited(self, canvas: Canvas, last: bool) -> Iterator[tuple[int, Tensor]]:
        """All tiles through the entries; the index of each and its last result [C, h, w]."""
        vaes = self.part.vae.apart(self._lanes.count)

        def one(index: int, lane: int) -> Generator[None, None, tuple[int, Tensor]]:
            return self._through(index, vaes[lane], canvas, last)

        return self._lanes.run([partial(one, index) for index in range(len(self.shown))])

    def _through(
        self, index: int, vae: Any, canvas: Canvas, last: bool
    ) -> Generator[None, None, tuple[int, Tensor]]:
        """One tile through the entries, a slice up to each `yield`; its last result."""
        part, count = self.part, self._count
        outer, inner = part.boxes[index], part.shown[index]
        inside = Box(inner.x - outer.x, inner.y - outer.y, inner.width, inner.height)
        box, window = outer.scaled(part.entry), inside.scaled(part.result)
        # what a carry keeps leaves its old place, so that its frames go as others come
        carry = Carry() if part.early else self._carries[index].handed_over().moved(vae.device)
        start = self.due - part.given(count) if part.early else 0  # below 0: results to warm up
        ends = last or bool(part.early)
        is_longer = carry.first and (part.early_is_longer or self._has_all)
        for begin, end in slices(count, part.each * part.slice_latents, lead=int(is_longer)):
            carry = carry.handed_over(last=ends and end == count)
            results, carry = part.run(vae, self._entries(begin, end, box), carry)
            frames = max(end - begin, len(results))  # the larger number is that of the frames
            self._about.worked(frames / len(part.boxes))
            shown = cut(results, window)[max(0, -start) :]
            start += len(results)
            del results
            yield  # the other lane goes on before this one is waited for
            if len(shown):
                canvas.add(index, start - len(shown), shown)
            if end == count:
                picture = shown[-1]
            del shown  # before the next slice begins: nothing else keeps the results
        if not part.early:
            if len(part.boxes) > 1:
                carry = carry.parked(self._about.parking, (self._name, index))
            self._carries[index] = carry
        canvas.end(index)  # here, for what it holds may belong to the lane's stream
        return index, picture

    def _entries(self, begin: int, end: int, box: Box) -> Tensor:
        """Entries [T, C, y, x] of one tile: a view, unless they came in several pieces."""
        found, first = [], 0
        for piece in self._known:
            inside = piece[max(0, begin - first) : max(0, end - first)]
            first += len(piece)
            if len(inside):
                found.append(cut(inside, box))
        return found[0] if len(found) == 1 else torch.cat(found)


def _last_of(pieces: Sequence[Tensor], count: int) -> list[Tensor]:
    """The last n entries of some pieces."""
    kept: list[Tensor] = []
    for piece in reversed(pieces):
        if count > 0:
            kept.insert(0, piece[-count:])
            count -= len(piece)
    return kept


class EncodeStream:
    """Encodes one shot.

    Args:
        vae: Encoder; for tiles a fast one.
        frame: Size of the frames, px.
        step: Computes the mean [1, L, t, h, w] of a slice [T, C, y, x] of whole frames, or of what
            tiles made of them; None where tiles make the latents themselves, [t, L, h, w].
        size: Frames of a slice, the first one apart.
        tiles: Part of the encoder that tiles go through first; None for whole frames.
        about: Spans, where carries wait, and what is called.

    Memory: without tiles a slice and the carry, which may be parked. With tiles those of one tile
    or of the part on whole frames; for the host see `TileVisits`.
    """

    def __init__(
        self,
        vae: SlicedVae,
        frame: Size,
        step: Step | None,
        *,
        size: int,
        tiles: TiledPart | None,
        about: About,
    ) -> None:
        self._step, self._about = step, about
        self._size = size if tiles is None else tiles.given(size)
        self._tiles = None if tiles is None else TileVisits(tiles, "encoder", about)
        each, factor = vae.config.temporal_factor, vae.config.spatial_factor
        self._waiting = Waiting(about, each) if self._tiles is None else self._tiles.waiting
        shape = (vae.config.latent_channels, 0, frame.height // factor, frame.width // factor)
        none = torch.empty(1, *shape)
        none = none if tiles is None else none.to(tiles.vae.device, tiles.vae.dtype)
        self._none = self.given_latents(none)
        self._dtype = vae.dtype if isinstance(vae, FastSlicedVae) else None
        self._carry = Carry()
        self._means: list[Tensor] = []  # of a span that has not ended

    def push(self, frames: Tensor, *, last: bool) -> Tensor:
        """Encode the next frames.

        Args:
            frames: [T, 3, H, W] in [-1, 1]; T = 1 + n * temporal_factor at the start of a shot,
                n * temporal_factor later.
            last: The shot ends with them.

        Returns:
            Unscaled latents [1, L, t, h, w], the mean; t is 0 until a span ends.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        if self._tiles is not None:
            self._tiles.take(frames.to(self._tiles.part.vae.dtype))
        else:
            self._waiting.take(len(frames))
            self._means += self._through(frames, frames.device, last)
        if not last and not self._waiting.is_due:
            return self._none
        if self._tiles is None:
            self._waiting.visited()
        else:
            found = self._tiles.visit(lambda _index, _picture: None, last=last)
            device = self._tiles.part.vae.device
            self._means = (
                [as_clip(found)] if self._step is None else self._through(found, device, last)
            )
        means, self._means = self._means, []
        latents = self.given_latents(torch.cat(means, dim=2))
        check_finite(latents, "encoder", self._dtype)  # where they are now: no more waits
        return latents

    def given_latents(self, latents: Tensor) -> Tensor:
        """The latents [1, L, t, h, w] of a span as they are handed on: here as they are."""
        return latents

    def park(self) -> None:
        """Move the carry of whole frames to host memory while others need the device."""
        self._carry = self._carry.handed_over().parked(self._about.parking, "encoder")

    def _through(self, entries: Tensor, device: torch.device, last: bool) -> list[Tensor]:
        """Means of entries of whole frames, slice by slice."""
        if self._step is None:
            return [as_clip(entries)]
        means = []
        self._carry = self._carry.handed_over().moved(device)
        for start, end in slices(len(entries), self._size, lead=int(self._carry.first)):
            carry = self._carry.handed_over(last=last and end == len(entries))
            found, self._carry = self._step(entries[start:end], carry)
            means.append(found)
            self._about.worked(0 if self._tiles is not None else end - start)
        if self._about.parks:
            self.park()
        return means


class DecodeStream(ABC):
    """Decodes one shot; a family says how its frames leave.

    Args:
        step: Computes frames of a slice of latents [1, L, t, h, w], or what tiles take,
            [1, C, T, y, x] or [T, C, y, x].
        size: Latents of a slice; the first one has one more.
        canvas: Size of the decoded frames.
        tiles: Part of the decoder that tiles go through then; None for whole frames.
        watch: Called with every decoded tile; a whole frame is one.
        first: Number of the first frame, for `watch`.
        about: Spans, where carries wait, and what is called.

    Memory: without tiles a slice and the carry, which may be parked. With tiles those of one tile
    or of the part on whole frames; for the host see `TileVisits`.
    """

    def __init__(
        self,
        step: Step,
        *,
        size: int,
        canvas: Size,
        tiles: TiledPart | None,
        watch: Watch,
        first: int,
        about: About,
    ) -> None:
        self._step, self._size, self._watch, self._about = step, size, watch, about
        self._count = first  # frames are counted, from this one on
        self._carry = Carry()
        self._tiles = None if tiles is None else TileVisits(tiles, "decoder", about)
        whole = Box(0, 0, canvas.width, canvas.height)
        self._boxes = [whole] if self._tiles is None else self._tiles.shown

    @abstractmethod
    def whole_frames(self, frames: Tensor) -> Iterator[Tensor]:
        """Frames [n, 3, H, W] to hand on, of those [T, 3, H, W] of a slice of whole ones."""

    @abstractmethod
    def tiled_frames(self, result: Tensor, device: torch.device) -> Iterator[Tensor]:
        """Frames [n, 3, H, W] on a device to hand on, of the result of a canvas."""

    def push(self, latents: Tensor, *, last: bool) -> Iterator[Tensor]:
        """Decode the next latents.

        Args:
            latents: [1, L, t, h, w], unscaled; t may be 0, but not where the shot ends.
            last: The shot ends with them.

        Yields:
            Frames [n, 3, H, W] in [-1, 1]; with tiles nothing until a span ends.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        length = latents.shape[2]
        for start, end in slices(length, self._size, lead=int(self._carry.first)):
            ends = last and end == length
            carry = self._carry.handed_over().moved(latents.device).handed_over(last=ends)
            found, self._carry = self._step(latents[:, :, start:end], carry)
            if self._tiles is None:
                yield from self._whole(as_frames(found))
                continue
            self._tiles.take(found)
            if ends or self._tiles.waiting.is_due:
                if self._about.parks:
                    self.park()
                self._count += self._tiles.due
                result = self._tiles.visit(self._tell, last=ends)
                yield from self.tiled_frames(result, latents.device)
                del result

    def park(self) -> None:
        """Move the carry of whole frames to host memory while others need the device."""
        self._carry = self._carry.handed_over().parked(self._about.parking, "decoder")

    def _whole(self, frames: Tensor) -> Iterator[Tensor]:
        self._about.worked(len(frames))
        check_finite(frames)
        self._count += len(frames)
        self._tell(0, frames[-1])
        yield from self.whole_frames(frames)

    def _tell(self, index: int, picture: Tensor) -> None:
        self._watch(
            DecodedTile(
                frame=self._count - 1,
                index=index,
                tiles=len(self._boxes),
                box=self._boxes[index],
                # a copy: whoever shows it would keep all results of the tile
                picture=picture.to(torch.float32, copy=True),
            )
        )
