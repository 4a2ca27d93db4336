"""The timeline of the selected video: thumbnails, loudness and cuts, read after its picture."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from app.theme import tokens
from engine.core.geometry import Size
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind
from tests.app.controllers.test_looks import rest, seen, shown
from tests.helpers.fakes import grey, make_media

OVERVIEW = TaskKind.OVERVIEW


def asked(bench) -> list[str]:
    """Let the timers of looks and timelines run out; jobs whose timeline was asked for."""
    rest(bench)
    bench.tasks.finish(TaskKind.LOOK)
    bench.program.overviews.rest.setInterval(0)
    bench.hear()
    return [one.job_id for one in bench.asked(commands.ReadOverview)]


def overview(job_id: str, *, cuts: tuple[float, ...] = ()) -> events.OverviewRead:
    """Ten seconds: dark thumbnails, then bright ones."""
    levels = [20] * 12 + [230] * 12
    return events.OverviewRead(
        job_id=job_id,
        thumbnails=tuple(
            ((number + 0.5) * 10 / 24, grey(Size(160, 90), level))
            for number, level in enumerate(levels)
        ),
        loudness=(0.1,) * 48 + (1.0,) * 48,
        cuts=cuts,
    )


@pytest.fixture
def film(bench) -> str:
    """A film whose timeline was read."""
    job_id = seen(bench)
    assert asked(bench) == [job_id]
    bench.emit(overview(job_id, cuts=(5.0,)))
    return job_id


def colour(bench, share: float, down: float) -> QColor:
    """Colour of a place on the strip, away from the playhead."""
    image = bench.window.preview.timeline.strip.grab().toImage()
    return image.pixelColor(round(share * image.width()), round(down * image.height()))


def test_it_is_read_after_the_picture_and_after_the_look(bench):
    job_id = bench.add()
    assert asked(bench) == []
    bench.window.preview.pair.ask_now()
    bench.program.overviews.rest.setInterval(0)
    seconds = bench.asked(commands.ShowFrame)[-1].seconds
    picture = grey(Size(480, 270))
    bench.emit(events.PreviewReady(job_id=job_id, frame=0, seconds=seconds, source=picture))
    assert [*bench.asked(commands.ReadOverview)] == [], "the look comes first"
    assert len(rest(bench)) == 1
    bench.tasks.finish(TaskKind.LOOK)
    assert asked(bench) == [job_id]


def test_thumbnails_loudness_and_cuts_are_seen(bench, film):
    height = bench.window.preview.timeline.strip.height()
    assert height >= 50
    assert colour(bench, 0.25, 0.3).lightness() < 60 < 200 < colour(bench, 0.75, 0.3).lightness()
    quiet, loud = colour(bench, 0.25, 0.8), colour(bench, 0.752, 0.8)
    assert quiet.name().upper() == tokens.current().surface_2
    assert loud != quiet
    assert bench.window.preview.timeline.strip.cuts == [120]
    assert "2 shots" in bench.window.preview.timeline._title.text()


def test_what_is_finished_is_green_and_what_is_cut_off_is_veiled(bench, film):
    timeline = bench.window.preview.timeline
    timeline.set_finished(60, is_running=True)
    done, after = colour(bench, 0.2, 0.3), colour(bench, 0.4, 0.3)
    assert done.green() > done.red() + 20
    assert abs(after.green() - after.red()) < 5
    bright = colour(bench, 0.9, 0.3).lightness()
    timeline.set_trim(0.0, 8.0)
    assert colour(bench, 0.9, 0.3).lightness() < bright - 60


def test_ctrl_and_arrows_go_from_cut_to_cut(bench, film, qtbot):
    strip, canvas = bench.window.preview.timeline.strip, bench.window.preview.canvas
    bench.window.preview.timeline.set_step(10)
    for widget, key, step in (
        (strip, Qt.Key.Key_Right, 120),
        (strip, Qt.Key.Key_Right, 239),
        (canvas, Qt.Key.Key_Left, 120),
        (canvas, Qt.Key.Key_Left, 0),
    ):
        qtbot.keyClick(widget, key, Qt.KeyboardModifier.ControlModifier)
        assert strip.value() == step
    assert strip.accessibleName() == "Timeline, frame 1 of 240, 00:00:00.00"


def test_another_selection_stops_reading_and_what_is_known_is_kept(bench, film):
    other = seen(bench, "other.mp4")
    bench.select(other)
    assert (OVERVIEW, film) in [(c.kind, c.subject) for c in bench.asked(commands.StopTask)]
    strip = bench.window.preview.timeline.strip
    assert strip._strip.is_empty
    bench.select(film)
    assert not strip._strip.is_empty, "shown at once"
    bench.emit(overview(other))
    assert strip.cuts == [120], "an answer that comes late is for the other video"


def test_only_the_last_four_are_kept(bench):
    for number in range(6):
        job_id = seen(bench, f"{number}.mp4")
        bench.select(job_id)
        bench.emit(overview(job_id))
    assert len(bench.program.overviews._known) == 4


def test_an_image_has_no_timeline(bench):
    from dataclasses import replace

    job_id = bench.add("photo.png")
    row = bench.program.queue.find(job_id)
    image = replace(row.media, kind="image", video=replace(row.media.video, frame_count=1))
    bench.emit(events.JobQueued(job_id=job_id, media=image))
    bench.window.preview.show_job(job_id, image, None)
    assert asked(bench) == []


def test_the_strip_is_sharp_on_any_screen_and_follows_the_theme(bench, film):
    strip = bench.window.preview.timeline.strip
    size = strip._track().size()
    for ratio in (1.0, 1.5, 2.0):
        pixmap = strip._strip.pixmap(size, ratio)
        assert pixmap.width() == round(size.width() * ratio)
        assert pixmap.devicePixelRatioF() == ratio
    dark = colour(bench, 0.25, 0.8)
    bench.program.use_theme("light")
    assert colour(bench, 0.25, 0.8) != dark


def test_a_folder_of_images_has_a_timeline_too_and_no_volume_without_sound(bench):
    media = make_media(Path("frames/f_0001.png"))
    bench.engine.media["frames"] = replace(media, kind="sequence", is_folder=True, streams=())
    job_id = bench.add("frames")
    bench.window.preview.pair.ask_now()
    shown(bench, job_id)
    assert asked(bench) == [job_id]
    assert not bench.find("volumeSlider").isVisible()
    bench.select(bench.add())
    assert bench.find("volumeSlider").isVisible()
