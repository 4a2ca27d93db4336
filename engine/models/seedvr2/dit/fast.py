"""The SeedVR2 transformer in its fast variant: equal to the plain one but for rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from engine.models.seedvr2.dit.blocks import DitBlock
from engine.models.seedvr2.dit.config import DIT_3B, DitConfig, Grid
from engine.models.seedvr2.dit.fast_blocks import FastBlock, TokenRows, Tools
from engine.models.seedvr2.dit.modulation import Modulations
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.dit.token_layout import DitLayout, LayoutKey, Layouts, Order
from engine.ops.linear.quantized_linear import QuantizedLinear, widened
from engine.ops.norm.cache_blocks import work_dtype
from engine.ops.precision import exact_arithmetic, no_gradients
from engine.settings.optimisations import DitSwitches

if TYPE_CHECKING:
    from engine.ops.transfer.weight_streaming import WeightStream


class KeptText:
    """Cache of the text's tokens and of their queries, keys and values in the first layer.

    Args:
        kept: False computes them again each time.

    Memory: a copy of the text and 4 * dim values for each of its tokens.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self.forget()

    def forget(self) -> None:
        """The weights have changed."""
        self._text: Tensor | None = None
        self._tokens = self._heads = torch.empty(0)
        self._timestep: float | None = None

    def tokens(self, text: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
        """Result of `make` for this text."""
        if not self._knows(text):
            self.forget()
            self._tokens = make(text)
            self._text = text.clone() if self._kept else None
        return self._tokens

    def heads(self, timestep: float, make: Callable[[], Tensor]) -> Tensor:
        """Result of `make` for the last tokens and this time step."""
        if not self._kept or timestep != self._timestep:
            self._heads, self._timestep = make(), timestep
        return self._heads

    def _knows(self, text: Tensor) -> bool:
        known = self._text
        if known is None or known.shape != text.shape:
            return False
        same_kind = (known.dtype, known.device) == (text.dtype, text.device)
        return same_kind and torch.equal(known, text)


USUAL_TIMESTEP = 1000.0  # the only one of a restoration in one step


class FastDit(SeedVr2Dit):
    """Fast variant: the same weights under the same names, computed differently.

    Tokens of the picture lie window by window, so that windows of equal length attend in one call
    and everything else works on ranges of rows, in place and some at a time, whatever window they
    are of. What only depends on the time step, the text or the size is computed once.

    Inference only. Not for several threads at once: all layers share one workspace.

    Args:
        config: Configuration of the model.
        switches: Which optimisations to use.

    Attributes:
        stream: Copies the blocks' weights to the device when they are used; None: they are there.
        between: Called before each layer; may wait, or raise to stop in between.
        trace: Called with "blocks.N.vid" and, where it changes, "blocks.N.txt" after each layer:
            [tokens, dim] in the order time, height, width.
    """

    def __init__(self, config: DitConfig = DIT_3B, switches: DitSwitches | None = None) -> None:
        super().__init__(config)
        self.switches = switches = switches or DitSwitches()
        self.stream: WeightStream | None = None
        self.trace: Callable[[str, Tensor], None] | None = None
        self.between: Callable[[], None] | None = None
        self._layouts = Layouts(config) if switches.cached_layout else Layouts(config, kept=0)
        self._modulations = Modulations(kept=switches.constant_modulation)
        self._text = KeptText(kept=switches.constant_text)
        self._tools = Tools(config, switches, torch.device("cpu"), torch.float32)

    def finish_loading(self) -> None:
        """Call this after weights were loaded or replaced: clears what was computed from them.

        With "folded_modulation" this changes weights that stay on the device, permanently.
        """
        self._modulations.forget()
        self._text.forget()
        for layer in self.modules():
            if isinstance(layer, QuantizedLinear):
                layer.kernels = self.switches.kernels
        if self.switches.folded_modulation and self.stream is None:
            with no_gradients(), exact_arithmetic():
                self._modulations.begin(self, USUAL_TIMESTEP, self.vid_in.proj.bias)
                for block in cast(Iterable[DitBlock], self.blocks):
                    self._modulations.fold(block)

    def stream_weights(self, stream: WeightStream) -> None:
        """Copy the blocks' weights to the device when they are used."""
        self.stream = stream

    def check_between(self, check: Callable[[], None]) -> None:
        """Call something before each layer."""
        self.between = check

    def release(self) -> None:
        """Give the memory of the buffers back; the next forward takes it again."""
        self._tools.release()
        if self.stream is not None:
            self.stream.release()

    def close(self) -> None:
        """Give back pinned memory too; the model is of no use afterwards."""
        if self.stream is not None:
            self.stream.close()

    def forward(self, latent: Tensor, text: Tensor, timestep: float) -> Tensor:
        """Predict the velocity: noise minus picture; see `SeedVr2Dit.forward`.

        Returns:
            [T, H, W, 16], in float32 for a latent in float16: the type of the residual stream.

        Memory: all tokens twice, in that type; q, k, v and answers of at most 12288 tokens, or one
            window if it has more; in the MLP a chunk of tokens, on a GPU the same 12288. Of
            quantised weights those of the picture in one layer, in the dtype of the latent.
        """
        with no_gradients(), exact_arithmetic():
            if not self._tools.work_on(latent.device, latent.dtype):
                self._tools = Tools(self.config, self.switches, latent.device, latent.dtype)
            layout = self._layouts.of(self._key(latent, text))
            self._modulations.begin(self, timestep, latent)
            picture = self._entered(latent, layout)
            picture = self._through(picture, text, layout, timestep)
            return self._left(picture, layout, latent.shape)

    def _through(self, picture: Tensor, text: Tensor, layout: DitLayout, timestep: float) -> Tensor:
        """All layers: rows in the order of the first become rows in the order of the last."""
        words = self._text.tokens(text, self._words)
        for layer, block in enumerate(cast(Iterable[DitBlock], self.blocks)):
            if self.between is not None:
                self.between()
            work = FastBlock(block, self._tools, text_is_read=self._text_is_read(layer))
            target = self._token_rows(layer, layout, picture)
            with self._weights(layer), widened(block, without="txt"):
                vectors = self._modulations.of(block)
                make = partial(work.text_heads, words, vectors)
                heads = make() if layer else self._text.heads(timestep, make)
                picture, words = work.run(picture, words, heads, target, vectors)
            self._show(layer, picture, words if work.changes_text else None, target.order)
        return picture

    def _token_rows(self, layer: int, layout: DitLayout, picture: Tensor) -> TokenRows:
        """Buffer for the tokens of a layer: two alternate where the order changes."""
        order, move = layout.orders[layer % 2], layout.moves[layer % 2]
        if not layer or move is None:
            return TokenRows(order, None, picture)
        return TokenRows(order, move, self._tools.tokens(f"tokens {layer % 2}", len(picture)))

    def _weights(self, layer: int) -> AbstractContextManager[None]:
        """Inside, the weights of a layer are on the device."""
        return nullcontext() if self.stream is None else self.stream.block(layer)

    def _text_is_read(self, layer: int) -> bool:
        return layer + 1 < self.config.layers or not self.switches.unread_text

    def _key(self, latent: Tensor, text: Tensor) -> LayoutKey:
        time, height, width = (
            length // patch
            for length, patch in zip(latent.shape[:3], self.config.patch, strict=True)
        )
        return LayoutKey(
            grid=(time, height, width),
            text_length=len(text),
            device=latent.device,
            exact=work_dtype(latent.dtype),
        )

    def _entered(self, latent: Tensor, layout: DitLayout) -> Tensor:
        """Tokens [N, dim] of a latent in the order of the first layer."""
        patches = patches_of(latent, self.config.patch)
        patches, tools = patches.index_select(0, layout.orders[0].places), self._tools
        if not tools.is_wide:
            return tools.project(self.vid_in.proj, patches, "tokens 0")
        tokens, size = tools.tokens("tokens 0", len(patches)), tools.chunk_rows(len(patches))
        for rows, some in zip(torch.split(tokens, size), torch.split(patches, size), strict=True):
            rows.copy_(tools.project(self.vid_in.proj, some, "narrow"))
        return tokens

    def _words(self, text: Tensor) -> Tensor:
        """The text's tokens [L, dim] of the residual stream."""
        return torch.as_tensor(self.txt_in(text)).to(self._tools.stream)

    def _left(self, picture: Tensor, layout: DitLayout, shape: Sequence[int]) -> Tensor:
        """A new latent, of the residual stream's type, from tokens in the last layer's order."""
        tools, places = self._tools, layout.orders[(self.config.layers - 1) % 2].places
        by = self._modulations.final(self) if self.config.out_norm else None
        patches = picture.new_empty(len(picture), self.vid_out.proj.out_features)
        size = tools.chunk_rows(len(picture))
        for rows, to in zip(torch.split(picture, size), torch.split(places, size), strict=True):
            if by is not None:
                rows = tools.steps.modulated(rows, by, tools.rows("narrow", *rows.shape))
                found = tools.project(self.vid_out.proj, rows, "out").to(patches.dtype)
            elif tools.is_wide:  # without a norm
                found = tools.projected_stream(self.vid_out.proj, rows)
            else:
                found = tools.project(self.vid_out.proj, rows, "out")
            patches.index_copy_(0, to, found)
        return latent_of(patches, self.config.patch, shape)

    def _show(self, layer: int, picture: Tensor, words: Tensor | None, order: Order) -> None:
        if self.trace is None:
            return
        self.trace(
            f"blocks.{layer}.vid", torch.empty_like(picture).index_copy_(0, order.places, picture)
        )
        if words is not None:
            self.trace(f"blocks.{layer}.txt", words)


def patches_of(latent: Tensor, patch: Grid) -> Tensor:
    """[T, H, W, C] -> [tokens, positions of a patch * C], channels fastest."""
    time, height, width, channels = latent.shape
    t, y, x = patch
    latent = latent.reshape(time // t, t, height // y, y, width // x, x, channels)
    return latent.permute(0, 2, 4, 1, 3, 5, 6).reshape(-1, t * y * x * channels)


def latent_of(patches: Tensor, patch: Grid, shape: Sequence[int]) -> Tensor:
    """[tokens, positions of a patch * C] -> [T, H, W, C], whose first three sides are given."""
    grid = [length // size for length, size in zip(shape[:3], patch, strict=True)]
    latent = patches.view(*grid, *patch, -1).permute(0, 3, 1, 4, 2, 5, 6)
    return latent.reshape(*shape[:3], -1)
