"""The checker finds what is wrong before and after the models: sizes, lengths, seams, colours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.core.geometry import Size
from engine.models.seedvr2.plan import reference_layout
from engine.models.seedvr2.preprocess import place
from engine.ops.resize import resize
from tests.golden.conftest import Run, fails, rewrite

GOLDEN = Path(__file__).parent / "seedvr2"
COLOURS, BLEND, PADDING = (
    "color_correction.safetensors",
    "temporal_blend.safetensors",
    "temporal_padding.json",
)


@pytest.mark.parametrize("name", ["adain", "wavelet", "wavelet_low_of_content"])
def test_one_wrong_value_of_a_smooth_method_is_found(run: Run, tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(GOLDEN / COLOURS, tmp_path))
    rewrite(path, lambda tensors: tensors[f"m.{name}"].view(-1)[9].add_(2e-5))
    status, lines = run(tmp_path)
    failed = fails(lines)
    assert status == 1
    assert len(failed) == 1
    assert f"m.{name}: error " in failed[0]


@pytest.mark.parametrize("name", ["lab", "lab_lw0", "hsv", "wavelet_adaptive"])
@pytest.mark.parametrize(("places", "change"), [(1, 0.01), (None, 5e-5)])
def test_methods_by_rank_have_two_limits(
    run: Run, tmp_path: Path, name: str, places: int | None, change: float
) -> None:
    path = Path(shutil.copy(GOLDEN / COLOURS, tmp_path))
    rewrite(path, lambda tensors: tensors[f"m.{name}"].view(-1)[:places].add_(change))
    status, lines = run(tmp_path)
    failed = fails(lines)
    assert status == 1
    assert len(failed) == 1
    assert ("mean" in failed[0]) == (places is None)


@pytest.mark.parametrize("name", ["ov1.w_prev", "ov3.blended", "ov8.w_prev"])
def test_a_wrong_seam_is_found(run: Run, tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(GOLDEN / BLEND, tmp_path))
    rewrite(path, lambda tensors: tensors[name].view(-1)[0].sub_(1e-3))
    assert len(fails(run(tmp_path)[1])) == 1


@pytest.mark.parametrize("spoil", [{"index_list": [0, 1]}, {"mode": "repeat"}])
def test_a_wrong_length_is_found(run: Run, tmp_path: Path, spoil: dict) -> None:
    cases = json.loads((GOLDEN / PADDING).read_text("utf-8"))
    cases[-1] |= spoil
    (tmp_path / PADDING).write_text(json.dumps(cases), "utf-8")
    assert len(fails(run(tmp_path)[1])) == 1


@pytest.fixture
def resized(tmp_path: Path) -> Path:
    """A case of 20 x 10 px that becomes 64 x 32, made larger than it may be, then 33 x 16."""
    frames = torch.rand(2, 3, 10, 20)
    result = resize(resize(frames, Size(64, 32)), Size(33, 16))
    placed = place(result, reference_layout(Size(33, 16)))
    case = {
        "name": "x",
        "resolution_short_edge": 32,
        "max_resolution": 33,
        "resized_hw": [16, 33],
        "true_hw_even": [16, 32],
        "padded_hw": [16, 48],
    }
    tensors = {
        "x.input_tchw": frames,
        "x.resized_tchw": result,
        "x.transformed_cthw": placed.transpose(0, 1).contiguous(),
    }
    path = tmp_path / "resize_pad_normalise.safetensors"
    save_file(tensors, path, {"cases": json.dumps([case])})
    return path


def test_other_sizes_pass(run: Run, resized: Path) -> None:
    assert run(resized.parent)[0] == 0


@pytest.mark.parametrize("name", ["x.resized_tchw", "x.transformed_cthw"])
def test_a_wrong_pixel_is_found(run: Run, resized: Path, name: str) -> None:
    rewrite(resized, lambda tensors: tensors[name].view(-1)[5].add_(2e-5))
    assert len(fails(run(resized.parent)[1])) == 1
