"""What the other tests rely on: files in narrow formats hold what they are said to hold."""

from pathlib import Path

import torch

from engine.files.formats.open_weights import open_weights
from engine.ops.linear.gguf import dequantise
from tests.helpers.model_files import write_fp8, write_gguf
from tests.helpers.tensors import relative_rms


def test_random_matrices_keep_the_size_of_what_goes_through(tmp_path: Path) -> None:
    shapes = {"matrix": (64, 512), "odd": (8, 33), "vector": (300,), "single": ()}
    for kind in ("Q8_0", "Q4_K", "Q5_K", "Q6_K"):
        write_gguf(tmp_path / "a.gguf", shapes, kind)
        with open_weights(tmp_path / "a.gguf") as file:
            single = {"matrix": kind, "odd": "F16", "vector": "F32", "single": "F32"}
            assert file.dtypes == single
            weight = dequantise(file.raw("matrix"), kind, (64, 512))
        assert 0.9 < float(weight.std()) * 512**0.5 < 1.1
        assert abs(float(weight.mean())) < 0.1 * float(weight.std())


def test_given_values_are_kept_as_well_as_the_format_allows(tmp_path: Path) -> None:
    tensors = {"x": torch.randn(16, 64), "y": torch.randn(7)}
    write_gguf(tmp_path / "a.gguf", tensors, "Q8_0", metadata={"config": "{}"})
    write_fp8(tmp_path / "a.safetensors", tensors, lambda name: name == "y")
    with open_weights(tmp_path / "a.gguf") as file:
        assert relative_rms(dequantise(file.raw("x"), "Q8_0", (16, 64)), tensors["x"]) < 0.01
        assert torch.equal(file.tensor("y"), tensors["y"])
        assert file.metadata["config"] == "{}"
    with open_weights(tmp_path / "a.safetensors") as file:
        assert file.dtypes == {"x": "F8_E4M3", "y": "F16"}
        cast = tensors["x"].to(torch.float8_e4m3fn).float()
        assert torch.equal(file.tensor("x", dtype=torch.float32), cast)
