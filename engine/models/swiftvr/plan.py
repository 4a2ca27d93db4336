"""Plan of SwiftVR: files, sizes, blocks on the device; no torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size
from engine.models.planning.transformers import TransformerPlan, chosen_strength
from engine.models.swiftvr.chunks import STEP, ChunkGrid
from engine.protocol.plan import Notice, WeightsPlan

GRID = ChunkGrid()  # of the published program: 24 frames
MULTIPLE = 32  # both sides in px: a latent has 16, a token two of them


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiftVrPlan(TransformerPlan):
    """Settings of running autoencoder and transformer; frames are always whole.

    Attributes:
        text: Prompt; a converted transformer includes it.
    """

    family: str = "swiftvr"
    model: str = "swiftvr"
    clip_frames: int = STEP
    text: WeightsPlan | None = None

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """Transformer, autoencoder and prompt."""
        return (self.dit, self.vae) if self.text is None else (self.dit, self.vae, self.text)

    @property
    def line(self) -> str:
        """The plan in one line."""
        return self.line_with(
            *(() if self.products == "none" else (f"products in {self.products}",))
        )

    @property
    def summary(self) -> tuple[Notice, ...]:
        """Strength."""
        return chosen_strength(self)


def padded_size(size: Size) -> Size:
    """Size of the frames that the model takes: the next multiple of 32 px."""
    return Size(*(-(-side // MULTIPLE) * MULTIPLE for side in (size.width, size.height)))
