"""Tensors without values: networks are built and run on them to see what they take."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

# It reports what networks do to frames of the wrong kind, which is an answer here.
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)

_aten = torch.ops.aten
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]  # torch's stubs lack setters
_CONVOLUTION = _aten.convolution.default
_INDEXING = {_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default}


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts bytes and operations of what runs inside, and answers where values would decide.

    A value that is not known counts as 0, and a choice of pixels as all of them.

    Attributes:
        now: Bytes of tensors that were made inside and are still there.
        peak: Most of them at once.
        operations: Floating-point operations; a multiply-add is two.
        calls: Number of operator calls.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.now = self.peak = self.operations = self.calls = 0
        self._known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is _aten._local_scalar_dense.default:
            return _value(func, args[0])
        if func is _aten.nonzero.default:
            return torch.empty((args[0].numel(), args[0].dim()), dtype=torch.int64)
        if func in _INDEXING:
            args = (args[0], _without_masks(args[1]), *args[2:])
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor):  # of the network, if nothing made it here
                self._known.setdefault(tensor.untyped_storage(), False)
        result = func(*args, **kwargs)
        if func is _aten.view.default:
            result = result.as_strided(result.shape, _strides(args[0], result.shape))
        self.calls += 1
        count = flop_registry.get(func.overloadpacket)
        if count is not None:
            self.operations += int(count(*args, **kwargs, out_val=result))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        reordered = _reordered(args[0], args[1], result) if func is _CONVOLUTION else 0
        self.peak = max(self.peak, self.now + reordered)
        return result

    def _add(self, storage: Any) -> None:
        if storage not in self._known:
            self._known[storage] = True
            self.now += storage.nbytes()
            weakref.finalize(storage, self._remove, storage.nbytes())

    def _remove(self, size: int) -> None:
        self.now -= size


def _strides(tensor: Tensor, shape: torch.Size) -> tuple[int, ...]:
    """Strides of a view of a tensor with another shape, as torch makes them of tensors with values.

    They may differ at sides of 1, by which convolutions see whether frames lie channels last.
    """
    with unset_fake_temporarily():
        return (
            torch.empty_strided(tensor.shape, tensor.stride(), device="meta").view(shape).stride()
        )


def _reordered(frames: Tensor, weight: Tensor, result: Tensor) -> int:
    """Bytes that a convolution copies, in the order of its library.

    Those are the weights. Frames that do not lie as the result are copied first; where that is not
    channels last, they and the result have copies in the order of the library as well.
    """
    layout = suggest_memory_format(result)
    size = weight.nbytes + (0 if frames.is_contiguous(memory_format=layout) else frames.nbytes)
    return size + (frames.nbytes + result.nbytes if layout is torch.contiguous_format else 0)


class _Known(TorchFunctionMode):
    """Run an operator; only results of tensors with values have values."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if func == _SET_DATA and not isinstance(args[1], FakeTensor):
            return func(args[0], torch.empty_like(args[1]))  # values do not go where none are
        if tensors and not any(isinstance(one, FakeTensor) for one in tensors):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        return func(*args, **kwargs)


def _value(func: Any, tensor: Tensor) -> Any:
    if isinstance(tensor, FakeTensor):
        return False if tensor.dtype is torch.bool else 0
    with unset_fake_temporarily():
        return func(tensor)


def _without_masks(indices: Any) -> list[Any]:
    """Indices in which places of all pixels take the place of masks."""
    found: list[Any] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            every = math.prod(index.shape)
            found += [torch.empty(every, dtype=torch.int64) for _ in index.shape]
        else:
            found.append(index)
    return found


@contextmanager
def pretended(mode: FakeTensorMode) -> Iterator[Meter]:
    """Inside, new tensors have no values; sizes, dtypes and bytes are right."""
    with torch.inference_mode(False), torch.no_grad(), mode, _Known(), Meter() as meter:
        yield meter


def new_mode() -> FakeTensorMode:
    """A mode whose tensors can be used together; small ones of a file may have values."""
    return FakeTensorMode(allow_non_fake_inputs=True)
