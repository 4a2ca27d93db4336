"""The local half of a Wan VAE over tiles of a shot that comes bit by bit.

Tiles are exact (see `split`), so nothing is blended: each shows its own part of the frame. A tile
is visited when some slices are there and goes through all of them, so that its carry moves to
the device and back once for them together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.core.geometry import Box
from engine.models.video_vae.frame_slices import check_finite, cut
from engine.models.video_vae.slicing import slices
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up
from engine.models.wan.vae.split import LATENTS_PER_VISIT, TileBox, decode_cut, encode_cut
from engine.ops.conv.causal_conv import Carry
from engine.ops.lanes import Lanes
from engine.ops.transfer.parking import Parking
from engine.ops.transfer.pinned import pins

Done = Callable[[int, Tensor], None]
"""Called after each tile with its index and the last of its results [C, h, w]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledPass:
    """A local half with what it needs per tile; entries are its frames or its features.

    Attributes:
        name: For error messages.
        vae: The VAE.
        half: The computation of the VAE, for entries [T, C, y, x] of one slice.
        entry: Pixels of an entry per feature, on each side.
        result: Pixels of a result per feature, on each side.
        given: Number of results of so many entries, counted from the start of a clip.
        each: Entries of a latent; the first one of a clip has one.
        slice_latents: Latents of a slice; the first one of a clip has one more.
        early: Entries that a tile repeats before fresh ones as warm-up; 0: it keeps its carry.
    """

    name: str
    vae: FastWanVae
    half: Callable[[FastWanVae, Tensor, Carry], tuple[Tensor, Carry]]
    entry: int
    result: int
    given: Callable[[int], int]
    each: int
    slice_latents: int
    early: int


def encode_pass(vae: FastWanVae, slice_latents: int, warm_up: int) -> TiledPass:
    """The encoder's local half: frames to features; a longer warm-up than needed is cut short."""
    early = min(warm_up, encode_warm_up(vae.config))
    cut, step = encode_cut(vae.config), vae.config.temporal_factor
    return TiledPass(
        name="encoder",
        vae=vae,
        half=FastWanVae.encode_high,
        entry=cut.factor,
        result=1,
        given=lambda frames: -(-frames // cut.time),
        each=step,
        slice_latents=slice_latents,
        early=step * early + 1 if early else 0,  # begins with the last frame of a latent
    )


def decode_pass(vae: FastWanVae, slice_latents: int, warm_up: int) -> TiledPass:
    """The decoder's local half: features to frames; as `encode_pass`."""
    cut = decode_cut(vae.config)
    each = vae.config.temporal_factor // cut.time
    return TiledPass(
        name="decoder",
        vae=vae,
        half=FastWanVae.decode_high,
        entry=1,
        result=cut.factor * vae.config.upscale,
        given=lambda features: max(0, 1 + cut.time * (features - 1)),
        each=each,
        slice_latents=slice_latents,
        early=each * min(warm_up, decode_warm_up(vae.config)),
    )


class TiledHalf:
    """Runs every tile through the entries that came since its last visit.

    Attributes:
        shown: The part of the result that each tile shows, in pixels.

    Args:
        tiled: The computation.
        tiles: Tiles of a frame.
        parking: Store for waiting carries.
        at_once: Tiles that are in work at a time, on a stream each.

    Memory: on the device one tile of a slice, and its carry, of each that is in work. On the host
    the entries and results of a visit, and the carries of all tiles or, where tiles begin early,
    the entries for that.
    """

    def __init__(
        self, tiled: TiledPass, tiles: Sequence[TileBox], parking: Parking, at_once: int
    ) -> None:
        self.shown = [tile.inner.scaled(tiled.result) for tile in tiles]
        self._pass, self._tiles, self._parking = tiled, tiles, parking
        self._lanes = Lanes(tiled.vae.device, min(at_once, len(tiles)))
        self._carries = [Carry() for _ in tiles]
        self._past: list[Tensor] = []  # [y, x, C] each, and so are the fresh ones
        self._fresh: list[Tensor] = []
        self._seen = 0  # entries of earlier visits

    def take(self, entries: Tensor) -> None:
        """Keep entries [T, C, y, x] until all tiles have seen them."""
        lying = entries.permute(0, 2, 3, 1)
        vae = self._pass.vae
        host = torch.empty(lying.shape, dtype=vae.dtype, pin_memory=pins(vae.device))
        self._fresh += host.copy_(lying).unbind()

    @property
    def is_due(self) -> bool:
        """Whether there are enough entries for a visit."""
        return -(-len(self._fresh) // self._pass.each) >= LATENTS_PER_VISIT

    @property
    def due(self) -> int:
        """Results that a visit gives."""
        given = self._pass.given
        return given(self._seen + len(self._fresh)) - given(self._seen)

    def visit(self, done: Done, *, last: bool) -> Tensor:
        """Run all tiles through the entries that are there.

        Args:
            done: Called with each tile.
            last: The shot ends with it.

        Returns:
            [due, C, H, W] on the host, in channels last.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        tiled, known = self._pass, [*self._past, *self._fresh]
        canvas = _Canvas(self.due, self.shown)
        for index, picture in self._visited(canvas, known, last):
            done(index, picture)
            del picture  # or it would wait for the next tile
        self._seen += len(self._fresh)
        self._fresh, self._past = [], known[-tiled.early :] if tiled.early else []
        return canvas.result()

    def _visited(
        self, canvas: _Canvas, known: list[Tensor], last: bool
    ) -> Iterator[tuple[int, Tensor]]:
        """All tiles through entries; the index of each and its last result [C, h, w]."""
        vaes = self._pass.vae.apart(self._lanes.count)

        def one(index: int, lane: int) -> Generator[None, None, tuple[int, Tensor]]:
            for start, part in self._through(index, vaes[lane], known, last):
                yield  # the other lane goes on before this one is waited for
                if len(part):
                    check_finite(part, self._pass.name)
                    canvas.put(index, start, part)
                    picture = part[-1]
                del part  # before the next slice begins
            return index, picture

        return self._lanes.run([partial(one, index) for index in range(len(self.shown))])

    def _through(
        self, index: int, vae: FastWanVae, known: list[Tensor], last: bool
    ) -> Iterator[tuple[int, Tensor]]:
        """One tile through entries from its last visit on, or from a little before it.

        Yields:
            Number of the first result, and results [T, C, h, w] of what the tile shows, of which
            there are none while it begins early.
        """
        tiled, tile = self._pass, self._tiles[index]
        window = tile.inside.scaled(tiled.result)
        carry = Carry() if tiled.early else self._taken(index)
        start = self.due - tiled.given(len(known)) if tiled.early else 0  # below 0: those before
        ends = last or bool(tiled.early)
        size = tiled.each * tiled.slice_latents
        for begin, end in slices(len(known), size, begins=carry.first):
            carry = carry.handed_over(last=ends and end == len(known))
            results, carry = tiled.half(vae, self._entries(known[begin:end], tile), carry)
            part = cut(results, window)[max(0, -start) :]
            start += len(results)
            yield start - len(part), part
        if not tiled.early:
            self._carries[index] = carry.parked(self._parking, (tiled.name, index))

    def _entries(self, known: list[Tensor], tile: TileBox) -> Tensor:
        """Entries [T, C, y, x] of one tile, in channels last."""
        box = tile.outer.scaled(self._pass.entry)
        parts = [entry[box.y : box.bottom, box.x : box.right] for entry in known]
        return torch.stack(parts).permute(0, 3, 1, 2)

    def _taken(self, index: int) -> Carry:
        """A tile's carry on the device, which alone holds its frames: they go one by one."""
        return self._carries[index].handed_over().moved(self._pass.vae.device)


class _Canvas:
    """Results of a visit on the host, made of what the tiles show.

    Args:
        due: Number of them.
        shown: The part of each that a tile shows.
    """

    def __init__(self, due: int, shown: Sequence[Box]) -> None:
        self._due, self._shown = due, shown
        self._whole: Tensor | None = None

    def put(self, index: int, start: int, part: Tensor) -> None:
        """Take results [T, C, h, w] of a tile, the first of which has a number."""
        if self._whole is None:
            last = self._shown[-1]
            shape = (self._due, part.shape[1], last.bottom, last.right)
            layout = torch.channels_last
            self._whole = torch.empty(shape, dtype=part.dtype, memory_format=layout)
        cut(self._whole, self._shown[index])[start : start + len(part)] = part.cpu()

    def result(self) -> Tensor:
        """All of them [due, C, H, W], in channels last."""
        if self._whole is None:
            raise ValueError("nothing is due")
        return self._whole
