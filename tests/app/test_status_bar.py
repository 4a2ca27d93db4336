from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QLabel

from app.status_bar import StatusBar, plan_lines
from engine.core.geometry import Size
from engine.models.wan.plan import WanPlan
from engine.protocol.plan import LatentPlan, WeightsPlan
from engine.settings.schema import JobSettings
from tests.helpers.fakes import make_media, make_plan

VAE = WeightsPlan(path=Path("vae.safetensors"))


def test_the_line_of_a_plan_names_latents_first_and_tiles_of_both_ways(qapp):
    media = make_media(Path("film.mp4"))
    work = WanPlan(vae=VAE, size=Size(480, 270), padded=Size(480, 272))
    plan = replace(make_plan(media, JobSettings(model="wan-2x")), work=work)
    assert plan_lines(plan) == [
        "Plan: Wan 2x · H.264 8 bit · 240 frames",
        "Plan: Wan 2x · H.264 8 bit · …",
        "Plan: Wan 2x · …",
    ]
    tiles = replace(work, encode_tile=Size(256, 256), decode_tile=Size(512, 384))
    said = "encoded in tiles of 256×256 · decoded in tiles of 512×384"
    assert said in plan_lines(replace(plan, work=tiles))[0]
    latent = LatentPlan(vae=VAE, model="wan21-vae", normalised=True, decode_tile=Size(512, 512))
    line, *_ = plan_lines(replace(make_plan(media, JobSettings(model="none")), latent=latent))
    assert line.startswith("Plan: latents: Normalised · decoded in tiles of 512×512 · No upsc")


def test_the_window_always_says_that_ai_redraws_detail(qtbot):
    bar = StatusBar()
    qtbot.addWidget(bar)
    for plan in (None, make_plan(make_media(Path("film.mp4")), JobSettings(model="lite"))):
        bar.show_plan(plan)
        assert any("AI redraws detail" in label.text() for label in bar.findChildren(QLabel))
