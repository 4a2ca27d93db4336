"""Versions of CUDA, cuDNN, driver and torch, and what is known to go wrong with them.

The table is `resources/known_faults.toml`; each fault was reported where it says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.core import gpu_loss
from engine.core.messages import message
from engine.core.paths import resource
from engine.core.serialization import from_plain, read_toml
from engine.core.units import version_parts
from engine.hardware import devices
from engine.protocol.report import DoctorLine, State

_LIBRARIES, _FAULT, _LOSSES = "GPU libraries", "known fault", "GPU losses"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """Versions from `first` on and before `before`; "" is no limit."""

    first: str = ""
    before: str = ""

    def has(self, version: str) -> bool:
        """Whether a version, of which at least the beginning is digits, lies in it."""
        parts = version_parts(version)
        return version_parts(self.first) <= parts and (
            not self.before or parts < version_parts(self.before)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """A fault of some versions together: `known-fault.<name>` in the catalogue."""

    evidence: tuple[str, ...]  # reports of it: project and thread
    state: State = "warning"
    torch: VersionRange | None = None
    cuda: VersionRange | None = None
    cudnn: VersionRange | None = None
    driver: VersionRange | None = None
    capability: tuple[int, int] | None = None  # least CUDA capability of a GPU that has it
    systems: tuple[str, ...] = ()  # names as of `sys.platform`; () for all

    @property
    def versions(self) -> dict[str, VersionRange]:
        """Ranges by part, of the parts that count."""
        parts = {"torch": self.torch, "cuda": self.cuda, "cudnn": self.cudnn, "driver": self.driver}
        return {part: versions for part, versions in parts.items() if versions is not None}

    def is_in(
        self, found: Mapping[str, str], capability: tuple[int, int] | None, system: str
    ) -> bool:
        """Whether a machine has it.

        Args:
            found: Versions by part; a part that is not there has no fault.
            capability: Compute capability of its GPU.
            system: Value of `sys.platform`.
        """
        if self.systems and system not in self.systems:
            return False
        if self.capability is not None and (capability or (0, 0)) < self.capability:
            return False
        return all(
            part in found and known.has(found[part]) for part, known in self.versions.items()
        )


@cache
def known_faults() -> Mapping[str, KnownFault]:
    """The table by name, in its order."""
    table = read_toml(resource("known_faults.toml"))
    return {name: from_plain(KnownFault, row) for name, row in table.items()}


def lines() -> Iterator[DoctorLine]:
    """Lines of the self-test: versions, each fault that they have, losses of the GPU.

    Without a GPU there are versions alone, and none of a torch for CPUs.
    """
    gpu = devices.in_use()
    found = versions("" if gpu is None else gpu.driver)
    if gpu is None and "cuda" not in found:
        return
    titles = {"torch": "torch", "cuda": "CUDA", "cudnn": "cuDNN", "driver": "driver"}
    named = tuple(f"{titles[part]} {version}" for part, version in found.items())
    text = message("doctor.gpu-libraries", versions=named)
    yield DoctorLine(name=_LIBRARIES, state="ok", message=text)
    if gpu is None:
        return
    for name, fault in known_faults().items():
        if fault.is_in(found, gpu.capability, sys.platform):
            effect = message(f"known-fault.{name}")
            about = {"effect": effect, "remedy": effect.hint, "evidence": fault.evidence}
            text = message("doctor.known-fault", **about)
            yield DoctorLine(name=_FAULT, state=fault.state, message=text)
    losses = gpu_loss.losses(gpu.name, gpu.driver)
    if losses:
        reason = gpu_loss.last_reason(gpu.name, gpu.driver)
        about = {"name": gpu.name, "driver": gpu.driver, "count": str(losses), "reason": reason}
        text = message("doctor.gpu-losses", **about)
        yield DoctorLine(name=_LOSSES, state="warning", message=text)


def versions(driver: str) -> dict[str, str]:
    """Versions by part: "torch", and "cuda", "cudnn" and "driver" where there are such."""
    import torch

    backend: Any = torch.backends.cudnn  # has no types
    cudnn = backend.version() if torch.version.cuda else None
    found = {
        "torch": torch.__version__.partition("+")[0],
        "cuda": torch.version.cuda or "",
        "cudnn": "" if cudnn is None else cudnn_version(cudnn),
        "driver": driver,
    }
    return {part: version for part, version in found.items() if version}


def cudnn_version(number: int) -> str:
    """Text of a version as cuDNN states it: 91002 is "9.10.2", 8907 is "8.9.7"."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
