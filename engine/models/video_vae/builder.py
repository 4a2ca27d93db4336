"""Makes a fast variant by walking the modules of the plain one: no layer is listed twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.video_vae.causal_layers import AnyCausalConv, CausalConv, KernelCausalConv
from engine.models.video_vae.layers import ConvLayer, Enlarger, SteppedEnlarger
from engine.models.video_vae.slice_context import Part
from engine.ops.conv.causal_conv import ConvShape
from engine.ops.conv.frame_conv import ConvOptions, FrameConv, Method
from engine.ops.conv.kernel_conv import KernelConv
from engine.ops.conv.subpixel import NearestFold
from engine.ops.kernels.conv_tiles import Norm as KernelNorm
from engine.settings.optimisations import VaeSwitches

Layer = tuple[Tensor, ConvShape]  # weight [O, I, K, kh, kw] of a convolution, and where it lies


class Builder:
    """Reads tensors by the names of plain modules, folds them, and keeps what will be used.

    Args:
        plain: The plain variant, of which only the structure is read: it can be on meta.
        table: Maps the class of a plain module to a function that makes its parts.
        weights: Published name -> tensor; a tensor is asked for once, when it is needed.
        device: Device of the parts; folds are computed there too.
        options: Precision and method of the convolutions.
        switches: Which folds are made.

    Memory: the tables, and one layer's tensors in float32 while it is made.
    """

    def __init__(
        self,
        plain: nn.Module,
        table: Table,
        weights: Mapping[str, Tensor],
        *,
        device: torch.device,
        options: ConvOptions,
        switches: VaeSwitches,
    ) -> None:
        self.plain, self.device, self.options, self.switches = plain, device, options, switches
        self._table, self._weights = table, weights
        self._names: dict[nn.Module, str] = {each: name for name, each in plain.named_modules()}

    def parts(self, *modules: nn.Module) -> list[Part]:
        """Parts of modules that frames go through in this order.

        Raises:
            KeyError: The table has no such class; an error in the family.
        """
        return [part for module in modules for part in self._table[type(module)](self, module)]

    def name(self, plain: nn.Module) -> str:
        """Path of a module: what its carry is filed under, and what an observer sees."""
        return self._names[plain]

    def conv(
        self,
        plain: nn.Module,
        *,
        pad: int = 0,
        late: bool = False,
        bias: Tensor | None = None,
        adds_bias: bool = True,
        leaves_bias: bool = False,
        norm: KernelNorm = "none",
        groups: int = 0,
        layer: Layer | None = None,
    ) -> AnyCausalConv:
        """A causal convolution and its input window.

        Args:
            plain: A Conv3d, or a Conv2d, which sees one frame.
            pad: Passed to `CausalConv`, as is `late`.
            late: See `CausalConv`.
            bias: [O], in the place of its own.
            adds_bias: False: it has none; the bias of another one includes its own.
            leaves_bias: The bias may be left to the reader of the result.
            norm: Norm before it that our kernel may apply.
            groups: Groups of the result whose statistics are of use; 0: none.
            layer: Weight and place in the place of its own: of a convolution that does more.
        """
        name, (weight, shape, method) = self.name(plain), self._method(plain, layer)
        if bias is None and adds_bias:
            bias = self._bias(plain)
        if method.kernel is not None:
            group = len(weight) // groups if groups else 0
            own = KernelConv(weight, bias, shape, method.kernel, pad=pad, norm=norm, group=group)
            return KernelCausalConv(name, own, shape.past, late=late)
        left = bias if leaves_bias else None
        conv = FrameConv(weight, None if leaves_bias else bias, shape, self.options, method)
        return CausalConv(name, conv, pad=pad, late=late, bias=left)

    def enlarger(self, plain: nn.Module, weight: Tensor | None = None) -> Enlarger:
        """Twice the height and width, then a 3x3 convolution.

        Args:
            plain: The convolution, a Conv2d.
            weight: [O, I, 3, 3], in the place of its own.
        """
        assert isinstance(plain, nn.Conv2d)
        weight, bias = self.exact(plain, "weight") if weight is None else weight, self._bias(plain)
        if self.switches.upsampler_fold:
            return NearestFold(weight, bias, self.options)
        shape, options = ConvShape(past="none"), replace(self.options, kernels=False)
        conv = FrameConv(weight.unsqueeze(2), bias, shape, options)
        return SteppedEnlarger(conv, plain.out_channels)

    def _method(self, plain: nn.Module, layer: Layer | None) -> tuple[Tensor, ConvShape, Method]:
        """Weight of a convolution, where it lies, and how it is computed."""
        weight, shape = self._layer(plain) if layer is None else layer
        return weight, shape, self.options.method(weight.shape, self.device, shape)

    def _layer(self, plain: nn.Module) -> Layer:
        assert isinstance(plain, nn.Conv3d | nn.Conv2d)
        weight, stride = self.exact(plain, "weight"), plain.stride
        shape = ConvShape(
            padding=int(plain.padding[-1]),
            time_stride=stride[0] if len(stride) == 3 else 1,
            space_stride=stride[-1],
            past=getattr(plain, "past", "none"),  # a Conv2d has none
        )
        return weight if weight.ndim == 5 else weight.unsqueeze(2), shape

    def linear(self, *plain: nn.Module) -> tuple[Tensor, Tensor]:
        """Weight [O, I] and bias [O] of linear layers or 1x1 convolutions, one below the other."""
        return self._joined("weight", plain).flatten(1), self._joined("bias", plain)

    def _bias(self, plain: nn.Module) -> Tensor | None:
        return None if plain.bias is None else self.exact(plain, "bias")

    def exact(self, plain: nn.Module, leaf: str) -> Tensor:
        """A tensor of a module in the precision in which folds are computed."""
        exact = torch.promote_types(self.options.dtype, torch.float32)
        return self._weights[f"{self.name(plain)}.{leaf}"].to(self.device, exact)

    def _joined(self, leaf: str, plain: tuple[nn.Module, ...]) -> Tensor:
        names = [f"{self.name(module)}.{leaf}" for module in plain]
        rounded = [self._weights[name].to(self.device, self.options.dtype) for name in names]
        return torch.cat(rounded) if len(rounded) > 1 else rounded[0]


Table = Mapping[type[nn.Module], Callable[[Builder, Any], list[Part]]]


def in_order(build: Builder, plain: nn.Module) -> list[Part]:
    """Parts of a module whose children frames go through in the order in which it has them."""
    return build.parts(*plain.children())


def single_conv(build: Builder, plain: nn.Module) -> list[Part]:
    """A convolution that belongs to no block."""
    return [ConvLayer(build.name(plain), build.conv(plain))]
