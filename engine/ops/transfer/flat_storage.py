"""Tensors of a module as views of one buffer, so that they move in one copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

_ALIGNED = 256  # bytes; enough for every vector load


def put_tensor(owner: nn.Module, leaf: str, tensor: Tensor) -> None:
    """Replace a parameter or buffer of a module by a tensor on any device."""
    if leaf in owner._parameters:
        if not isinstance(tensor, nn.Parameter):
            tensor = nn.Parameter(tensor, requires_grad=False)
        owner._parameters[leaf] = tensor
    else:
        owner._buffers[leaf] = tensor


@dataclass(frozen=True, slots=True, eq=False)
class _TensorPlace:
    """One tensor of a module, and its offset in the bytes."""

    owner: nn.Module
    leaf: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    begin: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def view(self, flat: Tensor) -> Tensor:
        view = flat[self.begin : self.begin + self.nbytes].view(self.dtype).view(self.shape)
        is_parameter = self.leaf in self.owner._parameters
        return nn.Parameter(view, requires_grad=False) if is_parameter else view


class FlatTensors:
    """Some tensors of a module, and the layout of a copy of them.

    Args:
        module: Whose tensors they are.
        dtypes: Names as `named_parameters` and `named_buffers` give them, and what each is to be
            in the copy.

    Attributes:
        nbytes: Bytes of the copy.
    """

    def __init__(self, module: nn.Module, dtypes: Mapping[str, torch.dtype]) -> None:
        self._places: list[_TensorPlace] = []
        self._own: list[Tensor] = []
        self.nbytes = 0
        for name, dtype in dtypes.items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            self._own.append(getattr(owner, leaf))
            place = _TensorPlace(owner, leaf, tuple(self._own[-1].shape), dtype, self.nbytes)
            self._places.append(place)
            self.nbytes += -(-place.nbytes // _ALIGNED) * _ALIGNED

    def pack(self, flat: Tensor) -> None:
        """Copy the module's own tensors into other bytes, converted."""
        for tensor, view in zip(self._own, self.views(flat), strict=True):
            view.copy_(tensor)

    def views(self, flat: Tensor) -> list[Tensor]:
        """The tensors of a copy; parameters where the module has parameters."""
        return [place.view(flat) for place in self._places]

    def use(self, tensors: Sequence[Tensor]) -> None:
        """Assign these to the module, in the order of `views`."""
        for place, tensor in zip(self._places, tensors, strict=True):
            put_tensor(place.owner, place.leaf, tensor)

    def use_own(self) -> None:
        """Assign the module its own tensors again."""
        self.use(self._own)

    def settle(self, flat: Tensor) -> None:
        """Make a packed copy the module's own tensors; the old ones are freed."""
        self._own = self.views(flat)
        self.use_own()
