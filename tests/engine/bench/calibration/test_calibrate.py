"""The speed test: what it measures, tells, keeps and forgets."""

from itertools import count

import pytest
import torch

from engine.bench.calibration import calibrate
from engine.bench.calibration import models as calibrate_models
from engine.bench.calibration.calibrate import figure_rows, figures, keep
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.planner import rates as kept
from engine.planner.rates import COSTS, Learned, Rates, load_rates

GPU = "RTX 5090, 32 GB"
KIND = "lite-x2-cpu-libx264"


@pytest.fixture
def _two_steps(monkeypatch):
    def steps(folder):
        yield "reading", lambda: {"read": 0.5}
        yield "writing", lambda: {"libx264": 0.25, "decode-libx264": 0.125}

    monkeypatch.setattr(calibrate, "_cpu_steps", steps)


@pytest.mark.usefixtures("_two_steps")
def test_each_step_is_reported_and_their_costs_come_together(monkeypatch):
    reported = []
    found = calibrate.calibrate(lambda done, total, doing: reported.append((done, total, doing)))
    assert reported == [(0, 2, "reading"), (1, 2, "writing"), (2, 2, None)]
    assert found.costs == {"read": 0.5, "libx264": 0.25, "decode-libx264": 0.125}
    assert load_rates() == Rates()  # nothing is stored unless requested
    monkeypatch.setattr(calibrate, "_LIMIT_S", -1.0)  # a slow machine has no time for a step
    assert calibrate.calibrate(lambda *step: reported.append(step)) == Rates()
    assert reported[3:] == [(2, 2, None)]


@pytest.mark.usefixtures("_two_steps")
def test_it_stops_between_steps_and_leaves_the_threads_as_they_were():
    threads, asked = torch.get_num_threads(), count()
    with pytest.raises(Cancelled):
        calibrate.calibrate(stop=lambda: next(asked) == 1)
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
    calibrate_film = pytest.importorskip("engine.bench.calibration.film", exc_type=ImportError)
    monkeypatch.setattr(calibrate_film, "SIZE", Size(96, 64))
    monkeypatch.setattr(calibrate_film, "_FRAMES", 4)
    monkeypatch.setattr(calibrate_film, "_MANY", 12)
    found = {}
    with torch.inference_mode():
        for _, work in calibrate_film.steps(tmp_path):
            found |= work()
    assert set(found) - set(COSTS) == {"open-libx264", "open-prores_ks", "open-ffv1"}
    missing = set(COSTS) - set(found)
    models = ("vae-", "transformer-", "lite-")  # of Lite the format that is fast here
    rest = {"encoder", "open-encoder", "tiff", "decode-encoder", "decode-png", "decode-tiff"}
    assert {name for name in missing if not name.startswith(models)} == rest
    assert sum(name.startswith("lite-") for name in found) == 2
    assert all(cost > 0 for cost in found.values())
    assert load_rates() == Rates()  # small jobs teach nothing


@pytest.mark.slow
def test_models_give_costs_that_plans_use(monkeypatch):
    monkeypatch.setitem(calibrate_models._VAE_SIZE, "cpu", Size(64, 64))
    found = {}
    for _, work in calibrate_models.steps("cpu"):
        found |= work()
    assert set(found) <= set(COSTS)
    assert {name.partition("-")[0] for name in found} == {"vae", "transformer"}


@pytest.mark.extended
def test_lite_is_measured_in_operations():
    found = calibrate_models._lite("cpu", "float32")
    assert list(found) == ["lite-float32"]
    assert found["lite-float32"] > 0


@pytest.mark.real_gpu("nothing has a speed")
@pytest.mark.gpu
def test_models_are_measured_on_a_gpu():
    found = {}
    for _, work in calibrate_models.steps("cuda", torch.cuda.get_device_capability()):
        found |= work()
    assert {name.partition("-")[0] for name in found} == {"vae", "transformer", "lite"}
    assert all(0 < cost < COSTS["vae-float32"] for cost in found.values())
