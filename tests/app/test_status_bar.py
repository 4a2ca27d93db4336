from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.status_bar import plan_line
from engine.core.geometry import Size
from engine.models.wan.plan import WanPlan
from engine.protocol.plan import LatentPlan, Plan, WeightsPlan
from engine.settings.schema import JobSettings
from tests.helpers.fakes import make_media, make_plan

VAE = WeightsPlan(path=Path("vae.safetensors"))


def planned(model: str, **changes: object) -> Plan:
    plan = make_plan(make_media(Path("film.mp4")), JobSettings(model=model))
    return replace(plan, **changes)


def wan(**changes: object) -> Plan:
    work = WanPlan(vae=VAE, size=Size(480, 270), padded=Size(480, 272))
    return planned("wan-2x", work=replace(work, **changes))


def test_whole_frames_of_wan_need_no_words() -> None:
    assert plan_line(wan()) == "Plan: Wan 2x · H.264 8 bit · 240 frames"


def test_tiles_of_wan_are_said_for_both_ways() -> None:
    line = plan_line(wan(encode_tile=Size(256, 256), decode_tile=Size(512, 384)))
    assert "encoded in tiles of 256×256 · decoded in tiles of 512×384" in line


def test_how_latents_are_taken_stands_first() -> None:
    latent = LatentPlan(vae=VAE, model="wan21-vae", normalised=True, decode_tile=Size(512, 512))
    line = plan_line(planned("none", latent=latent))
    assert line.startswith("Plan: latents: Normalised · decoded in tiles of 512×512 · None")
