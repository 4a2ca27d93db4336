"""Uses of a VAE and the memory of its calls, and of streams of shots around them. Loads no torch.

Calls are measured. A family adds what its streams keep around them, and the tests compare the sums
with what torch's allocator is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from engine.core.geometry import Size
from engine.models.planning.memory import DTYPE_BYTES, PhaseMemory
from engine.settings.optimisations import VaeSwitches

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.video_vae.load import VaeLoader

Side = Literal["encode", "decode"]
# Make the latent of a clip, and pieces [n, 3, H, W] of the frames of a latent: of a fast VAE, the
# clip or latent, and the most px that are computed at a time.
InTiles = tuple[Callable[..., "Tensor"], Callable[..., "Iterator[Tensor]"]]
Curve = tuple[tuple[int, int], ...]  # sides of square frames, px, and what they take
Terms = tuple[float, float, float, float]  # of operations, see `CallMemory`


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Input of a call of a VAE, slice by slice.

    Attributes:
        channels: Channels of its frames.
        factor: Px of the frame that is encoded, or could be, for each position, on each side.
        first: Steps in time of the first slice of a clip.
        later: Steps in time of all other slices.
        single: Steps in time of a clip of one frame.
        is_clip: [1, C, T, h, w] is given; otherwise frames [T, C, h, w], channels last.
    """

    channels: int
    factor: int
    first: int
    later: int
    single: int = 1
    is_clip: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeUse:
    """Use of a VAE.

    Attributes:
        dtype: Type of values and weights. TRAP: a CPU without AVX-512 convolves 16-bit values
            through copies in float32, up to 5 times these bytes; only a user's own choice of
            `vae_precision` asks for that there.
        device: On GPUs convolutions over time are counted as stacked ones ("2d"), which take more
            than those in three dimensions and, but for padded weights, those of our kernel.
        switches: Optimisations.
        slice_frames: Frames of all slices but the first, which has one more.
        is_image: One frame is all there is.
    """

    dtype: str = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    switches: VaeSwitches = field(default_factory=VaeSwitches)
    slice_frames: int = 4
    is_image: bool = False

    @property
    def usual(self) -> VaeUse:
        """Use with the usual switches."""
        return replace(self, switches=VaeSwitches())

    @property
    def name(self) -> str:
        """Name in the table, with the switches that are unusual and count here."""
        what = "image" if self.is_image else f"{self.slice_frames} frames"
        dtype = self.dtype.replace("bfloat16", "float16")
        return ", ".join((f"{self.device} {dtype} {what}", *self._changes()))

    def _changes(self) -> Iterator[str]:
        asked = replace(self.switches, fp16_sums=True)
        is_half = DTYPE_BYTES[self.dtype] == 2
        if asked.convolution in ("kernel", "3d" if self.device == "cpu" and is_half else "2d"):
            asked = replace(asked, convolution="auto")
        if asked.first_frame_fold:
            asked = replace(asked, image_mode=True)
        if self.device == "cpu":
            asked = replace(asked, kernels=True, chunked_attention=True)
        for one in fields(asked):
            value = getattr(asked, one.name)
            if value != one.default:
                yield f"{one.name} {value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VaePeak:
    """Bytes of slices that go through a call, without weights and without what it is given.

    Attributes:
        first: Most while the first slice of a clip is worked on.
        later: Most during all other slices, with the result of the one before; 0 for images.
        carry: Bytes that wait between two slices.
        window: Bytes of the buffers that stay between two slices.
        opens: Bytes of those buffers after the first slice.
        result: Bytes of what a slice gives.
    """

    first: int
    later: int
    carry: int
    window: int
    opens: int
    result: int

    @property
    def alone(self) -> int:
        """Most during all other slices where the result of the one before has been freed."""
        return max(0, self.later - self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceWork:
    """Work of a slice, or of several.

    Attributes:
        convolutions: Floating-point operations; a multiply-add is two.
        products: Floating-point operations of matrix products; of VAEs nearly all are attention
            with one head of all channels.
        passed: Bytes that passes over values read and write on a GPU between convolutions and
            products.
        launches: Kernels on a GPU.
    """

    convolutions: float = 0.0
    products: float = 0.0
    passed: float = 0.0
    launches: float = 0.0

    @property
    def operations(self) -> float:
        """All floating-point operations."""
        return self.convolutions + self.products

    def __add__(self, other: SliceWork) -> SliceWork:
        return SliceWork(
            convolutions=self.convolutions + other.convolutions,
            products=self.products + other.products,
            passed=self.passed + other.passed,
            launches=self.launches + other.launches,
        )

    def __mul__(self, times: float) -> SliceWork:
        return SliceWork(
            convolutions=self.convolutions * times,
            products=self.products * times,
            passed=self.passed * times,
            launches=self.launches * times,
        )

    def in_tiles(self, share: float, tiles: int) -> SliceWork:
        """Work in tiles that together have `share` times the pixels of a frame."""
        return replace(self * share, launches=self.launches * tiles)


def half_sums(switches: VaeSwitches, dtype: str) -> bool:
    """Whether convolutions may be those of our kernel with sums in float16."""
    is_possible = switches.convolution in ("auto", "kernel") and dtype == "float16"
    return is_possible and switches.fp16_sums and switches.kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWork:
    """Work of slices that go through a call.

    Attributes:
        single: Work of a clip of one frame, whose beginning has nothing after it.
        first: Work of the first slice of a longer clip, one frame and the first latent after it.
        later: Work of each further latent.
    """

    single: SliceWork
    first: SliceWork
    later: SliceWork

    def total(self, frames: float, step: int, beginnings: int = 1) -> SliceWork:
        """Work of clips.

        TRAP: one frame is no shorter clip: its slice costs a fifth of what a longer clip begins
        with, not what is left when frames are subtracted from that.

        Args:
            frames: Frames of all clips together.
            step: Frames of a latent.
            beginnings: Number of clips; of one frame there is one.
        """
        if frames <= 1:
            return self.single
        latents = (frames - beginnings * (step + 1)) / step
        return self.first * beginnings + self.later * latents


FIGURES = ("first", "later", "carry", "window", "opens", "result")
SLICES = ("single", "first", "later")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMemory:
    """Memory and operations of a call, by the size of frames.

    Attributes:
        bytes_of: Curve of each field of `VaePeak`.
        operations: Operations of each field of `CallWork`: of convolutions for a px of the frame,
            and for a px of its width and height together, as their borders take more; of products
            for a px, and for its square, which attention adds.
    """

    bytes_of: Mapping[str, Curve]
    operations: Mapping[str, Terms]


@dataclass(frozen=True, slots=True)
class UseMemory:
    """Memory and operations of a VAE in one use.

    Attributes:
        weights: Bytes of the tables of encoder and decoder that are kept once everything is loaded;
            of images those too that the first one leaves behind.
        calls: Memory of each call, by the name of its method.
    """

    weights: int
    calls: Mapping[str, CallMemory]


@dataclass(frozen=True, slots=True)
class VaeCode:
    """The code of a family's VAEs, whose calls are measured.

    Attributes:
        module: Module with the `LOADER` of the family, which loads torch.
        pieces: Input of each call, by the name of its method, for a configuration and the frames of
            a slice.
        passes: Name in `gpu_passes` of the VAE whose passes those of a configuration count as: the
            pretended GPU counts them, as kernels of ours are not seen where tensors have no values.
    """

    module: str
    pieces: Callable[[Any, int], Mapping[str, Piece]]
    passes: Callable[[Any], str]

    @property
    def loader(self) -> VaeLoader[Any, Any]:
        """Both variants and the files that they are read from. Loads torch."""
        loader: VaeLoader[Any, Any] = import_module(self.module).LOADER
        return loader

    @property
    def in_tiles(self) -> InTiles:
        """Clips through the fast variant in tiles; of the module `streams` beside `module`."""
        streams = import_module(f"{self.module.rpartition('.')[0]}.streams")
        return streams.encoded_in_tiles, streams.decoded_in_tiles


# --- streams of shots


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
        handed_on: Memory of the part on whole frames meanwhile, on the device or the host.
    """

    tiles: int
    carry: int
    fresh: int
    early: int
    results: int
    on_gpu: bool
    handed_on: PhaseMemory = field(default_factory=lambda: PhaseMemory(0))

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
