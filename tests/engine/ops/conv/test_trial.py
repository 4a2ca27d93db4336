import json
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from engine.ops.conv import trial as conv_probe
from engine.ops.conv.temporal_conv import TemporalConv
from engine.ops.conv.trial import ConvolutionChoice, Trial, decide
from engine.ops.torch_flags import using
from engine.settings.optimisations import RunSwitches

FINE = Trial(error=1e-5, workspace=1.0, seconds=1.0)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    conv_probe._choose.cache_clear()


def test_a_processor_takes_sums_of_2d() -> None:
    choice = conv_probe.choose_convolution("cpu", torch.float32)
    assert (choice.form, choice.is_sound) == ("2d", True)
    assert choice.ratio is not None
    assert choice.text.startswith("2D: a processor adds up in place (3-D takes ")
    assert conv_probe.choose_convolution("cpu", torch.bfloat16).form == "3d"


def test_the_faster_one_wins_on_a_gpu() -> None:
    for seconds, form in ((0.5, "3d"), (0.96, "3d"), (0.98, "2d"), (4, "2d")):
        other = Trial(error=1e-5, seconds=seconds)
        choice = decide(FINE, other, dtype=torch.float32, on_card=True)
        assert (choice.form, choice.ratio) == (form, seconds)
        assert decide(FINE, other, dtype=torch.float32, on_card=False).form == "2d"


def test_a_broken_form_is_never_chosen() -> None:
    cases = {
        "27 times its input": Trial(error=1e-5, workspace=27.0, seconds=0.1),
        "computes wrongly": Trial(error=0.2, seconds=0.1),
        "wrongly": Trial(error=float("nan"), seconds=0.1),
        "does not run (no engine)": Trial(failure="no engine"),
    }
    for text, broken in cases.items():
        choice = decide(FINE, broken, dtype=torch.float32, on_card=True)
        assert (choice.form, choice.is_sound) == ("2d", True)
        assert text in choice.reason
        assert decide(broken, FINE, dtype=torch.float32, on_card=True).form == "3d"
        neither = decide(broken, broken, dtype=torch.float32, on_card=True)
        assert (neither.form, neither.is_sound) == ("2d", False)


@pytest.mark.parametrize(("form", "other"), [("2d", "3d"), ("3d", "2d")])
def test_a_wrong_convolution_is_noticed(
    form: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TemporalConv.apply

    def wrong(self: TemporalConv, frames: torch.Tensor, into: Any = None) -> torch.Tensor:
        return right(self, frames, into) * (1.1 if self._form == form else 1)

    monkeypatch.setattr(TemporalConv, "apply", wrong)
    choice = conv_probe.choose_convolution("cpu", torch.float32)
    assert choice.form == other
    assert "computes wrongly" in choice.reason


def test_a_convolution_that_fails_leads_to_2d(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("CUDNN_STATUS_NOT_SUPPORTED\nlong story")
    monkeypatch.setattr(TemporalConv, "apply", Mock(side_effect=error))
    choice = conv_probe.choose_convolution("cpu", torch.float32)
    assert (choice.form, choice.is_sound) == ("2d", False)
    assert "CUDNN_STATUS_NOT_SUPPORTED" in choice.reason
    assert "long story" not in choice.reason
    monkeypatch.setattr(conv_probe, "_problem", Mock(side_effect=RuntimeError("no memory")))
    choice = conv_probe.probe_convolution("cuda", torch.float16)
    assert (choice.form, choice.ratio) == ("2d", None)


CHOICE = ConvolutionChoice(form="3d", reason="it is the faster", ratio=0.5)


class Gpu:
    """Stands in for a GPU: counts how often it is measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, choice: ConvolutionChoice = CHOICE) -> None:
        self.measure = Mock(return_value=choice)
        monkeypatch.setattr(conv_probe, "_key", lambda device, dtype: f"{device} {dtype}")
        monkeypatch.setattr(conv_probe, "probe_convolution", self.measure)

    def ask(self) -> ConvolutionChoice:
        conv_probe._choose.cache_clear()  # another process
        return conv_probe.choose_convolution("cuda", torch.float16)


def test_a_gpu_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    assert [gpu.ask() for _ in range(3)] == [CHOICE] * 3
    assert gpu.measure.call_count == 1
    assert list(json.loads(conv_probe._path().read_text())) == ["cuda torch.float16"]


def test_a_damaged_file_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    conv_probe._path().parent.mkdir(parents=True, exist_ok=True)
    for text in ("", "[1]", "{", '{"cuda torch.float16": {"form": "4d"}}'):
        gpu = Gpu(monkeypatch)
        conv_probe._path().write_text(text)
        assert [gpu.ask().form for _ in range(2)] == ["3d", "3d"]
        assert gpu.measure.call_count == 1


def test_a_failure_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    for choice in (
        ConvolutionChoice(form="2d", reason="the self-test failed: no memory"),
        ConvolutionChoice(form="2d", reason="neither is right", ratio=1.0, is_sound=False),
    ):
        gpu = Gpu(monkeypatch, choice)
        assert gpu.ask() == gpu.ask() == choice
        assert gpu.measure.call_count == 2


@pytest.mark.real_gpu("minutes on a processor")
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gpu_has_a_sound_method(dtype: torch.dtype) -> None:
    choice = conv_probe.probe_convolution("cuda", dtype)
    assert choice.is_sound, choice.reason


def test_the_trial_is_made_as_the_job_computes() -> None:
    for benchmark in (True, False):
        with using(RunSwitches(cudnn_benchmark=benchmark)), conv_probe._as_models_do():
            assert torch.backends.cudnn.benchmark is benchmark
