"""A layer of the fast transformer: what a plain block computes, on rows of tokens and in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from math import prod
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.models.seedvr2.dit.blocks import ATTENTION, MLP, DitBlock, GeluMlp, Stream, SwigluMlp
from engine.models.seedvr2.dit.config import DitConfig, chunk_rows, even_chunk, stream_dtype
from engine.models.seedvr2.dit.elementwise import ElementwiseOps, Shifts, Triple
from engine.models.seedvr2.dit.modulation import LayerVectors, branch_share
from engine.models.seedvr2.dit.token_layout import Order, WindowGroup
from engine.ops.attention.attention import attend
from engine.ops.conv.workspace import Workspace
from engine.ops.linear import promoted
from engine.ops.linear.matmul import Activation, onednn_product, onednn_serves, product
from engine.ops.linear.quantized_linear import ProductLinear, QuantizedLinear
from engine.ops.norm.cache_blocks import work_dtype
from engine.settings.optimisations import DitSwitches


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Order of the tokens of a layer, before and after it.

    Attributes:
        order: Order of its windows.
        move: [N], the row of each token in the layer before; None: they stay.
        into: [N, dim], where they go if they move.
    """

    order: Order
    move: Tensor | None
    into: Tensor


class Tools:
    """Elementwise operations and buffers that all layers of a model share.

    The residual stream has buffers of its own: next to float16 it is in float32, see
    `config.stream_dtype`. What is added to it comes from products whose sums are scaled down before
    they are rounded (`branch_share`); the gates bring it back (`modulation.Modulations`).

    Args:
        config: Configuration of the model.
        switches: Its optimisations.
        device: Device that it works on.
        dtype: Type that it computes in.

    Attributes:
        stream: Type of the residual stream.
        share: Factor of what is added to it.
    """

    def __init__(
        self, config: DitConfig, switches: DitSwitches, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config, self.switches = config, switches
        self.steps = _elementwise(switches, config.norm_eps)
        name = stream_dtype(str(dtype).removeprefix("torch."))
        self.stream: torch.dtype = getattr(torch, name)
        self.share = branch_share(dtype)
        self._dtype, planned = dtype, switches.planned_buffers
        self._promotes = switches.kernels and switches.fp16_sums and dtype == torch.float16
        self.workspace = Workspace(device, dtype, planned=planned)
        self._of_stream = (
            Workspace(device, self.stream, planned=planned) if self.is_wide else self.workspace
        )
        self._chunk = chunk_rows(config, device.type, dtype.itemsize)

    @property
    def is_wide(self) -> bool:
        """Whether the residual stream has a wider type than all else."""
        return self.stream != self._dtype

    def release(self) -> None:
        """Free all buffers."""
        self.workspace.release()
        self._of_stream.release()

    def work_on(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether they are made for this device and dtype."""
        return self.workspace.holds(device, dtype)

    def rows(self, purpose: str, *shape: int) -> Tensor:
        """Uninitialised values of this shape, valid until the next request for `purpose`."""
        return self.workspace.flat(purpose, prod(shape)).view(shape)

    def tokens(self, purpose: str, count: int) -> Tensor:
        """Uninitialised tokens [count, dim] of the residual stream, like `rows`."""
        shape = count, self.config.dim
        return self._of_stream.flat(purpose, prod(shape)).view(shape)

    def chunk_rows(self, count: int) -> int:
        """Tokens that are projected at a time, of `count` in all."""
        return even_chunk(count, self._chunk if self.switches.token_chunks else count)

    def project(
        self,
        linear: nn.Module,
        x: Tensor,
        purpose: str,
        activation: Activation = "none",
        share: float = 1.0,
    ) -> Tensor:
        """Apply a linear layer, into a buffer where the layer can write into one.

        Args:
            linear: The layer.
            x: [N, in].
            purpose: Buffer of the result.
            activation: Function of the result.
            share: Factor of the result, see `product`; 1 in float32.
        """
        if isinstance(linear, QuantizedLinear) and not isinstance(linear, ProductLinear):
            weight = linear.wide_weight(x.dtype)
        elif type(linear) is nn.Linear:
            weight = linear.weight
        else:
            found = torch.as_tensor(linear(x))  # rounded before it is scaled
            return self.steps.activated(found if share == 1 else found.mul_(share), activation)
        if self.by_onednn(x):
            return onednn_product(x, weight, linear.bias, activation)
        out = self.rows(purpose, len(x), linear.out_features)
        if not (self._promotes and promoted.multiply(x, weight, linear.bias, out, share=share)):
            product(x, weight, linear.bias, out, share=share)
        return self.steps.activated(out, activation)

    def projected_stream(self, linear: nn.Module, rows: Tensor) -> Tensor:
        """Apply a linear layer to tokens of the residual stream, in its type."""
        if isinstance(linear, QuantizedLinear):
            return torch.as_tensor(linear(rows))
        plain = cast(nn.Linear, linear)
        bias = None if plain.bias is None else plain.bias.to(rows.dtype)
        return F.linear(rows, plain.weight.to(rows.dtype), bias)

    def sums_in_products(self, x: Tensor) -> bool:
        """Whether a matrix product may add to its output in place."""
        return self.switches.in_place_residual and not self.by_onednn(x)

    def by_onednn(self, x: Tensor) -> bool:
        """Whether float32 matrix products use oneDNN, activation included."""
        return self.switches.onednn_matmul and onednn_serves(x)


class FastBlock:
    """Works with the weights of a plain block.

    Args:
        block: Whose weights.
        tools: Tools of the model.
        text_is_read: Whether a later layer uses the text.

    Attributes:
        changes_text: Whether it computes what becomes of the text.
    """

    def __init__(self, block: DitBlock, tools: Tools, *, text_is_read: bool) -> None:
        self._block, self._tools = block, tools
        self.changes_text = text_is_read and not block.text_ends

    def text_heads(self, text: Tensor, vectors: LayerVectors) -> Tensor:
        """Queries, keys and values of the text: [L, 3, heads, d]."""
        return self._heads("txt", text, vectors.shifts["txt", ATTENTION]).clone()

    def run(
        self, picture: Tensor, text: Tensor, texts: Tensor, target: TokenRows, vectors: LayerVectors
    ) -> tuple[Tensor, Tensor]:
        """One layer.

        Args:
            picture: [N, dim], rows in the order of the layer before; overwritten if they stay.
            text: [L, dim]; not changed.
            texts: Result of `text_heads` for the text.
            target: Destination of this layer's tokens.
            vectors: Vectors of this layer.

        Returns:
            `picture` or `target.into` in the order of this layer; the text after it.

        Memory: q, k, v and twice the answers of a window group, a chunk of tokens in the MLP, whose
            gate lies where q, k and v were.
        """
        after = picture
        if target.move is not None:
            after = torch.index_select(picture, 0, target.move, out=target.into)
        groups = target.order.groups
        sums = [self._through(after[group.rows], texts, group, vectors) for group in groups]
        if self.changes_text:
            text = text.clone()
            mean = torch.stack(sums).sum(0).div_(target.order.windows).to(texts.dtype)
            self._finish("txt", text, mean, vectors)
        return after, text

    def _through(
        self, rows: Tensor, texts: Tensor, group: WindowGroup, vectors: LayerVectors
    ) -> Tensor:
        """A group in place; the sum of its windows' answers to the text [L, inner_dim]."""
        answers = self._attended(self._projected(rows, texts, group, vectors), group)
        size = self._tools.chunk_rows(len(rows))
        chunks = torch.split(rows, size), torch.split(answers[: len(rows)], size)
        for some, answer in zip(*chunks, strict=True):
            self._finish("vid", some, answer, vectors)
        of_text = answers[len(rows) :].view(-1, len(texts), answers.shape[1])
        return of_text.sum(0, dtype=work_dtype(answers.dtype))

    def _projected(
        self, rows: Tensor, texts: Tensor, group: WindowGroup, vectors: LayerVectors
    ) -> Triple:
        """Queries, keys and values of a group, each [rows of q, k and v, heads, d]."""
        tools = self._tools
        q, k, v = tools.rows("heads", 3, group.length, *texts.shape[2:])
        size = tools.chunk_rows(len(rows))
        for begin in range(0, len(rows), size):
            part = slice(begin, begin + size)
            qkv = self._heads("vid", rows[part], vectors.shifts["vid", ATTENTION])
            tools.steps.placed(qkv, group.picture.part(part), vectors.norms["vid"], (q, k, v))
        tools.steps.placed(texts, group.text, vectors.norms["txt"], (q, k, v))
        return q, k, v

    def _attended(self, qkv: Triple, group: WindowGroup) -> Tensor:
        """Answers [rows, inner_dim]: of a group's tokens, then of the text after each window."""
        pictures: list[Tensor] = []
        texts: list[Tensor] = []
        begin = 0
        for tokens, windows in self._calls(group):
            rows = slice(begin, begin + windows * (tokens + group.text_length))
            q, k, v = (x[rows].view(windows, -1, *x.shape[1:]).transpose(1, 2) for x in qkv)
            if not self.changes_text:
                q = q[:, :, :tokens]
            answers = attend(q, k, v, backend=self._tools.switches.attention)
            answers = answers.transpose(1, 2).flatten(2)
            pictures += answers[:, :tokens].unbind()
            texts += answers[:, tokens:].unbind()
            begin = rows.stop
        return torch.cat(pictures + texts)  # one pass, whatever the number of windows

    def _calls(self, group: WindowGroup) -> Iterator[tuple[int, int]]:
        """Tokens of the picture in a window, and windows, of each call of the attention."""
        for tokens, windows in group.calls:
            if self._tools.switches.grouped_windows:
                yield tokens, windows
            else:
                yield from repeat((tokens, 1), windows)

    def _heads(self, stream: Stream, rows: Tensor, by: Shifts) -> Tensor:
        """Queries, keys and values [N, 3, heads, d] of some tokens, before their norm."""
        tools = self._tools
        normed = tools.steps.modulated(rows, by, tools.rows("narrow", *rows.shape))
        qkv = tools.project(self._block.attn.proj_qkv.of(stream), normed, "wide")
        return qkv.view(len(rows), 3, self._block.attn.heads, -1)

    def _finish(self, stream: Stream, rows: Tensor, answer: Tensor, vectors: LayerVectors) -> None:
        """Add the attention's answer to some tokens, then the MLP's result."""
        tools, by = self._tools, vectors.shifts[stream, MLP]
        out, gate = self._block.attn.proj_out.of(stream), vectors.shifts[stream, ATTENTION].gate
        self._add(rows, out, answer, gate, tools.share)
        mlp = cast(SwigluMlp | GeluMlp, self._block.mlp.of(stream))
        normed = tools.steps.modulated(rows, by, tools.rows("narrow", *rows.shape))
        if isinstance(mlp, GeluMlp):
            hidden = tools.project(mlp.proj_in, normed, "wide", "gelu")
            inner = 1.0
        elif tools.by_onednn(normed):
            hidden = tools.project(mlp.proj_in_gate, normed, "heads", "swish")
            hidden = hidden.mul_(tools.project(mlp.proj_in, normed, "wide"))
            inner = 1.0
        else:
            opened = tools.project(mlp.proj_in_gate, normed, "heads")
            inner = tools.share**0.5  # its product with the gate may be too large as well
            value = tools.project(mlp.proj_in, normed, "wide", share=inner)
            hidden = tools.steps.gated(opened, value)
        self._add(rows, mlp.proj_out, hidden, by.gate, tools.share / inner)

    def _add(
        self, rows: Tensor, linear: nn.Module, x: Tensor, gate: Tensor | None, share: float
    ) -> None:
        """Add a linear layer's result to the rows, whose gate has the inverse of all shares."""
        tools = self._tools
        if gate is None and type(linear) is nn.Linear and tools.sums_in_products(x):
            rows.addmm_(x, linear.weight.t())
            if linear.bias is not None:
                rows.add_(linear.bias)
            return
        tools.steps.add(rows, tools.project(linear, x, "narrow", share=share), gate)


def _elementwise(switches: DitSwitches, eps: float) -> ElementwiseOps:
    """Operations for some switches; torch's compiler is only imported with "compile"."""
    if not switches.compile:
        return ElementwiseOps(switches, eps)
    from engine.models.seedvr2.dit.compiled import CompiledOps

    return CompiledOps(switches, eps)
