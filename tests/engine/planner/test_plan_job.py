from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.cli.formatting import plan_words
from engine.core.errors import ContainerMismatch, NoUsableGpu, SettingsError, UnsupportedMedia
from engine.core.geometry import Size
from engine.core.messages import text_of
from engine.models.lite.plan import treatment_of
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.planner.target import default_output, pictures_target, stored_target
from engine.protocol.media import Change, Findings, HdrMetadata, Statement, StreamInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_media


def planned(*, media=None, budget=None, rates=None, **wanted) -> Plan:
    request = Request(media=media or a_media(), settings=JobSettings(**wanted))
    return plan_job(request, budget or a_budget(), rates or Rates())


def codes(plan: Plan) -> set[str]:
    return {notice.code for notice in plan.notices}


def test_the_default_is_twice_the_size_with_the_built_in_model_on_the_processor():
    plan = planned()
    assert (plan.work.model, plan.work.scale, plan.work.device) == ("lite", 2, "cpu")
    assert plan.picture.size == Size(1280, 720)
    assert (plan.picture.codec, plan.container, plan.frames) == ("h264", "mkv", 250)
    assert plan.fits
    assert plan.peak_bytes < plan.budget_bytes
    assert plan.seconds > 0
    assert plan.output_bytes > 0


def test_too_little_memory_is_refused_in_words():
    plan = planned(budget=a_budget(ram_bytes=10**8))
    assert not plan.fits
    assert plan.notices[0].code == "plan-does-not-fit"
    assert plan.work.clip_frames == 1


def test_large_frames_are_cut_into_tiles_of_a_tenth_of_a_second():
    plan = planned(media=a_media(size=Size(1920, 1080)))
    assert plan.work.tiles > 4
    assert plan.work.tile.pixels < 320_000
    assert plan.work.overlap >= 16


def test_small_frames_go_together_only_as_far_as_the_threads_gain_by_it():
    media = a_media(size=Size(320, 180))
    frames = [
        planned(media=media, budget=a_budget(threads=n), model=model).work.clip_frames
        for n, model in ((1, "lite"), (2, "lite"), (4, "lite"), (4, "lite-plus"), (32, "lite"))
    ]
    assert frames == [1, 1, 2, 2, 4]
    tiny = a_media(size=Size(64, 36))
    assert planned(media=tiny, budget=a_budget(threads=2)).work.clip_frames == 8


def test_the_memory_of_a_window_counts():
    alone, beside = (planned(budget=a_budget(window_bytes=n)) for n in (0, 90 * 2**20))
    assert beside.peak_bytes - alone.peak_bytes == beside.window_bytes == 90 * 2**20
    stages = zip(alone.stages, beside.stages, strict=True)
    assert all(two.peak_bytes - one.peak_bytes == 90 * 2**20 for one, two in stages)


def test_damaged_sources_are_restored():
    for video, treatment in (
        ({"bit_rate": 200_000}, "restore"),
        ({"bit_rate": 8_000_000}, "faithful"),
        ({"bit_rate": 0}, "faithful"),
        ({"bit_rate": 200_000, "codec": "ffv1"}, "faithful"),
        ({"bit_rate": 200_000, "quantiser": 20.0}, "faithful"),
        ({"bit_rate": 8_000_000, "quantiser": 31.0}, "restore"),
        ({"bit_rate": 2_000_000, "codec": "av1"}, "faithful"),
        ({"bit_rate": 1_500_000, "codec": "mpeg2video"}, "restore"),
    ):
        assert treatment_of(a_media(**video).video) == treatment, video


def test_what_the_user_should_know_is_a_notice():
    interlaced = a_media(is_interlaced=True, field_order="tt")
    assert {"deinterlaced", "colours-guessed"} <= codes(planned(media=interlaced))
    assert "interlaced-as-frames" in codes(planned(media=interlaced, deinterlace="off"))
    stated = {"hdr": "pq", "bit_depth": 10, "hdr_metadata": HdrMetadata(light_level=(1000, 400))}
    film = replace(a_media(**stated), statements=(Statement(kind="hdr10-plus"),))
    kept = codes(planned(media=film))
    assert "hdr-kept" in kept
    assert "statement-left-out" not in kept
    lost = codes(planned(media=film, codec="prores", container="mov"))
    assert {"hdr-tags-only", "statement-left-out"} <= lost
    assert "hdr-kept" in codes(planned(media=a_media(hdr="hlg", bit_depth=10)))
    assert "disk-may-fill" in codes(planned(budget=a_budget(free_output_bytes=10**6)))
    large, small = planned(height=2160), planned(height=180)
    assert (large.work.scale, small.work.model) == (4, "none")
    assert "beyond-model" in codes(large)
    assert "target-is-smaller" in codes(small)


def test_what_cannot_be_done_is_refused():
    for wrong, error in (
        *(({"start": "5", "stop": "5"}, SettingsError), ({"stop": "0"}, SettingsError)),
        *(({"start": "10"}, SettingsError), ({"width": 8, "height": 8}, SettingsError)),
        ({"device": "cuda"}, NoUsableGpu),
        ({"media": a_media(size=Size(8000, 4000)), "scale": 4}, UnsupportedMedia),
    ):
        with pytest.raises(error):
            planned(**wrong)
    assert planned(media=a_media(size=Size(8, 8)), model="none").picture.size == Size(8, 8)
    request = Request(media=a_media(), settings=JobSettings(), output=Path("out.png"))
    with pytest.raises(ContainerMismatch):  # a film in one picture
        plan_job(request, a_budget(), Rates())


def test_a_source_that_is_cut_short_is_refused_unless_allowed():
    media = replace(a_media(), is_cut_short=True)
    assert not planned(media=media).fits
    assert planned(media=media, accept_damaged=True).fits
    assert "truncated-media" in codes(planned(media=media, accept_damaged=True))


def test_trimming_counts_only_what_is_done():
    sound = StreamInfo(index=1, kind="audio", codec="flac", sample_format="s16")
    wide = replace(sound, index=2, sample_format="s32", sample_bits=32)  # FFmpeg encodes 24 bits
    media = replace(a_media(), path=Path("a.mkv"), container="matroska", streams=(sound, wide))
    plan = planned(media=media, start="2", stop="0:00:04.5")
    assert (plan.start, plan.stop, plan.frames) == (Fraction(2), Fraction(9, 2), 63)
    plans = [planned(media=media, **part).streams for part in ({}, {"stop": "2"})]
    assert [[one.converted for one in streams] for streams in plans] == [["", ""], ["flac", ""]]


def test_a_picture_that_is_turned_in_pixels_has_its_seen_size():
    media = replace(a_media(rotation=90, codec="png"), kind="image", path=Path("a.png"))
    plan = planned(media=media)
    assert (plan.container, plan.picture.rotation) == ("image", 0)
    assert plan.picture.size == Size(720, 1280)
    assert plan.work.canvas == plan.stored_size == Size(1280, 720), "enlarged twice, not 4 times"
    assert "model-makes-more" not in {one.code for one in plan.notices}


def test_a_turned_film_is_spoken_of_as_it_is_seen():
    media = a_media(rotation=90)  # 640x360 as stored
    plan = planned(media=media, height=1081)
    assert plan.picture.size == plan.picture.seen_size.transposed()
    assert plan.source_seen_size == Size(360, 640)
    assert plan.picture.seen_size == Size(608, 1082)
    (rounded,) = [one for one in plan.notices if one.code == "size-rounded"]
    assert (rounded.params["size"], rounded.params["wanted"]) == ("608x1082", "608x1081")
    said = "\n".join(plan_words(plan))
    assert "(360x640, " in said
    assert "608x1082 h264" in said


def test_size_as_stored():
    for settings, video, size in (
        ({}, {}, Size(1280, 720)),
        ({"scale": 4}, {}, Size(2560, 1440)),
        ({"height": 1080}, {}, Size(1920, 1080)),
        ({"height": 1080}, {"rotation": 90}, Size(1080, 608)),
        ({"width": 500, "height": 900}, {"rotation": 90}, Size(900, 500)),
        ({"model": "none"}, {}, Size(640, 360)),
        ({"model": "none", "height": 180}, {}, Size(320, 180)),
        ({"height": 720}, {"sample_aspect": Fraction(4, 3)}, Size(1280, 720)),
    ):
        found = stored_target(a_media(**video).video, JobSettings(**settings))
        assert found == size, (settings, video)


def test_an_image_that_becomes_a_video_is_named():
    image = replace(a_media(codec="png"), kind="image", path=Path("a.png"))
    for name, said in (("b.png", False), ("b.mp4", True)):
        request = Request(media=image, settings=JobSettings(), output=Path(name))
        plan = plan_job(request, a_budget(), Rates())
        assert ("image-becomes-video" in codes(plan)) == said
    assert "image-becomes-video" not in codes(planned())


def test_a_size_of_another_shape_says_that_it_stretches_the_picture():
    dvd = {"size": Size(720, 576), "sample_aspect": Fraction(64, 45)}
    turned = {"size": Size(640, 360), "rotation": 90}
    for settings, video, said in (
        ({"width": 1280, "height": 720}, {}, None),
        ({"width": 1280, "height": 730}, {}, None),
        ({"width": 333, "height": 1000}, {}, ("narrower", "81")),
        ({"width": 1280, "height": 360}, {}, ("wider", "100")),
        ({"width": 720, "height": 1280}, turned, None),
        ({"width": 1280, "height": 720}, turned, ("wider", "216")),
        ({"width": 1440, "height": 1152}, dvd, None),
        ({"width": 2048, "height": 1152}, dvd, ("wider", "42")),
        ({"width": 2048, "height": 1152, "aspect": "square"}, dvd, None),
        ({"width": 1440, "height": 1152, "aspect": "4:3"}, dvd, None),
    ):
        found = planned(media=a_media(**video), **settings).notices
        notices = [one for one in found if one.code == "shape-changes"]
        shown = [(one.case, one.params["percent"]) for one in notices]
        assert shown == ([said] if said else []), (settings, video)
        assert all(one.severity == "warning" for one in notices)


def test_name_beside_the_source():
    for settings, source, kind, name in (
        ({}, "film.mkv", "mkv", "film_x2.mkv"),
        ({"height": 1080}, "film.mkv", "mp4", "film_1080p.mp4"),
        ({"width": 800, "height": 600}, "film.mkv", "mov", "film_800x600.mov"),
        ({"model": "none"}, "film.mkv", "mkv", "film_copy.mkv"),
        ({}, "b.tif", "image", "b_x2.tif"),
        ({}, "b.jpg", "image", "b_x2.png"),
        ({}, "shot_0001.png", "sequence", "shot_x2"),
    ):
        film = replace(a_media(), path=Path("a", source))
        media = replace(film, kind=kind) if kind in ("image", "sequence") else film
        assert default_output(media, JobSettings(**settings), kind) == Path("a", name)
    images = replace(a_media(), path=Path("holiday", "f_0001.png"), kind="sequence")
    for is_folder, name in ((False, "f_x2"), (True, "holiday_x2")):
        media = replace(images, is_folder=is_folder)
        assert default_output(media, JobSettings(), "sequence").name == name
    assert (media.name, images.name) == ("holiday", "f_0001.png")


def test_a_pattern_names_pictures_in_a_folder():
    for name, folder, pattern in (
        ("a/shot_%04d.png", "a/shot", "shot_%04d.png"),
        ("a/%06d.tif", "a/pictures", "%06d.tif"),
        ("a/folder", "a/folder", ""),
    ):
        assert pictures_target(Path(name)) == (Path(folder), pattern)


@pytest.mark.parametrize(
    ("change", "severity", "offers"),
    [
        (Change(what="aspect", taken="16:9", other="4:3", share=0.28), "warning", "aspect=4:3"),
        (Change(what="aspect", taken="4:3", other="2.39:1", share=0.5), "warning", ""),
        (Change(what="coded-aspect", taken="4:3", other="16:9", share=1), "info", "aspect=16:9"),
        (Change(what="scan", share=0.4), "warning", "deinterlace=frames;deinterlace=off"),
        (Change(what="size", taken="1920x1080", other="720x576", share=0.1), "warning", ""),
        (Change(what="colours", taken="smpte2084", other="bt709", share=0.1), "warning", ""),
    ],
)
def test_what_changes_within_a_film_is_named_before_the_start(change, severity, offers):
    media = replace(a_media(), findings=Findings(changes=(change,)))
    (found,) = [one for one in planned(media=media).notices if one.code == "changes-within"]
    assert (found.severity, found.params.get("offers", "")) == (severity, offers)
    for shown in (change.taken, change.other, f"{change.share:.0%}".replace("%", " %")):
        assert shown in text_of(found.as_message) or change.what in ("scan", "coded-aspect")
    is_settled = "changes-within" not in codes(planned(media=media, aspect="16:9"))
    assert is_settled == ("aspect" in change.what)
