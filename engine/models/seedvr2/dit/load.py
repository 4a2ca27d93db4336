"""A SeedVR2 transformer from its file: any published format, resident or streamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn

from engine.core.errors import WrongNumbers
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.files.formats.scales import (
    BLOCK,
    FLOATS,
    Scale,
    companions,
    is_blocked,
    rotated_group,
    scales_of,
)
from engine.hardware.devices import ram
from engine.models.identify import REPACKAGED, SEEDVR2_TRANSFORMERS, other_model, recognise
from engine.models.load import Form, assign, check_filled, on_meta
from engine.models.seedvr2.dit.config import DIT_KEYS, DitConfig, infer_dit_config
from engine.models.seedvr2.dit.cost import streams
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.attention import attention
from engine.ops.compiler import require_compiler
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear import eight_bit
from engine.ops.linear.eight_bit import EightBitLinear, Fp8Product
from engine.ops.linear.formats import product_kinds, require, stored_kinds, swap_linears
from engine.ops.linear.gguf import dequantise
from engine.ops.linear.quantized_linear import ProductLinear, QuantizedLinear
from engine.ops.transfer.flat_storage import put_tensor
from engine.ops.transfer.weight_streaming import WeightStream
from engine.settings.optimisations import DitSwitches

_PINNED_SHARE = 0.4  # of main memory: with more of it pinned, systems begin to fail elsewhere
_FREE_SHARE = 0.7  # of what is free


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of loading and computing a transformer.

    Attributes:
        products: Precision of the blocks' matrix products: "none", "fp8", "int8" or "nvfp4".
        blocks_on_device: The others are streamed from the file or from main memory, and so are
            the text's weights where all blocks have their own; None: everything is on the device.
        buffers: Further blocks that are on the device.
        pin_bytes: Most main memory for pinned copies; None: on a GPU 40 % of it, or 70 % of what
            is free if that is less, else nothing.
        attention: A backend, in place of that of the switches.
        switches: Optimisations of the fast variant; None: the usual ones.
    """

    products: str = "none"
    blocks_on_device: int | None = None
    buffers: int = 2
    pin_bytes: int | None = None
    attention: str | None = None
    switches: DitSwitches | None = None

    def all_switches(self) -> DitSwitches:
        """Switches of the fast variant, the attention included."""
        switches = self.switches or DitSwitches()
        return switches if self.attention is None else replace(switches, attention=self.attention)


def load_dit(
    path: Path,
    *,
    form: Form = "fast",
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    options: LoadOptions | None = None,
) -> SeedVr2Dit:
    """Read the weights strictly; the model is ready for inference.

    Args:
        path: Safetensors or GGUF file with the published names; 8-bit weights may have scales.
        form: "plain" follows the specification; "fast" (a FastDit) gives the same sooner.
        device: Device that it computes on.
        dtype: Type that it computes in. 8-bit and GGUF weights are kept and widened at use.
        options: Options of its computation.

    Raises:
        WeightsMissing, WeightsUnreadable, NotSafetensors, NotGguf, WeightsTruncated,
            WeightsDamaged: No file of these formats, or not whole.
        WrongModel: A whole file, but of another model, or repackaged.
        MissingKeys, ExtraKeys, WrongShapes, UnknownKeys: Not exactly the tensors of such a model.
        WrongNumbers: Tensors of a format that we cannot read, or scales that are missing, of an
            impossible shape, zero, negative or not finite.
        FeatureMissing: The device cannot multiply or attend as the options say, or torch not
            compile for it.

    Memory: what is resident, in the file's own format where that is of 8 bits or GGUF, and one
        tensor.
        Streamed blocks stay in the file, which stays mapped and takes no memory until it is read;
        with narrow products they are in main memory. See `WeightStream` for its buffers.
    """
    _check_device(torch.device(device), form, options or LoadOptions())
    with open_weights(path) as file:
        _check_content(file)
        config = infer_dit_config(file.shapes, file.metadata)
        return read_dit(file, config, form=form, device=device, dtype=dtype, options=options)


def check_dit(path: Path) -> None:
    """Checks that a file has exactly the tensors of a transformer; reads no weights.

    Raises:
        WeightsError: Raised by `load_dit`.
    """
    with open_weights(path) as file:
        _check_content(file)
        config = infer_dit_config(file.shapes, file.metadata)
        reading = _Reading(file, torch.device("cpu"), torch.float32, False, scales_of(file), False)
        reading.made(lambda: SeedVr2Dit(config))


def read_dit(
    file: WeightsFile,
    config: DitConfig,
    *,
    form: Form = "fast",
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    options: LoadOptions | None = None,
) -> SeedVr2Dit:
    """The transformer of an open file with a configuration; otherwise as `load_dit`.

    Raises:
        MissingKeys, ExtraKeys, WrongShapes, WrongNumbers, FeatureMissing: Raised by `load_dit`.
    """
    options = options or LoadOptions()
    where = torch.device(device)
    _check_device(where, form, options)
    backend = options.all_switches().attention
    if form == "fast" and backend != attention.AUTO:  # here, not at the first clip
        attention.require(backend, where, dtype, config.head_dim)
    scales = scales_of(file)
    streamed = streams(config, options.blocks_on_device, where.type)
    plain, switches = form == "plain", options.all_switches()
    reading = _Reading(file, where, dtype, streamed, scales, switches.kernels)
    dit = reading.made(lambda: SeedVr2Dit(config) if plain else FastDit(config, switches))
    reading.prepare(dit, options.products)
    reading.fill(dit)
    if streamed:
        _stream(dit, options, where, dtype)
    dit.finish_loading()
    return dit.eval()


def _check_device(device: torch.device, form: Form, options: LoadOptions) -> None:
    """Raises FeatureMissing when a device cannot do what is wanted."""
    if options.products != "none":
        require(options.products, device)
    if form == "fast" and options.all_switches().compile:
        require_compiler(device)


def _check_content(file: WeightsFile) -> None:
    """Raises WrongModel when an open file holds another model."""
    content = recognise(file.shapes)
    if content in SEEDVR2_TRANSFORMERS:
        return
    case = "repackaged-dit" if content == REPACKAGED else "not-dit"
    raise other_model(case, file.path, content)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A transformer being read from its file.

    Attributes:
        streamed: Whether tensors of the blocks stay on the host.
        scales: Scales of 8-bit weights, by their names in the file.
        kernels: Whether CUDA kernels may widen weights.
    """

    file: WeightsFile
    device: torch.device
    dtype: torch.dtype
    streamed: bool
    scales: Mapping[str, Scale]
    kernels: bool

    def made(self, make: Callable[[], SeedVr2Dit]) -> SeedVr2Dit:
        """A transformer on the meta device, with the names, shapes and dtypes of the file."""
        found = {ours: self.file.shapes[name] for ours, name in self._published().items()}
        checked = {*self.scales, *companions(self.scales)}
        return on_meta(make, self.file, found, also=BLOCKS, checked=checked)

    def prepare(self, dit: SeedVr2Dit, products: str) -> None:
        """Put the right kinds of layers in their places."""
        names = self._published()
        kinds = stored_kinds(dit, {ours: self.file.dtypes[name] for ours, name in names.items()})
        if products != "none":
            kinds |= product_kinds(dit, products)
        swap_linears(dit, kinds)

    def fill(self, dit: SeedVr2Dit) -> None:
        """One tensor after the other."""
        for ours, name in self._published().items():
            path, _, leaf = ours.rpartition(".")
            owner = dit.get_submodule(path)
            host = self.streamed and ours.startswith("blocks.")
            if leaf != "weight" or not isinstance(owner, QuantizedLinear):
                assign(dit, ours, self._plain(name, host))
            elif isinstance(owner, ProductLinear):
                self._take(owner, name, host)
            else:
                assign(dit, ours, self._stored(name, host))
                if isinstance(owner, EightBitLinear) and name in self.scales:
                    place = torch.device("cpu") if host else self.device
                    owner.weight_scale, owner.group = self._scale(name, place)
        check_filled(dit)

    def _published(self) -> dict[str, str]:
        left_out = companions(self.scales)
        return DIT_KEYS.published(name for name in self.file.shapes if name not in left_out)

    def _plain(self, name: str, host: bool) -> Tensor:
        """Weights to compute with; on the host they may be mapped from the file in its dtype."""
        if host and self.file.dtypes[name] in FLOATS:  # converted on its way to the device
            return self.file.raw(name)
        return self._dense(name, torch.device("cpu") if host else self.device, self.dtype)

    def _stored(self, name: str, host: bool) -> Tensor:
        return self.file.raw(name) if host else self.file.tensor(name, device=self.device)

    def _dense(self, name: str, device: torch.device, dtype: torch.dtype) -> Tensor:
        kind = self.file.dtypes[name]
        if kind in BLOCKS:
            raw = self.file.tensor(name, device=device)
            shape = self.file.shapes[name]
            return dequantise(raw, kind, shape, dtype, kernels=self.kernels)
        if name in self.scales:
            scale, group = self._scale(name, device)
            stored = self.file.tensor(name, device=device)
            return eight_bit.dequantise(stored, scale, group, dtype, kernels=self.kernels)
        return self.file.tensor(name, device=device, dtype=dtype)

    def _scale(self, name: str, device: torch.device) -> tuple[Tensor, int]:
        """Scale of a weight as in `dequantise`, and how many neighbours were rotated."""
        about, (rows, columns) = self.scales[name], self.file.shapes[name]
        if is_blocked(self.file, about):
            tiles = self.file.tensor(about.name).view(torch.uint8)
            scale = eight_bit.untiled(tiles, rows, columns // BLOCK)
            is_right = int(scale.max()) <= eight_bit.LARGEST_EXPONENT
        else:
            scale = self.file.tensor(about.name, dtype=torch.float32).view(-1)
            is_right = bool((scale.isfinite() & (scale > 0)).all())
            scale = scale if len(scale) == 1 else scale[:, None]
        if not is_right:
            path = self.file.path
            raise WrongNumbers("scale-value", name=path.name, tensor=about.name, path=path)
        return scale.to(device), rotated_group(self.file, name, about)

    def _take(self, linear: ProductLinear, name: str, host: bool) -> None:
        """Let a layer round its weight on the device; the result may go back to the host."""
        scale = self._scale(name, self.device)[0] if name in self.scales else None
        is_whole = scale is None or scale.numel() == 1
        if self.file.dtypes[name] == "F8_E4M3" and isinstance(linear, Fp8Product) and is_whole:
            linear.take(self.file.tensor(name, device=self.device), scale)
        else:
            linear.take(self._dense(name, self.device, torch.float32))
        if host:
            for leaf, value in _filled(linear):
                put_tensor(linear, leaf, value.cpu())


def _filled(module: nn.Module) -> list[tuple[str, Tensor]]:
    own = chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False))
    return [(leaf, value) for leaf, value in own if not value.is_meta]


def _stream(
    dit: SeedVr2Dit, options: LoadOptions, device: torch.device, dtype: torch.dtype
) -> None:
    own_text = dit.config.separate_layers == dit.config.layers
    blocks = list(dit.blocks)
    stream = WeightStream(
        blocks,
        device=device,
        resident=options.blocks_on_device or 0,
        buffers=options.buffers,
        dtype=dtype,
        pin_bytes=_pin_bytes(options, device),
        keep_on_host=_is_of_text if own_text else None,
    )
    dit.stream_weights(stream)


def _is_of_text(name: str) -> bool:
    return ".txt." in name


def _pin_bytes(options: LoadOptions, device: torch.device) -> int:
    if options.pin_bytes is not None:
        return options.pin_bytes
    if device.type != "cuda":
        return 0
    total, free = ram()
    return int(min(_PINNED_SHARE * total, _FREE_SHARE * free))
