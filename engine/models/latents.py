"""Files of latents as sources and results: interface of families whose VAEs read and write them.

Such a file is decoded once, into a film that the job then reads; a film is encoded in one pass.
Loads no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.models.planning.search import MemoryRequirement
from engine.protocol.media import Reading
from engine.protocol.plan import LatentPlan, WeightsPlan
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.upscalers import Watch

Check = Callable[[], None]  # called between pieces of long work; it may wait or raise


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentFilm:
    """The film that latents give.

    Attributes:
        size: Of a picture, px: up to a position less than the latents give.
        frames: Of the film: up to three less than the latents give.
        rate: Frames/s.
    """

    size: Size
    frames: int
    rate: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentHeader:
    """Header of a file of latents.

    Attributes:
        model: Id of the VAE that the latents belong to.
        title: Name of that model, for users.
        channels: Of each position.
        factor: Pixels of a picture for each position, across and down.
        rate: Frames/s of the films that models with this VAE make.
        length: Latents, one after the other in time.
        grid: Positions across and down.
        film: The decoded film: as recorded in the file, or all that the latents give.
    """

    model: str
    title: str
    channels: int
    factor: int
    rate: Fraction
    length: int
    grid: Size
    film: LatentFilm

    @property
    def padded(self) -> Size:
        """Of the pictures that the VAE makes, px."""
        return self.grid.scaled(self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Which values a latent seems to hold.

    Attributes:
        reading: The likelier one.
        is_sure: Whether it is likelier by far.
        evidence: Natural logarithm of how many times likelier raw is; below 0, normalised.
    """

    reading: Reading
    is_sure: bool
    evidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentEncoding:
    """How a film is encoded.

    Attributes:
        vae: Its weights file.
        model: Id of the VAE.
        padded: Size of the pictures that it takes.
        normalised: Whether the latents are normalised before they are written.
        device: "cpu" or "cuda".
        dtype: That it computes in.
        tile: Most px at a time; None for whole pictures.
        switches: Optimisations.
    """

    vae: WeightsPlan
    model: str
    padded: Size
    normalised: bool
    device: str
    dtype: str
    tile: Size | None
    switches: VaeSwitches


class LatentDecoder(Protocol):
    """A loaded VAE that decodes files."""

    def frames(self, path: Path, watch: Watch, check: Check) -> Generator[Tensor, None, None]:
        """Frames [n, 3, H, W] in [-1, 1] of all latents of a file, in order.

        Args:
            path: Of the file.
            watch: Gets every decoded tile.
            check: Called before latents are read.

        Raises:
            InputError: The latents cannot be used (any more).
            NumericOverflow: A wider dtype is needed.
        """
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class LatentEncoder(Protocol):
    """A loaded VAE that writes one file."""

    @property
    def length(self) -> int:
        """Latents so far."""
        ...

    def push(self, frames: Tensor, *, last: bool) -> None:
        """Encode the next frames [n, 3, H, W] in [-1, 1], padded.

        n is a multiple of `frames_per_latent`, in the first call one more.
        """
        ...

    def close(self, film: LatentFilm) -> int:
        """Complete the file, with a record of its film; returns its size in bytes."""
        ...

    def discard(self) -> None:
        """Give up what was not completed; nothing happens after `close`."""
        ...


class LatentFormat(ABC):
    """A kind of files of latents."""

    suffix: ClassVar[str]
    titles: ClassVar[dict[str, str]]  # id of a VAE -> what its latents belong to, in words
    rates: ClassVar[dict[str, Fraction]]  # id of a VAE -> frames/s of films of its models
    frames_per_latent: ClassVar[int]  # all but the first, which is one frame
    fold_seconds: ClassVar[float]  # CPU seconds to fold the weights of a byte of a VAE's file

    # what is in a file

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

    # what is planned

    @abstractmethod
    def weights(self, model: str, own: str = "") -> WeightsPlan:
        """The weights file of a VAE: the user's own, or the published one.

        Raises:
            WeightsError: The user's is not there, or another one.
        """

    @abstractmethod
    def choose(
        self, header: LatentHeader, settings: JobSettings, budget: Budget, device: str
    ) -> LatentPlan:
        """How a file is decoded, as values that are raw.

        Raises:
            WeightsError: As `weights`.
        """

    @abstractmethod
    def smaller(self, plan: LatentPlan, padded: Size) -> LatentPlan | None:
        """The same in smaller tiles; None at the minimum."""

    def wider(self, plan: LatentPlan) -> LatentPlan | None:
        """The same in a dtype that does not overflow; None where there is none."""
        return None if plan.dtype == "float32" else replace(plan, dtype="float32")

    @abstractmethod
    def needs(self, plan: LatentPlan, size: Size) -> MemoryRequirement:
        """Bytes of decoding to pictures of a size."""

    @abstractmethod
    def operations(self, plan: LatentPlan, size: Size, frames: int) -> float:
        """Floating-point operations of that."""

    # decoding

    @abstractmethod
    def decoder(self, plan: LatentPlan, switches: VaeSwitches) -> LatentDecoder:
        """The VAE of a plan, on its device.

        Raises:
            WeightsError: The file is not there or not right.
        """

    @abstractmethod
    def first_frames(
        self, path: Path, vae: WeightsPlan, most_pixels: int
    ) -> tuple[Tensor, Tensor, bool]:
        """The first frame, decoded on the processor, or its middle where that is too large.

        Args:
            path: Of the file.
            vae: That belongs to it.
            most_pixels: That are decoded, about.

        Returns:
            Frames [3, h, w] in [0, 1] with the values taken as raw, and as normalised; whether
            they are whole.
        """

    # encoding

    @abstractmethod
    def padded(self, model: str, size: Size) -> Size:
        """Size of the pictures that a VAE takes for those of a film."""

    @abstractmethod
    def encoding(
        self, model: str, vae: WeightsPlan, padded: Size, settings: JobSettings, room: EncodeRoom
    ) -> LatentEncoding:
        """How a film is encoded: in the largest tiles that fit."""

    @abstractmethod
    def smaller_encoding(self, plan: LatentEncoding) -> LatentEncoding | None:
        """The same in smaller tiles; None at the minimum."""

    @abstractmethod
    def encode_needs(self, plan: LatentEncoding) -> MemoryRequirement:
        """Bytes of encoding."""

    @abstractmethod
    def encoder(self, plan: LatentEncoding, path: Path, check: Check) -> LatentEncoder:
        """The VAE of a plan, on its device, and the file that it writes.

        Raises:
            WeightsError: The file is not there or not right.
            OSError: The folder cannot be written; also later.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeRoom:
    """Where a film is encoded."""

    budget: Budget
    device: str
    switches: VaeSwitches
