"""A network of one frame from a file: recognised and built by spandrel. Loads torch.

A file is first tried on tensors without values: whatever it says of itself takes no memory, and its
tensors must be exactly those of the network that spandrel builds for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.core.errors import WrongModel, WrongNumbers, memory_ran_out
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.files.formats.safetensors_file import TORCH_NAMES
from engine.models.community.library import spandrel, warnings_ignored
from engine.models.community.pretended import new_mode, pretended
from engine.models.load import check_numbers
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import WeightsPlan

_WHOLE = ("I64", "I32", "I16", "I8", "U8", "BOOL")  # indices of windows, counters
_READ = 64  # values
_LICENCES = ("modelspec.license", "license", "licence")
_FRAMES = {"SR", "Restoration"}  # purposes of networks that take any frame
_CHANNELS = {(1, 1), (3, 3), (4, 3), (4, 4)}


@dataclass(frozen=True, slots=True, eq=False)
class Recognised:
    """A network on tensors without values.

    Attributes:
        facts: Properties that it states about itself.
        licence: Licence that the file names; "" where it names none.
        model: spandrel's descriptor.
        mode: Mode of its tensors.
    """

    facts: NetworkFacts
    licence: str
    model: Any
    mode: FakeTensorMode


def recognised(path: Path) -> Recognised | None:
    """Network in a file; None where spandrel knows no such architecture.

    Raises:
        LibraryMissing: spandrel is not on this machine.
        WrongModel: It does not take frames of videos, or is another network than it looks like.
        WeightsError: The file is damaged, cut short, of another kind, or has quantised values.
    """
    with open_weights(path) as file:
        mode, read = new_mode(), {name: file.tensor(name) for name in _small(file)}
        with pretended(mode):
            tensors = _canonical({name: _pretended(file, name) for name in file.shapes} | read)
            kind = _kind_of(tensors)
            if kind is None:
                return None
            check_numbers(file, _WHOLE)
            found = _built(kind, tensors, path)
            facts = _facts(found, path)
        licence = next((file.metadata[key] for key in _LICENCES if key in file.metadata), "")
    return Recognised(facts, licence, found, mode)


@lru_cache(maxsize=4)
def recognised_file(weights: WeightsPlan) -> Recognised:
    """The network of a file as it was when a job was planned.

    Raises:
        WrongModel: spandrel knows no such architecture.
        WeightsError: Raised by `recognised`.
    """
    found = recognised(weights.path)
    if found is None:
        raise WrongModel("no-architecture", name=weights.name, path=str(weights.path))
    return found


def load(weights: WeightsPlan) -> Any:
    """Spandrel's descriptor of a file, in float32 on the CPU.

    Raises:
        WeightsError: Raised by `recognised_file`.

    Memory: twice the weights while they are read.
    """
    recognised_file(weights)
    with open_weights(weights.path) as file:
        tensors = _canonical({name: _finite(file, name) for name in file.shapes})
        found = _built(_kind_of(tensors), tensors, weights.path)
    _check_indices(found, weights.path)
    return found


def _check_indices(found: Any, path: Path) -> None:
    """Refuse indices other than those that the network has by itself: a GPU does not survive them.

    Raises:
        WrongModel: They differ.
    """
    indices = {
        name: value
        for name, value in found.model.named_buffers()
        if value.dim() and not value.is_floating_point()
    }
    if not indices:
        return
    with warnings_ignored():
        fresh = dict(type(found.model)(**found.model.hyperparameters).named_buffers())
    if not all(torch.equal(value, fresh[name]) for name, value in indices.items()):
        raise _unlike(found.architecture, path)


def _small(file: WeightsFile) -> Iterator[str]:
    """Tensors as small as a setting, which spandrel may want to read."""
    for name, shape in file.shapes.items():
        if math.prod(shape) <= _READ and file.dtypes[name] in TORCH_NAMES:
            yield name


def _pretended(file: WeightsFile, name: str) -> Tensor:
    """A tensor without values; weights are computed in float32."""
    kind: torch.dtype = getattr(torch, TORCH_NAMES.get(file.dtypes[name], "float32"))
    return torch.empty(file.shapes[name], dtype=torch.float32 if kind.is_floating_point else kind)


def _finite(file: WeightsFile, name: str) -> Tensor:
    found = file.tensor(name)
    if not found.dtype.is_floating_point:
        return found
    found = found.float()
    if not bool(found.isfinite().all()):
        raise WrongNumbers("not-finite", name=file.path.name, path=str(file.path), tensor=name)
    return found


def _canonical(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by spandrel's names: without what tools put before all of them."""
    found: dict[str, Tensor] = spandrel().canonicalize_state_dict(state)
    return found


def _kind_of(tensors: Mapping[str, Tensor]) -> Any:
    """The architecture that has these tensors; None where spandrel knows none."""
    kinds = spandrel().MAIN_REGISTRY.architectures("detection")
    return next((kind.architecture for kind in kinds if kind.detect(tensors)), None)


def _built(kind: Any, tensors: Mapping[str, Tensor], path: Path) -> Any:
    """Spandrel's descriptor of an architecture with these tensors."""
    if _counts_too_far(tensors):
        raise _unlike(kind, path)
    try:
        with warnings_ignored():
            return kind.load(tensors)
    except Exception as err:  # loaders meet wrong tensors with errors of every class
        if memory_ran_out(err):
            raise
        raise _unlike(kind, path) from err


def _counts_too_far(names: Mapping[str, Tensor]) -> bool:
    """Whether a name has a number that no list of layers with so few tensors can have.

    Loaders make as many layers as the largest number says.
    """
    most = 4 * len(names) + 16
    return any(
        len(digits) > 9 or int(digits) > most
        for name in names
        for digits in re.findall(r"(?<=\.)\d+(?=\.)", f".{name}.")
    )


def _unlike(kind: Any, path: Path) -> WrongModel:
    return WrongModel("unlike-architecture", name=path.name, path=str(path), architecture=kind.name)


def _facts(found: Any, path: Path) -> NetworkFacts:
    """Facts that a descriptor states.

    Raises:
        WrongModel: It redraws something else than frames.
    """
    architecture, limits = found.architecture.name, found.size_requirements
    about = {"name": path.name, "path": str(path), "architecture": architecture}
    if found.purpose not in _FRAMES:
        case = "needs-a-mask" if found.purpose == "Inpainting" else "redraws-a-face"
        raise WrongModel(case, **about)
    if (found.input_channels, found.output_channels) not in _CHANNELS or found.scale < 1:
        channels = f"{found.input_channels} / {found.output_channels}"
        raise WrongModel("other-channels", channels=channels, **about)
    return NetworkFacts(
        architecture=architecture,
        scale=found.scale,
        inputs=found.input_channels,
        outputs=found.output_channels,
        least=limits.minimum,
        multiple=limits.multiple_of,
        is_square=limits.square,
        takes_half=found.supports_half,
        dislikes_tiles=found.tiling.name != "SUPPORTED",
    )
