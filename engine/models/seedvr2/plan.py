"""Plan of SeedVR2: files, sizes, clips, tiles; and where pictures lie in the frames it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.core.geometry import Size
from engine.models.planning.candidates import VaePlan, chosen, tiles_phrases
from engine.models.planning.transformers import TransformerPlan, chosen_strength
from engine.models.seedvr2.vae.tiling import USUAL_SPAN
from engine.protocol.plan import Notice, WeightsPlan

STEP = 4  # frames of a latent
Join = Literal["latents", "frames", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedVr2Plan(VaePlan, TransformerPlan):
    """Settings of running VAE and transformer."""

    family: str = "seedvr2"
    clip_frames: int = STEP
    text: WeightsPlan
    result: Size | None = None  # size that it is resized to; None where it has its size
    reflected: int  # rows and columns of them that show the picture mirrored; the rest is black
    clip: int  # latents of a clip; frames where clips are joined as frames or not at all
    shared: int  # latents that neighbouring clips have in common
    join: Join = "latents"
    decodes_whole_tiles: bool = False  # all of the decoder in tiles, not only its large part
    encode_span: int = USUAL_SPAN  # latents that a tile is visited for
    decode_span: int = USUAL_SPAN
    parks: bool = True
    better_takes: float = 0.0  # times as long: a better class of plans that was given up; 0: none
    seed: int = 0
    noise_order: str = "per-latent"
    input_noise: int = 0  # %
    latent_noise: int = 0  # %

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """Transformer, VAE and text embedding."""
        return self.dit, self.vae, self.text

    @property
    def slice_frames(self) -> int:
        """Most frames that go through the VAE at a time, but for the first ones of a shot."""
        return min(STEP, self.film or STEP)

    @property
    def is_one_span(self) -> bool:
        """Whether all of the video is encoded before anything else is done."""
        return self.film > 0 and latents_of(self.film) <= self.encode_span

    @property
    def latents(self) -> int:
        """Latents of a clip."""
        return self.clip if self.join == "latents" else 1 + -(-(self.clip - 1) // STEP)

    @property
    def frames(self) -> int:
        """Frames of a clip."""
        return 1 + STEP * (self.clip - 1) if self.join == "latents" else self.clip

    @property
    def shared_latents(self) -> int:
        """Latents that neighbouring clips share, the last begun one counted in full."""
        return self.shared if self.join == "latents" else -(-self.shared // STEP)

    @property
    def shared_frames(self) -> int:
        """Frames that neighbouring clips share."""
        return STEP * self.shared if self.join == "latents" else self.shared

    @property
    def is_single_frames(self) -> bool:
        """Whether clips have one frame, of a video that has more."""
        return self.frames == 1 and self.film != 1

    @property
    def step_values(self) -> dict[str, str]:
        """Tiles, clips and blocks."""
        return {**self.tile_values, "clip_frames": str(self.frames), **self.block_values}

    @property
    def share(self) -> int:
        """Sides of the picture that is made, % of those of the result."""
        return 100 if self.result is None else round(100 * self.size.width / self.result.width)

    @property
    def line(self) -> str:
        """The plan in one line."""
        return self.line_with(
            *(() if self.result is None else (f"processed at {self.size}",)),
            "single frames" if self.frames == 1 else f"clips of {self.frames} frames",
            *self.tile_parts,
        )

    @property
    def summary(self) -> tuple[Notice, ...]:
        """Working size, clips, tiles of the decoder and strength."""
        found = [chosen("clips", "short", count=self.frames)]
        if self.result is not None:
            found.insert(0, chosen("working-size", "short", share=self.share))
        return (*found, *tiles_phrases(None, self.decode_tile), *chosen_strength(self))


def latents_of(frames: int) -> int:
    """Latents of a video of one shot."""
    return 1 + -(-(frames - 1) // STEP)


def shared_of(clip: int) -> int:
    """Latents that clips share: two, or as many as are less than half of them."""
    return min(2, (clip - 1) // 2)


def with_clip(plan: SeedVr2Plan, latents: int) -> SeedVr2Plan:
    """Plan with clips of n latents."""
    if latents == plan.latents:
        return plan
    if plan.join == "latents":
        return replace(plan, clip=latents, shared=shared_of(latents))
    frames = 1 + (latents - 1) * STEP
    return replace(plan, clip=frames, shared=min(plan.shared, (frames - 1) // 2))


MULTIPLE = 16  # both sides in px: the VAE reduces by 8, the transformer takes 2 x 2 latents
REFLECTED = 8  # px of mirrored picture beyond its right and bottom edge
LEAST_BLACK = 8  # px of black beyond those


def working_size(result: Size, source: Size, share: int) -> Size:
    """Size to restore pictures at before they are resized to that of the result.

    Args:
        result: Size that is wanted.
        source: Size of the source, turned as the result; no side becomes smaller than its own.
        share: Share of the sides of the result, %.

    Returns:
        The aspect ratio of the result, but for rounding to multiples of MULTIPLE.
    """
    factor = max(share / 100, source.width / result.width, source.height / result.height)
    if factor >= 1:
        return result
    sides = (
        min(whole, max(least, MULTIPLE * round(factor * whole / MULTIPLE)))
        for whole, least in ((result.width, source.width), (result.height, source.height))
    )
    return Size(*sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLayout:
    """A picture in the top left corner of a frame, then its mirror image, then black.

    Attributes:
        picture: Size of the picture.
        padded: Size of the frame, a multiple of MULTIPLE.
        reflected: Columns and rows that show the picture mirrored at its edge; the rest is black.
    """

    picture: Size
    padded: Size
    reflected: int


def layout_of(picture: Size) -> FrameLayout:
    """Mirrored picture, then black, on every picture.

    Black right next to the picture spoils its last 16 rows, a frame without any black comes out
    with another brightness; the mirror image keeps the black away from the picture. That pays at
    sizes that need no padding too (measured in public with the 7B model).
    """
    least = REFLECTED + LEAST_BLACK
    padded = Size(_rounded_up(picture.width + least), _rounded_up(picture.height + least))
    return FrameLayout(picture=picture, padded=padded, reflected=REFLECTED)


def reference_layout(picture: Size) -> FrameLayout:
    """Black right next to the picture, and only where its size needs it, as the reference."""
    padded = Size(_rounded_up(picture.width), _rounded_up(picture.height))
    return FrameLayout(picture=picture, padded=padded, reflected=0)


def _rounded_up(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE
