"""Transformers of the published sizes load strictly in every format; the files are holes."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.core.errors import ExtraKeys, MissingKeys, WrongNumbers, WrongShapes
from engine.files.model_files import named
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B
from engine.models.seedvr2.dit.cost import resident_bytes, streamed_bytes
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.models.seedvr2.files import model_of, weight_bytes
from engine.ops.linear.eight_bit import EightBitLinear
from engine.ops.linear.gguf import GgufLinear
from tests.helpers.extended import extended
from tests.helpers.model_files import SCALED, dynamic, gguf_hole, marker, safetensors_hole

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
CONFIGS = {"3b": DIT_3B, "7b": DIT_7B}
STREAMED = LoadOptions(blocks_on_device=0, pin_bytes=0)
Shapes = dict[str, tuple[int, ...]]
Kinds = dict[str, tuple[str, tuple[int, ...]]]


@cache
def shapes(size: str) -> Shapes:
    manifest = json.loads((GOLDEN / f"manifest_dit_{size}.json").read_text())["state_dict"]
    return {name: tuple(shape) for name, shape in manifest.items()}


def comfy_file(size: str, kind: str) -> tuple[Kinds, dict[str, Tensor]]:
    """Tensors of a file as ComfyUI's programs write it, and the values of scales and markers."""
    kinds: Kinds = {"positive_conditioning": ("BF16", (58, 5120))}
    values: dict[str, Tensor] = {}
    narrow = "I8" if "int8" in kind else "F8_E4M3"
    for name, shape in shapes(size).items():
        is_matrix = name.startswith("blocks.") and len(shape) == 2
        kinds[name] = narrow if is_matrix or kind == "cast" else "F16", shape
        if is_matrix and kind != "cast":
            layer = name.removesuffix(".weight")
            leaf = "scale_weight" if kind == "fp8" else "weight_scale"
            values[f"{layer}.{leaf}"] = torch.rand(() if kind == "fp8" else (shape[0], 1)) + 0.1
            if kind == "mxfp8":
                tiles = shape[0], shape[1] // 32  # of these sizes whole ones
                values[f"{layer}.{leaf}"] = torch.full(tiles, 120, dtype=torch.uint8)
            if kind != "fp8":
                values[f"{layer}.comfy_quant"] = marker(kind)
    floats = {torch.uint8: "U8", torch.float32: "F32"}
    kinds |= {name: (floats[value.dtype], tuple(value.shape)) for name, value in values.items()}
    return kinds, values


CASES = [("3b", "cast"), ("3b", "dynamic GGUF"), ("7b", "int8 rotated"), ("3b", "mxfp8")]
MORE = [("3b", kind) for kind in SCALED if kind != "mxfp8"]
MORE += [("7b", kind) for kind in ("fp8", "mxfp8", "dynamic GGUF")]


@pytest.mark.parametrize(("size", "kind"), [*CASES, *extended(*MORE)])
def test_the_published_sizes_load_and_take_the_predicted_bytes(
    size: str, kind: str, tmp_path: Path
) -> None:
    path, config = tmp_path / "model", CONFIGS[size]
    if kind == "dynamic GGUF":
        gguf_hole(path, shapes(size), dynamic)
    else:
        safetensors_hole(path, *comfy_file(size, kind))
    dit = load_dit(path, dtype=torch.bfloat16, options=STREAMED)
    assert dit.config == config
    assert isinstance(dit, FastDit)
    assert dit.stream is not None
    narrow = [one for one in dit.blocks.modules() if isinstance(one, EightBitLinear | GgufLinear)]
    stored = sum(math.prod(s) for n, s in shapes(size).items() if len(s) == 2 and "blocks." in n)
    if kind != "dynamic GGUF":
        assert sum(one.weight.numel() for one in narrow) == stored
        assert {one.group for one in narrow} == {256 if kind == "int8 rotated" else 0}
    else:
        assert {one.kind for one in narrow} == {"Q4_K", "Q5_K", "Q6_K", "Q8_0"}
    weights = weight_bytes(named(path), "bfloat16")
    assert weights.is_narrow
    ends = sum(v.nbytes for n, v in dit.named_parameters() if not n.startswith("blocks."))
    held = ends + dit.stream.buffer_bytes
    assert held <= resident_bytes(config, weights, 0) <= 1.001 * held
    whole = sum(block.tensors.nbytes for block in dit.stream._blocks.values())
    assert whole <= streamed_bytes(config, weights, 0) <= 1.001 * whole


def test_what_is_missing_left_over_or_misshapen_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model"
    kinds, values = comfy_file("3b", "int8 rotated")
    name = next(n for n in kinds if n.startswith("blocks.31.") and n.endswith("proj_out.weight"))
    kind, shape = kinds[name]
    its_own = {f"{name}_scale", name.replace("weight", "comfy_quant")}
    without = {n: about for n, about in kinds.items() if n != name and n not in its_own}
    some = {n: value for n, value in values.items() if n not in its_own}
    cases = [
        (without, some, MissingKeys),
        (kinds | {"blocks.31.mlp.more.weight": ("F16", (8, 8))}, values, ExtraKeys),
        (kinds | {name: (kind, (shape[0], shape[1] + 256))}, values, WrongShapes),
    ]
    for listed, written, refusal in cases:
        safetensors_hole(path, listed, written)
        with pytest.raises(refusal) as caught:
            load_dit(path, options=STREAMED)
        assert ("blocks.31.mlp.more.weight" if refusal is ExtraKeys else name) in str(caught.value)
        sums = [caught.value.params[what] for what in ("missing", "extra", "misshapen")]
        assert sorted(sums) == [0, 0, 1]


def test_packed_weights_are_refused_by_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "model"
    kinds, _ = comfy_file("3b", "fp8 rows")
    name = next(name for name in kinds if name.endswith(".attn.proj_out.vid.weight"))
    rows, columns = kinds[name][1]
    kinds |= {name: ("U8", (rows, columns // 2)), f"{name}_scale_2": ("F32", ())}
    safetensors_hole(path, kinds)
    with pytest.raises(WrongNumbers, match="in the format NVFP4") as caught:
        model_of(path)
    assert (caught.value.code, caught.value.case) == ("wrong-numbers", "quantised")
    assert "fp16" in caught.value.hint
