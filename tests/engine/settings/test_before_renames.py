"""Files written before settings and switches were renamed are still read.

`form` became `treatment`, `products` became `matmul`, `dit.onednn_products` `dit.onednn_matmul`,
`vae.fp16_accumulation` `vae.fp16_sums`; `dit.fp16_accumulation` is gone.
"""

import json
import shutil
from pathlib import Path

import pytest

from engine.core.serialization import from_plain
from engine.jobs.job_store import JobStore
from engine.pipeline.prepare import with_model_of
from engine.settings import presets, store
from engine.settings.presets import applied
from engine.settings.schema import EngineSettings, JobSettings, known, with_environment
from engine.settings.switches import Switches, changes_of, switches_of

FILES = Path(__file__).parent / "before_renames"


def test_a_job(tmp_path: Path) -> None:
    folder = tmp_path / "20260101-120000-abcdef"
    folder.mkdir()
    data = json.loads((FILES / "job.json").read_text(encoding="utf-8"))
    (folder / "job.json").write_text(json.dumps(data | {"id": folder.name}), encoding="utf-8")
    stored = JobStore(tmp_path).load(folder.name)
    settings = stored.settings
    assert settings == JobSettings(
        treatment="restore",
        matmul="int8",
        switches="dit.onednn_products=off,dit.products=fp8",
        overlap=24,
        segment_seconds=0.5,
    )
    assert changes_of(settings.switches) == {"dit.onednn_matmul": False, "dit.matmul": "fp8"}
    planned = from_plain(Switches, data["plan"]["model"]["switches"])
    assert not planned.dit.onednn_matmul
    assert not planned.vae.fp16_sums  # computed as it was
    assert (settings.model, stored.plan.work.model) == ("auto", "lite")
    assert with_model_of(settings, stored.plan).model == "lite", "it goes on with its model"


def test_sums_in_half_precision() -> None:
    place = "cuda", (8, 6)
    assert switches_of("", *place, {}).vae.fp16_sums
    assert not switches_of("vae.fp16_accumulation=off", *place, {}).vae.fp16_sums
    assert not switches_of("", *place, {"UPREEL_VAE_FP16_ACCUMULATION": "0"}).vae.fp16_sums
    assert not switches_of("vae.all=off", *place, {}).vae.fp16_sums
    usual = switches_of("", *place, {})  # the transformer's changed nothing, and is ignored
    assert switches_of("dit.fp16_accumulation=on", *place, {}) == usual
    assert switches_of("", *place, {"UPREEL_DIT_FP16_ACCUMULATION": "1"}) == usual


def test_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    (tmp_path / "presets").mkdir()
    shutil.copy(FILES / "old-tapes.toml", tmp_path / "presets")
    (preset,), failures = presets.load_all()
    assert failures == ()
    found = applied(preset, JobSettings())
    assert (found.treatment, found.matmul, found.height) == ("restore", "int8", 1080)
    again = with_environment(applied(preset, JobSettings(matmul="none")))
    assert again.matmul == "int8"


def test_settings_of_the_machine() -> None:
    found = store.load_engine_settings(FILES / "settings.toml")
    assert found == EngineSettings(threads=3, memory_share=0.5)


def test_choices_of_the_window() -> None:
    text = (FILES / "window.ini").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("choices="))
    kept = json.loads(json.loads(line.removeprefix("choices=")))
    found = JobSettings(**known(JobSettings, kept))
    assert (found.treatment, found.matmul, found.crf) == ("restore", "int8", 20)
