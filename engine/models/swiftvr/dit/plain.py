"""The transformer of SwiftVR in its plain variant: follows the description, and is the reference.

Tokens keep their places: [T, H, W, dim]. There is no batch, and no mask anywhere. Nothing but the
latent changes from call to call: the time step is always 1000, the prompt always the same.

Source: transformer of Wan 2.2 TI2V-5B (Wan-AI, Apache-2.0) in the layout of diffusers
(Apache-2.0), trained for windows by SwiftVR (H-oliday/SwiftVR, Apache-2.0).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from engine.models.swiftvr.dit.config import SWIFT_DIT, Grid, SwiftDitConfig, Window, windows
from engine.ops.attention.rope import sinusoids
from engine.ops.norm.cache_blocks import work_dtype

TIMESTEP = 1000.0
_BASE = 10000.0


class Condition(NamedTuple):
    """Constants of the blocks, which depend on the weights and the prompt alone.

    Attributes:
        text: [L, dim], the prompt's rows.
        time: [dim].
        modulation: [6, dim]: shift, scale and gate of the attention, then of the MLP.
    """

    text: Tensor
    time: Tensor
    modulation: Tensor


class Sinusoids(nn.Module):
    """Cosines, then sines of a time step."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def forward(self, timestep: float) -> Tensor:
        """[features] float32."""
        return sinusoids(timestep, self.features, cosines_first=True)


class TimeEmbedder(nn.Module):
    """Two layers with SiLU between them."""

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(features, dim)
        self.linear_2 = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[features] -> [dim]."""
        return torch.as_tensor(self.linear_2(F.silu(self.linear_1(x))))


class TextEmbedder(nn.Module):
    """Two layers with GELU, in its form with tanh, between them."""

    def __init__(self, text_dim: int, dim: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(text_dim, dim)
        self.linear_2 = nn.Linear(dim, dim)

    def forward(self, text: Tensor) -> Tensor:
        """[L, text_dim] -> [L, dim]."""
        return torch.as_tensor(self.linear_2(F.gelu(self.linear_1(text), approximate="tanh")))


class ConditionEmbedder(nn.Module):
    """Embeds the time step and the prompt."""

    def __init__(self, config: SwiftDitConfig) -> None:
        super().__init__()
        self.timesteps_proj = Sinusoids(config.time_features)
        self.time_embedder = TimeEmbedder(config.time_features, config.dim)
        self.time_proj = nn.Linear(config.dim, 6 * config.dim)
        self.text_embedder = TextEmbedder(config.text_dim, config.dim)

    def forward(self, prompt: Tensor) -> Condition:
        """[L, text_dim], all rows of the prompt, those of zeros too."""
        like = self.time_proj.bias
        features = self.timesteps_proj(TIMESTEP).to(like.device, like.dtype)
        time = self.time_embedder(features)
        modulation = self.time_proj(F.silu(time)).view(6, -1)
        return Condition(self.text_embedder(prompt), time, modulation)


class SwiftAttention(nn.Module):
    """Attention of many heads, whose queries and keys are normed over all heads together."""

    def __init__(self, config: SwiftDitConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads = config.heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(dim, dim)])
        self.norm_q, self.norm_k = (nn.RMSNorm(dim, config.eps) for _ in range(2))

    def queries_keys_values(self, x: Tensor, context: Tensor) -> tuple[Tensor, ...]:
        """Queries of x [..., dim], keys and values of a context [..., dim]: [..., heads, d]."""
        projected = (
            self.norm_q(self.to_q(x)),
            self.norm_k(self.to_k(context)),
            self.to_v(context),
        )
        return tuple(
            rearrange(each, "... (heads d) -> ... heads d", heads=self.heads) for each in projected
        )

    def joined(self, heads: Tensor) -> Tensor:
        """[..., heads, d] -> [..., dim]."""
        return torch.as_tensor(self.to_out[0](heads.flatten(-2)))


class WindowAttention(SwiftAttention):
    """Every window attends to its own tokens; a token's answer is that of one window."""

    def forward(self, x: Tensor, layout: list[Window], turns: Tensor) -> Tensor:
        """[T, H, W, dim] -> the same shape."""
        q, k, v = self.queries_keys_values(x, x)
        q, k = turned(q, turns), turned(k, turns)
        mixed = torch.empty_like(q)
        for rows, columns in layout:
            inside = (
                each[:, rows.start : rows.end, columns.start : columns.end] for each in (q, k, v)
            )
            found = attended(*(each.flatten(0, 2) for each in inside))
            sides = rows.end - rows.start, columns.end - columns.start
            found = found.view(len(x), *sides, *found.shape[1:])
            answered = found[
                :,
                rows.first - rows.start : rows.stop - rows.start,
                columns.first - columns.start : columns.stop - columns.start,
            ]
            mixed[:, rows.first : rows.stop, columns.first : columns.stop] = answered
        return self.joined(mixed)


class TextAttention(SwiftAttention):
    """Every token attends to the prompt."""

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """[T, H, W, dim] and [L, dim] -> the shape of the first."""
        q, k, v = self.queries_keys_values(x, text)
        return self.joined(attended(q.flatten(0, 2), k, v).view(q.shape))


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax(q k' / sqrt(d)) v for each head: [n, heads, d] and [m, heads, d] -> [n, heads, d]."""
    q, k, v = (rearrange(x, "n heads d -> 1 heads n d") for x in (q, k, v))
    return rearrange(F.scaled_dot_product_attention(q, k, v), "1 heads n d -> n heads d")


class GeluMlp(nn.Module):
    """out(gelu(in(x))), with GELU in its form with tanh."""

    def __init__(self, config: SwiftDitConfig) -> None:
        super().__init__()
        first = nn.ModuleDict({"proj": nn.Linear(config.dim, config.hidden)})
        self.net = nn.ModuleDict({"0": first, "2": nn.Linear(config.hidden, config.dim)})

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> the same shape."""
        first, second = self.net.values()
        hidden = first.get_submodule("proj")(x)
        return torch.as_tensor(second(F.gelu(hidden, approximate="tanh")))


class SwiftBlock(nn.Module):
    """Attention in windows, attention to the prompt, MLP; each added to its input."""

    def __init__(self, config: SwiftDitConfig) -> None:
        super().__init__()
        dim, eps = config.dim, config.eps
        self.norm1 = nn.LayerNorm(dim, eps, elementwise_affine=False)
        self.attn1 = WindowAttention(config)
        self.attn2 = TextAttention(config)
        self.norm2 = nn.LayerNorm(dim, eps)
        self.ffn = GeluMlp(config)
        self.norm3 = nn.LayerNorm(dim, eps, elementwise_affine=False)
        self.scale_shift_table = nn.Parameter(torch.zeros(1, 6, dim))

    def forward(
        self, x: Tensor, condition: Condition, layout: list[Window], turns: Tensor
    ) -> Tensor:
        """[T, H, W, dim] -> the same shape."""
        modulation = self.scale_shift_table[0] + condition.modulation
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation
        x = x + gate1 * self.attn1(self.norm1(x) * (1 + scale1) + shift1, layout, turns)
        x = x + self.attn2(self.norm2(x), condition.text)
        return torch.as_tensor(x + gate2 * self.ffn(self.norm3(x) * (1 + scale2) + shift2))


class SwiftDit(nn.Module):
    """Predicts what is to be subtracted from a latent.

    Attributes:
        config: Sizes of the model.
        prompt: [L, text_dim], in the type of the weights; the loader sets it.
    """

    prompt: Tensor

    def __init__(self, config: SwiftDitConfig = SWIFT_DIT) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("prompt", torch.empty(0), persistent=False)
        sides = (1, config.patch, config.patch)
        self.patch_embedding = nn.Conv3d(config.channels, config.dim, sides, stride=sides)
        self.condition_embedder = ConditionEmbedder(config)
        self.blocks = nn.ModuleList(SwiftBlock(config) for _ in range(config.layers))
        self.norm_out = nn.LayerNorm(config.dim, config.eps, elementwise_affine=False)
        self.proj_out = nn.Linear(config.dim, config.patch_features)
        self.scale_shift_table = nn.Parameter(torch.zeros(1, 2, config.dim))

    def release(self) -> None:
        """Does nothing: this variant keeps no buffers."""

    def close(self) -> None:
        """Does nothing: see `release`."""

    def forward(self, latent: Tensor, first_time: int = 0) -> Tensor:
        """Predict the velocity; the restored latent is the latent minus it.

        Args:
            latent: [1, channels, T, H, W] in the type of the weights; H and W even.
            first_time: Position of the first latent in time. It has no effect beyond rounding:
                attention depends on differences of positions.

        Returns:
            The same shape.

        Memory: about twenty times the tokens' `dim` values.
        """
        config = self.config
        condition = self.condition_embedder(self.prompt)
        x = rearrange(self.patch_embedding(latent), "1 c t h w -> t h w c")
        grid = (x.shape[0], x.shape[1], x.shape[2])
        turns = rotations(config, grid, first_time).to(x.device, _complex(x.dtype))
        layouts = [windows(config, grid, shifted) for shifted in (False, True)]
        for layer, block in enumerate(self.blocks):
            x = block(x, condition, layouts[layer % 2], turns)
        shift, scale = self.scale_shift_table[0] + condition.time
        x = self.proj_out(self.norm_out(x) * (1 + scale) + shift)
        return latent_of(x, config)


def latent_of(patches: Tensor, config: SwiftDitConfig) -> Tensor:
    """[T, H, W, patch_features], channels fastest -> [1, channels, T, 2 * H, 2 * W]."""
    side = config.patch
    return rearrange(patches, "t h w (y x c) -> 1 c t (h y) (w x)", y=side, x=side)


def rotations(config: SwiftDitConfig, grid: Grid, first_time: int = 0) -> Tensor:
    """Rotations of the pairs of channels of a head at each token, as complex numbers.

    Returns:
        [T, H, W, head_dim / 2] complex128: those of time, then of height, then of width.
    """
    angles = [
        axis_angles(torch.arange(first, first + length), part)
        for first, length, part in zip((first_time, 0, 0), grid, config.rope_parts, strict=True)
    ]
    time, rows, columns = (torch.polar(torch.ones_like(each), each) for each in angles)
    return torch.cat(
        [
            time[:, None, None].expand(*grid, -1),
            rows[None, :, None].expand(*grid, -1),
            columns[None, None].expand(*grid, -1),
        ],
        dim=-1,
    )


def axis_angles(positions: Tensor, channels: int) -> Tensor:
    """Angles of pairs of channels of one axis: position / 10000^(2j / channels).

    Returns:
        [positions, channels / 2] float64.
    """
    pairs = torch.arange(0, channels, 2, dtype=torch.float64)
    return positions[:, None] * torch.pow(_BASE, -pairs / channels)


def turned(heads: Tensor, turns: Tensor) -> Tensor:
    """Rotate each pair of neighbouring channels: [..., heads, d] by [..., d / 2] complex."""
    pairs = torch.unflatten(heads.to(work_dtype(heads.dtype)), -1, (-1, 2)).contiguous()
    found = torch.view_as_complex(pairs) * turns.unsqueeze(-2)
    return torch.view_as_real(found).flatten(-2).to(heads.dtype)


def _complex(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64
