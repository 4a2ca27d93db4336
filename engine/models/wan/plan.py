"""Plans of Wan 2x, which enlarges a video shot by shot, encoded and decoded twice as large.

Files of latents are written and read by plans of the same kind that only encode or only decode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.core.geometry import Size
from engine.models.planning.candidates import VaePlan, tiles_phrases
from engine.protocol.plan import Notice, WeightsPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WanPlan(VaePlan):
    """Sizes, tiles and where carries wait."""

    stages: ClassVar[tuple[str, ...]] = ("encode", "decode")
    family: str = "wan"
    model: str = "wan-2x"
    clip_frames: int = 4
    vae: WeightsPlan
    size: Size  # size of the source's frames, as stored
    padded: Size  # size of the frames that are encoded
    factor: int = 2  # factor of both sides, between encoded and decoded frames

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return self.factor

    @property
    def canvas(self) -> Size:
        """Size of the frames that the model makes."""
        return self.size.scaled(self.factor)

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """The VAE."""
        return (self.vae,)

    @property
    def line(self) -> str:
        """The plan in one line."""
        parts = [self.model, self.device, self.dtype, *self.tile_parts]
        if self.warm_up and self.is_tiled:
            parts.append(f"{self.warm_up} warm-up latents per tile")
        return ", ".join(parts)

    @property
    def summary(self) -> tuple[Notice, ...]:
        """Tiles."""
        return tuple(tiles_phrases(self.encode_tile, self.decode_tile))


class WanEncodePlan(WanPlan):
    """Plan of a VAE that writes a file of latents."""

    stages = ("encode",)


class WanDecodePlan(WanPlan):
    """Plan of a VAE that decodes a file of latents."""

    stages = ("decode",)
