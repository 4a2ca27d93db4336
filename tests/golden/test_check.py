"""The checker finds what is wrong, and reads folders with other sizes and options."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.golden.conftest import Run, fails, rewrite
from tests.golden.outcome import Outcome, compared
from tests.golden.synthetic import FolderSpec, write_folder

GOLDEN = Path(__file__).parent / "seedvr2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the small encode and decode cases of one frame, to be spoilt."""
    for name in ("encode", "decode"):
        _copy(name, tmp_path, lambda tensor: ".f1_" in tensor or ".l1_" in tensor)
    shutil.copy(GOLDEN / "vae_tiny_weights.safetensors", tmp_path)
    return tmp_path


def _copy(name: str, folder: Path, keep) -> None:
    path = GOLDEN / f"vae_tiny_{name}.safetensors"
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = {key: value for key, value in load_file(path).items() if keep(key)}
    save_file(tensors, folder / path.name, metadata)


def test_a_good_folder_passes(run: Run, folder: Path) -> None:
    status, lines = run(folder)
    assert status == 0
    assert lines[-1] == "14 passed, 0 failed"
    assert all(" error " in line or " loads [" in line for line in lines[:-1])


def test_each_case_is_a_line_with_error_and_limit(run: Run, folder: Path) -> None:
    _, lines = run(folder)
    for form in ("plain", "fast"):
        name = f"ok   vae_tiny_encode.safetensors enc.f1_40x56.mean [{form}]: error "
        assert any(line.startswith(name) and line.endswith(", limit 5e-05") for line in lines)


@pytest.mark.parametrize("tensor", ["mean", "logvar", "moments_slicing_off", "moments_slicing_on"])
def test_a_wrong_value_is_found_in_every_tensor(run: Run, folder: Path, tensor: str) -> None:
    def change(tensors) -> None:
        tensors[f"enc.f1_40x56.{tensor}"].view(-1)[7] += 1e-4

    rewrite(folder / "vae_tiny_encode.safetensors", change)
    status, lines = run(folder)
    assert status == 1
    assert lines[-1] == "12 passed, 2 failed"
    assert sum(line.startswith(f"FAIL vae_tiny_encode.safetensors enc.f1_40x56.{tensor} ")
               for line in lines) == 2  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_never_pass(value: float) -> None:
    wanted = torch.ones(3)
    assert compared("x", wanted, wanted, 0.0).passed
    spoilt = torch.tensor([1.0, value, 1.0])
    assert not compared("x", spoilt, wanted, 1e9).passed
    assert not compared("x", wanted, spoilt, 1e9).passed
    assert not compared("x", spoilt, spoilt, 1e9).passed


def test_other_shapes_and_no_values_never_pass() -> None:
    assert not compared("x", torch.ones(3), torch.ones(1), 1e9).passed
    assert not compared("x", torch.ones(0), torch.ones(0), 1e9).passed


def test_an_error_at_the_limit_passes_and_one_above_does_not() -> None:
    assert Outcome(case="x", error=5e-5, limit=5e-5).passed
    assert not Outcome(case="x", error=5.1e-5, limit=5e-5).passed
    assert not Outcome(case="x", problem="anything").passed


def test_weights_of_another_model_fail_every_case(run: Run, folder: Path) -> None:
    def change(tensors) -> None:
        tensors["decoder.conv_out.bias"] += 1

    rewrite(folder / "vae_tiny_weights.safetensors", change)
    status, lines = run(folder, "vae_tiny_decode")
    assert status == 1
    assert lines[-1] == "0 passed, 4 failed"


def test_an_incomplete_file_of_weights_fails(run: Run, folder: Path) -> None:
    rewrite(folder / "vae_tiny_weights.safetensors", lambda t: t.pop("decoder.conv_out.bias"))
    status, lines = run(folder)
    assert status == 1
    assert "0 passed, 3 failed" in lines[-1]
    assert any("MissingKeys" in line and "decoder.conv_out.bias" in line for line in lines)


def test_cases_without_weights_fail(run: Run, folder: Path) -> None:
    (folder / "vae_tiny_weights.safetensors").unlink()
    status, lines = run(folder)
    assert status == 1
    assert lines[-1] == "0 passed, 2 failed"
    assert "no weights" in lines[0]


def test_a_damaged_file_fails_and_the_rest_is_checked(run: Run, folder: Path) -> None:
    path = folder / "vae_tiny_encode.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    status, lines = run(folder)
    assert status == 1
    assert lines[-1] == "6 passed, 1 failed"


def test_an_unknown_file_fails(run: Run, folder: Path) -> None:
    (folder / "notes.txt").write_text("?")
    status, lines = run(folder)
    assert status == 1
    assert "FAIL notes.txt: unknown file" in lines
    assert lines[-1] == "14 passed, 1 failed"


def test_an_unknown_tensor_fails(run: Run, folder: Path) -> None:
    def change(tensors) -> None:
        tensors["enc.f1_40x56.median"] = torch.ones(3)
        tensors["other.thing"] = torch.ones(3)

    rewrite(folder / "vae_tiny_encode.safetensors", change)
    status, lines = run(folder)
    assert status == 1
    assert lines[-1] == "14 passed, 4 failed"


def test_an_input_without_results_fails(run: Run, folder: Path) -> None:
    def change(tensors) -> None:
        for name in [name for name in tensors if not name.endswith(".latent")]:
            del tensors[name]

    rewrite(folder / "vae_tiny_decode.safetensors", change)
    status, lines = run(folder, "vae_tiny_decode")
    assert status == 1
    assert lines[-1] == "0 passed, 2 failed"


def test_results_without_an_input_fail(run: Run, folder: Path) -> None:
    rewrite(folder / "vae_tiny_decode.safetensors", lambda t: t.pop("dec.l1_5x7.latent"))
    status, lines = run(folder, "vae_tiny_decode")
    assert status == 1
    assert lines[-1] == "0 passed, 4 failed"


@pytest.mark.parametrize("prefix", ["", "nothing"])
def test_nothing_to_check_fails(run: Run, tmp_path: Path, prefix: str) -> None:
    (tmp_path / "README.md").write_text("hello")
    status, lines = run(tmp_path, prefix)
    assert status == 1
    assert lines[-1] == "0 passed, 1 failed"


def test_an_empty_folder_and_a_missing_one_fail(run: Run, tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "the folder is empty"), (tmp_path / "x", "no such folder")):
        status, lines = run(folder)
        assert status == 1
        assert words in lines[0]
        assert lines[-1] == "0 passed, 1 failed"


def test_folders_in_the_folder_are_checked_too(run: Run, folder: Path) -> None:
    inner = folder / "seedvr2"
    inner.mkdir()
    for path in list(folder.glob("*.safetensors")):
        path.rename(inner / path.name)
    assert run(folder)[1][-1] == "14 passed, 0 failed"


def test_a_wrong_manifest_fails(run: Run, tmp_path: Path) -> None:
    manifest = json.loads((GOLDEN / "manifest_vae.json").read_text())
    manifest["state_dict"]["decoder.conv_out.bias"] = [4]
    manifest["total_parameters"] += 1
    (tmp_path / "manifest_vae.json").write_text(json.dumps(manifest))
    status, lines = run(tmp_path)
    assert status == 1
    assert "WrongShapes" in lines[0]


SMALL = ((16, 16), (8, 8))
SPECS = {
    "wider, two layers, longer slices": FolderSpec(
        options={
            "block_out_channels": [8, 16, 16, 24],
            "layers_per_block": 2,
            "norm_num_groups": 8,
            "slicing_sample_min_size": 8,
        },
        frames=(13,),
        tile=SMALL,
    ),
    "both small convolutions": FolderSpec(
        options={"use_quant_conv": True, "use_post_quant_conv": True, "norm_num_groups": 2},
        metadata_style="plain",
        frames=(1, 5),
    ),
    "three levels, time by two": FolderSpec(
        options={
            "block_out_channels": [4, 8, 12],
            "temporal_scale_num": 1,
            "latent_channels": 4,
            "norm_num_groups": 4,
            "slicing_sample_min_size": 2,
        },
        frames=(7,),
    ),
    "no time at all": FolderSpec(
        options={"block_out_channels": [4, 8], "temporal_scale_num": 0, "norm_num_groups": 1},
        frames=(3,),
        tile=((10, 16), (4, 6)),
    ),
    "only in the cases' metadata": FolderSpec(
        options={"norm_num_groups": 2}, weights_metadata=False, name="vae_odd", tile=SMALL
    ),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_other_folders_of_the_same_layout_work(run: Run, tmp_path: Path, spec: FolderSpec) -> None:
    count = write_folder(tmp_path, spec)
    status, lines = run(tmp_path)
    assert status == 0, fails(lines)
    assert lines[-1] == f"{count} passed, 0 failed"


@pytest.mark.parametrize("option", ["norm_num_groups", "slicing_sample_min_size"])
def test_options_that_shapes_cannot_tell_come_from_the_metadata(
    run: Run, tmp_path: Path, option: str
) -> None:
    """With another number in the metadata the same values are wrong, or sliced otherwise."""
    options = {"norm_num_groups": 4, "slicing_sample_min_size": 8}
    spec = FolderSpec(options=options, frames=(13,), tile=SMALL)
    write_folder(tmp_path, spec)
    path = tmp_path / "vae_tiny_encode.safetensors"
    with safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
    config["constructor"][option] //= 2
    save_file(load_file(path), path, {"config": json.dumps(config)})
    status, _ = run(tmp_path, "vae_tiny_encode")
    assert status == (1 if option == "norm_num_groups" else 0)  # slices never change the result
