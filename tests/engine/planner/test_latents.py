from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import WeightsMissing, WrongModel
from engine.core.geometry import Size
from engine.models.latents import Guess
from engine.models.wan.latents.format import WanLatents
from engine.models.wan.latents.spaces import raw
from engine.pipeline.prepare import probe_source
from engine.planner.downgrade import next_plan
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo
from engine.protocol.plan import LatentPlan, Notice, Plan, WeightsPlan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media, a_plan
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "wan.safetensors"
    write_wan(path, tiny_wan_config())
    return path


def a_source(folder: Path, latent: Any = None, **changes: Any) -> MediaInfo:
    write_latent(folder / "clip_00001_.latent", latent)
    return probe_source(folder / "clip_00001_.latent", JobSettings(**changes))


def planned(media: MediaInfo, vae: Path | None = None, budget: Any = None, **changes: Any) -> Plan:
    settings = JobSettings(**{"model": "none", "latent_vae": str(vae or ""), **changes})
    request = Request(media=media, settings=settings)
    return plan_job(request, budget or a_budget(), Rates())


def notice(plan: Plan, code: str) -> Notice | None:
    return next((found for found in plan.notices if found.code == code), None)


LATENT = LatentPlan(vae=WeightsPlan(path=Path("vae")), model="wan21-vae", normalised=False)


def test_a_film_of_latents_is_planned_like_another(tmp_path: Path, vae: Path) -> None:
    plan = planned(a_source(tmp_path), vae)
    assert plan.fits
    assert plan.latent is not None
    assert (plan.latent.model, plan.latent.vae.path) == ("wan21-vae", vae)
    assert plan.latent.device == "cpu"
    assert (plan.source_size, plan.frames, plan.picture.frame_rate) == (Size(40, 24), 9, 16)
    assert plan.output.name == "clip_00001_decoded.mkv"
    assert (plan.picture.codec, plan.picture.bit_depth) == ("hevc", 10)
    said = notice(plan, "latents-rate-assumed")
    assert said is not None
    assert "16 fps" in said.message
    assert planned(a_source(tmp_path), vae, model="lite").output.name == "clip_00001_x2.mkv"
    known = planned(a_source(tmp_path, latent_rate=24.0), vae, latent_rate=24.0)
    picture = planned(a_source(tmp_path, a_latent(16, 1)), vae)
    assert (picture.container, picture.output.name) == ("image", "clip_00001_decoded.png")
    assert notice(known, "latents-rate-assumed") is notice(picture, "latents-rate-assumed") is None
    assert planned(a_media()).latent is None


def test_the_user_has_the_last_word_on_the_reading(tmp_path: Path, vae: Path) -> None:
    for looks, latent in (("raw", raw(a_latent())), ("normalised", a_latent())):
        folder = tmp_path / looks
        folder.mkdir()  # what was found in a file counts for its path, size and time
        media = a_source(folder, latent)
        for wanted in ("auto", "raw", "normalised"):
            plan = planned(media, vae, latents=wanted)
            assert plan.latent is not None
            reading = looks if wanted == "auto" else wanted
            assert plan.latent.normalised == (reading == "normalised")
            other, guessed = notice(plan, "latents-look-other"), notice(plan, "latents-guessed")
            assert (other is not None) == (reading != looks)
            assert (guessed is not None) == (wanted == "auto")


def test_without_a_sure_guess_raw_is_taken(
    tmp_path: Path, vae: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    media = a_source(tmp_path)
    header = WanLatents().header(media.path)
    unsure = Guess(reading="normalised", is_sure=False, evidence=-1.0)
    monkeypatch.setattr(WanLatents, "examined", lambda *_: (header, unsure))
    plan = planned(media, vae)
    assert plan.latent is not None
    assert not plan.latent.normalised
    said = notice(plan, "latents-guessed")
    assert said is not None
    assert said.severity == "warning"


def test_a_vae_that_is_not_here_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    plan = planned(a_source(tmp_path, a_latent(48)))
    assert not plan.fits
    said = notice(plan, "weights-missing")
    assert said is not None
    assert said.params["files"].startswith("wan22-vae")
    assert said.params["names"] in said.message


def test_a_vae_of_the_users_must_exist_and_belong_to_the_latents(tmp_path: Path, vae: Path) -> None:
    with pytest.raises(WeightsMissing):
        planned(a_source(tmp_path), tmp_path / "none.safetensors")
    with pytest.raises(WrongModel):
        planned(a_source(tmp_path, a_latent(48)), vae)


def test_a_disk_that_may_fill_is_said(tmp_path: Path, vae: Path) -> None:
    plan = planned(a_source(tmp_path), vae, a_budget(free_jobs_bytes=40 * 24 * 9 * 6 - 1))
    assert any("decoded video" in found.message for found in plan.notices)
    plan = planned(a_source(tmp_path), vae, a_budget(free_jobs_bytes=40 * 24 * 9 * 6))
    assert not any("decoded video" in found.message for found in plan.notices)


def test_a_gpu_too_small_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    media = a_source(tmp_path, a_latent(48, 2, 68, 120))  # 1920x1088
    for vram, fits in ((1 << 30, False), (12 << 30, True)):
        budget = a_budget(cuda=True, vram_bytes=vram, capability=(8, 6))
        plan = planned(media, None, budget)
        assert plan.latent is not None
        assert (plan.latent.device, plan.latent.dtype) == ("cuda", "float16")
        assert plan.latent.decode_tile is not None
        assert (notice(plan, "plan-does-not-fit") is None) == fits
        assert plan.stages[0].stage == "latents"


def test_tiles_shrink_to_what_still_shows_something() -> None:
    for model, least in (("wan21-vae", 256), ("wan22-vae", 392)):
        plan = a_plan(source_size=Size(1920, 1088), latent=replace(LATENT, model=model))
        tiles = []
        while (after := next_plan(plan, "out-of-memory", failed="latent")) is not None:
            assert after == replace(plan, latent=after.latent, **memory_of(after))
            assert after.latent is not None
            assert after.latent.decode_tile is not None
            tiles.append(after.latent.decode_tile)
            plan = after
        assert tiles == sorted(tiles, key=lambda tile: tile.pixels, reverse=True)
        assert 0 <= min(tiles[-1].width, tiles[-1].height) - least < 64


def memory_of(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in ("stages", "peak_bytes", "device_bytes")}


def test_wider_numbers() -> None:
    plan = a_plan(source_size=Size(64, 48), latent=replace(LATENT, dtype="float16"))
    wide = next_plan(plan, "overflow", failed="latent")
    assert wide is not None
    assert wide.latent == replace(LATENT, dtype="float32")
    assert next_plan(wide, "overflow", failed="latent") is None


def test_what_a_gpu_cannot_decode_latents_with_is_refused_once(tmp_path: Path, vae: Path) -> None:
    turing = a_budget(cuda=True, vram_bytes=8 * 2**30, capability=(7, 5))
    settings = {"vae_precision": "bfloat16", "switches": "run.tf32=on", "matmul": "fp8"}
    plan = planned(a_source(tmp_path), vae, turing, model="lite", **settings)
    found = [n.params["choice"] for n in plan.notices if n.code == "feature-missing"]
    assert sorted(map(str, found)) == ["run.tf32=on", "vae_precision=bfloat16"]
