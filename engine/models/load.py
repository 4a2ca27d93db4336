"""Reads a file into a module that was made on the meta device: strictly, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._device import DeviceContext

from engine.core.errors import ExtraKeys, MissingKeys, UnknownKeys, WrongNumbers, WrongShapes
from engine.core.messages import Message, message
from engine.files.formats.keymap import KeyMap
from engine.files.formats.open_weights import WeightsFile
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear.gguf import dequantise
from engine.ops.transfer.flat_storage import put_tensor

Form = Literal["plain", "fast"]
FORMS: tuple[Form, ...] = ("plain", "fast")
"""Variants of a model: plain follows the specification, fast gives the same sooner."""

M = TypeVar("M", bound=nn.Module)

_NAMED = 4  # tensors that a message names; it counts the rest
_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")

_DRAWING = {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_}  # of layers of torch

Shapes = Mapping[str, tuple[int, ...]]


class FileWeights(Mapping[str, Tensor]):
    """The tensors of an open file under our names, each read when it is asked for.

    Blocks of GGUF files become values, float32 unless a dtype is wanted.

    Memory: nothing is kept; a tensor belongs to the caller.
    """

    def __init__(
        self,
        file: WeightsFile,
        keymap: KeyMap,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        self._file = file
        self._published = keymap.published(file.shapes)
        self._device = device
        self._dtype = dtype

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each tensor, without reading it."""
        return {ours: self._file.shapes[name] for ours, name in self._published.items()}

    def __getitem__(self, name: str) -> Tensor:
        file, published = self._file, self._published[name]
        kind = file.dtypes[published]
        if kind not in BLOCKS:
            return file.tensor(published, device=self._device, dtype=self._dtype)
        raw = file.tensor(published, device=self._device)
        return dequantise(raw, kind, file.shapes[published], self._dtype or torch.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(self._published)

    def __len__(self) -> int:
        return len(self._published)


class FiniteWeights(FileWeights):
    """Tensor reader that refuses NaN and infinite values: for models small enough for it."""

    def __getitem__(self, name: str) -> Tensor:
        found = super().__getitem__(name)
        wide = found if found.itemsize > 1 else found.half()  # torch does not ask this of 8 bits
        if not bool(wide.isfinite().all()):
            path = self._file.path
            raise WrongNumbers("not-finite", name=path.name, path=str(path), tensor=name)
        return found


class _ShapesAlone(DeviceContext):
    """The context of the meta device, without first values that are drawn at random.

    To draw no values takes torch as long as all else that a layer is made of.
    """

    def __init__(self) -> None:
        super().__init__(torch.device("meta"))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DRAWING:
            return kwargs["tensor"]
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]  # untyped in torch


def shapes_alone() -> AbstractContextManager[None]:
    """Context in which modules are made on the meta device: they have shapes and no values."""
    found: AbstractContextManager[None] = _ShapesAlone()
    return found


def on_meta(
    make: Callable[[], M],
    file: WeightsFile,
    found: Shapes,
    *,
    also: Collection[str] = (),
    checked: Collection[str] = (),
) -> M:
    """A model on the meta device, to which exactly the tensors of a file belong.

    Args:
        make: Makes the model.
        file: Open.
        found: Shapes of its tensors, by the names of the model.
        also: Dtypes that are accepted beside floating point; see `check_numbers`.
        checked: Tensors that may have any dtype.

    Raises:
        MissingKeys, ExtraKeys, WrongShapes: Not exactly the tensors of the model.
        WrongNumbers: Tensors of other dtypes.
    """
    with shapes_alone():
        model = make()
    check_numbers(file, also, checked=checked)
    check_keys(shapes_of(model), found, file.path)
    return model


def fill(module: nn.Module, weights: FileWeights) -> None:
    """Put the tensors of an open file into a module of `on_meta`; parameters need no gradient.

    Raises:
        WrongNumbers: Raised by `FiniteWeights`.
        ValueError: A tensor of the module is in no file; an error in the module.

    Memory: the module and one tensor of the file.
    """
    for name in shapes_of(module):
        assign(module, name, weights[name])
    check_filled(module)


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Name and shape of everything that a file must hold for a module."""
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def check_keys(wanted: Shapes, found: Shapes, path: Path) -> None:
    """Refuse a file that does not have exactly the wanted tensors.

    Raises:
        MissingKeys, ExtraKeys, WrongShapes: The first of them that applies; the message has all
            differences.
    """
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    misshapen = [
        f"{name} {_shape(found[name])} instead of {_shape(shape)}"
        for name, shape in wanted.items()
        if name in found and tuple(found[name]) != tuple(shape)
    ]
    kinds: tuple[tuple[type[UnknownKeys], str, list[str]], ...] = (
        (MissingKeys, "missing", missing),
        (ExtraKeys, "unknown", extra),
        (WrongShapes, "misshapen", misshapen),
    )
    wrong = [(kind, word, names) for kind, word, names in kinds if names]
    if not wrong:
        return
    raise wrong[0][0](
        "tensors",
        name=path.name,
        path=str(path),
        missing=len(missing),
        extra=len(extra),
        misshapen=len(misshapen),
        differences=reduce(_clauses, (_difference(word, names) for _, word, names in wrong)),
    )


def check_numbers(
    file: WeightsFile, also: Collection[str] = (), *, checked: Collection[str] = ()
) -> None:
    """Refuse a file with tensors of another dtype than floating point.

    Args:
        file: Open.
        also: Other dtypes that are accepted, by their name in the file.
        checked: Tensors that may have any dtype.

    Raises:
        WrongNumbers: It names the first of them.
    """
    right = {*_FLOATS, *also}
    dtypes = {name: kind for name, kind in file.dtypes.items() if name not in checked}
    wrong = [f"{name} {kind}" for name, kind in dtypes.items() if kind not in right]
    if wrong:
        raise WrongNumbers(
            "not-floating-point",
            name=file.path.name,
            path=str(file.path),
            count=len(wrong),
            names=_some(wrong),
        )


def assign(module: nn.Module, name: str, value: Tensor) -> None:
    """Assign a parameter or buffer of a module; parameters need no gradient."""
    path, _, leaf = name.rpartition(".")
    put_tensor(module.get_submodule(path), leaf, value)


def check_filled(module: nn.Module) -> None:
    """Raises ValueError when a tensor is still on the meta device: an error in the module."""
    every = chain(module.named_parameters(), module.named_buffers())
    left = [name for name, value in every if value.is_meta]
    if left:
        raise ValueError(f"tensors that are in no file: {', '.join(left)}")


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(str(side) for side in shape) or "scalar"


def _difference(word: str, names: list[str]) -> Message:
    return message(f"difference.{word}", count=len(names), names=_some(names))


def _clauses(first: Message, second: Message) -> Message:
    return message("list.clauses", first=first, next=second)


def _some(names: list[str]) -> tuple[str | Message, ...]:
    more = len(names) - _NAMED
    return (*names[:_NAMED], *([message("list.more", count=more)] if more > 0 else []))
