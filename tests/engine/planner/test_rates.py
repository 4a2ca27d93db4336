"""What is remembered of this machine's speed, and when it is forgotten."""

import json
import math

import pytest

from engine.planner import rates
from engine.planner.rates import COSTS, Learned, Rates, keep, learn, load_rates

KIND = "lite-x2-cpu-libx264"
FULL = Rates(
    jobs={KIND: Learned(factor=2.0, error=0.3, jobs=4)},
    costs={"read": 0.02, "vae-float32": 12.0},
    gpus={"RTX 5090, 32 GB": {"vae-float16": 0.02}},
)


@pytest.fixture(autouse=True)
def _own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("UPREEL_CACHE", str(tmp_path))


NO_JOBS = (
    *({"jobs": jobs} for jobs in (math.nan, math.inf, 1e400, "1", None, [])),
    *({"jobs": 1, "error": error} for error in (math.nan, 10**400, "0.1", [])),
    *({"jobs": 1, "memory": memory} for memory in ([math.nan], [[]], 3, "1")),
)


def changed(tmp_path, **values):
    file = tmp_path / "rates.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_what_is_kept_comes_back(tmp_path):
    keep(FULL)
    assert load_rates() == FULL
    assert [file.name for file in tmp_path.iterdir()] == ["rates.json"]


def test_a_damaged_or_old_file_is_no_rates_and_is_replaced(tmp_path):
    old = '{"lite-x2-cpu-libx264": 1.3}'  # as the first version wrote it
    for text in ("", "{", "[]", "[" * 9999, "null", '{"a": "fast"}', old, '{"version": 3}'):
        (tmp_path / "rates.json").write_text(text)
        assert load_rates() == Rates(), text
        learn(KIND, predicted=100, measured=300)
        assert load_rates().factor(KIND) == pytest.approx(3), text


def test_numbers_that_make_no_sense_and_another_machine_s_are_no_rates(tmp_path, monkeypatch):
    for values in (
        *({"costs": costs} for costs in ({"read": "fast"}, {"read": -1}, {"read": math.nan}, [])),
        *({"jobs": {KIND: job}} for job in (1.0, {"factor": 0, "error": 0, "jobs": 1})),
        *({"jobs": {KIND: {"factor": 1, "error": 0.1} | job}} for job in NO_JOBS),
        *({"cards": {"a": 1}}, {"machine": "Another processor, 64 threads"}, {"version": 2}),
    ):
        keep(FULL)
        changed(tmp_path, **values)
        assert load_rates() == Rates(), values
    keep(FULL)
    monkeypatch.setattr(rates.devices, "cpu_name", lambda: "Another processor")
    assert load_rates() == Rates()


def test_a_folder_that_cannot_be_written_to_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UPREEL_CACHE", str(tmp_path / "file"))
    keep(FULL)
    assert load_rates() == Rates()


def test_the_first_job_counts_in_full_later_ones_half_and_a_wild_one_within_bounds():
    learn(KIND, predicted=100, measured=300)
    assert load_rates().factor(KIND) == pytest.approx(3)
    learn(KIND, predicted=100, measured=75)
    assert load_rates().factor(KIND) == pytest.approx(1.5, rel=1e-3)
    assert load_rates().jobs[KIND].jobs == 2
    learn("wild", predicted=1, measured=10**9)
    assert load_rates().factor("wild") == 20


def test_short_jobs_say_little():
    learn(KIND, predicted=1, measured=4, fixed=3.9)
    assert 0.9 < load_rates().factor(KIND) <= 1
    learn(KIND, predicted=1, measured=0.5, fixed=1)  # less than what every job takes
    assert load_rates().jobs[KIND].jobs == 1


def test_the_band_follows_how_far_predictions_were_off():
    learn(KIND, predicted=100, measured=100)
    first = load_rates().jobs[KIND].error
    for _ in range(5):
        learn(KIND, predicted=100, measured=101)
    steady = load_rates().jobs[KIND].error
    learn(KIND, predicted=100, measured=250)
    assert steady < first < load_rates().jobs[KIND].error


def test_an_encoder_without_a_measured_cost_costs_as_encoders_usually_do():
    rates = Rates()
    assert rates.cost("some-encoder") == rates.cost("h264_nvenc") == COSTS["encoder"]
    assert rates.cost("open-some-encoder") == COSTS["open-encoder"]
    assert rates.cost("decode-h264_nvenc") == COSTS["decode-encoder"]


def test_another_encoder_is_alike_and_another_model_is_not():
    learn(KIND, predicted=100, measured=200)
    found = load_rates()
    assert found.factor("lite-x2-cpu-libx265") == pytest.approx(2)
    assert found.learned("lite-x2-cpu-libx265").error > found.learned(KIND).error
    assert found.learned("seedvr2-3b-x2-cpu-libx264") is None
    assert found.learned(KIND, "RTX 5090, 32 GB") is None


def test_a_guess_at_another_scale_follows_what_was_measured_and_says_less():
    """A film measured at x2 is not guessed to be faster at x4: the factor is one of the work."""
    learn(KIND, predicted=100, measured=400)
    found = load_rates()
    other = found.learned("lite-x4-cpu-libx264")
    assert other.factor == pytest.approx(found.factor(KIND))
    assert other.error > found.learned("lite-x2-cpu-libx265").error
    assert found.learned("lite-x4-own-cpu-libx264") is None
    assert found.learned("lite-x4-cuda-libx264", "RTX 5090, 32 GB") is None
    learn("lite-x4-cpu-ffv1", predicted=100, measured=200)
    assert load_rates().factor("lite-x4-cpu-libx264") == pytest.approx(2)  # nearer than x2


def test_memory_of_the_latest_jobs_is_planned_with():
    """Plans are upper limits: what took less changes nothing."""
    for memory in (None, 0.9, 1.2, *[0.95] * 25):
        learn("film", predicted=10, measured=10, memory=memory)
        found = load_rates().learned("film")
        assert found.memory_factor == (1.2 if 1.2 in found.memory[-5:] else 1)
    assert found.memory == (0.95,) * 20
    learn("other", predicted=10, measured=10, memory=1.1)
    assert load_rates().learned("other").memory_factor == 1.1
