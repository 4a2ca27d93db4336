"""Transformers of the published sizes, of random numbers in every format, load as they should.

Slow: files of up to 7 GB are written to the folder for temporary files and deleted again; those of
the 7B are holes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.model_files import (
    gguf_hole,
    q4_k_m,
    safetensors_hole,
    write_fp8,
    write_gguf,
    write_safetensors,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc"),
]

GOLDEN = Path(__file__).parents[1] / "golden" / "seedvr2"
MIB, GB = 2**20, 10**9
Shapes = Mapping[str, tuple[int, ...]]
PARAMETERS = {"3b": 3_391_475_776, "7b": 8_239_607_872}

# Runs by itself, so that the peak is its own. Loads, and forwards a latent where there is one.
PROGRAM = """
import json, re, sys, time, torch
from pathlib import Path
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.ops.linear.quantized_linear import QuantizedLinear
def peak():  # getrusage would begin with what the parent had
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
path, options, dtype, latent = json.loads(sys.argv[1])
dtype = getattr(torch, dtype)
before, start = peak(), time.perf_counter()
dit = load_dit(Path(path), dtype=dtype, options=LoadOptions(**options))
found = {"load_s": time.perf_counter() - start, "load_bytes": peak() - before}
found["layers"] = dit.config.layers
found["parameters"] = sum(
    one.in_features * one.out_features if isinstance(one, QuantizedLinear) and name == "weight"
    else value.numel()
    for one in dit.modules() for name, value in one.named_parameters(recurse=False)
)
found["held_bytes"] = sum(value.nbytes for value in dit.state_dict().values())
if latent:
    x = torch.randn(*latent, dit.config.in_channels).to(dtype)
    text = torch.randn(58, dit.config.text_in_dim).to(dtype)
    result = dit(x, text, 1000.0)
    found["finite"] = bool(result.isfinite().all())
    found["rms"] = result.float().square().mean().sqrt().item()
print(json.dumps(found))
"""


def measured(
    path: Path,
    options: Mapping[str, object],
    *,
    dtype: str = "float32",
    latent: tuple[int, int, int] | None = None,
) -> SimpleNamespace:
    """Figures of a process of its own."""
    given = json.dumps([str(path), options, dtype, latent])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return SimpleNamespace(**json.loads(done.stdout))


@cache
def shapes(size: str) -> dict[str, tuple[int, ...]]:
    manifest = json.loads((GOLDEN / f"manifest_dit_{size}.json").read_text())["state_dict"]
    return {name: tuple(shape) for name, shape in manifest.items()}


WRITERS: dict[str, Callable[[Path, Shapes], None]] = {
    "fp16": lambda path, tensors: write_safetensors(path, tensors, "F16"),
    "fp8": write_fp8,
    "fp8 mixed": lambda path, tensors: write_fp8(
        path, tensors, lambda name: name.startswith("blocks.31.")
    ),
    "Q4_K_M": lambda path, tensors: write_gguf(path, tensors, q4_k_m),
    "Q8_0": lambda path, tensors: write_gguf(path, tensors, "Q8_0"),
}


@pytest.fixture
def path() -> Iterator[Path]:
    """Not among pytest's folders, which are kept."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "model"


@pytest.mark.parametrize("kind", WRITERS)
def test_the_3b_loads_strictly_in_every_format(kind: str, path: Path) -> None:
    """Streamed it takes the ends of the model only, resident what the file has of it."""
    WRITERS[kind](path, shapes("3b"))
    streamed = measured(path, {"blocks_on_device": 0})
    assert (streamed.parameters, streamed.layers) == (PARAMETERS["3b"], 32)
    assert streamed.load_bytes < GB
    resident = measured(path, {}, dtype="bfloat16")
    assert resident.parameters == PARAMETERS["3b"]
    assert resident.load_bytes < resident.held_bytes + 400 * MIB
    assert resident.held_bytes < 1.05 * path.stat().st_size + 200 * MIB


def test_a_forward_of_the_3b(path: Path) -> None:
    """From a file in half precision, streamed, in float32 on the processor."""
    WRITERS["fp16"](path, shapes("3b"))
    found = measured(path, {"blocks_on_device": 0}, latent=(2, 16, 16))
    assert found.finite
    assert 0.01 < found.rms < 1e4


@pytest.mark.parametrize("kind", ["F16", "F8_E4M3", "mixed", "Q4_K_M"])
def test_the_7b_loads_strictly_without_its_memory(kind: str, path: Path) -> None:
    """16 GB start in no memory and in seconds; the file is a hole after its header."""
    if kind == "Q4_K_M":
        gguf_hole(path, shapes("7b"), q4_k_m)
    else:
        safetensors_hole(path, {n: (stored(n, kind), s) for n, s in shapes("7b").items()})
    found = measured(path, {"blocks_on_device": 0})
    assert (found.parameters, found.layers) == (PARAMETERS["7b"], 36)
    assert found.load_bytes < 1.2 * GB
    assert found.load_s < 60


def stored(name: str, kind: str) -> str:
    """Mixed files keep the last block in half precision."""
    if kind == "mixed":
        return "F16" if name.startswith("blocks.35.") else "F8_E4M3"
    return kind
