"""Each published format loads into either variant, resident or streamed; wrong files are named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.core.errors import (
    ExtraKeys,
    FeatureMissing,
    WeightsDamaged,
    WeightsTruncated,
    WrongModel,
    WrongNumbers,
)
from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import Form, LoadOptions, load_dit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.text_embedding import load_text_embedding
from engine.ops.linear.eight_bit import EightBitLinear, Int8Product
from engine.ops.linear.gguf import GgufLinear
from engine.ops.linear.quantized_linear import QuantizedLinear
from engine.settings.optimisations import DitSwitches
from tests.helpers.model_files import (
    SCALED,
    dynamic,
    marker,
    q4_k_m,
    scaled,
    write_fp8,
    write_gguf,
    write_safetensors,
)
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit
from tests.helpers.tensors import relative_rms

LAST = "blocks.2."


def tensors_of(config: DitConfig) -> dict[str, Tensor]:
    """Weights under the published names, frequencies and all."""
    dit = random_dit(config, dtype=torch.float32)
    tensors = dict(dit.state_dict())
    for layer in range(config.layers):
        tensors[f"blocks.{layer}.attn.rope.rope.freqs"] = torch.rand(5)
    return tensors


def write_scaled(path: Path, tensors: dict[str, Tensor], kind: str) -> None:
    save_file(scaled(tensors, kind, group=16), path)


Write = Callable[[Path, dict[str, Tensor]], None]
FORMATS: dict[str, Write] = {
    "fp32": lambda path, tensors: write_safetensors(path, tensors, "F32"),
    "fp16": lambda path, tensors: write_safetensors(path, tensors, "F16"),
    "bf16": lambda path, tensors: write_safetensors(path, tensors, "BF16"),
    "fp8": lambda path, tensors: write_fp8(path, tensors),
    "fp8 mixed": lambda path, tensors: write_fp8(path, tensors, lambda name: name.startswith(LAST)),
    "Q8_0": lambda path, tensors: write_gguf(path, tensors, "Q8_0"),
    "Q4_K": lambda path, tensors: write_gguf(path, tensors, q4_k_m, cut_rows=True),
    "dynamic": lambda path, tensors: write_gguf(path, tensors, dynamic, cut_rows=True),
    **{f"scaled {kind}": partial(write_scaled, kind=kind) for kind in SCALED},
}


@pytest.fixture(params=["3b", "7b"])
def config(request: pytest.FixtureRequest) -> DitConfig:
    return tiny_dit_config(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def plain_copy(dit: SeedVr2Dit) -> SeedVr2Dit:
    """The same weights in float32, every weight dense."""
    plain = SeedVr2Dit(dit.config)
    dense = {
        f"{name}.weight": one.dense_weight(torch.float32)
        for name, one in dit.named_modules()
        if isinstance(one, QuantizedLinear)
    }
    others = {
        name: value
        for name, value in dit.state_dict().items()
        if name not in dense and not name.endswith(".weight_scale")
    }
    plain.load_state_dict({**others, **dense})
    return plain.eval().requires_grad_(False)


def run(dit: SeedVr2Dit, dtype: torch.dtype = torch.float32) -> Tensor:
    latent, text = random_inputs(dit.config, dtype=dtype)
    with torch.inference_mode():
        return dit(latent, text, 1000.0).clone()


def each_format() -> Iterator[Any]:
    """Each form, each kind of transformer: every format in one of the two that run by default."""
    for number, kind in enumerate(FORMATS):
        for index, pair in enumerate((("3b", "plain"), ("7b", "fast"))):
            is_default = index == number % 2
            yield pytest.param(kind, *pair, marks=[] if is_default else pytest.mark.extended)
        for pair in (("3b", "fast"), ("7b", "plain")):
            yield pytest.param(kind, *pair, marks=pytest.mark.slow)


@pytest.mark.parametrize(("kind", "model", "form"), list(each_format()))
def test_every_format_computes_as_its_values_say_resident_and_streamed(
    kind: str, model: str, form: Form, path: Path
) -> None:
    config = tiny_dit_config(model, layers=3)
    FORMATS[kind](path, tensors_of(config))
    dit = load_dit(path, form=form)
    assert isinstance(dit, FastDit) == (form == "fast")
    assert dit.config == config
    assert not dit.training
    assert not any(value.requires_grad for value in dit.parameters())
    wanted = run(dit)
    torch.testing.assert_close(wanted, run(plain_copy(dit)), rtol=1e-4, atol=1e-4)
    for resident, pin_bytes in ((0, 0), (1, 20_000), (0, 10**7)):
        options = LoadOptions(blocks_on_device=resident, pin_bytes=pin_bytes)
        streamed = load_dit(path, form=form, options=options)
        for _ in range(2):
            assert torch.equal(run(streamed), wanted)
    for dtype in (torch.bfloat16, torch.float16):
        narrow = run(load_dit(path, form=form, dtype=dtype), dtype)
        streamed = load_dit(path, form=form, dtype=dtype, options=LoadOptions(blocks_on_device=1))
        has_wide_stream = form == "fast" and dtype == torch.float16
        assert narrow.dtype == (torch.float32 if has_wide_stream else dtype)
        assert torch.equal(run(streamed, dtype), narrow)


def test_what_becomes_of_the_layers(path: Path) -> None:
    tensors = tensors_of(tiny_dit_config("7b"))
    kinds = {
        "fp16": nn.Linear, "fp8": EightBitLinear, "fp8 mixed": EightBitLinear, "Q8_0": GgufLinear,
        "scaled fp8": EightBitLinear, "scaled int8 rotated": EightBitLinear,
    }  # fmt: skip
    for kind, wanted in kinds.items():
        FORMATS[kind](path, tensors)
        dit = load_dit(path, dtype=torch.float16)
        assert type(dit.get_submodule("blocks.0.attn.proj_qkv.vid")) is wanted
        last = nn.Linear if kind == "fp8 mixed" else wanted
        assert type(dit.get_submodule(f"{LAST}mlp.vid.proj_in")) is last
        for name in ("blocks.0.ada.vid.attn_gate", "blocks.0.attn.norm_q.vid.weight"):
            assert dit.get_parameter(name).dtype == torch.float16


def test_frequencies_may_be_in_the_file_or_not(config: DitConfig, path: Path) -> None:
    found = []
    for frequencies in (True, False):
        write_dit(path, config, frequencies=frequencies)
        found.append(run(load_dit(path)))
    assert torch.equal(*found)


def test_the_prefix_of_some_files(config: DitConfig, path: Path) -> None:
    tensors = tensors_of(config)
    write_gguf(path, tensors, "Q8_0", prefix="model.diffusion_model.")
    prefixed = run(load_dit(path))
    write_gguf(path, tensors, "Q8_0")
    assert torch.equal(run(load_dit(path)), prefixed)
    save_file({f"model.diffusion_model.{n}": t for n, t in tensors.items()}, path)
    assert load_dit(path).config.layers == config.layers


def test_streamed_blocks_stay_in_the_file(config: DitConfig, path: Path) -> None:
    write_dit(path, config, dtype=torch.float16)
    dit = load_dit(path, options=LoadOptions(blocks_on_device=0))
    assert isinstance(dit, FastDit)
    assert dit.stream is not None
    assert dit.stream.streamed == tuple(range(config.layers))
    for name, value in dit.named_parameters():
        assert value.dtype == (torch.float16 if name.startswith("blocks.") else torch.float32)


def test_the_text_of_the_7b_kind_comes_and_goes(path: Path) -> None:
    write_dit(path, tiny_dit_config("7b"))
    dit = load_dit(path, options=LoadOptions(blocks_on_device=2))
    assert isinstance(dit, FastDit)
    assert dit.stream is not None
    assert dit.stream.streamed == (0, 1, 2)
    resident = dit.get_parameter("blocks.0.mlp.vid.proj_in.weight").data_ptr()
    text = dit.get_parameter("blocks.0.mlp.txt.proj_in.weight").data_ptr()
    with dit.stream.block(0):
        assert dit.get_parameter("blocks.0.mlp.vid.proj_in.weight").data_ptr() == resident
        assert dit.get_parameter("blocks.0.mlp.txt.proj_in.weight").data_ptr() != text


@pytest.mark.parametrize("kind", ["fp32", "fp8", "Q8_0"])
def test_narrow_products_stream_too(kind: str, config: DitConfig, path: Path) -> None:
    FORMATS[kind](path, tensors_of(config))
    resident = load_dit(path, options=LoadOptions(products="int8"))
    assert any(isinstance(one, Int8Product) for one in resident.blocks[1].modules())
    options = LoadOptions(products="int8", blocks_on_device=1)
    streamed = load_dit(path, options=options)
    assert torch.equal(run(streamed), run(resident))
    exact = run(load_dit(path))
    error = (run(resident) - exact).square().mean() / exact.square().mean()
    assert 0 < error.sqrt() < 0.05


def test_products_that_the_device_has_not_are_refused(path: Path) -> None:
    write_dit(path)
    with pytest.raises(FeatureMissing, match="nvfp4") as caught:
        load_dit(path, options=LoadOptions(products="nvfp4"))
    assert f"Choose {caught.value.params['nearest']}" in caught.value.hint
    with pytest.raises(FeatureMissing, match="flash3"):
        load_dit(path, options=LoadOptions(attention="flash3"))


def test_options_reach_the_fast_form(path: Path) -> None:
    write_dit(path)
    switches = DitSwitches(token_chunks=False)
    options = LoadOptions(switches=switches, attention="math", blocks_on_device=4)
    dit = load_dit(path, options=options)
    assert isinstance(dit, FastDit)
    assert dit.switches == DitSwitches(token_chunks=False, attention="math")
    assert dit.stream is None, "all blocks stay where the host is the device"


def test_a_gguf_file_that_was_cut_off_is_refused(path: Path) -> None:
    write_gguf(path, tensors_of(tiny_dit_config()), "Q8_0")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsTruncated):
        load_dit(path)


def test_repackaged_files_are_refused(path: Path) -> None:
    tensors = tensors_of(tiny_dit_config())
    save_file({f"diffusion.{name}": t for name, t in tensors.items()}, path)
    with pytest.raises(WrongModel, match="looks like a repackaged SeedVR2 transformer"):
        load_dit(path)


# Scales.


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_weights_are_those_that_were_rounded(
    kind: str, config: DitConfig, path: Path
) -> None:
    """Compared with the weights in float64; also by a product that rounds them once more."""
    tensors = tensors_of(config)
    write_scaled(path, tensors, kind)
    for products, limit in (("none", 0.01 if "int8" in kind else 0.04), ("fp8", 0.05)):
        dit = load_dit(path, options=LoadOptions(products=products))
        layers = {n: m for n, m in dit.named_modules() if isinstance(m, QuantizedLinear)}
        matrices = [n for n, t in tensors.items() if t.ndim > 1 and n.startswith("blocks.")]
        narrow = [n for n in matrices if kind != "mxfp8" or tensors[n].shape[1] % 32 == 0]
        assert len(layers) == len(narrow if products == "none" else matrices)
        for name, layer in layers.items():
            found = layer.dense_weight(torch.float64)
            assert relative_rms(found, tensors[f"{name}.weight"].double()) < limit, name


def test_an_fp8_product_keeps_the_values_and_the_scale_of_a_tensor(path: Path) -> None:
    written = scaled(tensors_of(tiny_dit_config("7b")), "fp8")
    save_file(written, path)
    dit = load_dit(path, options=LoadOptions(products="fp8"))
    name = "blocks.0.attn.proj_qkv.vid"
    found, wanted = dit.get_parameter(f"{name}.weight"), written[f"{name}.weight"]
    assert torch.equal(found.float(), wanted.float())
    assert torch.equal(dit.get_buffer(f"{name}.weight_scale"), written[f"{name}.scale_weight"])


QKV = "blocks.0.attn.proj_qkv.vid"
JSON = torch.tensor(list(b'{"format": "int8_blockwise"}'), dtype=torch.uint8)
REFUSALS: list[tuple[str, str, Tensor | None, str]] = [  # kind, name, what it becomes, refusal
    ("fp8", f"{QKV}.scale_weight", None, "scale-missing"),
    ("int8", f"{QKV}.weight_scale", None, "scale-missing"),
    ("fp8 rows", f"{QKV}.weight_scale", torch.ones(32, 1), "scale-shape"),
    ("fp8 rows", f"{QKV}.weight_scale", torch.ones(96, 2), "scale-shape"),
    ("fp8", f"{QKV}.scale_weight", torch.ones(1, dtype=torch.int64), "scale-shape"),
    ("fp8", f"{QKV}.scale_weight", torch.tensor(torch.nan), "scale-value"),
    ("fp8 rows", f"{QKV}.weight_scale", torch.zeros(96, 1), "scale-value"),
    ("int8", f"{QKV}.weight_scale", torch.full((96, 1), torch.inf), "scale-value"),
    ("int8", f"{QKV}.weight_scale", torch.full((96,), -1.0), "scale-value"),
    ("mxfp8", f"{QKV}.weight_scale", torch.zeros(128, 8, dtype=torch.uint8), "scale-shape"),
    ("mxfp8", f"{QKV}.weight_scale", torch.full((128, 4), 255, dtype=torch.uint8), "scale-value"),
    ("mxfp8", f"{QKV}.comfy_quant", None, "quantised"),
    ("mxfp8", f"{QKV}.comfy_quant", marker("fp8"), "quantised"),
    ("int8", f"{QKV}.comfy_quant", None, "quantised"),
    ("int8", f"{QKV}.comfy_quant", JSON, "quantised"),
    ("int8", f"{QKV}.comfy_quant", torch.zeros(3, dtype=torch.uint8), "quantised"),
    ("int8", f"{QKV}.comfy_quant", marker("int8 rotated", 256), "quantised"),  # of 32 in a row
    ("int8", f"{QKV}.weight", torch.zeros(96, 16, dtype=torch.uint8), "quantised"),
    ("int8", "vid_in.proj.bias", torch.zeros(32, dtype=torch.int8), "not-floating-point"),
]


@pytest.mark.parametrize(("kind", "name", "value", "case"), REFUSALS)
def test_impossible_scales_are_refused(
    kind: str, name: str, value: Tensor | None, case: str, path: Path
) -> None:
    tensors = scaled(tensors_of(tiny_dit_config("7b")), kind)
    tensors.pop(name)
    if value is not None:
        tensors[name] = value
    save_file(tensors, path)
    with pytest.raises(WrongNumbers) as caught:
        load_dit(path)
    assert caught.value.case == case
    assert path.name in caught.value.message
    assert caught.value.hint


def test_a_scale_of_no_8_bit_weight_is_a_tensor_too_many(path: Path) -> None:
    tensors = scaled(tensors_of(tiny_dit_config("7b")), "fp8")
    save_file({**tensors, "vid_in.proj.weight_scale": torch.ones(())}, path)
    with pytest.raises(ExtraKeys, match=r"vid_in\.proj\.weight_scale"):
        load_dit(path)


def test_the_layout_of_int8_may_be_in_the_metadata(path: Path) -> None:
    tensors = scaled(tensors_of(tiny_dit_config("7b")), "int8 rotated", group=16)
    save_file(tensors, path)
    wanted = run(load_dit(path))
    layers = {
        name.removesuffix(".comfy_quant"): json.loads(bytes(tensors.pop(name).tolist()))
        for name in list(tensors)
        if name.endswith(".comfy_quant")
    }
    prefixed = {f"model.diffusion_model.{name}": value for name, value in tensors.items()}
    for written in (tensors, prefixed):
        save_file(written, path, {"_quantization_metadata": json.dumps({"layers": layers})})
        assert torch.equal(run(load_dit(path)), wanted)


# Text embeddings.


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return tmp_path / "pos_emb.pt"


def test_the_published_embedding_is_one_saved_tensor(saved: Path, path: Path) -> None:
    text = torch.randn(58, 24).bfloat16()
    for value in (text, text[None], nn.Parameter(text)):
        torch.save(value, saved)
        assert torch.equal(load_text_embedding(saved, tiny_dit_config()), text)
    save_file({"embedding": text}, path)
    assert torch.equal(load_text_embedding(path), text)


def test_other_things_are_no_embedding(saved: Path, path: Path) -> None:
    flat, empty, whole = torch.ones(3), torch.ones(0, 24), torch.ones(2, 24, dtype=torch.int64)
    for value in (flat, empty, whole, {"a": flat, "b": flat}):
        torch.save(value, saved)
        with pytest.raises(WrongModel, match="not a text embedding"):
            load_text_embedding(saved)
    torch.save({"text": torch.ones(2, 24), "when": Path("x")}, saved)
    with pytest.raises(WrongModel, match="has not run any code"):
        load_text_embedding(saved)
    torch.save(torch.full((2, 24), torch.nan), saved)
    with pytest.raises(WeightsDamaged, match="NaN or infinite"):
        load_text_embedding(saved)
    torch.save(torch.ones(2, 30), saved)
    with pytest.raises(WrongModel, match="30 values wide, but the transformer needs 24"):
        load_text_embedding(saved, tiny_dit_config())
    write_dit(path)
    with pytest.raises(WrongModel, match=r"contains a SeedVR2 transformer \(3B\), not a text"):
        load_text_embedding(path)
