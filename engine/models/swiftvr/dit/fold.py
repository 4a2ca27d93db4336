"""Constants of the transformer of SwiftVR: what depends on its weights and the prompt alone.

The time step is always 1000 and the prompt always the same. So the modulations of all blocks are
constants, and so are the keys and values of each attention to the prompt: 13 % of the published
weights only serve to compute them. Rows of the prompt that are equal are one key, the logarithm of
their number added to its score. Where few keys are left, the layer after that attention is applied
to the values beforehand: it then takes the shares of the keys instead of a mix of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from engine.models.load import assign, shapes_of
from engine.models.swiftvr.dit.config import SwiftDitConfig
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


def folds_answers(config: SwiftDitConfig, keys: int) -> bool:
    """Whether the layer after the attention to the prompt is applied to its values beforehand."""
    return 2 * config.heads * keys <= config.dim


def distinct_rows(prompt: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [m, text_dim] of a prompt [L, text_dim] that differ, and the number of each [m]."""
    rows, counts = torch.unique(prompt, dim=0, return_counts=True)
    return rows, counts


def folded(
    config: SwiftDitConfig, weights: Mapping[str, Tensor], prompt: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a `FastSwiftDit`, one by one.

    Args:
        config: Configuration of the model.
        weights: Published name -> tensor, floating point; each is read once.
        prompt: [L, text_dim], on the device to compute on; float64 computes in float64.

    Yields:
        Name and value: as published, or computed in float32 (float64).

    Memory: the layers of time and text in float32 (0.35 GB) until the first block, then one layer.
    """
    exact = work_dtype(prompt.dtype)
    fold = _Fold(config, weights, prompt.to(exact))
    yield "patch_embedding.weight", weights["patch_embedding.weight"].flatten(1)
    yield "patch_embedding.bias", weights["patch_embedding.bias"]
    condition, counts = fold.condition()
    for layer in range(config.layers):
        yield from fold.block(f"blocks.{layer}.", condition, counts)
    shift, scale = fold.exact("scale_shift_table")[0] + condition.time
    yield "modulation", torch.stack([shift, 1 + scale])
    for leaf in ("weight", "bias"):
        yield f"proj_out.{leaf}", weights[f"proj_out.{leaf}"]


class _Fold:
    """Computes constants from published tensors.

    Args:
        config: Configuration of the model.
        weights: Published name -> tensor.
        prompt: [L, text_dim] in the type and on the device to compute in.
    """

    def __init__(
        self, config: SwiftDitConfig, weights: Mapping[str, Tensor], prompt: Tensor
    ) -> None:
        self._config, self._weights, self._prompt = config, weights, prompt

    def exact(self, name: str) -> Tensor:
        """A published tensor to compute with."""
        return self._weights[name].to(self._prompt)

    def condition(self) -> tuple[Condition, Tensor]:
        """Condition of the blocks for the rows of the prompt that differ; number of each row."""
        with torch.device("meta"):
            embedder = ConditionEmbedder(self._config)
        for name in shapes_of(embedder):
            assign(embedder, name, self.exact(f"condition_embedder.{name}"))
        rows, counts = distinct_rows(self._prompt)
        return embedder(rows), counts

    def block(
        self, prefix: str, condition: Condition, counts: Tensor
    ) -> Iterator[tuple[str, Tensor]]:
        """The tensors of a block."""
        for name in _AS_PUBLISHED:
            yield prefix + name, self._weights[prefix + name]
        modulation = self.exact(f"{prefix}scale_shift_table")[0] + condition.modulation
        modulation[[1, 4]] += 1  # scales
        yield f"{prefix}modulation", modulation
        yield from self._text_attention(f"{prefix}attn2.", condition.text, counts)

    def _text_attention(
        self, prefix: str, text: Tensor, counts: Tensor
    ) -> Iterator[tuple[str, Tensor]]:
        config = self._config
        heads = len(text), config.heads, config.head_dim
        keys = self._projected(f"{prefix}to_k", text)
        keys = keys * inverse_rms(keys, config.eps) * self.exact(f"{prefix}norm_k.weight")
        keys = keys * self.exact(f"{prefix}norm_q.weight") / math.sqrt(config.head_dim)
        yield f"{prefix}keys", keys.view(heads).permute(1, 2, 0)
        yield f"{prefix}log_counts", counts.to(keys.dtype).log()
        values = self._projected(f"{prefix}to_v", text).view(heads)
        weight = self.exact(f"{prefix}to_out.0.weight")
        if folds_answers(config, len(text)):
            weight = torch.unflatten(weight, 1, heads[1:])
            yield (
                f"{prefix}to_out.0.weight",
                torch.einsum("ohd,mhd->ohm", weight, values).flatten(1),
            )
        else:
            yield f"{prefix}to_out.0.weight", weight
            yield f"{prefix}values", values.transpose(0, 1)

    def _projected(self, layer: str, text: Tensor) -> Tensor:
        return nn.functional.linear(
            text, self.exact(f"{layer}.weight"), self.exact(f"{layer}.bias")
        )
