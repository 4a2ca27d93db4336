"""Memory of streams of shots through a VAE, from sizes alone; see `tile_stream`. Loads no torch.

Calls of the VAE are measured. A family adds what its streams keep around them, and the tests
compare the sums with what torch's allocator is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES
from engine.models.planning.search import PhaseMemory
from engine.settings.optimisations import VaeSwitches

_NOTHING = PhaseMemory(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamUse:
    """Use of a VAE for shots.

    Attributes:
        config: Configuration of the VAE.
        frame: Size of the frames that are encoded, or would be, px.
        device: "cpu" or "cuda".
        dtype: Type of the values.
        switches: Optimisations.
        tile: Most px computed at a time, of a frame (encoder) or a result (decoder); None for
            whole frames.
        warm_up: Latents that tiles begin early; 0 where they go on with a carry.
        parks: The carry of whole frames waits in main memory while others need the device.
        at_once: Tiles that are in work at a time. Memory of one serves no other meanwhile, so each
            counts with its most.
    """

    config: Any
    frame: Size
    device: str
    dtype: str
    switches: VaeSwitches = field(default_factory=VaeSwitches)
    tile: Size | None = None
    warm_up: int = 0
    parks: bool = False
    at_once: int = 1

    @property
    def on_gpu(self) -> bool:
        """Whether the device has memory of its own."""
        return self.device == "cuda"

    @property
    def item(self) -> int:
        """Bytes per value."""
        return DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class TilesOnHost:
    """Bytes that wait in host memory around the visits of all tiles of a frame.

    Attributes:
        tiles: Number of tiles.
        carry: Bytes that each tile keeps from one visit to the next; 0 where none goes on.
        fresh: Bytes of what tiles take, for a span.
        early: Bytes of what they take once more.
        results: Bytes of their results, for a span.
        on_gpu: The device has memory of its own.
        handed_on: What the part on whole frames keeps meanwhile, on the device or the host.
    """

    tiles: int
    carry: int
    fresh: int
    early: int
    results: int
    on_gpu: bool
    handed_on: PhaseMemory = _NOTHING

    @property
    def kept(self) -> PhaseMemory:
        """Memory between two visits, apart from the part on whole frames."""
        return PhaseMemory(0, self.early + self.carry * self.tiles)

    @property
    def between(self) -> PhaseMemory:
        """Memory between two visits while nothing works."""
        return self.kept + self.handed_on

    def visiting(self, device: int) -> PhaseMemory:
        """Memory while tiles are visited, with n bytes on the device.

        On the CPU what a tile has kept leaves its old place while it works.
        """
        waiting = self.carry * (self.tiles if self.on_gpu else self.tiles - 1)
        host = self.fresh + self.early + self.results + waiting
        return PhaseMemory(device, host) + self.handed_on
