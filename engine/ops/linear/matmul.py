"""Matrix product of tokens and the weights of a linear layer, by the faster of two libraries."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.choices import uses
from engine.ops.trials import trial

Activation = Literal["none", "gelu", "swish"]


def product(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, *, share: float = 1.0
) -> Tensor:
    """The matrix product (x weight' + bias) * share, written into `out`.

    Args:
        x: [N, in].
        weight: [out, in].
        bias: [out].
        out: [N, out].
        share: Factor of the sums before they are rounded: a power of two below 1 lets float16 hold
            larger ones.

    Returns:
        `out`.
    """
    if bias is None and share == 1:
        return torch.mm(x, weight.t(), out=out)
    if bias is None:
        return torch.addmm(out, x, weight.t(), beta=0, alpha=share, out=out)
    return torch.addmm(bias, x, weight.t(), beta=share, alpha=share, out=out)


def onednn_product(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: Activation = "none"
) -> Tensor:
    """The product in a new tensor, by oneDNN; for what `onednn_serves` only.

    torch leaves float32 to MKL, which takes 1.1 to 1.3 times as long on an AMD EPYC (Zen 4).

    Args:
        x: [N, in].
        weight: [out, in].
        bias: [out].
        activation: Function of each sum before it is written; "gelu" is the approximation
            with tanh, "swish" is also called SiLU.
    """
    operators: Any = torch.ops.mkldnn
    found = operators._linear_pointwise(x, weight, bias, activation, [], "tanh")
    return torch.as_tensor(found)


def onednn_serves(x: Tensor) -> bool:
    """Whether `onednn_product` is available for such tensors, and faster."""
    serves = x.device.type == "cpu" and x.dtype == torch.float32
    return serves and uses("cpu", "onednn", ("product",), _fault)


@trial(2e-5, AttributeError, NotImplementedError, RuntimeError, TypeError)
def _fault() -> float:
    """Fault of the operator, which is not public: removed, without an activation, ..."""
    x, weight, bias = (torch.arange(1.0, n + 1).sin() for n in (40, 24, 3))
    x, weight = x.view(5, 8), weight.view(3, 8)
    plain = torch.addmm(bias, x, weight.t())
    wanted = (x @ weight.t(), plain, F.gelu(plain, approximate="tanh"), F.silu(plain))
    found = [onednn_product(x, weight, None)]
    found += [onednn_product(x, weight, bias, kind) for kind in ("none", "gelu", "swish")]
    return max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True))
