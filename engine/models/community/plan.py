"""How a community model enlarges a film: plain data, and what its work costs. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from engine.core.geometry import Size
from engine.models.frame_family import FramePlan
from engine.models.planning.notices import chosen
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import Notice, WeightsPlan

HALO = 8  # px next to a neighbour that are not used: what a tile's border changes most
LEAST_OVERLAP = 2 * HALO + 16
_SMALLEST_TILE = 4 * LEAST_OVERLAP  # below it more is computed twice than once
_NOISE = 1 << 14  # bytes of the generator that is put back
_PLACE = 16  # bytes of a row or a column that operators look up
MOST_OPERATIONS = {"cpu": 4e12, "cuda": 4e13}  # in one call: seconds, after which a pause acts


@dataclass(frozen=True, slots=True)
class Growth:
    """Something that grows with the pixels of a frame: `fixed + each * p + square * p * p`.

    Attributes:
        pixels: Of frames that were measured, growing.
        values: Measured for these; between two of them it is on their line, since networks that
            cut a frame into windows grow in steps.
    """

    fixed: float = 0.0
    each: float = 0.0
    square: float = 0.0
    pixels: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    def at(self, pixels: int) -> float:
        """Its value for so many pixels."""
        known = zip(self.pixels, self.values, strict=True)
        for (before, low), (after, high) in pairwise(known):
            if before <= pixels <= after:
                return low + (high - low) * (pixels - before) / (after - before)
        return self.fixed + self.each * pixels + self.square * pixels * pixels

    def joined(self, pixels: int, value: float) -> Growth:
        """The same with one more measured value."""
        known = dict(zip(self.pixels, self.values, strict=True)) | {pixels: value}
        order = tuple(sorted(known))
        return replace(self, pixels=order, values=tuple(known[count] for count in order))


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCall:
    """How a network is called.

    Attributes:
        dtype: That it computes in.
        channels_last: Channels of a pixel lie next to each other, where the network takes that.
        batches: Several frames in one call.
    """

    dtype: str
    channels_last: bool = True
    batches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCost:
    """What one frame takes, by the pixels that the network sees, those that extend it included.

    Attributes:
        weights: Bytes.
        working: Bytes of everything else, the result in float32 included.
        operations: Floating-point; a multiply-add is two.
    """

    weights: int = 0
    working: Growth = field(default_factory=Growth)
    operations: Growth = field(default_factory=Growth)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunityPlan(FramePlan):
    """A network from a file of the user's, frame by frame."""

    family: str = "community"
    model: str = "community"
    weights: WeightsPlan
    network: NetworkFacts
    call: NetworkCall
    cost: NetworkCost

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return self.network.scale

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """The file."""
        return (self.weights,)

    @property
    def architecture(self) -> str:
        """As the file says."""
        return self.network.architecture

    @property
    def line(self) -> str:
        """The plan in one line."""
        tiles = "whole frames" if self.tiles == 1 else f"{self.tiles} tiles of {self.tile}"
        name = f"{self.weights.path.name} ({self.network.architecture}, x{self.scale})"
        return f"{name}, {self.device}, {self.dtype}, {tiles}"

    @property
    def summary(self) -> tuple[Notice, ...]:
        """The file, its architecture and tiles."""
        found = [chosen("value", value=self.weights.path.name)]
        found.append(chosen("value", value=self.network.architecture))
        if self.tiles > 1:
            size = f"{self.tile.width}×{self.tile.height}"
            params = {"count": self.tiles, "size": size, "overlap": self.overlap}
            found.append(chosen("tiles", "short", **params))
        return tuple(found)

    @property
    def is_guessed(self) -> bool:
        """Whether the cost of its tile may be far off: it bends, and no such tile was measured."""
        bends = self.cost.working.square or self.cost.operations.square
        return (
            bool(bends) and self.network.extended(self.tile).pixels not in self.cost.working.pixels
        )

    @property
    def working_bytes(self) -> int:
        """Of enlarging the frames that are computed at a time, in tiles."""
        pixels = self.network.extended(self.tile).pixels
        one = self.cost.working.at(pixels)
        large = self.tile.scaled(self.scale)
        return round(one * self.clip_frames) + _NOISE + _PLACE * (large.width + large.height)

    @property
    def tile_operations(self) -> float:
        """Of one tile of one frame."""
        return self.cost.operations.at(self.network.extended(self.tile).pixels)


def within_seconds(
    plan: CommunityPlan, known: Callable[[CommunityPlan], CommunityPlan]
) -> CommunityPlan:
    """The same in tiles that a device computes in seconds, so that a pause acts.

    Args:
        plan: In any tiles.
        known: Gives a plan the cost of its tiles.
    """
    most, plan = MOST_OPERATIONS[plan.device], known(plan)
    while plan.tile_operations > most and min(plan.tile.width, plan.tile.height) > _SMALLEST_TILE:
        plan = known(replace(plan, tile=halved(plan.tile)))
    return plan


def halved(tile: Size) -> Size:
    """Half of a tile, cut across its longer side."""
    if tile.width >= tile.height:
        return Size(max(_SMALLEST_TILE, -(-tile.width // 2)), tile.height)
    return Size(tile.width, max(_SMALLEST_TILE, -(-tile.height // 2)))
