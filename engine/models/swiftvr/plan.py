"""Plan of SwiftVR: files, sizes, blocks on the device; no torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size
from engine.models.contracts import ShotPlan
from engine.models.planning.candidates import chosen
from engine.models.swiftvr.chunks import STEP, ChunkGrid
from engine.protocol.plan import Notice, WeightsPlan

GRID = ChunkGrid()  # of the published program: 24 frames
MULTIPLE = 32  # both sides in px: a latent has 16, a token two of them
POOLED = ("lab", "wavelet_adaptive", "hsv")  # methods that look at all frames of a block


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiftVrPlan(ShotPlan):
    """Settings of running autoencoder and transformer; frames are always whole."""

    family: str = "swiftvr"
    model: str = "swiftvr"
    clip_frames: int = STEP
    dit: WeightsPlan
    vae: WeightsPlan
    text: WeightsPlan | None = None  # prompt; a converted transformer includes it
    size: Size  # size of the frames that are made, as stored
    padded: Size  # size of the frames that the model takes; what is beyond `size` is black
    film: int = 0  # frames of the video, at most; 0 where that is not known
    vae_dtype: str = "float32"
    blocks_on_device: int | None = None  # None: all of them
    pin_bytes: int = 0  # main memory for copies of the other blocks
    attention: str = "auto"
    products: str = "none"
    strength: int = 100  # %
    colour: str = "two-scale"

    @property
    def canvas(self) -> Size:
        """Size of the frames that the model makes."""
        return self.size

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """Transformer, autoencoder and prompt."""
        return (self.dit, self.vae) if self.text is None else (self.dit, self.vae, self.text)

    @property
    def step_values(self) -> dict[str, str]:
        """Blocks."""
        stay = self.blocks_on_device
        return {"blocks_on_device": "-1" if stay is None else str(stay)}

    @property
    def line(self) -> str:
        """The plan in one line."""
        parts = [self.model, self.device, f"{self.dtype} (VAE {self.vae_dtype})"]
        if self.products != "none":
            parts.append(f"products in {self.products}")
        if self.device == "cuda":
            blocks = "all" if self.blocks_on_device is None else self.blocks_on_device
            parts.append(f"{blocks} blocks on the GPU")
        if self.strength < 100:
            parts.append(f"strength {self.strength} %")
        return ", ".join(parts)

    @property
    def summary(self) -> tuple[Notice, ...]:
        """Strength."""
        return (chosen("strength", percent=self.strength),) if self.strength < 100 else ()


def padded_size(size: Size) -> Size:
    """Size of the frames that the model takes: the next multiple of 32 px."""
    return Size(*(-(-side // MULTIPLE) * MULTIPLE for side in (size.width, size.height)))
