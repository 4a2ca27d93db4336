"""Files of latents as sources and results: interface of families whose VAEs read and write them.

Such a file is decoded once, into a video that the job then reads; a video is encoded in one pass.
Both are passes of the family like any other: plans that only decode or only encode. No torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.protocol.media import Reading
from engine.protocol.plan import LatentPlan, WeightsPlan, WorkPlan
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.upscalers import Watch

Check = Callable[[], None]  # called between pieces of long work; it may wait or raise


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentFilm:
    """The video that latents give."""

    size: Size  # size of a frame, px: up to a position less than the latents give
    frames: int  # up to three less than the latents give
    rate: Fraction  # frames/s


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentHeader:
    """Header of a file of latents."""

    model: str  # id of the VAE that the latents belong to
    title: str  # name of that model, for users
    channels: int  # channels of each position
    factor: int  # pixels of a frame for each position, across and down
    rate: Fraction  # frames/s of the videos that models with this VAE make
    length: int  # latents, one after the other in time
    grid: Size  # positions across and down
    film: LatentFilm  # video recorded in the file, or all that the latents give

    @property
    def padded(self) -> Size:
        """Size of the frames that the VAE makes, px."""
        return self.grid.scaled(self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Which values a latent seems to hold."""

    reading: Reading  # the likelier one
    is_sure: bool  # whether it is likelier by far
    evidence: float  # natural logarithm of how many times likelier raw is; < 0: normalised


class LatentFormat(ABC):
    """A kind of files of latents."""

    suffix: ClassVar[str]
    titles: ClassVar[dict[str, str]]  # id of a VAE -> what its latents belong to, in words
    rates: ClassVar[dict[str, Fraction]]  # id of a VAE -> frames/s of videos of its models
    frames_per_latent: ClassVar[int]  # all but the first, which is one frame

    @abstractmethod
    def header(self, path: Path) -> LatentHeader:
        """The header alone.

        Raises:
            InputError: The file cannot be used.
        """

    @abstractmethod
    def examined(self, path: Path) -> tuple[LatentHeader, Guess]:
        """Header and guess; a file is read once, and again only when it has changed.

        Raises:
            InputError: As `header`, and where values are NaN or infinite.
        """

    @abstractmethod
    def weights(self, model: str, own: str = "") -> WeightsPlan:
        """The weights file of a VAE: the user's own, or the published one.

        Raises:
            WeightsError: The user's is not there, or another one.
        """

    # decoding

    @abstractmethod
    def choose(
        self, header: LatentHeader, settings: JobSettings, device: str, budget: Budget
    ) -> LatentPlan:
        """The largest way to decode a file, as values that are raw.

        Raises:
            WeightsError: As `weights`.
        """

    @abstractmethod
    def decoding(self, latent: LatentPlan, size: Size, work: WorkPlan) -> WorkPlan:
        """The plan of the family that decodes to frames of a size, next to the model of a job."""

    @abstractmethod
    def planned(self, latent: LatentPlan, decoding: WorkPlan) -> LatentPlan:
        """A way to decode as another plan of `decoding` does it."""

    @abstractmethod
    def decode(
        self, path: Path, decoding: WorkPlan, *, normalised: bool, watch: Watch, check: Check
    ) -> Generator[Tensor, None, None]:
        """Load the VAE; the generator gives frames [n, 3, H, W] in [-1, 1] of all latents.

        Args:
            path: Path of the file.
            decoding: A plan of `decoding`.
            normalised: Whether the values are normalised.
            watch: Gets every decoded tile.
            check: Called before latents are read.

        Raises:
            WeightsError: The VAE is not there or not right.
            InputError: The latents cannot be used (any more).
            NumericOverflow: A wider dtype is needed.
        """

    @abstractmethod
    def first_frames(
        self, path: Path, vae: WeightsPlan, most_pixels: int
    ) -> tuple[Tensor, Tensor, bool]:
        """The first frame, decoded on the CPU, or its middle where that is too large.

        Args:
            path: Path of the file.
            vae: VAE that belongs to it.
            most_pixels: About the most that are decoded.

        Returns:
            Frames [3, h, w] in [0, 1] with the values taken as raw, and as normalised; whether
            they are whole.
        """

    # encoding

    @abstractmethod
    def padded(self, model: str, size: Size) -> Size:
        """Size of the frames that a VAE takes for those of a video."""

    @abstractmethod
    def encoding(
        self,
        model: str,
        vae: WeightsPlan,
        size: Size,
        settings: JobSettings,
        device: str,
        budget: Budget,
    ) -> WorkPlan:
        """The largest plan of the family that encodes frames of a size, on one thread."""

    @abstractmethod
    def encode(
        self,
        path: Path,
        encoding: WorkPlan,
        slices: Iterable[tuple[Tensor, bool]],
        film: Callable[[], LatentFilm],
        *,
        normalised: bool,
        check: Check,
    ) -> tuple[int, int]:
        """Write a file of latents; nothing of it stays if that fails.

        Args:
            path: Path of the file.
            encoding: A plan of `encoding`.
            slices: Frames [n, 3, H, W] in [-1, 1], padded, and whether they are the last; n is a
                multiple of `frames_per_latent`, in the first slice one more.
            film: The video, asked for at the end.
            normalised: Whether to write normalised values.
            check: Called between slices and tiles.

        Returns:
            Latents, and bytes of the file.

        Raises:
            WeightsError: The VAE is not there or not right.
            NumericOverflow: A wider dtype is needed.
            OSError: The folder cannot be written.
        """
