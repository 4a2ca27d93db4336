"""The trial between float32 and bfloat16 on a CPU."""

import json

import pytest
import torch

from engine.hardware import devices
from engine.ops.conv import cpu_dtype
from engine.ops.conv.cpu_dtype import RESULTS, DtypeChoice, decide, fastest_dtype
from engine.ops.conv.temporal_conv import TemporalConv


@pytest.fixture(autouse=True)
def a_cpu_with_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: True)
    cpu_dtype._remembered.cache_clear()


def timed(monkeypatch: pytest.MonkeyPatch, wide: float, half: float) -> None:
    """Gives the trial a smaller convolution and its times in float32 and bfloat16, in s."""
    monkeypatch.setattr(cpu_dtype, "_CHANNELS", 16)
    monkeypatch.setattr(cpu_dtype, "_seconds", lambda *_: [wide, half])


def test_bfloat16_must_gain_more_than_what_is_around_convolutions() -> None:
    assert decide(2.0, 1.0) == DtypeChoice(
        dtype="bfloat16", ratio=2.0, reason="bfloat16 convolves 2.00 times as fast as float32"
    )
    assert decide(1.0, 0.81).dtype == "float32"
    assert decide(1.0, 3.0).dtype == "float32"


def test_the_trial_runs_once_and_names_cpu_instructions_and_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed(monkeypatch, 3.0, 1.0)
    assert fastest_dtype().dtype == "bfloat16"
    ((key, entry),) = json.loads(RESULTS.path.read_text("utf-8")).items()
    for part in (devices.cpu_name(), devices.cpu_flags(), f"torch {torch.__version__}"):
        assert part in key
    assert (entry["dtype"], entry["ratio"]) == ("bfloat16", 3.0)
    timed(monkeypatch, 1.0, 3.0)
    cpu_dtype._remembered.cache_clear()
    assert fastest_dtype().dtype == "bfloat16"
    RESULTS.path.write_text("damaged")
    cpu_dtype._remembered.cache_clear()
    assert fastest_dtype().dtype == "float32"


def test_it_really_measures_both() -> None:
    choice = fastest_dtype()
    assert choice.ratio > 0
    assert choice.dtype in ("float32", "bfloat16")


def test_wrong_results_are_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 3.0, 1.0)
    right = TemporalConv.apply

    def wrong(self: TemporalConv, frames: torch.Tensor) -> torch.Tensor:
        return right(self, frames) * (1.1 if frames.dtype is torch.bfloat16 else 1)

    monkeypatch.setattr(TemporalConv, "apply", wrong)
    choice = fastest_dtype()
    assert choice.dtype == "float32"
    assert "bfloat16 computes wrong results" in choice.reason


def test_a_failure_means_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no such primitive")

    monkeypatch.setattr(TemporalConv, "apply", fails)
    choice = fastest_dtype()
    assert (choice.dtype, choice.reason) == ("float32", "it fails: no such primitive")


def test_without_the_instructions_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: False)
    monkeypatch.setattr(cpu_dtype, "_tried", pytest.fail)
    assert fastest_dtype().dtype == "float32"
    assert not RESULTS.path.exists()
