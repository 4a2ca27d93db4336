"""The checker finds what is wrong: values, names, damaged and missing files."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.golden.check import main
from tests.golden.outcome import Outcome, compared

HERE = Path(__file__).parent
Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status and lines of the checker on a folder; `only` is the beginning of file names."""

    def run(folder: Path, only: str = "") -> tuple[int, list[str]]:
        status = main([str(folder), "--only", only])
        return status, capsys.readouterr().out.splitlines()

    return run


def copied(folder: Path, *names: str) -> Path:
    """Copies golden files; the last one's path."""
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(next(HERE.glob(f"*/{name}")), folder)
    return folder / names[-1]


def rewrite(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors of a safetensors file; its metadata stay."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata)


def only(path: Path, *parts: str) -> None:
    """Keep the tensors whose names contain one of these."""
    names = [name for name in load_file(path) if not any(part in name for part in parts)]
    rewrite(path, lambda tensors: [tensors.pop(name) for name in names])


def fails(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("FAIL")]


VAE, DIT = "vae_tiny_weights.safetensors", "dit3b_tiny_weights.safetensors"
ENCODE, DECODE = "vae_tiny_encode.safetensors", "vae_tiny_decode.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the small encode and decode cases of one frame, to be spoilt."""
    copied(tmp_path, VAE, ENCODE, DECODE)
    only(tmp_path / ENCODE, ".f1_")
    only(tmp_path / DECODE, ".l1_")
    return tmp_path


def test_a_good_folder_passes_with_a_line_for_each_case(run: Run, folder: Path) -> None:
    inner = folder / "seedvr2"
    inner.mkdir()
    for path in folder.glob("*.safetensors"):
        path.rename(inner / path.name)
    status, lines = run(folder)
    assert (status, lines[-1]) == (0, "14 passed, 0 failed")
    for form in ("plain", "fast"):
        name = f"ok   vae_tiny_encode.safetensors enc.f1_40x56.mean [{form}]: error "
        assert any(line.startswith(name) and line.endswith(", limit 5e-05") for line in lines)


WRONG_VALUES: tuple[tuple[tuple[str, ...], str, float, int], ...] = (
    ((VAE, ENCODE), "enc.f1_40x56.mean", 1e-4, 2),
    ((VAE, ENCODE), "enc.f1_40x56.logvar", 1e-4, 2),
    ((DIT, "dit3b_tiny_cases_small.safetensors"), "b2.out", 2e-4, 2),
    (("embeddings.safetensors",), "rope7b.q_out", 1e-3, 1),
    ((VAE, DIT, "pipeline_p3.safetensors"), "batch0.noise_thwc", 1e-3, 2),
    (("gguf_dequant.safetensors",), "Q5_K.dequantized_fp32", 1e-5, 1),
    (("color_correction.safetensors",), "m.wavelet", 2e-5, 1),
    (("color_correction.safetensors",), "m.lab", 0.01, 1),  # where ranks may swap
    (("temporal_blend.safetensors",), "ov3.blended", 1e-3, 1),
    (("wan21_tiny_weights.safetensors", "wan21_tiny_io_t5_b2.safetensors"), "dec_raw", 3e-4, 4),
    (("ops.safetensors",), "patchify.y", 1e-4, 1),
)


@pytest.mark.extended
def test_one_wrong_value_is_found_in_every_kind_of_file(run: Run, tmp_path: Path) -> None:
    for number, (names, tensor, error, count) in enumerate(WRONG_VALUES):
        path = copied(tmp_path / str(number), *names)
        if path.name == ENCODE:
            only(path, ".f1_")
        rewrite(path, lambda tensors, at=(tensor, error): tensors[at[0]].view(-1)[3].add_(at[1]))
        status, lines = run(path.parent, path.stem)
        found = fails(lines)
        assert (status, len(found)) == (1, count), (tensor, found)
        assert all(line.split()[2].rstrip(":") in tensor for line in found), found


WRONG_ENTRIES: dict[str, Callable[[Any], object]] = {
    "window_partitions.json": lambda about: about[5]["windows_t0_t1_h0_h1_w0_w1"].reverse(),
    "timestep_transform.json": lambda about: about["rows"][5].update(t_out=0.5),
    "temporal_padding.json": lambda about: about[-1].update(index_list=[0, 1]),
    "manifest_vae.json": lambda about: about["state_dict"].update({"decoder.conv_out.bias": [4]}),
    "latent_stats.json": lambda about: about["wan21"]["mean"].reverse(),
}


def test_one_wrong_entry_is_found_in_every_table(run: Run, tmp_path: Path) -> None:
    for name, change in WRONG_ENTRIES.items():
        path = copied(tmp_path / name.partition(".")[0], name)
        about = json.loads(path.read_text("utf-8"))
        change(about)
        path.write_text(json.dumps(about), "utf-8")
        status, lines = run(path.parent)
        assert (status, len(fails(lines))) == (1, 1), name


def test_only_finite_values_of_the_same_shape_within_the_limit_pass() -> None:
    wanted = torch.ones(3)
    assert compared("x", wanted, wanted, 0.0).passed
    for value in (math.nan, math.inf):
        spoilt = torch.tensor([1.0, value, 1.0])
        for pair in ((spoilt, wanted), (wanted, spoilt), (spoilt, spoilt)):
            assert not compared("x", *pair, 1e9).passed
    assert not compared("x", wanted, torch.ones(1), 1e9).passed
    assert not compared("x", torch.ones(0), torch.ones(0), 1e9).passed
    assert Outcome(case="x", error=5e-5, limit=5e-5).passed
    assert not Outcome(case="x", error=5.1e-5, limit=5e-5).passed
    assert not Outcome(case="x", problem="anything").passed


def _incomplete_weights(folder: Path) -> None:
    rewrite(folder / VAE, lambda tensors: tensors.pop("decoder.conv_out.bias"))


def _cut(folder: Path) -> None:
    (folder / ENCODE).write_bytes((folder / ENCODE).read_bytes()[:-5])


def _more_tensors(folder: Path) -> None:
    more = {name: torch.ones(3) for name in ("enc.f1_40x56.median", "other.thing")}
    rewrite(folder / ENCODE, lambda tensors: tensors.update(more))


SPOILT: tuple[tuple[Callable[[Path], object], str, str], ...] = (
    (_incomplete_weights, "0 passed, 3 failed", "MissingKeys"),
    (lambda folder: (folder / VAE).unlink(), "0 passed, 2 failed", "no weights"),
    (_cut, "6 passed, 1 failed", ENCODE),
    (lambda folder: (folder / "notes.txt").touch(), "14 passed, 1 failed", "unknown file"),
    (_more_tensors, "14 passed, 4 failed", "unknown tensor"),
    (lambda folder: only(folder / DECODE, ".latent"), "10 passed, 2 failed", "nothing to compare"),
    (lambda folder: only(folder / DECODE, ".sample"), "10 passed, 4 failed", "no latent"),
)


@pytest.mark.extended
def test_what_is_damaged_missing_or_unknown_fails(run: Run, folder: Path, tmp_path: Path) -> None:
    for number, (spoil, counts, words) in enumerate(SPOILT):
        place = shutil.copytree(folder, tmp_path.parent / f"{tmp_path.name}-{number}")
        spoil(place)
        status, lines = run(place)
        assert (status, lines[-1]) == (1, counts), words
        assert any(words in line for line in fails(lines)), words


def test_nothing_to_check_fails(run: Run, tmp_path: Path) -> None:
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.mkdir()
    other.mkdir()
    (other / "README.md").write_text("hello")
    for folder, words in (
        (empty, "the folder is empty"),
        (tmp_path / "x", "no such folder"),
        (other, "nothing was checked"),
    ):
        status, lines = run(folder)
        assert (status, lines[-1]) == (1, "0 passed, 1 failed")
        assert words in lines[0]
