"""Plan of a community model: plain data, and the cost of its work. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.core.geometry import Size
from engine.models.frame_family import FramePlan
from engine.models.planning.candidates import chosen
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import Notice, WeightsPlan

HALO = 8  # px next to a neighbour that are not used: what a tile's border changes most
LEAST_OVERLAP = 2 * HALO + 16
_SMALLEST_TILE = 4 * LEAST_OVERLAP  # below it more is computed twice than once
_NOISE = 1 << 14  # bytes of the generator that is put back
_PLACE = 16  # bytes of a row or a column that operators look up
MOST_OPERATIONS = {"cpu": 4e12, "cuda": 4e13}  # in one call: seconds, after which a pause acts


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCall:
    """Form in which a network is called.

    Attributes:
        dtype: Type that it computes in.
        channels_last: Channels of a pixel lie next to each other, where the network takes that.
        batches: Several frames in one call.
    """

    dtype: str
    channels_last: bool = True
    batches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCost:
    """Cost of one frame of the size of a tile.

    Attributes:
        weights: Bytes of the network.
        working: Most bytes at once without them.
        operations: Floating-point operations; a multiply-add is two.
    """

    weights: int = 0
    working: int = 0
    operations: int = 0


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
        """Name in the file."""
        return self.network.architecture

    @property
    def line(self) -> str:
        """The plan in one line."""
        tiles = "whole frames" if self.tiles == 1 else f"{self.tiles} tiles of {self.tile}"
        name = f"{self.weights.name} ({self.network.architecture}, x{self.scale})"
        return f"{name}, {self.device}, {self.dtype}, {tiles}"

    @property
    def summary(self) -> tuple[Notice, ...]:
        """The file, its architecture and tiles."""
        found = [chosen("value", value=self.weights.name)]
        found.append(chosen("value", value=self.network.architecture))
        if self.tiles > 1:
            size = f"{self.tile.width}×{self.tile.height}"
            params = {"count": self.tiles, "size": size, "overlap": self.overlap}
            found.append(chosen("tiles", "short", **params))
        return tuple(found)

    @property
    def working_bytes(self) -> int:
        """Cost of enlarging the frames that are computed at a time, in tiles."""
        large = self.tile.scaled(self.scale)
        return self.cost.working * self.clip_frames + _NOISE + _PLACE * (large.width + large.height)


def within_seconds(
    plan: CommunityPlan, with_cost: Callable[[CommunityPlan], CommunityPlan]
) -> CommunityPlan:
    """Plan in tiles that a device computes in seconds, so that a pause acts.

    Args:
        plan: In any tiles.
        with_cost: Gives a plan the cost of its tiles.
    """
    most, plan = MOST_OPERATIONS[plan.device], with_cost(plan)
    while plan.cost.operations > most and _can_shrink(plan.tile):
        tile, operations = plan.tile, float(plan.cost.operations)
        while operations > most and _can_shrink(tile):
            smaller = halved(tile)
            operations *= smaller.pixels / tile.pixels
            tile = smaller
        plan = with_cost(replace(plan, tile=tile))
    return plan


def _can_shrink(tile: Size) -> bool:
    return min(tile.width, tile.height) > _SMALLEST_TILE


def halved(tile: Size) -> Size:
    """Half of a tile, cut across its longer side."""
    if tile.width >= tile.height:
        return Size(max(_SMALLEST_TILE, -(-tile.width // 2)), tile.height)
    return Size(tile.width, max(_SMALLEST_TILE, -(-tile.height // 2)))
