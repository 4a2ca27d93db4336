from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench.cases import switches
from engine.bench.cases.switch_models import (
    BuiltModel,
    MeasuredDit,
    MeasuredModel,
    MeasuredTiles,
    MeasuredVae,
)
from engine.bench.cases.switches import (
    SwitchComparison,
    claim_rows,
    dit_switch_rows,
    first_call,
    other_switch_rows,
    vae_switch_rows,
)
from engine.bench.report import claims as known_claims
from engine.bench.report import measured
from engine.bench.run import CASES, GROUPS, BenchOptions
from engine.bench.timing import Ratio
from engine.core.errors import FeatureMissing
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.models.seedvr2.vae.config import VAE
from engine.models.wan.vae.config import WAN22
from engine.ops import precision
from engine.ops.transfer.tile_canvas import TileSink
from engine.settings.optimisations import DitSwitches, RunSwitches, VaeSwitches
from tests.helpers.compiling import compiling
from tests.helpers.extended import extended
from tests.helpers.memory import BFLOAT16
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config
from tests.helpers.wan import tiny_wan_config

SMALL = {"size": Size(16, 16), "frames": (9,), "quick": True, "device": "cpu", "runs": 2}
OPTIONS = BenchOptions(config=tiny_config(), dit=tiny_dit_config(), **SMALL)
WAN = replace(OPTIONS, model="wan21-vae", config=tiny_wan_config())


@pytest.mark.parametrize("options", [*extended(OPTIONS), pytest.param(WAN, marks=pytest.mark.slow)])
def test_every_switch_of_the_vae_has_a_line(options: BenchOptions) -> None:
    rows = {row["switch"]: row for row in vae_switch_rows(options)}
    keys = [entry.key for entry in VaeSwitches.optimisations()]
    choices = ["vae.convolution=2d", "vae.convolution=3d"]
    assert list(rows) == ["vae.usual", "vae.all", *keys, *choices]
    for entry in VaeSwitches.optimisations():
        row = rows[entry.key]
        if not entry.works_on("cpu"):
            reason = "compiler" if entry.name == "compile" else "gpu"
            assert row == {"switch": entry.key, "note": message(f"reason.choice.{reason}")}
            continue
        if entry.name == "compile":
            assert row["note"] == message("bench.compile-not-quick")
            continue
        assert row["time"] > 0
        assert row["turns"] == 2
        assert 0 < row["error"] < 1e-5
        assert 0 < row["error_without"] < 1e-5
        assert ("memory" in row) != (entry.key == "vae.image_mode")
    winograd = rows["vae.temporal_winograd"]
    assert winograd["error"] != winograd["error_without"]  # it really was on


def broken(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("no such instruction")


@pytest.mark.parametrize(
    "model", [*extended(MeasuredVae), pytest.param(MeasuredDit, marks=pytest.mark.slow)]
)
def test_the_seconds_of_compiling_are_noted_and_a_failure_too(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(OPTIONS, frames=(5,), size=Size(96, 64) if model is MeasuredDit else None)
    measured = model(options)
    with torch.inference_mode():
        with compiling():
            note = first_call(measured.built(measured.default.changed("compile", True)).clip)
        assert note["note"].code == "bench.first-call"
        assert float(note["note"].params["seconds"]) > 0
        for module in ("bench.cases.switch_models", "models.video_vae.runner"):
            monkeypatch.setattr(f"engine.{module}.require_compiler", lambda _: None)
        with compiling(broken), pytest.raises(FeatureMissing) as caught:
            first_call(measured.built(measured.default.changed("compile", True)).clip)
    assert caught.value.case == "compile-failed"
    assert "no such instruction" in caught.value.message


def test_large_models_are_measured_narrower() -> None:
    assert VAE.narrower(4).block_out_channels == (32, 64, 128, 128)
    assert (WAN22.narrower(2).dim, WAN22.narrower(2).dec_dim) == (80, 128)
    assert "half" in str(MeasuredVae(BenchOptions(device="cpu")).description)


@pytest.mark.programs("g++")
@pytest.mark.extended
def test_every_switch_of_the_transformer_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device) -> None:
        raise FeatureMissing("compile-on-gpu", feature="compile")

    monkeypatch.setattr("engine.bench.cases.switch_models.require_compiler", refuse)
    options = replace(OPTIONS, size=Size(96, 64))
    quick = {row["switch"]: row for row in dit_switch_rows(options)}
    assert quick["dit.compile"]["note"] == message("bench.compile-not-quick")
    rows = {row["switch"]: row for row in dit_switch_rows(replace(options, quick=False))}
    keys = [entry.key for entry in DitSwitches.optimisations()]
    assert list(rows)[: 2 + len(keys)] == ["dit.usual", "dit.all", *keys]
    assert {"dit.attention=sdpa", "dit.attention=math"} <= set(rows)
    assert rows.pop("dit.compile")["note"].code == "feature-missing.compile-on-gpu"
    for entry in DitSwitches.optimisations():
        row = rows.get(entry.key)
        if row is not None and entry.works_on("cpu"):
            assert row["time"] > 0
            assert 0 < row["error"] < 1e-5


@pytest.mark.extended
def test_what_documents_promise_besides_has_lines() -> None:
    rows = {row["switch"]: row for row in other_switch_rows(OPTIONS)}
    assert rows["run.cudnn_benchmark"]["note"] == message("bench.needs-gpu")
    assert "UPREEL_RUN_PASSIVE_THREADS" in str(rows["run.passive_threads"]["note"])
    assert {entry.key for entry in RunSwitches.optimisations()} < set(rows)
    assert rows["slices"]["memory"] > 0
    assert rows["tiles"]["memory"] < 1
    assert rows["wide-head-attention"]["error"] < 1e-5
    assert 0.5 < rows["sampling-sums"]["time"] < 1
    assert rows["dit.matmul=fp8"]["error"] > rows["dit.matmul=int8"]["error"] > 1e-3
    assert rows["dit.matmul=nvfp4"]["note"] == message("bench.no-matmul")


@pytest.mark.extended
def test_two_tiles_leave_under_the_switches_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = TileSink.add

    def add(self: TileSink, *args: Any) -> None:
        seen.append(precision.current().copy_stream)
        real(self, *args)

    monkeypatch.setattr(TileSink, "add", add)
    model = MeasuredTiles(OPTIONS)
    rows = SwitchComparison(model, OPTIONS).rows()
    assert [row["switch"] for row in rows][:2] == ["run.usual", "run.all"]
    (frames,) = model.built(model.default).clip()
    assert frames.shape == (9, 32, 16, 3)
    assert torch.equal(frames[:, :16], frames[:, 16:])
    (at_once,) = model.built(replace(model.default, two_tiles=True)).clip()
    assert torch.equal(at_once, frames)
    for on in (True, False):
        seen.clear()
        model.built(replace(model.default, copy_stream=on)).clip()
        assert seen == [on] * 4  # two slices of two tiles


class _FakeModel(MeasuredModel):
    """Takes 4 s without `in_place` and 1 s with it; Winograd makes half of that."""

    name, device, default = "vae", "cpu", VaeSwitches()

    @property
    def description(self) -> Message:
        return message("bench.model.vae-whole", frames=1, size="1x1", dtype="float32")

    def built(self, switches: VaeSwitches) -> BuiltModel:
        seconds = (1.0 if switches.in_place else 4.0) * (0.5 if switches.temporal_winograd else 1.0)

        def work() -> list[torch.Tensor]:
            return [torch.tensor([1.0, seconds])]

        return BuiltModel(clip=work, image=work, check=work)

    def _exact_model(self) -> BuiltModel:
        return self.built(VaeSwitches())


def test_ratios_are_with_by_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(work: Any, other: Any, device: str, effort: Any) -> Ratio:
        return Ratio.of([float(work()[0][1] / other()[0][1])])

    monkeypatch.setattr(switches, "compare", compare)
    monkeypatch.setattr(switches, "peak_bytes", lambda work, _: work()[0][1].item())
    rows = {row["switch"]: row for row in SwitchComparison(_FakeModel(), OPTIONS).rows()}
    saved = rows["vae.in_place"]
    assert (saved["time"], saved["memory"], saved["error"]) == (0.25, 0.25, 0.0)
    assert saved["error_without"] == pytest.approx(3 / 2**0.5)
    added = rows["vae.temporal_winograd"]
    assert (added["time"], added["memory"], added["error_without"]) == (0.5, 0.5, 0.0)
    assert rows["vae.upsampler_fold"]["time"] == 1.0
    assert rows["vae.all"]["time"] == 0.25


@pytest.mark.real_gpu("minutes on a processor")
@pytest.mark.gpu
def test_the_same_lines_on_a_gpu() -> None:
    options = replace(OPTIONS, device="cuda", size=Size(64, 64))
    for rows in (vae_switch_rows, dit_switch_rows, other_switch_rows, claim_rows):
        for row in rows(options):
            assert row.get("note") != message("bench.needs-gpu")
            if "time" in row:
                assert row["time"] > 0
                assert row.get("memory", 1.0) > 0


CLAIM_OPTIONS = BenchOptions(
    config=tiny_config((False, True)),
    dit=tiny_dit_config(),
    size=Size(16, 16),
    frames=(5,),
    quick=True,
    device="cpu",
    runs=2,
    threads=1,
)


@pytest.fixture(scope="module")
def claim_lines() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.hardware.devices.cpu_has_bf16", lambda: True)
        return {row["switch"]: row for row in claim_rows(CLAIM_OPTIONS)}


@BFLOAT16
@pytest.mark.extended
def test_a_vae_in_bfloat16_takes_less_memory(claim_lines: dict[str, Any]) -> None:
    assert claim_lines["vae.precision=bfloat16"]["memory"] < 1


def test_what_documents_claim_besides_switches_has_lines(claim_lines: dict[str, Any]) -> None:
    assert len(measured(claim_lines.values())) == len(claim_lines)
    assert claim_lines["vae.precision=float16"]["note"] == message("bench.needs-gpu")
    half = claim_lines["vae.precision=bfloat16"]
    assert half["error"] > 1e-3 > 1e-5 > half["error_without"]
    for name in ("pixel-shuffle", "separable-blending"):
        assert claim_lines[name]["time"] > 0
        assert claim_lines[name]["error"] < 1e-6
    assert claim_lines["separable-blending"]["memory"] < 1  # no weight of every pixel
    assert claim_lines["cached-ramps"]["time"] > 0


def test_runs_that_differ_in_memory_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _repeated()["memory"] == 1.0
    peaks = iter([100, 100, 100, 100, 150])
    monkeypatch.setattr(switches, "peak_bytes", lambda work, device: next(peaks))
    row = _repeated()
    assert row["memory"] == 1.5
    assert "deviation 18.18%" in str(row["note"])


def _repeated() -> dict[str, Any]:
    with torch.inference_mode():
        return switches._repeated(MeasuredVae(CLAIM_OPTIONS), CLAIM_OPTIONS)


@pytest.mark.extended
def test_every_claim_is_answered_by_a_row_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SwitchComparison, "_compare", lambda *given, **more: {})
    monkeypatch.setattr(MeasuredModel, "error", lambda *given: 0.0)
    monkeypatch.setattr(switches, "ratios", lambda *given: {})
    with torch.inference_mode():
        cases = [CASES[name] for name in GROUPS["optimisations"]]
        found = {row["switch"] for case in cases for row in case.rows(CLAIM_OPTIONS)}
    wanted = {row for claim in known_claims().values() for row in claim.rows}
    assert wanted <= found
