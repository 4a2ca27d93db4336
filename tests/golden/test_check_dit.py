"""The checker finds what is wrong with the transformer, and takes other sizes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.models.seedvr2.dit.load import FORMS
from tests.golden.conftest import Run, fails, rewrite
from tests.helpers.seedvr2 import random_inputs, tiny_dit_config, write_dit

GOLDEN = Path(__file__).parent / "seedvr2"
EACH = len(FORMS)


def copied(folder: Path, *names: str) -> Path:
    for name in names:
        shutil.copy(GOLDEN / name, folder)
    return folder / names[-1]


@pytest.mark.parametrize("kind", ["3b", "7b"])
def test_other_sizes_pass(run: Run, tmp_path: Path, kind: str) -> None:
    config = tiny_dit_config(kind, dim=24, heads=3, head_dim=8, layers=2, window=(2, 2, 1))
    name = f"dit{kind}_other"
    dit = write_dit(tmp_path / f"{name}_weights.safetensors", config)
    latent, text = random_inputs(config, (3, 4, 6), dtype=torch.float32)
    cases = {"x.vid_in": latent.flatten(0, 2), "x.txt_in": text}
    for tag, time in (("x", 1000.0), ("xx", 250.0)):
        cases[f"{tag}.vid_shape"] = torch.tensor([[3, 4, 6]])
        cases[f"{tag}.timestep"] = torch.tensor([time])
        cases[f"{tag}.out"] = dit(latent.double(), text.double(), time).flatten(0, 2).float()
    save_file(cases, tmp_path / f"{name}_cases.safetensors")
    status, lines = run(tmp_path)
    assert status == 0, lines
    assert lines[-1] == f"{3 * EACH} passed, 0 failed"


def test_a_wrong_value_is_found(run: Run, tmp_path: Path) -> None:
    path = copied(tmp_path, "dit3b_tiny_weights.safetensors", "dit3b_tiny_cases_small.safetensors")
    rewrite(path, lambda tensors: tensors["b2.out"].view(-1)[3].add_(2e-4))
    status, lines = run(tmp_path)
    assert status == 1
    assert len(fails(lines)) == EACH
    assert all(" b2 [" in line for line in fails(lines))


def test_an_unknown_tensor_fails(run: Run, tmp_path: Path) -> None:
    path = copied(tmp_path, "dit3b_tiny_weights.safetensors", "dit3b_tiny_cases_small.safetensors")
    rewrite(path, lambda tensors: tensors.update({"b.other": torch.ones(1)}))
    assert "FAIL dit3b_tiny_cases_small.safetensors b.other: unknown tensor" in run(tmp_path)[1]


def test_one_number_of_the_weights_decides(run: Run, tmp_path: Path) -> None:
    copied(tmp_path, "dit7b_tiny_weights.safetensors", "dit7b_tiny_cases_small.safetensors")
    weights = tmp_path / "dit7b_tiny_weights.safetensors"
    rewrite(weights, lambda tensors: tensors["blocks.5.ada.txt.attn_scale"].add_(1))
    status, lines = run(tmp_path, "dit7b_tiny_cases")
    assert status == 1
    assert lines[-1] == f"0 passed, {3 * EACH} failed"


def test_cases_without_weights_fail(run: Run, tmp_path: Path) -> None:
    copied(tmp_path, "dit7b_tiny_cases_small.safetensors")
    status, lines = run(tmp_path)
    assert status == 1
    assert "no weights" in lines[0]


@pytest.mark.parametrize("name", ["window_partitions.json", "timestep_transform.json"])
def test_a_wrong_number_in_a_table_is_found(run: Run, tmp_path: Path, name: str) -> None:
    path = copied(tmp_path, name)
    about = json.loads(path.read_text("utf-8"))
    if isinstance(about, list):
        about[5]["windows_t0_t1_h0_h1_w0_w1"].reverse()
    else:
        about["rows"][5]["t_out"] += 0.01
    path.write_text(json.dumps(about))
    status, lines = run(tmp_path)
    assert status == 1
    assert len(fails(lines)) == 1


@pytest.mark.parametrize("name", ["rope3b.vid_angles", "rope7b.q_out", "sinusoidal_256"])
def test_a_wrong_embedding_is_found(run: Run, tmp_path: Path, name: str) -> None:
    path = copied(tmp_path, "embeddings.safetensors")
    rewrite(path, lambda tensors: tensors[name].view(-1)[-1].add_(1e-3))
    status, lines = run(tmp_path)
    assert status == 1
    assert [line.split()[2].rstrip(":") for line in fails(lines)] == [name]


@pytest.mark.parametrize(
    "name",
    [
        "batch0.transformed_cthw_-1_1",
        "batch0.noise_thwc",
        "batch0.upscaled_latent_thwc",
        "batch0.decoded_cthw",
        "final_thwc_0_1",
    ],
)
def test_a_wrong_stage_of_a_film_is_found(run: Run, tmp_path: Path, name: str) -> None:
    path = copied(
        tmp_path,
        "vae_tiny_weights.safetensors",
        "dit3b_tiny_weights.safetensors",
        "pipeline_p3.safetensors",
    )
    rewrite(path, lambda tensors: tensors[name].view(-1)[-1].sub_(1e-3))
    status, lines = run(tmp_path, "pipeline")
    assert status == 1
    assert {line.split()[2] for line in fails(lines)} == {"final" if "final" in name else name}
