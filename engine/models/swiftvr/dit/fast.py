"""The transformer of SwiftVR in its fast variant: equal to the plain one but for rounding.

What depends on the weights alone was computed when it was loaded (`fold`). Queries and keys are
normed and rotated once for each token, whatever windows it is in; a window then gathers the keys
and values of all its tokens, but only the queries that it answers, so that no answer is thrown
away. Everything else works on some tokens at a time, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from engine.models.swiftvr.dit.config import (
    CALL_VALUES,
    CHUNK_VALUES,
    SWIFT_DIT,
    Grid,
    SwiftDitConfig,
    folds_answers,
    windows,
)
from engine.models.swiftvr.dit.plain import GeluMlp, latent_of, rotations
from engine.ops.attention.attention import AUTO, attend
from engine.ops.linear.quantized_linear import widened
from engine.ops.norm.cache_blocks import inverse_rms, spans, work_dtype
from engine.ops.norm.token_passes import add_gated
from engine.ops.precision import exact_arithmetic, no_gradients

if TYPE_CHECKING:
    from engine.ops.transfer.weight_streaming import WeightStream

_KEPT = 4  # layouts: the first chunk of a shot, those after it, the last one


@dataclass(frozen=True, slots=True, eq=False)
class WindowCall:
    """Windows that attend in one call.

    Attributes:
        queries: [windows, n], numbers of the tokens that each of them answers.
        keys: [windows, m], numbers of all of its tokens.
    """

    queries: Tensor
    keys: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class SwiftLayout:
    """Windows and positions of the tokens of a chunk, which depend on its size alone.

    Attributes:
        calls: Calls of even and of odd layers.
        turns: [tokens, 1, head_dim / 2] complex, the rotation of each token.
    """

    calls: tuple[Sequence[WindowCall], Sequence[WindowCall]]
    turns: Tensor


def layout_of(config: SwiftDitConfig, grid: Grid, like: Tensor) -> SwiftLayout:
    """The layout of a grid of tokens, on the device and for the type of a tensor."""
    exact = torch.complex128 if like.dtype == torch.float64 else torch.complex64
    turns = rotations(config, grid).flatten(0, 2).unsqueeze(1).to(like.device, exact)
    regular, shifted = (window_calls(config, grid, odd, like.device) for odd in (False, True))
    return SwiftLayout((regular, shifted), turns)


def window_calls(
    config: SwiftDitConfig, grid: Grid, shifted: bool, device: torch.device
) -> list[WindowCall]:
    """The windows of a layer, those that answer as many tokens together; each token once."""
    numbers = torch.arange(grid[0] * grid[1] * grid[2]).view(grid)
    found: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for rows, columns in windows(config, grid, shifted):
        queries = numbers[:, rows.first : rows.stop, columns.first : columns.stop].flatten()
        keys = numbers[:, rows.start : rows.end, columns.start : columns.end].flatten()
        found.setdefault(len(queries), []).append((queries, keys))
    calls: list[WindowCall] = []
    for group in found.values():
        most = max(1, CALL_VALUES // (config.dim * len(group[0][1])))
        for start in range(0, len(group), most):
            parts = zip(*group[start : start + most], strict=True)
            calls.append(WindowCall(*(torch.stack(part).to(device) for part in parts)))
    return calls


class FastWindowAttention(nn.Module):
    """Attention in windows; see `plain.WindowAttention`."""

    def __init__(self, config: SwiftDitConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads, self.eps = config.heads, config.eps
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(dim, dim)])
        self.norm_q, self.norm_k = (nn.RMSNorm(dim, config.eps) for _ in range(2))

    def project(self, normed: Tensor, turns: Tensor, out: Tensor) -> None:
        """Write queries, keys and values of some tokens.

        Args:
            normed: [n, dim], modulated.
            turns: [n, 1, head_dim / 2] complex.
            out: [3, n, dim].
        """
        for layer, norm, rows in (
            (self.to_q, self.norm_q, out[0]),
            (self.to_k, self.norm_k, out[1]),
        ):
            self._write_turned(layer(normed), norm.weight, turns, rows)
        out[2] = self.to_v(normed)

    def answer(self, heads: Tensor, calls: Sequence[WindowCall], backend: str) -> Tensor:
        """Answers [tokens, dim] in the place of the queries.

        Args:
            heads: Queries, keys and values of all tokens [3, tokens, dim].
            calls: Calls that answer each token once, so its query is not read again.
            backend: See `attend`.
        """
        queries, keys, values = heads.unbind()
        for call in calls:
            rows = call.queries.flatten()
            found = attend(
                self._gathered(queries, call.queries),
                self._gathered(keys, call.keys),
                self._gathered(values, call.keys),
                backend=backend,
            )
            queries.index_copy_(0, rows, found.transpose(1, 2).reshape(len(rows), -1))
            del found  # before the next call gathers
        return queries

    def _gathered(self, rows: Tensor, numbers: Tensor) -> Tensor:
        """[windows, heads, n, d] of the rows of some tokens [windows, n]."""
        found = rows.index_select(0, numbers.flatten())
        return found.view(*numbers.shape, self.heads, -1).transpose(1, 2)

    def _write_turned(self, x: Tensor, weight: Tensor, turns: Tensor, out: Tensor) -> None:
        """Norm rows over all heads and rotate the pairs of each head, in the exact type."""
        exact = work_dtype(x.dtype)
        weight = weight.to(exact)
        for span in spans(x):
            some = x[span].to(exact)
            some = some * inverse_rms(some, self.eps) * weight
            pairs = torch.view_as_complex(some.view(len(some), self.heads, -1, 2))
            pairs.mul_(turns[span])
            out[span] = some


class FastTextAttention(nn.Module):
    """Attention to the prompt, whose keys are constants; see `fold`.

    Args:
        config: Configuration of the model.
        rows: Rows of the prompt that differ.
    """

    values: Tensor | None

    def __init__(self, config: SwiftDitConfig, rows: int) -> None:
        super().__init__()
        heads, d, dim = config.heads, config.head_dim, config.dim
        self.heads, self.eps = heads, config.eps
        is_folded = folds_answers(config, rows)
        self.to_q = nn.Linear(dim, dim)
        self.to_out = nn.ModuleList([nn.Linear(heads * rows if is_folded else dim, dim)])
        self.register_buffer("keys", torch.empty(heads, d, rows))
        self.register_buffer("log_counts", torch.empty(rows))
        self.register_buffer("values", None if is_folded else torch.empty(heads, rows, d))

    def forward(self, normed: Tensor) -> Tensor:
        """[n, dim] -> the same shape."""
        exact = work_dtype(normed.dtype)
        q = self.to_q(normed).to(exact)
        keys, log_counts = cast(Tensor, self.keys), cast(Tensor, self.log_counts)
        scores = torch.bmm(q.view(len(q), self.heads, -1).transpose(0, 1), keys.to(exact))
        scores.mul_(inverse_rms(q, self.eps)).add_(log_counts.to(exact))
        scores = scores.softmax(-1)
        del q
        shares = scores.to(normed.dtype)
        del scores
        if self.values is not None:
            shares = torch.bmm(shares, self.values.to(normed.dtype))
        return torch.as_tensor(self.to_out[0](shares.transpose(0, 1).flatten(1)))


class FastSwiftBlock(nn.Module):
    """Attention in windows, attention to the prompt, MLP; see `plain.SwiftBlock`."""

    def __init__(self, config: SwiftDitConfig, rows: int) -> None:
        super().__init__()
        self.chunk = max(1, CHUNK_VALUES // config.hidden)
        self.eps = config.eps
        self.attn1 = FastWindowAttention(config)
        self.attn2 = FastTextAttention(config, rows)
        self.norm2 = nn.LayerNorm(config.dim, config.eps)
        self.ffn = GeluMlp(config)
        self.register_buffer("modulation", torch.empty(6, config.dim))

    def run(self, x: Tensor, heads: Tensor, layout: SwiftLayout, odd: int, backend: str) -> None:
        """Change the tokens in place.

        Args:
            x: [tokens, dim], the residual stream.
            heads: [3, tokens, dim] in the type of the model; overwritten.
            layout: Layout of the tokens.
            odd: Whether this is an odd layer.
            backend: See `attend`.
        """
        shift1, scale1, gate1, shift2, scale2, gate2 = cast(Tensor, self.modulation)
        chunks = [slice(at, at + self.chunk) for at in range(0, len(x), self.chunk)]
        for some in chunks:
            normed = layer_norm(x[some], scale1, shift1, self.eps).to(heads.dtype)
            self.attn1.project(normed, layout.turns[some], heads[:, some])
        answers = self.attn1.answer(heads, layout.calls[odd], backend)
        for some in chunks:
            rows = x[some]
            add_gated(rows, self.attn1.to_out[0](answers[some]), gate1)
            normed = layer_norm(rows, self.norm2.weight, self.norm2.bias, self.eps)
            rows += self.attn2(normed.to(heads.dtype))
            normed = layer_norm(rows, scale2, shift2, self.eps).to(heads.dtype)
            add_gated(rows, self._mlp(normed), gate2)

    def _mlp(self, normed: Tensor) -> Tensor:
        """The MLP, with GELU in the memory of its input."""
        first, second = self.ffn.net.values()
        hidden = first.get_submodule("proj")(normed)
        in_place: Any = torch.ops.aten.gelu_
        return torch.as_tensor(second(in_place(hidden, approximate="tanh")))


class FastSwiftDit(nn.Module):
    """Predicts what is to be subtracted from a latent; its tensors are those of `fold.folded`.

    Inference only, by one thread at a time. Next to float16 the residual stream is in float32: its
    sums grow beyond the range of float16.

    Args:
        config: Configuration of the model.
        rows: Rows of the prompt that differ.

    Attributes:
        attention: A backend of `attend`.
        stream: Copies the blocks' weights to the device when they are used; None: they are there.
        between: Called before each layer; may wait, or raise to stop in between.
        trace: Called with "blocks.N" after each layer: [tokens, dim].
    """

    def __init__(self, config: SwiftDitConfig = SWIFT_DIT, rows: int = 2) -> None:
        super().__init__()
        self.config = config
        self.attention = AUTO
        self.stream: WeightStream | None = None
        self.between: Callable[[], None] | None = None
        self.trace: Callable[[str, Tensor], None] | None = None
        self._layouts: dict[tuple[Grid, torch.device, torch.dtype], SwiftLayout] = {}
        self.patch_embedding = nn.Linear(config.patch_features, config.dim)
        self.blocks = nn.ModuleList(FastSwiftBlock(config, rows) for _ in range(config.layers))
        self.register_buffer("modulation", torch.empty(2, config.dim))
        self.proj_out = nn.Linear(config.dim, config.patch_features)

    def forward(self, latent: Tensor) -> Tensor:
        """Predict the velocity; the restored latent is the latent minus it.

        Args:
            latent: [1, channels, T, H, W] in the type of the model; H and W even.

        Returns:
            The same shape.

        Memory: the residual stream, queries, keys and values, each of dim values a token; in half
            precision 64 MiB for each of those that a call of the attention gathers, and for its
            answers, and 128 MiB inside the MLP. Of weights that are streamed two blocks.
        """
        config, side = self.config, self.config.patch
        with no_gradients(), exact_arithmetic():
            grid = config.grid((latent.shape[2], latent.shape[3], latent.shape[4]))
            layout = self._layout(grid, latent)
            rows = rearrange(latent, "1 c t (h y) (w x) -> (t h w) (c y x)", y=side, x=side)
            x = self.patch_embedding(rows)
            x = x.float() if x.dtype == torch.float16 else x
            heads = latent.new_empty(3, *x.shape)
            for layer, block in enumerate(self.blocks):
                if self.between is not None:
                    self.between()
                with self._weights(layer), widened(block):
                    cast(FastSwiftBlock, block).run(x, heads, layout, layer % 2, self.attention)
                if self.trace is not None:
                    self.trace(f"blocks.{layer}", x)
            del heads
            shift, scale = cast(Tensor, self.modulation)
            patches = self.proj_out(layer_norm(x, scale, shift, config.eps).to(latent.dtype))
            return latent_of(patches.view(*grid, -1), config)

    def release(self) -> None:
        """Give the memory of layouts and buffers back; the next call takes it again."""
        self._layouts.clear()
        if self.stream is not None:
            self.stream.release()

    def close(self) -> None:
        """Give back pinned memory too; the model is of no use afterwards."""
        self.release()
        if self.stream is not None:
            self.stream.close()

    def _layout(self, grid: Grid, like: Tensor) -> SwiftLayout:
        key = (grid, like.device, like.dtype)
        if key not in self._layouts:
            if len(self._layouts) == _KEPT:
                self._layouts.clear()
            self._layouts[key] = layout_of(self.config, grid, like)
        return self._layouts[key]

    def _weights(self, layer: int) -> AbstractContextManager[None]:
        return nullcontext() if self.stream is None else self.stream.block(layer)


def layer_norm(rows: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    """Rows [n, dim] normed, scaled and shifted."""
    scale, shift = scale.to(rows.dtype), shift.to(rows.dtype)
    return F.layer_norm(rows, rows.shape[-1:], scale, shift, eps)
