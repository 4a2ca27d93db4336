import json
from dataclasses import replace
from functools import partial
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch

from engine.core.errors import ChoiceMissing
from engine.ops.choices import Choices, following
from engine.ops.conv import trial as conv_probe
from engine.ops.conv.temporal_conv import TemporalConv
from engine.ops.conv.trial import RESULTS, ConvolutionChoice, LayerKind, Trial, decide
from engine.ops.kernels.conv import ConvKernel
from engine.ops.kernels.conv_tiles import Program, Taps, tile_for
from engine.ops.precision import using
from engine.settings.optimisations import RunSwitches

FINE = Trial(error=1e-5, workspace=1.0, seconds=1.0)


def test_a_processor_takes_sums_of_2d() -> None:
    choice = conv_probe.probe_convolution("cpu", torch.float32)
    assert (choice.form, choice.is_sound) == ("2d", True)
    assert choice.ratio is not None
    assert choice.text.startswith("2D: sums in place on the CPU (3-D takes ")
    assert conv_probe.probe_convolution("cpu", torch.bfloat16).form == "3d"


def test_the_faster_one_wins_on_a_gpu() -> None:
    for seconds, form in ((0.5, "3d"), (0.96, "3d"), (0.98, "2d"), (4, "2d")):
        other = Trial(error=1e-5, seconds=seconds)
        choice = decide(FINE, other, dtype=torch.float32, on_card=True)
        assert (choice.form, choice.ratio) == (form, seconds)
        assert decide(FINE, other, dtype=torch.float32, on_card=False).form == "2d"


def test_a_broken_form_is_never_chosen() -> None:
    cases = {
        "27 times its size": Trial(error=1e-5, workspace=27.0, seconds=0.1),
        "computes wrong": Trial(error=0.2, seconds=0.1),
        "computes wrong results": Trial(error=float("nan"), seconds=0.1),
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
    choice = conv_probe.probe_convolution("cpu", torch.float32)
    assert choice.form == other
    assert "computes wrong" in choice.reason


def test_a_convolution_that_fails_leads_to_2d(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("CUDNN_STATUS_NOT_SUPPORTED\nlong story")
    monkeypatch.setattr(TemporalConv, "apply", Mock(side_effect=error))
    choice = conv_probe.probe_convolution("cpu", torch.float32)
    assert (choice.form, choice.is_sound) == ("2d", False)
    assert "CUDNN_STATUS_NOT_SUPPORTED" in choice.reason
    assert "long story" not in choice.reason
    monkeypatch.setattr(conv_probe, "_problem", Mock(side_effect=RuntimeError("no memory")))
    choice = conv_probe.probe_convolution("cuda", torch.float16)
    assert (choice.form, choice.ratio) == ("2d", None)


CHOICE = ConvolutionChoice(form="3d", reason="the faster", ratio=0.5, winograd=True)
GPU, LAYER = torch.device("cuda", 0), LayerKind((8, 4, 3, 3, 3))
KEY = "this GPU, float16, 4 to 8 by 3x3x3, padding 1, strides (1, 1)"


class Gpu:
    """Stands in for a GPU: counts how often it is measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: Any) -> None:
        self.measure = Mock(side_effect=found or [CHOICE])
        monkeypatch.setattr(conv_probe, "machine", lambda device: "this GPU")
        monkeypatch.setattr(conv_probe, "_probe", self.measure)

    def ask(self, layer: LayerKind = LAYER) -> ConvolutionChoice:
        conv_probe._choose.cache_clear()  # another process
        return conv_probe.choose_convolution(GPU, torch.float16, layer)


def test_a_layer_is_measured_once_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    other, none = replace(CHOICE, form="2d", winograd=False), replace(CHOICE, ratio=None)
    gpu = Gpu(monkeypatch, CHOICE, other, none)
    for layer, choice in ((LAYER, CHOICE), (LAYER._replace(stride=(2, 2)), other)):
        assert [gpu.ask(layer) for _ in range(3)] == [choice] * 3
    failing = LAYER._replace(padding=0)  # a form that does not run is a verdict too
    assert [gpu.ask(failing) for _ in range(2)] == [none] * 2
    assert gpu.measure.call_count == 3
    assert next(iter(json.loads(RESULTS.path.read_text()))) == KEY


def test_a_damaged_file_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    RESULTS.path.parent.mkdir(parents=True, exist_ok=True)
    for text in ("", "[1]", "{", json.dumps({KEY: 3}), json.dumps({KEY: {"form": "4d"}})):
        gpu = Gpu(monkeypatch)
        RESULTS.path.write_text(text)
        assert [gpu.ask() for _ in range(2)] == [CHOICE] * 2
        assert gpu.measure.call_count == 1


def test_what_may_pass_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    unsound = ConvolutionChoice(form="2d", reason="neither is right", ratio=1.0, is_sound=False)
    gpu = Gpu(monkeypatch, unsound, torch.OutOfMemoryError("CUDA out of memory\nmuch"), CHOICE)
    assert gpu.ask() == unsound
    passing = gpu.ask()
    assert (passing.form, passing.winograd, passing.ratio) == ("2d", False, None)
    assert passing.reason == "the self-test failed: CUDA out of memory"
    assert conv_probe.choose_convolution(GPU, torch.float16, LAYER) == CHOICE  # the same process


@pytest.mark.parametrize(("seconds", "chosen"), [(0.9, True), (0.98, False)])
def test_two_frames_at_once_where_that_is_faster_still(
    seconds: float, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen_with(error: float, layer: LayerKind) -> bool:
        pairs = Trial(seconds=seconds, error=error)
        tried = Mock(side_effect=lambda _, form, winograd=False: pairs if winograd else FINE)
        monkeypatch.setattr(conv_probe, "_try", tried)
        return conv_probe._probe(torch.device("cpu"), torch.float32, layer).winograd

    usual = LayerKind((4, 4, 3, 3, 3))
    assert chosen_with(1e-5, usual) == chosen
    assert not chosen_with(1.0, usual)
    for other in (usual._replace(stride=(2, 1)), LayerKind((4, 4, 2, 2, 2))):
        assert not chosen_with(1e-5, other)


@pytest.mark.parametrize(
    "layer",
    [
        LAYER,
        LayerKind((8, 4, 3, 3, 3), padding=0, stride=(2, 2)),
        LayerKind((16, 4, 2, 2, 2)),
        LayerKind((6, 3, 3, 1, 1), padding=0, stride=(2, 1)),
    ],
)
def test_every_kind_of_layer_is_compared_with_the_truth(layer: LayerKind) -> None:
    cpu = torch.device("cpu")
    problem = conv_probe._problem(cpu, torch.float64, layer)
    for form in ("2d", "3d"):
        tried = conv_probe._try(problem, form)
        assert tried.failure == ""
        assert tried.error < 1e-12
    if layer.weight[2] == 3 and layer.stride[0] == 1:
        assert conv_probe._try(problem, "2d", winograd=True).error < 1e-12


# --- our kernel

OURS = Program(taps=Taps(4, 8, 3, 3, 3), tile=tile_for(4))
AS_LAYER = LayerKind((8, 8, 3, 3, 3))


def kernel(program: Program = OURS) -> ConvKernel:
    return ConvKernel(cast(Any, None), program)


@pytest.mark.parametrize(
    ("ours", "form"),
    [
        (Trial(error=1e-3, seconds=0.4), "kernel"),
        (Trial(error=1e-3, seconds=0.49), "3d"),
        (Trial(error=0.1, seconds=0.1), "3d"),
        (Trial(failure="the launch failed"), "3d"),
    ],
    ids=["faster", "as fast", "wrong", "failing"],
)
def test_our_kernel_is_chosen_where_it_is_right_and_the_fastest(
    ours: Trial, form: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trials = {"2d": FINE, "3d": Trial(seconds=0.5)}
    monkeypatch.setattr(conv_probe, "_try", lambda _, form, winograd=False: trials[form])
    monkeypatch.setattr(conv_probe, "_try_kernel", lambda *_: ours)
    monkeypatch.setattr(conv_probe, "decide", partial(_on_gpu, decide))
    choice = conv_probe._probe(torch.device("cpu"), torch.float16, AS_LAYER, kernel())
    assert (choice.form, choice.is_sound) == (form, True)
    broken = ours.failure or ours.error > 0.02
    assert len(caplog.records) == (1 if broken else 0)
    if form == "kernel":
        assert choice.text.startswith("kernel: our kernel is right and the fastest (3-D takes")


def _on_gpu(real: Any, *trials: Trial, dtype: torch.dtype, on_card: bool) -> ConvolutionChoice:
    found: ConvolutionChoice = real(*trials, dtype=dtype, on_card=True)
    return found


def test_results_with_our_kernel_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a choice without it, and one made before there was a kernel, stays and is found again."""
    ours = ConvolutionChoice(form="kernel", reason="fast", ratio=0.5)
    gpu = Gpu(monkeypatch, CHOICE, ours, ours, CHOICE)
    single = replace(OURS, promote=0)
    whole = replace(OURS, taps=OURS.taps._replace(outer=8))
    kernels = (None, kernel(OURS), kernel(single), kernel(whole))
    for _ in range(2):
        found = []
        for one in kernels:
            conv_probe._choose.cache_clear()  # another process
            choice = conv_probe.choose_convolution(GPU, torch.float16, AS_LAYER, one)
            found.append(choice.form)
        assert found == ["3d", "kernel", "kernel", "3d"]
    assert gpu.measure.call_count == 4
    keys = [key.replace("this GPU, float16", "") for key in json.loads(RESULTS.path.read_text())]
    layer = ", 8 to 8 by 3x3x3, padding 1, strides (1, 1)"
    assert keys == [
        layer,
        f", our kernel with sums promoted every 128 in 2 parts{layer}",
        f", our kernel with sums in float32 in 2 parts{layer}",
        f", our kernel with sums promoted every 128{layer}",
    ]


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


WAYS = ["2d", "3d", "2d, F(2, 3)", "3d, F(2, 3)"]


@pytest.mark.parametrize("way", WAYS)
def test_a_job_keeps_the_way_of_a_layer_if_it_is_right_here(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trial of speed is made for it."""
    device, tried = torch.device("cpu"), list[Any]()
    right = conv_probe._try

    def counted(*given: Any, **form: Any) -> Trial:
        tried.append(form)
        return right(*given, **form)

    monkeypatch.setattr(conv_probe, "_probe", Mock(side_effect=AssertionError))
    monkeypatch.setattr(conv_probe, "_try", counted)
    with following(Choices({f"convolution on cpu: torch.float32, {LAYER.text}": way})):
        chosen = [conv_probe.choose_convolution(device, torch.float32, LAYER) for _ in range(2)]
    assert [one.way for one in chosen] == [way] * 2
    assert tried == [conv_probe._WAYS[way]]
    monkeypatch.setattr(conv_probe, "_try", lambda *_, **__: Trial(error=1.0))
    for wrong, why in ((way, "computes wrong results"), ("4d", "it is unknown")):
        job = Choices({f"convolution on cpu: torch.float32, {LAYER.text}": wrong})
        with following(job), pytest.raises(ChoiceMissing, match=why):
            conv_probe.choose_convolution(device, torch.float32, LAYER)


def test_a_way_that_a_stored_result_knows_to_be_right_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = Gpu(monkeypatch)
    gpu.ask()
    monkeypatch.setattr(conv_probe, "_try", Mock(side_effect=AssertionError))
    with following(Choices({f"convolution on cuda: torch.float16, {LAYER.text}": CHOICE.way})):
        assert gpu.ask().way == CHOICE.way
    assert gpu.measure.call_count == 1


def test_what_was_not_right_is_not_kept_with_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    unsound = ConvolutionChoice(form="2d", reason="neither is right", is_sound=False)
    gpu, job = Gpu(monkeypatch, unsound, CHOICE), Choices()
    with following(job):
        assert gpu.ask() == unsound
        assert not job.known
        assert gpu.ask() == CHOICE
    assert list(job.known.values()) == ["3d, F(2, 3)"]


def test_a_job_keeps_our_kernel_if_it_is_right_here(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)  # which prefers another form
    key = f"convolution on cuda: torch.float16, {AS_LAYER.text}"
    job = {f"{key}, our kernel with sums promoted every 128 in 2 parts": "kernel", key: "kernel"}
    monkeypatch.setattr(conv_probe, "_problem", Mock())
    monkeypatch.setattr(conv_probe, "_try_kernel", lambda *_: FINE)
    with following(Choices(job)):
        choice = conv_probe.choose_convolution(GPU, torch.float16, AS_LAYER, kernel())
        with pytest.raises(ChoiceMissing, match="it is unknown"):
            conv_probe.choose_convolution(GPU, torch.float16, AS_LAYER)
    assert choice.form == "kernel"
    monkeypatch.setattr(conv_probe, "_try_kernel", lambda *_: Trial(failure="the launch failed"))
    with following(Choices(job)), pytest.raises(ChoiceMissing, match="the launch failed"):
        conv_probe.choose_convolution(GPU, torch.float16, AS_LAYER, kernel())
    gpu.measure.assert_not_called()
