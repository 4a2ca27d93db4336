"""The products and the attention of a piece of work alone: what it cannot do without."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm", "_linear_pointwise")
_ATTENTION = "_scaled_dot_product"

Key = tuple[Any, ...]


class Replay(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Notes every product of matrices and every attention inside, to run them again later.

    Weights are read again where they are; other tensors are replaced by one of the same shape and
    layout, so that a recording takes little memory. What packages for attention do without
    operators of torch is not seen. An activation inside a product is left out.

    Args:
        weights: Tensors that stay themselves.

    Attributes:
        flops: Multiplications and additions of everything noted.
        attention_calls: How often attention was called.
    """

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.flops = self.attention_calls = 0
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self._calls: list[Callable[[], Any]] = []
        self._others: dict[Key, Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().rpartition("::")[2].partition(".")[0]
        result = func(*args, **kwargs)
        if name.startswith(_ATTENTION):
            self.attention_calls += 1
            q, k = args[:2]
            self.flops += 4 * prod(q.shape) * k.shape[-2]
            self._note(func, args, kwargs)
        elif name in _PRODUCTS:
            found = result if isinstance(result, Tensor) else result[0]
            self.flops += 2 * prod(found.shape) * self._inner(name, args)
            if name == "_linear_pointwise":
                args = (*args[:3], "none", *args[4:])
            self._note(func, args, kwargs)
        return result

    def run(self) -> None:
        """All of it again, in the same order."""
        for call in self._calls:
            call()

    def _note(self, func: Any, args: Any, kwargs: Any) -> None:
        args, kwargs = tree_map(self._stand_in, (args, kwargs))
        self._calls.append(lambda: func(*args, **kwargs))

    def _stand_in(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.untyped_storage().data_ptr() in self._weights:
            return value
        key: Key = (tuple(value.shape), value.stride(), value.dtype, value.device)
        if key not in self._others:
            self._others[key] = torch.empty_strided(*key[:2], dtype=key[2], device=key[3])
            self._others[key].copy_(value)
        return self._others[key]

    @staticmethod
    def _inner(name: str, args: Any) -> int:
        """Length of the sums of a product."""
        left = args[1] if name in ("addmm", "baddbmm") else args[0]
        return int(left.shape[-1])
