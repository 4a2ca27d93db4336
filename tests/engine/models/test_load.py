from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.core.errors import (
    EngineError,
    ExtraKeys,
    MissingKeys,
    UnknownKeys,
    WrongNumbers,
    WrongShapes,
)
from engine.files.formats.keymap import KeyMap
from engine.files.formats.safetensors_file import SafetensorsFile
from engine.models.load import FileWeights, check_keys, fill, on_meta, shapes_alone, shapes_of
from tests.helpers.dispatch import DispatchMode


class Small(nn.Module):
    """Parameters, a buffer, and a module inside a module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(3, 2), nn.Conv2d(2, 4, 1)])
        self.norm = nn.GroupNorm(2, 4)
        self.register_buffer("table", torch.zeros(3))


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    state = Small().state_dict()
    return {name: torch.randn(value.shape) for name, value in state.items()}


def loaded(
    folder: Path, tensors: dict[str, Tensor], keymap: KeyMap | None = None, **options: Any
) -> Small:
    save_file(tensors, folder / "model.safetensors")
    with SafetensorsFile(folder / "model.safetensors") as file:
        weights = FileWeights(file, keymap or KeyMap(), **options)
        module = on_meta(Small, file, weights.shapes)
        fill(module, weights)
    return module


class Operators(DispatchMode):
    """Names of the operators that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def test_modules_of_shapes_alone_are_those_that_torch_makes_but_draw_nothing() -> None:
    with Operators() as drawing:
        usual = Small()
    with shapes_alone(), Operators() as ran:
        found = Small()
    assert "aten.uniform_.default" in drawing.names - ran.names
    assert shapes_of(found) == shapes_of(usual)
    assert all(value.is_meta for value in found.state_dict().values())
    assert not any(value.is_meta for value in Small().state_dict().values())


def test_every_tensor_arrives(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    published = {f"model.{name}": value for name, value in tensors.items()}
    for module in (
        loaded(tmp_path, tensors),
        loaded(tmp_path, published, KeyMap(((r"^model\.", ""),))),
        loaded(tmp_path, tensors, dtype=torch.float64),
    ):
        for name, value in module.state_dict().items():
            assert torch.equal(value, tensors[name].to(value.dtype)), name
        assert module.inner[0].weight is dict(module.named_parameters())["inner.0.weight"]
        assert not any(parameter.requires_grad for parameter in module.parameters())
    assert module.inner[0].weight.dtype == torch.float64


def test_wrong_tensors_are_named(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    weight = "inner.0.weight"
    few = {n: v for n, v in tensors.items() if n not in ("inner.0.bias", "norm.weight")}
    cases: list[tuple[type[EngineError], dict[str, Tensor], str]] = [
        (MissingKeys, few, "2 missing: inner.0.bias, norm.weight."),
        (ExtraKeys, tensors | {"inner.2.bias": torch.ones(2)}, "1 unknown: inner.2.bias."),
        (WrongShapes, tensors | {weight: torch.ones(2, 2)}, f"{weight} 2x2 instead of 2x3."),
        (WrongShapes, tensors | {weight: torch.ones(3, 2)}, f"{weight} 3x2 instead of 2x3."),
        (WrongNumbers, tensors | {weight: torch.ones(2, 3).int()}, f"floating-point: {weight}"),
    ]
    for error, wrong, words in cases:
        with pytest.raises(error, match=re.escape(words)) as caught:
            loaded(tmp_path, wrong)
        assert caught.value.params["path"] == str(tmp_path / "model.safetensors")
    assert {MissingKeys, ExtraKeys, WrongShapes} <= set(UnknownKeys.__subclasses__())


def test_all_differences_are_told_and_many_are_counted() -> None:
    wanted = {f"w{i}": (1,) for i in range(9)}
    with pytest.raises(MissingKeys) as caught:
        check_keys(wanted, {"w0": (), "z": (2, 3)}, Path("model.safetensors"))
    assert caught.value.message == (
        "The tensors of model.safetensors do not match the model: "
        "8 missing: w1, w2, w3, w4, and 4 more; 1 unknown: z; "
        "1 with another shape: w0 scalar instead of 1."
    )
    assert caught.value.params["missing"] == 8
    assert caught.value.hint


def test_a_buffer_that_no_file_has_is_our_mistake(tmp_path: Path) -> None:
    module = nn.Linear(3, 2, device="meta")
    module.register_buffer("table", torch.ones(3, device="meta"), persistent=False)
    save_file({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, tmp_path / "x")
    with SafetensorsFile(tmp_path / "x") as file, pytest.raises(ValueError, match="table"):
        fill(module, FileWeights(file, KeyMap()))


def test_weights_of_a_file_are_read_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"a": torch.ones(2), "b": torch.ones(3)}, tmp_path / "x")
    read: list[str] = []
    real = SafetensorsFile.tensor

    def watched(self: SafetensorsFile, name: str, **how: Any) -> Tensor:
        read.append(name)
        return real(self, name, **how)

    monkeypatch.setattr(SafetensorsFile, "tensor", watched)
    with SafetensorsFile(tmp_path / "x") as file:
        weights = FileWeights(file, KeyMap(((r"^b$", "ours"),)), dtype=torch.float64)
        assert weights.shapes == {"a": (2,), "ours": (3,)}
        assert sorted(weights) == ["a", "ours"]
        assert len(weights) == 2
        assert read == []
        assert weights["ours"].dtype == torch.float64
    assert read == ["b"]
