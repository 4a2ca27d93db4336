"""Upper bounds of the device's speed, to compare models with."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from engine.bench.timing.clock import measure

REFERENCE_CALIBRATION = 0.69  # CPU s of `calibration` on the machine of the public figures
CALIBRATION_FLOPS = 2 * 128 * 128 * 27 * 5 * 128 * 128  # with the zeros of the padding
_MATMULS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm", "_linear_pointwise")
_ATTENTION = "_scaled_dot_product"


def calibration(*, quick: bool = False) -> float:
    """CPU seconds of a convolution that compares the processor with that of the public figures.

    128 to 128 channels, 3x3x3, on 5 frames of 128x128, float32, at most two threads.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(min(2, threads))
    try:
        layer = torch.nn.Conv3d(128, 128, 3, padding=1)
        frames = torch.randn(1, 128, 5, 128, 128)
        runs, warm_ups = (3, 1) if quick else (15, 3)
        with torch.inference_mode():
            return measure(lambda: layer(frames), runs=runs, warm_ups=warm_ups).seconds
    finally:
        torch.set_num_threads(threads)


def matrix_ceiling(device: str, dtype: torch.dtype, *, quick: bool = False) -> float:
    """Floating-point operations of a large matrix product, per CPU second or GPU second."""
    on_gpu = device == "cuda"
    side = (8192 if on_gpu else 2048) // (4 if quick else 1)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    runs, warm_ups = (10, 3) if on_gpu else (3, 1)
    with torch.inference_mode():
        timing = measure(lambda: left @ right, device, runs=runs, warm_ups=warm_ups)
    return float(2 * side**3 / timing.seconds)


class MatmulRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Records every matrix product and attention inside, to run them again without the rest.

    Weights stay the tensors they are; all others are replaced by one of the same shape and layout,
    so that a recording takes little memory. Attention by packages that register no operators of
    torch is not recorded. An activation fused into a product is left out.

    Args:
        weights: Tensors that are not replaced.

    Attributes:
        flops: Multiplications and additions of all recorded calls.
        attention_calls: Number of recorded calls of attention.
    """

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.flops = self.attention_calls = 0
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self._calls: list[Callable[[], Any]] = []
        self._substitutes: dict[tuple[Any, ...], Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().rpartition("::")[2].partition(".")[0]
        result = func(*args, **kwargs)
        if name.startswith(_ATTENTION):
            self.attention_calls += 1
            q, k = args[:2]
            self.flops += 4 * prod(q.shape) * k.shape[-2]
            self._record(func, args, kwargs)
        elif name in _MATMULS:
            product = result if isinstance(result, Tensor) else result[0]
            left = args[1] if name in ("addmm", "baddbmm") else args[0]
            self.flops += 2 * prod(product.shape) * int(left.shape[-1])
            if name == "_linear_pointwise":
                args = (*args[:3], "none", *args[4:])
            self._record(func, args, kwargs)
        return result

    def run(self) -> None:
        """Run all recorded calls in the same order."""
        for call in self._calls:
            call()

    def _record(self, func: Any, args: Any, kwargs: Any) -> None:
        args, kwargs = tree_map(self._substitute, (args, kwargs))
        self._calls.append(lambda: func(*args, **kwargs))

    def _substitute(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.untyped_storage().data_ptr() in self._weights:
            return value
        key = (tuple(value.shape), value.stride(), value.dtype, value.device)
        if key not in self._substitutes:
            tensor = torch.empty_strided(*key[:2], dtype=key[2], device=key[3])
            self._substitutes[key] = tensor.copy_(value)
        return self._substitutes[key]
