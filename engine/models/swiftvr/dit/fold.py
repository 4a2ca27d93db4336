"""Constants of the transformer of SwiftVR: what depends on its weights and the prompt alone.

The time step is always 1000 and the prompt always the same. So the modulations of all blocks are
constants, and so are the keys and values of each attention to the prompt: 13 % of the published
weights only serve to compute them. Rows of the prompt that are equal are one key, the logarithm of
their number added to its score. Where few keys are left, the layer after that attention is applied
to the values beforehand: it then takes the shares of the keys instead of a mix of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from engine.models.load import assign, shapes_alone, shapes_of
from engine.models.swiftvr.dit.config import SwiftDitConfig, folds_answers
from engine.models.swiftvr.dit.plain import Condition, ConditionEmbedder
from engine.ops.norm.cache_blocks import inverse_rms, work_dtype

_AS_PUBLISHED = (
    *(f"attn1.{layer}.{leaf}" for layer in ("to_q", "to_k", "to_v") for leaf in ("weight", "bias")),
    "attn1.norm_q.weight",
    "attn1.norm_k.weight",
    "attn1.to_out.0.weight",
    "attn1.to_out.0.bias",
    "norm2.weight",
    "norm2.bias",
    "attn2.to_q.weight",
    "attn2.to_q.bias",
    "attn2.to_out.0.bias",
    "ffn.net.0.proj.weight",
    "ffn.net.0.proj.bias",
    "ffn.net.2.weight",
    "ffn.net.2.bias",
)


def distinct_rows(prompt: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [m, text_dim] of a prompt [L, text_dim] that differ, and the number of each [m]."""
    rows, counts = torch.unique(prompt, dim=0, return_counts=True)
    return rows, counts


def folded(
    config: SwiftDitConfig, weights: Mapping[str, Tensor], prompt: Tensor
) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """The tensors of a `FastSwiftDit`, each to be made when it is wanted, once.

    Args:
        config: Configuration of the model.
        weights: Published name -> tensor, floating point; read when a tensor is made.
        prompt: [L, text_dim], on the device to compute on; float64 computes in float64.

    Yields:
        Name, and what makes the value: as published, or computed in float32 (float64).

    Memory: one layer in float32; at first those of time and text (0.35 GB).
    """
    fold = _Fold(config, weights, prompt.to(work_dtype(prompt.dtype)))
    yield "patch_embedding.weight", lambda: weights["patch_embedding.weight"].flatten(1)
    yield "patch_embedding.bias", partial(weights.__getitem__, "patch_embedding.bias")
    for layer in range(config.layers):
        prefix = f"blocks.{layer}."
        for name in _AS_PUBLISHED:
            yield prefix + name, partial(weights.__getitem__, prefix + name)
        yield f"{prefix}modulation", partial(fold.modulation, prefix)
        yield f"{prefix}attn2.keys", partial(fold.keys, f"{prefix}attn2.")
        yield f"{prefix}attn2.log_counts", fold.log_counts
        yield f"{prefix}attn2.to_out.0.weight", partial(fold.answers, f"{prefix}attn2.")
        if not fold.is_folded:
            yield f"{prefix}attn2.values", partial(fold.values, f"{prefix}attn2.")
    yield "modulation", fold.last_modulation
    for leaf in ("weight", "bias"):
        yield f"proj_out.{leaf}", partial(weights.__getitem__, f"proj_out.{leaf}")


class _Fold:
    """Computes constants from published tensors.

    Args:
        config: Configuration of the model.
        weights: Published name -> tensor.
        prompt: [L, text_dim] in the type and on the device to compute in.

    Attributes:
        is_folded: Whether values are a part of the layer after the attention to the prompt.
    """

    def __init__(
        self, config: SwiftDitConfig, weights: Mapping[str, Tensor], prompt: Tensor
    ) -> None:
        self._config, self._weights = config, weights
        self._rows, self._counts = distinct_rows(prompt)
        self.is_folded = folds_answers(config, len(self._rows))

    def modulation(self, prefix: str) -> Tensor:
        """Shift, scale and gate of both steps of a block [6, dim]; scales are factors."""
        found = self._exact(f"{prefix}scale_shift_table")[0] + self._condition.modulation
        found[1::3] += 1
        return found

    def last_modulation(self) -> Tensor:
        """Shift and scale after the last block [2, dim]."""
        shift, scale = self._exact("scale_shift_table")[0] + self._condition.time
        return torch.stack([shift, 1 + scale])

    def keys(self, prefix: str) -> Tensor:
        """Keys of an attention to the prompt [heads, d, m], with the weights of both norms."""
        config = self._config
        keys = self._projected(f"{prefix}to_k")
        keys = keys * inverse_rms(keys, config.eps) * self._exact(f"{prefix}norm_k.weight")
        keys = keys * self._exact(f"{prefix}norm_q.weight") / math.sqrt(config.head_dim)
        return keys.view(-1, config.heads, config.head_dim).permute(1, 2, 0)

    def log_counts(self) -> Tensor:
        """Logarithm of the number of rows that each key stands for [m]."""
        return self._counts.to(self._rows.dtype).log()

    def values(self, prefix: str) -> Tensor:
        """Values of an attention to the prompt [heads, m, d]."""
        found = self._projected(f"{prefix}to_v")
        return found.view(-1, self._config.heads, self._config.head_dim).transpose(0, 1)

    def answers(self, prefix: str) -> Tensor:
        """Weight of the layer after the attention, [dim, heads * m] where it has the values."""
        weight = self._exact(f"{prefix}to_out.0.weight")
        if not self.is_folded:
            return weight
        weight = torch.unflatten(weight, 1, (self._config.heads, -1))
        return torch.einsum("ohd,hmd->ohm", weight, self.values(prefix)).flatten(1)

    def _projected(self, layer: str) -> Tensor:
        weight, bias = self._exact(f"{layer}.weight"), self._exact(f"{layer}.bias")
        return nn.functional.linear(self._condition.text, weight, bias)

    def _exact(self, name: str) -> Tensor:
        """A published tensor to compute with."""
        return self._weights[name].to(self._rows)

    @cached_property
    def _condition(self) -> Condition:
        """Condition of the blocks for the rows of the prompt that differ."""
        with shapes_alone():
            embedder = ConditionEmbedder(self._config)
        for name in shapes_of(embedder):
            assign(embedder, name, self._exact(f"condition_embedder.{name}"))
        found: Condition = embedder(self._rows)
        return found
