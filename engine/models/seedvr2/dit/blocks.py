"""Modules of the SeedVR2 transformer, each as published.

Picture tokens keep their places: [T, H, W, dim]; text tokens are a list: [L, dim]. There is no
batch, because windows mix nothing but one clip and its text.

Source: SeedVR2 transformer (ByteDance-Seed/SeedVR, Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from engine.models.seedvr2.dit.config import DitConfig, Grid, Window
from engine.ops.attention.rope import rotate, sinusoids

Stream = Literal["vid", "txt"]

STREAMS: tuple[Stream, Stream] = ("vid", "txt")
ATTENTION, MLP = 0, 1  # the two steps of a block, in the order of the modulation


@dataclass(frozen=True, slots=True)
class Layout:
    """Windows of a layer and the rotary angles of its tokens.

    Attributes:
        windows: Windows of this layer; together they hold every video token once.
        angles: Angles of the video tokens for each shape of a window, [tokens, P] float32.
        text_angles: [L, P] float32, the same for the text; None: it is not rotated.
    """

    windows: list[Window]
    angles: Mapping[Grid, Tensor]
    text_angles: Tensor | None


class DitRmsNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) over the channels, times a weight; half precision in float32."""

    def __init__(self, config: DitConfig, channels: int) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[..., C] -> the same shape and type."""
        return rms_norm(x, self.weight, self.eps)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """RMS norm as a function; without a weight that factor is left out."""
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    normed = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + eps)
    return (normed if weight is None else normed * weight).to(x.dtype)


class Streams(nn.ModuleDict):
    """One module each for picture ("vid") and text ("txt"), or one for both ("all")."""

    def __init__(self, make: Callable[[], nn.Module], names: tuple[str, ...]) -> None:
        super().__init__({name: make() for name in names})

    def of(self, stream: Stream) -> nn.Module:
        """The module of a stream."""
        return self["all"] if "all" in self else self[stream]


class TimeEmbedding(nn.Module):
    """A time step from 0 to 1000 -> the embedding of all modulations."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.features = config.time_features
        self.proj_in = nn.Linear(config.time_features, config.dim)
        self.proj_hid = nn.Linear(config.dim, config.dim)
        self.proj_out = nn.Linear(config.dim, 6 * config.dim)

    def forward(self, timestep: float) -> Tensor:
        """[6 * dim]; channels are slowest, then attention and MLP, then shift, scale and gate."""
        like = self.proj_in.bias  # of the type that is computed in, whatever the weights are in
        features = sinusoids(timestep, self.features).to(like.device, like.dtype)
        hidden = F.silu(self.proj_hid(F.silu(self.proj_in(features))))
        return torch.as_tensor(self.proj_out(hidden))


class Modulation(nn.Module):
    """Learned shift, scale and gate of a block; those of the time step are added."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attn_shift = nn.Parameter(torch.zeros(dim))
        self.attn_scale = nn.Parameter(torch.ones(dim))
        self.attn_gate = nn.Parameter(torch.ones(dim))
        self.mlp_shift = nn.Parameter(torch.zeros(dim))
        self.mlp_scale = nn.Parameter(torch.ones(dim))
        self.mlp_gate = nn.Parameter(torch.ones(dim))

    def forward(self, emb: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Shift, scale and gate [dim] of one step of the block."""
        steps = rearrange(emb, "(c step kind) -> step kind c", step=2, kind=3)
        shift, scale, gate = steps[step].unbind()
        if step == ATTENTION:
            return shift + self.attn_shift, scale + self.attn_scale, gate + self.attn_gate
        return shift + self.mlp_shift, scale + self.mlp_scale, gate + self.mlp_gate


class SwigluMlp(nn.Module):
    """out(silu(gate(x)) * in(x)), without biases."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.proj_in_gate = nn.Linear(config.dim, config.mlp_hidden, bias=False)
        self.proj_out = nn.Linear(config.mlp_hidden, config.dim, bias=False)
        self.proj_in = nn.Linear(config.dim, config.mlp_hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> the same shape."""
        return torch.as_tensor(self.proj_out(F.silu(self.proj_in_gate(x)) * self.proj_in(x)))


class GeluMlp(nn.Module):
    """out(gelu(in(x))) with biases; gelu by its approximation with tanh."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.proj_in = nn.Linear(config.dim, config.mlp_hidden)
        self.proj_out = nn.Linear(config.mlp_hidden, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> the same shape."""
        return torch.as_tensor(self.proj_out(F.gelu(self.proj_in(x), approximate="tanh")))


class WindowAttention(nn.Module):
    """Every window attends over its own picture tokens and all text tokens.

    The text gets one answer from each window; their mean is passed on.
    """

    def __init__(self, config: DitConfig, names: tuple[str, ...]) -> None:
        super().__init__()
        self.heads = config.heads
        dim, inner = config.dim, config.inner_dim
        self.proj_qkv = Streams(lambda: nn.Linear(dim, 3 * inner, bias=False), names)
        self.proj_out = Streams(lambda: nn.Linear(inner, dim), names)
        self.norm_q = Streams(lambda: DitRmsNorm(config, config.head_dim), names)
        self.norm_k = Streams(lambda: DitRmsNorm(config, config.head_dim), names)

    def forward(self, vid: Tensor, txt: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """[T, H, W, dim] and [L, dim] -> the same shapes, before the gate."""
        pictures = self._queries_keys_values(vid, "vid")
        texts = turned(self._queries_keys_values(txt, "txt"), layout.text_angles)
        mixed = torch.empty_like(pictures[0])
        answers = []
        for window in layout.windows:
            inside = tuple(
                rearrange(x[window.slices], "t h w heads d -> (t h w) heads d") for x in pictures
            )
            inside = turned(inside, layout.angles[window.shape])
            result = attention(*(torch.cat(pair) for pair in zip(inside, texts, strict=True)))
            picture, answer = result.tensor_split([window.tokens])
            mixed[window.slices] = picture.view(*window.shape, *picture.shape[1:])
            answers.append(answer)
        text = torch.stack(answers).mean(0)
        return self._joined(mixed, "vid"), self._joined(text, "txt")

    def _queries_keys_values(self, x: Tensor, stream: Stream) -> tuple[Tensor, ...]:
        """Each [..., heads, d]: all queries come first, then all keys, then all values."""
        qkv = self.proj_qkv.of(stream)(x)
        q, k, v = rearrange(qkv, "... (qkv heads d) -> qkv ... heads d", qkv=3, heads=self.heads)
        return self.norm_q.of(stream)(q), self.norm_k.of(stream)(k), v

    def _joined(self, heads: Tensor, stream: Stream) -> Tensor:
        joined = rearrange(heads, "... heads d -> ... (heads d)")
        return torch.as_tensor(self.proj_out.of(stream)(joined))


def turned(qkv: tuple[Tensor, ...], angles: Tensor | None) -> tuple[Tensor, ...]:
    """Queries and keys rotated by the angles of their positions, values as they are."""
    q, k, v = qkv
    return qkv if angles is None else (rotate(q, angles), rotate(k, angles), v)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax(q k' / sqrt(d)) v for each head: [n, heads, d] -> the same shape."""
    q, k, v = (rearrange(x, "n heads d -> 1 heads n d") for x in (q, k, v))
    return rearrange(F.scaled_dot_product_attention(q, k, v), "1 heads n d -> n heads d")


class DitBlock(nn.Module):
    """Norm, modulation, attention, gate; norm, modulation, MLP, gate; each added to its input."""

    def __init__(self, config: DitConfig, layer: int) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.text_ends = config.text_ends(layer)
        names = ("all",) if config.is_shared(layer) else STREAMS
        changed = names[:1] if self.text_ends else names
        mlp = SwigluMlp if config.mlp == "swiglu" else GeluMlp
        self.attn = WindowAttention(config, names)
        self.mlp = Streams(lambda: mlp(config), changed)
        self.ada = Streams(lambda: Modulation(config.dim), changed)

    def forward(
        self, vid: Tensor, txt: Tensor, emb: Tensor, layout: Layout
    ) -> tuple[Tensor, Tensor]:
        """Picture [T, H, W, dim] and text [L, dim] -> the same shapes.

        A block in which the text ends shows it to the attention normed, but neither scaled nor
        shifted, and returns it unchanged.
        """
        seen = rms_norm(txt, None, self.eps)
        if not self.text_ends:
            seen = self._modulated(txt, emb, "txt", ATTENTION)
        pictures, texts = self.attn(self._modulated(vid, emb, "vid", ATTENTION), seen, layout)
        vid = self._after(vid, pictures, emb, "vid")
        return vid, txt if self.text_ends else self._after(txt, texts, emb, "txt")

    def _modulated(self, x: Tensor, emb: Tensor, stream: Stream, step: int) -> Tensor:
        shift, scale, _ = self.ada.of(stream)(emb, step)
        return torch.as_tensor(rms_norm(x, None, self.eps) * scale + shift)

    def _after(self, x: Tensor, attended: Tensor, emb: Tensor, stream: Stream) -> Tensor:
        """The residual of the attention, then the MLP with its own."""
        gates = [self.ada.of(stream)(emb, step)[2] for step in (ATTENTION, MLP)]
        x = x + attended * gates[ATTENTION]
        hidden = self.mlp.of(stream)(self._modulated(x, emb, stream, MLP))
        return torch.as_tensor(x + hidden * gates[MLP])
