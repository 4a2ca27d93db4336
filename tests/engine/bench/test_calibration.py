from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
import torch

from engine.bench import calibration, run
from engine.bench.calibration import figure_rows, figures, keep
from engine.bench.report import unmeasured
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.core.messages import Message
from engine.planner import rates as kept
from engine.planner.rates import COSTS, Learned, Rates, load_rates
from engine.settings.schema import LITE

GPU = "RTX 5090, 32 GB"
KIND = "lite-x2-cpu-libx264"


@pytest.fixture
def _two_steps(monkeypatch):
    def steps(folder):
        yield "reading", lambda: {"read": 0.5}
        yield "writing", lambda: {"libx264": 0.25, "decode-libx264": 0.125}

    monkeypatch.setattr(calibration, "_cpu_steps", steps)


@pytest.mark.usefixtures("_two_steps")
def test_each_step_is_reported_and_their_costs_come_together(monkeypatch):
    reported = []
    found = calibration.calibrate(lambda done, total, doing: reported.append((done, total, doing)))
    assert reported == [(0, 2, "reading"), (1, 2, "writing"), (2, 2, None)]
    assert found.costs == {"read": 0.5, "libx264": 0.25, "decode-libx264": 0.125}
    assert load_rates() == Rates()  # nothing is stored unless requested
    monkeypatch.setattr(calibration, "_LIMIT_S", -1.0)  # a slow machine has no time for a step
    assert calibration.calibrate(lambda *step: reported.append(step)) == Rates()
    assert reported[3:] == [(2, 2, None)]


@pytest.mark.usefixtures("_two_steps")
def test_it_stops_between_steps_and_leaves_the_threads_as_they_were():
    threads, asked = torch.get_num_threads(), count()
    with pytest.raises(Cancelled):
        calibration.calibrate(stop=lambda: next(asked) == 1)
    assert next(asked) == 2
    assert torch.get_num_threads() == threads


def test_what_is_kept_replaces_what_jobs_taught_about_the_same_device():
    jobs = {KIND: Learned(factor=2.0), f"wan-2x-x2-cuda-libx264 on {GPU}": Learned(factor=3.0)}
    kept.keep(Rates(jobs=jobs, costs={"read": 1.0, "png": 2.0}, gpus={"other": {"a": 1.0}}))
    keep(Rates(costs={"read": 0.5}))
    found = load_rates()
    assert dict(found.jobs) == {f"wan-2x-x2-cuda-libx264 on {GPU}": Learned(factor=3.0)}
    assert found.costs == {"read": 0.5, "png": 2.0}
    keep(Rates(costs={"read": 0.5}, gpus={GPU: {"vae-float16": 0.1}}))
    found = load_rates()
    assert found.jobs == {}
    assert found.gpus == {"other": {"a": 1.0}, GPU: {"vae-float16": 0.1}}


def test_figures_have_units():
    rates = Rates(
        costs={"read": 0.02, "start": 0.05, "vae-float32": 10.0}, gpus={GPU: {"vae-float16": 0.01}}
    )
    assert {row["what"]: row["figure"] for row in figure_rows(rates)} == {
        "read": "50 million pixels/s on the CPU",
        "start": "0.05 s a job",
        "vae-float32": "100 billion operations/s on the CPU",
        f"vae-float16, {GPU}": "1e+05 billion operations/s on the GPU",
    }
    found = [(one.title.code, one.value.code) for one in figures(rates)]
    assert found == [
        ("bench.cost.read", "bench.value.megapixels"),
        ("bench.cost.start", "bench.value.seconds"),
        ("bench.cost.vae", "bench.value.gflops"),
        ("bench.cost.on-gpu", "bench.value.gflops"),
    ]
    for figure in figures(Rates(costs=COSTS, gpus={GPU: COSTS})):
        assert str(figure.title)
        assert str(figure.value)


@pytest.mark.extended
def test_every_step_on_a_film_gives_costs_that_plans_use(tmp_path, monkeypatch):
    video_costs = pytest.importorskip("engine.bench.video_costs", exc_type=ImportError)
    monkeypatch.setattr(video_costs, "SIZE", Size(96, 64))
    monkeypatch.setattr(video_costs, "_FRAMES", 4)
    monkeypatch.setattr(video_costs, "_MANY", 12)
    found = {}
    with torch.inference_mode():
        for _, work in video_costs.steps(tmp_path):
            found |= work()
    assert set(found) - set(COSTS) == {
        *("open-libx264", "open-libvpx-vp9", "open-prores_ks", "open-ffv1")
    }
    missing = set(COSTS) - set(found)
    models = ("vae-", "transformer-", "lite-")  # of Lite the format that is fast here
    rest = {"encoder", "open-encoder", "decode-encoder", "decode-png"}
    rest |= {f"{step}{image}" for step in ("", "decode-") for image in ("tiff", "exr", "dpx")}
    assert {name for name in missing if not name.startswith(models)} == rest
    assert sum(name.startswith("lite-") for name in found) == 2
    assert all(cost > 0 for cost in found.values())
    assert load_rates() == Rates()  # small jobs teach nothing


@pytest.mark.slow
@pytest.mark.parametrize("has_bf16", [True, False])
def test_models_give_costs_that_plans_use(monkeypatch, has_bf16):
    monkeypatch.setitem(calibration._VAE_SIZE, "cpu", Size(64, 64))
    monkeypatch.setattr(calibration.devices, "cpu_has_bf16", lambda: has_bf16)
    found = {}
    for _, work in calibration._model_steps("cpu"):
        found |= work()
    assert set(found) <= set(COSTS)
    assert {name.rpartition("-")[0] for name in found} == {"vae", "transformer", "lite-plus"}
    assert ("vae-bfloat16" in found) == has_bf16


@pytest.mark.extended
def test_lite_is_measured_in_operations():
    found = calibration._lite("cpu", "float32") | calibration._lite("cpu", "float32", "lite-plus")
    assert list(found) == ["lite-float32", "lite-plus-float32"]
    assert min(found.values()) > 0


def test_costs_of_both_sizes_of_the_built_in_model_have_titles():
    rates = Rates(costs={"lite-2-float32": 2.0, "lite-plus-bfloat16": 5.0})
    shown = [(str(one.title), str(one.value)) for one in calibration.figures(rates)]
    assert shown == [
        ("Lite ×2 · float32", "0.5 million px/s"),
        ("Lite Plus · bfloat16", "200 GFLOP/s"),
    ]


@pytest.mark.real_gpu("nothing has a speed")
@pytest.mark.gpu
def test_models_are_measured_on_a_gpu():
    found = {}
    for _, work in calibration._model_steps("cuda", torch.cuda.get_device_capability()):
        found |= work()
    assert {name.rpartition("-")[0] for name in found} == {"vae", "transformer", *LITE}
    assert all(0 < cost < COSTS["vae-float32"] for cost in found.values())


RATES = Rates(costs={"read": 0.5})
ROWS: list[dict[str, Any]] = [
    {"case": "machine", "processor": "Another one"},
    {"case": "optimisations-vae", "switch": "vae.usual", "about": "VAE, small"},
    {"case": "optimisations-vae", "switch": "vae.in_place", "time": 0.9},
    {"case": "optimisations-around", "switch": "run.tf32", "note": "needs an NVIDIA GPU"},
]


class _Run:
    """Reported steps and saved costs, and whether the cases were closed."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []
        self.saved: list[Rates] = []
        self.was_closed = False

    def report(self, done: int, total: int, step: Message | None) -> None:
        self.steps.append((done, total, "" if step is None else str(step)))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> _Run:
    seen = _Run()

    def speed_test(report: Any, stop: Any) -> Rates:
        for number, doing in enumerate(("film", "models")):
            if stop():
                raise Cancelled
            report(number, 2, doing)
        report(2, 2, None)
        return RATES

    def measured(names: Sequence[str]) -> Iterator[dict[str, Any]]:
        assert list(names) == ["optimisations"]
        try:
            yield from ROWS
        finally:
            seen.was_closed = True

    monkeypatch.setattr(calibration, "calibrate", speed_test)
    monkeypatch.setattr(calibration, "keep", seen.saved.append)
    monkeypatch.setattr(run, "measured", measured)
    return seen


def test_quick_is_the_speed_test_alone(seen: _Run) -> None:
    report = calibration.examine(quick=True, report=seen.report, stop=lambda: False)
    assert seen.steps == [(0, 2, "film"), (1, 2, "models"), (2, 2, ""), (2, 2, "")]
    assert seen.saved == [RATES]
    assert report.switches == ()
    (figure,) = report.figures
    assert (str(figure.title), str(figure.value)) == ("Reading a video", "2 million px/s")
    assert "processor" in report.machine
    assert "2 million pixels" in report.markdown


def test_the_full_run_has_the_table(seen: _Run) -> None:
    report = calibration.examine(quick=False, report=seen.report, stop=lambda: False)
    names = [line.name for line in report.switches]
    assert names == ["vae.in_place", "run.tf32", *(line.name for line in unmeasured())]
    assert report.notes == ("VAE, small",)
    assert "## Optimisations" in report.markdown
    assert report.machine["processor"] != "Another one"
    done = [step[0] for step in seen.steps]
    assert done == sorted(done)
    assert all(done <= total for done, total, _ in seen.steps)
    assert seen.steps[-1][0] == seen.steps[-1][1]


def test_a_cancel_between_two_rows_keeps_the_speed_test(seen: _Run) -> None:
    def stop() -> bool:
        return any(str(doing) == "in-place sums" for _, _, doing in seen.steps)

    with pytest.raises(Cancelled):
        calibration.examine(quick=True, report=seen.report, stop=lambda: True)
    assert seen.saved == [], "it was cancelled in the speed test"
    with pytest.raises(Cancelled):
        calibration.examine(quick=False, report=seen.report, stop=stop)
    assert seen.saved == [RATES]
    assert seen.was_closed
    assert not any(str(doing) == "TF32" for _, _, doing in seen.steps)
