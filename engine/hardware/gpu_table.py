"""Specifications of NVIDIA GPUs from `resources/gpus.toml`, for plans before jobs run."""

from __future__ import annotations

import difflib
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from engine.core.errors import SettingsError
from engine.core.paths import resource
from engine.core.serialization import read_toml

Generation = Literal["turing", "ampere", "ada", "blackwell"]

GIB = 2**30
CAPABILITIES: dict[Generation, tuple[int, int]] = {
    "turing": (7, 5),
    "ampere": (8, 6),
    "ada": (8, 9),
    "blackwell": (12, 0),
}
OLDEST = min(CAPABILITIES.values())  # CUDA capability that there is a generation for
_GENERATIONS: dict[str, Generation] = {name: name for name in CAPABILITIES}
_PCIE: dict[Generation, int] = {"turing": 3, "ampere": 4, "ada": 4, "blackwell": 5}
# Bytes per second of one PCIe lane in one direction, by generation.
LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_CORES = {"turing": 64}  # per multiprocessor; 128 since
_MATRIX_FLOPS = 512  # per clock and multiprocessor: half precision, sums in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """A GPU as its vendor specifies it: theoretical maxima, not what programs reach."""

    name: str  # name that the driver reports, e.g. "NVIDIA GeForce RTX 5070 Ti"
    generation: Generation
    form_factor: str  # "desktop" or "laptop"
    memory_bytes: int  # nominal size of its memory
    bandwidth: float  # bytes per second of that memory
    half_flops: float  # per second, of matrices in half precision with sums in float32
    single_flops: float  # per second, in float32
    link_bandwidth: float  # bytes per second from main memory, in theory; the board may have less
    lanes: int = 16  # PCIe lanes of the GPU itself
    multiprocessors: int = 0

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA capability."""
        return CAPABILITIES[self.generation]

    @property
    def is_geforce(self) -> bool:
        """Whether half precision with sums in float32 has half of its rate with narrower sums."""
        return self.form_factor in ("desktop", "laptop")

    @property
    def title(self) -> str:
        """Short name with its memory: "RTX 5070 Ti, 16 GB"."""
        short = self.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        return f"{short}, {self.memory_bytes / GIB:.3g} GB"


@cache
def gpu_specs() -> tuple[GpuSpec, ...]:
    """All GPUs of the table, in its order."""
    data = read_toml(resource("gpus.toml"))
    return tuple(map(spec_of, data["gpu"]))


def find(name: str, memory_bytes: int = 0) -> GpuSpec | None:
    """The GPU with a name; None for one that is not in the table.

    Args:
        name: Name that the driver reports; "NVIDIA" and "GeForce" may be left out.
        memory_bytes: Distinguishes GPUs of one name: the nearest size counts; 0 takes the largest.
    """
    plain = plain_name(name)
    found = [gpu for gpu in gpu_specs() if plain_name(gpu.name) == plain]
    if not found:
        return None
    aim = memory_bytes or max(gpu.memory_bytes for gpu in found)
    return min(found, key=lambda gpu: abs(gpu.memory_bytes - aim))


_WITH_SIZE = re.compile(r"(.+?)[, ]\s*(\d+)\s*gi?b", re.IGNORECASE)  # "RTX 3080, 10 GB"


def requested(text: str, memory_bytes: int = 0) -> GpuSpec:
    """The GPU that a text names, with its memory where GPUs of that name differ.

    Args:
        text: Name as for `named`, or a title: "RTX 3080, 10 GB".
        memory_bytes: Memory it is given; 0 for what it has.

    Raises:
        SettingsError: There is no such GPU, or there are several and the text does not tell which.
    """
    parts = _WITH_SIZE.fullmatch(text.strip())
    if parts is not None:
        return named(parts[1], memory_bytes or int(parts[2]) * GIB)
    gpu = named(text, memory_bytes)
    titles = [one.title for one in gpu_specs() if one.name == gpu.name]
    if memory_bytes or len(titles) == 1:
        return gpu
    raise SettingsError("gpu-of-several-sizes", name=text, titles=" / ".join(titles))


def named(name: str, memory_bytes: int = 0) -> GpuSpec:
    """The GPU with a name, perhaps with another size of memory.

    Args:
        name: Name in the table; "RTX" may be left out too.
        memory_bytes: Memory it is given; 0 for what it has.

    Raises:
        SettingsError: There is no such GPU; names the nearest ones.
    """
    gpu = find(name, memory_bytes) or find(f"RTX {name}", memory_bytes)
    if gpu is None:
        names = list(dict.fromkeys(gpu.name for gpu in gpu_specs()))
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        if near:
            raise SettingsError("unknown-gpu-similar", name=name, similar=", ".join(near))
        raise SettingsError("unknown-gpu", name=name, first=names[0])
    return replace(gpu, memory_bytes=memory_bytes) if memory_bytes else gpu


def spec_of(row: Mapping[str, int | str]) -> GpuSpec:
    """A GPU from its row of the table."""
    generation = _GENERATIONS[str(row["generation"])]
    cores, clock = float(row["cores"]), float(row["boost_mhz"]) * 1e6
    multiprocessors = int(cores) // _CORES.get(generation, 128)
    return GpuSpec(
        name=str(row["name"]),
        generation=generation,
        form_factor=str(row["form_factor"]),
        memory_bytes=int(row["memory_gib"]) * GIB,
        bandwidth=float(row["bandwidth_gbs"]) * 1e9,
        half_flops=multiprocessors * _MATRIX_FLOPS * clock,
        single_flops=cores * 2 * clock,
        link_bandwidth=int(row["lanes"]) * LANE_BYTES_S[_PCIE[generation]],
        lanes=int(row["lanes"]),
        multiprocessors=multiprocessors,
    )


def counted_gpu(
    gpu: GpuSpec | None, capability: tuple[int, int] | None, multiprocessors: int = 0
) -> GpuSpec:
    """The GPU that figures are computed for: the known one, else the median of its generation.

    Args:
        gpu: Entry of the table; None for a GPU that is not in it.
        capability: CUDA capability of that GPU. A generation that is not in the table counts as
            the newest one before it, an unknown one (None) as the oldest.
        multiprocessors: Number that this GPU has, which scales the median's rates; 0: unknown.
    """
    if gpu is not None:
        return gpu
    typical = _typical(capability or (0, 0))
    if not multiprocessors:
        return typical
    scale = multiprocessors / typical.multiprocessors
    return replace(
        typical,
        half_flops=typical.half_flops * scale,
        single_flops=typical.single_flops * scale,
        multiprocessors=multiprocessors,
    )


@cache
def _typical(capability: tuple[int, int]) -> GpuSpec:
    known = sorted({gpu.capability for gpu in gpu_specs()})
    generation = max((one for one in known if one <= capability), default=known[0])
    same = [gpu for gpu in gpu_specs() if gpu.capability == generation]
    middle = statistics.median_low(gpu.half_flops for gpu in same)
    found = next(gpu for gpu in same if gpu.half_flops == middle)
    return replace(
        found,
        bandwidth=statistics.median_low(gpu.bandwidth for gpu in same),
        single_flops=statistics.median_low(gpu.single_flops for gpu in same),
        link_bandwidth=statistics.median_low(gpu.link_bandwidth for gpu in same),
    )


def plain_name(name: str) -> str:
    """A name of a GPU without case, vendor and brand, for comparisons."""
    return " ".join(name.casefold().replace("nvidia", "").replace("geforce", "").split())
