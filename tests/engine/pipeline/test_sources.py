from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core.errors import SourceMissing, UnsupportedMedia
from engine.core.geometry import Size
from engine.pipeline.prepare import (
    decoded,
    described,
    exact_rate,
    film_at,
    film_path,
    probe_film,
    probe_source,
)
from engine.protocol.plan import LatentPlan, WeightsPlan
from engine.settings.schema import JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.plans import a_plan
from tests.helpers.wan import a_latent, write_latent

LATENTS = LatentPlan(vae=WeightsPlan(path=Path("vae")), model="wan21-vae", normalised=False)


@pytest.fixture
def latent(tmp_path: Path) -> Path:
    write_latent(tmp_path / "A_00001_.LATENT")
    return tmp_path / "A_00001_.LATENT"


def test_latents_are_the_film_or_picture_they_will_be(latent: Path, tmp_path: Path) -> None:
    media = probe_source(latent, JobSettings())
    video = media.video
    assert (media.kind, media.holds_latents) == ("video", True)
    assert (video.size, video.frame_count, video.frame_rate) == (Size(40, 24), 9, 16)
    assert (video.duration, video.time_base) == (Fraction(9, 16), Fraction(1, 16))
    assert (video.chroma, video.bit_depth, video.tags.primaries) == ("rgb", 16, "bt709")
    assert not media.streams
    write_latent(tmp_path / "a.latent", a_latent(48, 1))
    media = probe_source(tmp_path / "a.latent", JobSettings())
    assert (media.kind, media.video.frame_count, media.video.size) == ("image", 1, Size(80, 48))


def test_the_rate_follows_the_settings(latent: Path) -> None:
    media = probe_source(latent, JobSettings(latent_rate=23.976))
    assert media.video.frame_rate == Fraction(24000, 1001)
    again = described(media, JobSettings(latent_rate=30))
    assert (again.video.frame_rate, again.video.duration) == (30, Fraction(9, 30))
    assert described(media, JobSettings()).video.frame_rate == 16
    assert [exact_rate(rate) for rate in (16, 29.97, 59.94, 12.5, 0.25)] == [
        *(16, Fraction(30000, 1001), Fraction(60000, 1001), Fraction(25, 2), Fraction(1, 4))
    ]


def test_films_are_films(tmp_path: Path) -> None:
    film = make_clip(tmp_path / "film.mkv", Clip(frames=3))
    media = probe_source(film, JobSettings(latent_rate=99))
    assert not media.holds_latents
    assert described(media, JobSettings(latent_rate=30)) is media
    assert decoded(media, a_plan(), tmp_path) is media
    assert probe_film(film) == media


def test_latents_have_no_pictures_to_compare_with(latent: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedMedia, match="contains latents, not a video"):
        probe_film(latent)
    with pytest.raises(SourceMissing):
        probe_source(tmp_path / "none.latent", JobSettings())


def test_a_decoded_film_belongs_to_what_it_was_made_of(latent: Path, tmp_path: Path) -> None:
    media = probe_source(latent, JobSettings())
    other = replace(LATENTS, vae=WeightsPlan(path=Path("other")))
    plans = (LATENTS, replace(LATENTS, normalised=True), other)
    names = {film_path(media, plan, tmp_path) for plan in plans}
    faster = described(media, JobSettings(latent_rate=24))
    assert len({*names, film_path(faster, LATENTS, tmp_path)}) == 4
    same = replace(LATENTS, dtype="float16", decode_tile=Size(64, 64))
    assert film_path(media, same, tmp_path) in names, "how it was computed does not matter"


def test_before_it_is_decoded_there_is_no_film(latent: Path, tmp_path: Path) -> None:
    media = probe_source(latent, JobSettings())
    plan = a_plan(latent=LATENTS)
    assert decoded(media, plan, tmp_path) is None
    film = film_path(media, LATENTS, tmp_path)
    film.write_bytes(b"123")
    found = decoded(media, plan, tmp_path)
    assert found == film_at(media, film)
    assert (found.path, found.bytes, found.holds_latents) == (film, 3, False)
    latent.unlink()
    with pytest.raises(SourceMissing):
        decoded(media, a_plan(latent=LATENTS), tmp_path / "other")
