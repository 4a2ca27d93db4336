"""What the other tests rely on: files in narrow formats hold what they are said to hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.model_files.formats.open_weights import open_weights
from engine.ops.linear.gguf import BLOCKS, dequantise
from tests.helpers.model_files import q4_k_m, write_fp8, write_gguf
from tests.helpers.tensors import relative_rms

SHAPES = {"a.mlp.b.proj_out.weight": (64, 512), "a.qkv.weight": (256, 256), "odd": (8, 33)}
VECTORS = {"norm.weight": (300,), "single": ()}


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_random_matrices_keep_the_size_of_what_goes_through(tmp_path: Path, kind: str) -> None:
    write_gguf(tmp_path / "a.gguf", {**SHAPES, **VECTORS}, kind)
    with open_weights(tmp_path / "a.gguf") as file:
        assert file.dtypes["odd"] == "F16"
        assert file.dtypes["norm.weight"] == "F32"
        for name in ("a.mlp.b.proj_out.weight", "a.qkv.weight"):
            assert file.dtypes[name] == kind
            weight = dequantise(file.raw(name), kind, file.shapes[name])
            assert 0.9 < float(weight.std()) * weight.shape[1] ** 0.5 < 1.1
            assert abs(float(weight.mean())) < 0.1 * float(weight.std())


def test_rows_are_split_and_the_shape_is_stored(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf", {"x": (32, 48), "y": (3, 5)}, prefix="p.", cut_rows=True)
    with open_weights(tmp_path / "a.gguf") as file:
        assert file.dtypes == {"p.x": "Q4_K", "p.y": "F16"}
        assert file.shapes == {"p.x": (32, 48), "p.y": (3, 5)}
        assert file.raw("p.x").shape == (6, 144)


def test_given_values_are_kept_as_well_as_the_format_allows(tmp_path: Path) -> None:
    numbers = {"x": torch.randn(16, 64), "y": torch.randn(7)}
    write_gguf(tmp_path / "a.gguf", numbers, "Q8_0", metadata={"config": "{}"})
    write_fp8(tmp_path / "a.safetensors", numbers, lambda name: name == "y")
    with open_weights(tmp_path / "a.gguf") as file:
        assert relative_rms(dequantise(file.raw("x"), "Q8_0", (16, 64)), numbers["x"]) < 0.01
        assert torch.equal(file.tensor("y"), numbers["y"])
        assert file.metadata["config"] == "{}"
    with open_weights(tmp_path / "a.safetensors") as file:
        assert file.dtypes == {"x": "F8_E4M3", "y": "F16"}
        cast = numbers["x"].to(torch.float8_e4m3fn).float()
        assert torch.equal(file.tensor("x", dtype=torch.float32), cast)


def test_a_mixed_file_has_both_formats(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf", SHAPES, q4_k_m)
    with open_weights(tmp_path / "a.gguf") as file:
        assert set(file.dtypes.values()) == {"Q4_K", "Q6_K", "F16"}
        assert {kind for kind in file.dtypes.values() if kind in BLOCKS} == {"Q4_K", "Q6_K"}
