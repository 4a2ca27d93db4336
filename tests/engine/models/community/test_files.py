"""Model files: recognised, refused with a reason, imported, and used by their path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from engine.cli.main import main
from engine.core.errors import (
    UnsafeWeights,
    WeightsError,
    WrongModel,
    WrongNumbers,
)
from engine.files.model_files import named
from engine.models.community import library
from engine.models.community.network import load
from engine.models.user_files import describe
from tests.helpers.clips import make_clip
from tests.helpers.community import network as make_network
from tests.helpers.community import write_network, write_state


@pytest.fixture
def compact(tmp_path: Path) -> Path:
    return write_network(tmp_path / "4x_film.pth", upscale=4)


@pytest.mark.parametrize("table", ["", "params", "params_ema", "state_dict", "model"])
def test_tables_of_trainers_are_looked_into(tmp_path: Path, table: str) -> None:
    state = make_network().state_dict()
    torch.save({table: state, "step": 5} if table else state, tmp_path / "a.pth")
    assert describe(tmp_path / "a.pth").models == ("community",)


def test_a_licence_that_the_file_names_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file(make_network().state_dict(), path, metadata={"modelspec.license": "CC-BY-4.0"})
    assert describe(path).licence == "CC-BY-4.0"


def test_half_precision_is_read_as_float32(tmp_path: Path) -> None:
    state = {name: value.half() for name, value in make_network().state_dict().items()}
    path = write_state(tmp_path / "a.safetensors", state)
    model = load(named(path)).model
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def changed(state: dict[str, Any], change: str) -> dict[str, Any]:
    first, last = "body.0.weight", [*state][-1]
    match change:
        case "a tensor is missing":
            del state[last]
        case "a tensor too many":
            state["body.1.extra"] = torch.zeros(3)
        case "another shape":
            state["body.2.weight"] = torch.zeros(8, 7, 3, 3)
        case "an endless list of layers":
            state["body.999999999.weight"] = torch.zeros(1)
        case "another network":
            state = {"something.weight": torch.zeros(4, 4), "else.bias": torch.zeros(4)}
        case "not a number":
            state[first][0, 0, 0, 0] = torch.nan
    return state


@pytest.mark.parametrize(
    ("change", "case"),
    [
        ("a tensor is missing", "unlike-architecture"),
        ("a tensor too many", "unlike-architecture"),
        ("another shape", "unlike-architecture"),
        ("an endless list of layers", "unlike-architecture"),
        ("another network", "unknown"),
    ],
)
def test_what_is_no_such_network_is_refused(tmp_path: Path, change: str, case: str) -> None:
    state = changed(dict(make_network().state_dict()), change)
    with pytest.raises(WrongModel) as caught:
        describe(write_state(tmp_path / "a.safetensors", state))
    assert caught.value.case == case
    assert caught.value.hint


def test_values_that_are_not_finite_are_refused_when_they_are_read(tmp_path: Path) -> None:
    state = changed(dict(make_network().state_dict()), "not a number")
    path = write_state(tmp_path / "a.safetensors", state)
    with pytest.raises(WrongNumbers, match="NaN or infinite"):
        load(named(path))


def test_indices_that_point_elsewhere_are_refused(tmp_path: Path) -> None:
    state = dict(make_network("SwinIR").state_dict())
    name = next(name for name in state if name.endswith("relative_position_index"))
    load(named(write_state(tmp_path / "right.pth", state)))
    state[name] = state[name] + 10**6
    with pytest.raises(WrongModel) as caught:
        load(named(write_state(tmp_path / "wrong.pth", state)))
    assert caught.value.case == "unlike-architecture"


def test_a_file_that_claims_a_network_of_terabytes_takes_no_memory(tmp_path: Path) -> None:
    """Names and shapes alone would make layers of 2^20 by 2^20 channels."""
    wide = 2**20
    state = {
        "body.0.weight": torch.zeros(wide, 1, 1, 1),
        "body.1.weight": torch.zeros(8),
        "body.2.weight": torch.zeros(1, wide, 1, 1),
        "body.2.bias": torch.zeros(12),
    }
    with pytest.raises(WrongModel):
        describe(write_state(tmp_path / "a.safetensors", state))


def test_a_pickle_that_runs_something_is_refused(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"params": Runs()}, tmp_path / "a.pth")
    with pytest.raises(UnsafeWeights):
        describe(tmp_path / "a.pth")
    assert not (tmp_path / "ran").exists()


def test_a_file_cut_short_is_refused(compact: Path) -> None:
    compact.write_bytes(compact.read_bytes()[:-500])
    with pytest.raises(WeightsError) as caught:
        describe(compact)
    assert caught.value.code == "weights-truncated"


def test_the_version_is_that_of_the_documents() -> None:
    root = Path(__file__).parents[4]
    for name, count in (("README.md", 2), ("CONTRIBUTING.md", 1)):
        text = (root / name).read_text("utf-8")
        assert text.count(f"pip install --no-deps spandrel=={library.VERSION}") == count
    assert library.spandrel().__version__ == library.VERSION


def test_the_command_line_imports_plans_and_upscales(
    compact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    assert main(["models", "import", str(compact)]) == 0
    said = capsys.readouterr()
    assert (
        "RealESRGAN Compact, 4x, float16 possible, the file states no licence"
        in said.out + said.err
    )
    assert "check its licence" in said.out + said.err
    assert main(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    (own,) = [file for file in listed["files"] if file["id"].startswith("own-")]
    film = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=3)
    for model in (str(compact), own["id"]):
        assert main(["plan", str(film), "--model", model]) == 0
        assert "(RealESRGAN Compact, x4), cpu, float32, whole frames" in capsys.readouterr().out
    result = tmp_path / "out.mkv"
    assert main(["upscale", str(film), "--model", str(compact), "-o", str(result)]) == 0
    assert result.is_file()


def test_a_path_that_is_no_file_and_no_path_at_all(tmp_path: Path, capsys: Any) -> None:
    film = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=3)
    assert main(["plan", str(film), "--model", str(tmp_path / "gone.pth")]) == 1
    assert "error[weights-missing]" in capsys.readouterr().err
    assert main(["plan", str(film), "--model", "community"]) == 1
    assert "and none is selected" in capsys.readouterr().err
