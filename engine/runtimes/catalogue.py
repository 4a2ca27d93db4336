"""Catalogue of the NVIDIA runtimes that this build knows: resources/runtime.toml. No torch."""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.core.errors import RuntimePackError, UnknownRuntime
from engine.core.paths import resource
from engine.core.serialization import from_plain, read_toml
from engine.core.units import version_parts

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One official wheel, pinned by its size and SHA-256."""

    filename: str
    bytes: int
    sha256: str
    place: str = ""  # path below the index, or a whole address

    def __post_init__(self) -> None:
        if self.bytes <= 0 or _SHA256.fullmatch(self.sha256) is None:
            raise ValueError(f"{self.filename}: {self.bytes} bytes, SHA-256 {self.sha256!r}")

    def address(self, index: str) -> str:
        """Address of the file: its own, or a place below the address of the index."""
        place = self.place or self.filename
        return place if "://" in place else f"{index.rstrip('/')}/{place}"

    @property
    def suits_this_python(self) -> bool:
        """True where this interpreter and system can load it."""
        python, abi, platforms = self.filename.removesuffix(".whl").split("-")[-3:]
        own, _, system = own_tags().split("-")
        machine = system.rpartition("linux_")[2]
        is_platform = platforms in ("any", system) or (
            system.startswith("linux") and re.search(rf"linux.*_{machine}$", platforms) is not None
        )
        return python in (own, "py3") and abi in (own, "none") and is_platform


def own_tags() -> str:
    """Python, ABI and system of this interpreter, as a wheel's name has them."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{system}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One build of torch for NVIDIA GPUs, made of official wheels."""

    id: str  # "cu130"
    title: str
    torch: str  # "2.13.0+cu130"
    cuda: str  # "13.0"
    driver: str  # the oldest version that it runs with: "580.0"
    wheels: tuple[Wheel, ...]
    oldest_capability: int = 75  # CUDA capability: 75 is Turing
    newest_capability: int = 0  # 0: no limit
    unpacked_bytes: int = 0  # on the disk; 0 until the release pins it

    @property
    def bytes(self) -> int:
        """Size of all wheels."""
        return sum(wheel.bytes for wheel in self.wheels)

    @property
    def suits_this_python(self) -> bool:
        """True where this interpreter and system can load it."""
        return all(wheel.suits_this_python for wheel in self.wheels)

    @property
    def hashes(self) -> tuple[str, ...]:
        """SHA-256 of its wheels."""
        return tuple(wheel.sha256 for wheel in self.wheels)

    @property
    def folder_name(self) -> str:
        """Name of its folder below that of runtimes; each version has another one."""
        digest = hashlib.sha256("".join(self.hashes).encode()).hexdigest()
        return f"{self.id}-{self.torch.partition('+')[0]}-{digest[:8]}"

    def has_code_for(self, capability: tuple[int, int] | None) -> bool:
        """True for GPUs that it can compute on, with a driver that is new enough.

        Args:
            capability: CUDA compute capability; None where the driver is too old to report it.
        """
        if capability is None:
            return False
        mine = capability[0] * 10 + capability[1]
        return self.oldest_capability <= mine <= (self.newest_capability or mine)

    def runs_on(self, driver: str, capability: tuple[int, int] | None) -> bool:
        """True for GPUs that it has code for, with a driver ("581.29") that is new enough."""
        is_new_enough = version_parts(driver) >= version_parts(self.driver)
        return is_new_enough and self.has_code_for(capability)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCatalogue:
    """Every runtime of this build, the preferred one first."""

    index: str  # base address of the wheels
    torch: str
    python: str
    licence: str
    runtimes: tuple[Runtime, ...]

    def __iter__(self) -> Iterator[Runtime]:
        return iter(self.runtimes)

    def runtime(self, runtime_id: str) -> Runtime:
        """One runtime by its id; raises UnknownRuntime where there is none."""
        for runtime in self.runtimes:
            if runtime.id == runtime_id:
                return runtime
        raise UnknownRuntime("no-such-runtime", runtime=repr(runtime_id))


def suited(runtimes: Iterable[Runtime], capability: tuple[int, int] | None) -> Runtime | None:
    """The preferred runtime for a GPU; None where none has code for it.

    It may need a newer driver than the installed one. Updating a driver takes minutes and costs
    nothing, an older runtime is a larger download with slower convolutions.
    """
    return next((runtime for runtime in runtimes if runtime.has_code_for(capability)), None)


def load(path: Path) -> RuntimeCatalogue:
    """Read a catalogue; raises RuntimePackError where the program's own files are incomplete."""
    try:
        return from_plain(RuntimeCatalogue, read_toml(path))
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise RuntimePackError("catalogue", path=path) from err


@cache
def catalogue() -> RuntimeCatalogue:
    """The catalogue of this program."""
    return load(resource("runtime.toml"))
