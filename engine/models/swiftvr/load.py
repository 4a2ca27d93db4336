"""The models of SwiftVR from their files, in the plain or the fast variant.

The transformer is published in float32; constants of the fast variant are computed from it while
it is read, tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.core.errors import WeightsDamaged, WrongModel
from engine.core.messages import Message, message
from engine.files.formats.keymap import KeyMap
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.models.identify import (
    SWIFTVR_PROMPT,
    SWIFTVR_TRANSFORMER,
    SWIFTVR_VAE,
    content_message,
    recognise,
)
from engine.models.load import (
    FileWeights,
    FiniteWeights,
    Form,
    assign,
    check_filled,
    fill,
    on_meta,
    shapes_alone,
)
from engine.models.swiftvr.dit.config import SwiftDitConfig, infer_swift_config
from engine.models.swiftvr.dit.fast import FastSwiftDit
from engine.models.swiftvr.dit.fold import distinct_rows, folded
from engine.models.swiftvr.dit.plain import SwiftDit
from engine.models.swiftvr.files import (
    NARROW,
    PROMPT,
    converted_sizes,
    has_constants,
    stated_sizes,
    stored_products,
)
from engine.models.swiftvr.vae.config import ReaeConfig, infer_reae_config
from engine.models.swiftvr.vae.fast import FastReae
from engine.models.swiftvr.vae.plain import Reae
from engine.models.video_vae.load import VaeLoader
from engine.ops.attention import attention
from engine.ops.linear.formats import product_kinds, require, swap_linears
from engine.ops.linear.quantized_linear import ProductLinear
from engine.ops.norm.cache_blocks import work_dtype
from engine.ops.precision import exact_arithmetic, no_gradients
from engine.ops.transfer.weight_streaming import WeightStream

AnyReae = Reae | FastReae
AnySwiftDit = SwiftDit | FastSwiftDit


def check_content(file: WeightsFile, wanted: str) -> None:
    """Refuse an open file with another model.

    Args:
        file: Open.
        wanted: A name out of `engine.models.identify`.

    Raises:
        WrongModel: It holds another model.
    """
    content = recognise(file.shapes)
    if content != wanted:
        raise _other(file.path, content_message(content), wanted)


def _other(path: Path, content: Message, wanted: str) -> WrongModel:
    about: dict[str, Any] = {"content": content, "wanted": content_message(wanted)}
    return WrongModel("not-swiftvr", name=path.name, path=str(path), **about)


# --- autoencoder


def reae_config_of(file: WeightsFile) -> ReaeConfig:
    """The configuration of the autoencoder in an open file.

    Raises:
        WrongModel: It holds another model.
    """
    check_content(file, SWIFTVR_VAE)
    return infer_reae_config(file.shapes)


LOADER = VaeLoader(
    plain=Reae,
    fast=FastReae,
    config_of=reae_config_of,
    keys_of=lambda _: KeyMap(),
    weights=FiniteWeights,
)
load_reae = LOADER.load


# --- transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiftOptions:
    """Options of computing the fast transformer.

    Attributes:
        products: Precision of the blocks' matrix products: "none", "fp8" or "int8".
        blocks_on_device: The others are streamed from the file; None: all are on the device.
        buffers: Further blocks that are on the device.
        pin_bytes: Most main memory for pinned copies.
        attention: A backend of `engine.ops.attention`.
    """

    products: str = "none"
    blocks_on_device: int | None = None
    buffers: int = 2
    pin_bytes: int = 0
    attention: str = attention.AUTO


def load_swift_dit(
    path: Path,
    prompt: Path | None = None,
    *,
    form: Form = "fast",
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    config: Path | None = None,
    options: SwiftOptions | None = None,
) -> AnySwiftDit:
    """Read the weights strictly; the model is ready for inference.

    Args:
        path: Published file, or one that `convert` made of it.
        prompt: File of the prompt that it was published with; a converted file includes it.
        form: "plain" follows the specification, "fast" gives the same sooner.
        device: Device that it computes on.
        dtype: Type that it computes in.
        config: Its configuration; None: the config.json next to it, or that of the published model.
        options: Options of the fast variant.

    Raises:
        WeightsMissing, WeightsUnreadable, NotSafetensors, WeightsTruncated, WeightsDamaged: One of
            the files is none of its format, or not whole.
        WrongModel: One of them holds something else, or the prompt of another model.
        MissingKeys, ExtraKeys, WrongShapes, UnknownKeys: Not exactly the tensors of such a model.
        WrongNumbers: Tensors of a format that we cannot read.
        FeatureMissing: The device cannot multiply or attend as the options say.
        ValueError: A published file without a prompt, or the plain variant of a converted one; an
            error in the caller.

    Memory: the model and one tensor of the file in float32; see `fold.folded`. Streamed blocks stay
        in the file, which stays mapped; with narrow products they are in main memory.
    """
    where, options = torch.device(device), options or SwiftOptions()
    if options.products != "none":
        require(options.products, where)
    with open_weights(path) as file, no_gradients(), exact_arithmetic():
        check_content(file, SWIFTVR_TRANSFORMER)
        if has_constants(file):
            if form == "plain":
                raise ValueError("a converted file has the tensors of the fast variant")
            return _converted(file, where, dtype, options)
        if prompt is None:
            raise ValueError("a published file needs its prompt")
        plain, text = _published(file, prompt, config)
        if form == "plain":
            plain.prompt = text.to(where, dtype)
            fill(plain, FileWeights(file, KeyMap(), device=where, dtype=dtype))
            return plain.eval()
        text = text.to(where, work_dtype(dtype))
        weights = (FileWeights if options.blocks_on_device is None else _OnHost)(
            file, KeyMap(), device=where
        )
        with shapes_alone():
            dit = FastSwiftDit(plain.config, len(distinct_rows(text)[0]))
        return _filled(dit, folded(plain.config, weights, text), where, dtype, options)


def check_dit(path: Path) -> bool:
    """Checks that a file has exactly the tensors of a transformer; whether it is a converted one.

    Raises:
        WeightsError: Raised by `load_swift_dit`.
    """
    with open_weights(path) as file:
        check_content(file, SWIFTVR_TRANSFORMER)
        is_converted = has_constants(file)
        if is_converted:
            _converted_meta(file)
        else:
            sizes = infer_swift_config(file.shapes, stated_sizes(file))
            on_meta(lambda: SwiftDit(sizes), file, file.shapes)
    return is_converted


@contextmanager
def opened_for_folding(
    path: Path, prompt: Path, config: Path | None
) -> Iterator[tuple[WeightsFile, SwiftDitConfig, Tensor]]:
    """A published file while it is open, its sizes, and its prompt [L, text_dim].

    Raises:
        WeightsError: See `load_swift_dit`.
    """
    with open_weights(path) as file:
        check_content(file, SWIFTVR_TRANSFORMER)
        plain, text = _published(file, prompt, config)
        yield file, plain.config, text


def _published(file: WeightsFile, prompt: Path, config: Path | None) -> tuple[SwiftDit, Tensor]:
    """The plain variant on the meta device, to which exactly the tensors of a file belong."""
    sizes = infer_swift_config(file.shapes, stated_sizes(file, config))
    plain = on_meta(lambda: SwiftDit(sizes), file, file.shapes)
    return plain, load_prompt(prompt, sizes)


def load_prompt(path: Path, config: SwiftDitConfig) -> Tensor:
    """Read the prompt [L, text_dim], in the file's dtype, on the CPU.

    Raises:
        WeightsError: See `load_swift_dit`.
    """
    with open_weights(path) as file:
        check_content(file, SWIFTVR_PROMPT)
        tensor = file.tensor(PROMPT)
    if tensor.ndim != 3 or len(tensor) != 1 or not tensor.is_floating_point():
        shape = "x".join(map(str, tensor.shape))
        content = message("content.tensor", shape=shape, dtype=tensor.dtype)
        raise _other(path, content, SWIFTVR_PROMPT)
    about: dict[str, Any] = {"name": path.name, "path": str(path)}
    if tensor.shape[2] != config.text_dim:
        found, wanted = tensor.shape[2], config.text_dim
        raise WrongModel("prompt-width", **about, found=found, wanted=wanted)
    if not bool(tensor.float().isfinite().all()):
        raise WeightsDamaged("not-finite", **about)
    return tensor[0]


class _OnHost(FileWeights):
    """The tensors of an open file; those of blocks as they are in the file, without memory."""

    def __getitem__(self, name: str) -> Tensor:
        return self._file.raw(name) if name.startswith("blocks.") else super().__getitem__(name)


def _converted(
    file: WeightsFile, device: torch.device, dtype: torch.dtype, options: SwiftOptions
) -> FastSwiftDit:
    """The fast variant from a converted file, whose metadata have its sizes."""
    products = stored_products(file)
    if products != "none":
        require(products, device)
    dit = _converted_meta(file)
    weights = (FileWeights if options.blocks_on_device is None else _OnHost)(
        file, KeyMap(), device=device
    )
    tensors = ((name, partial(weights.__getitem__, name)) for name in weights)
    return _filled(dit, tensors, device, dtype, options)


def _converted_meta(file: WeightsFile) -> FastSwiftDit:
    """The fast variant on the meta device, to which exactly the tensors of a converted file belong.

    Raises:
        WeightsError: See `load_swift_dit`.
    """
    config, rows = converted_sizes(file)

    def made() -> FastSwiftDit:
        dit, products = FastSwiftDit(config, rows), stored_products(file)
        if products != "none":
            swap_linears(dit, product_kinds(dit, products))
        return dit

    return on_meta(made, file, file.shapes, also=NARROW)


def _filled(
    dit: FastSwiftDit,
    tensors: Iterable[tuple[str, Callable[[], Tensor]]],
    device: torch.device,
    dtype: torch.dtype,
    options: SwiftOptions,
) -> FastSwiftDit:
    """The fast variant with its tensors, from the meta device to that which it computes on."""
    if options.attention != attention.AUTO:
        attention.require(options.attention, device, dtype, dit.config.head_dim)
    if options.products != "none":
        swap_linears(dit, product_kinds(dit, options.products))
    streams = options.blocks_on_device is not None
    for name, make in tensors:
        host = streams and name.startswith("blocks.")
        _put(dit, name, make(), device, None if host else dtype)
    check_filled(dit)
    dit.attention = options.attention
    if streams:
        dit.stream = WeightStream(
            list(dit.blocks),
            device=device,
            resident=options.blocks_on_device or 0,
            buffers=options.buffers,
            dtype=dtype,
            pin_bytes=options.pin_bytes,
        )
    return dit.eval()


def _put(
    dit: FastSwiftDit, name: str, value: Tensor, device: torch.device, dtype: torch.dtype | None
) -> None:
    """Give a tensor to the layer that it belongs to.

    Args:
        dit: The model, on the meta device.
        name: Name of the tensor.
        value: The tensor.
        device: Device that computes.
        dtype: Type of parameters; buffers keep that in which they were computed. None: the tensor
            stays on the host as it is, and is converted on its way to the device.
    """
    path, _, leaf = name.rpartition(".")
    owner = dit.get_submodule(path)
    place = torch.device("cpu") if dtype is None else device
    if isinstance(owner, ProductLinear) and leaf == "weight" and value.dtype != owner.weight.dtype:
        owner.take(value.to(device, torch.float32))
        for part, stored in _tensors_of(owner):
            assign(dit, f"{path}.{part}", stored.to(place))
        return
    kept = dtype is None or leaf in owner._buffers or value.itemsize == 1
    assign(dit, name, value.to(place, None if kept else dtype).contiguous())


def _tensors_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Tensors of a layer that have values."""
    for leaf, value in (*module.named_parameters(), *module.named_buffers()):
        if not value.is_meta:
            yield leaf, value
