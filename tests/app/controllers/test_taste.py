"""The taste test: presets on telling places of a film."""

from dataclasses import replace
from fractions import Fraction

import pytest
from PySide6.QtGui import QColor

from app.excerpts.taste_view import MOST_PRESETS, TasteView
from engine.core.errors import DiskFull
from engine.core.geometry import FrameSpan
from engine.protocol import commands, events
from engine.protocol.excerpt import Excerpt, Scene
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset, applied
from engine.settings.schema import JobSettings
from tests.app.conftest import part, real_program, texts
from tests.app.preview.conftest import image_of
from tests.helpers.clips import Clip, make_clip

KIND = TaskKind.EXCERPT
SCENES = (Scene(kind="dark", seconds=1.0), Scene(kind="motion", seconds=5.0))
PRESETS = tuple(
    Preset(name=name, title=name.title(), changes={"scale": 2, "crf": crf}, is_own=True)
    for name, crf in (("first", 10), ("second", 20), ("third", 30), ("fourth", 35), ("fifth", 40))
)


@pytest.fixture
def film(bench) -> str:
    """A film whose page is open, with two places and five presets."""
    bench.emit(events.PresetsListed(presets=PRESETS, card=""))
    job_id = bench.add()
    bench.patch.setattr(bench.program.taste._player, "play", lambda *_: None)
    bench.press("tryCompare")
    assert [c.job_id for c in bench.asked(commands.FindScenes)] == [job_id]
    bench.emit(events.ScenesFound(job_id=job_id, scenes=SCENES))
    bench.tasks.finish(KIND)
    return job_id


def page(bench) -> TasteView:
    return bench.program.taste.view


def make_next(bench, job_id: str) -> None:
    """The engine makes what was asked for last."""
    asked = bench.asked(commands.MakeExcerpt)[-1]
    start = Fraction(asked.start)
    plan = replace(
        bench.program.queue.find(job_id).plan,
        start=start,
        stop=start + Fraction(asked.seconds),
        span=FrameSpan(0, 48),
    )
    made = Excerpt(
        settings=asked.settings, plan=plan, frames=48, frames_per_second=12.5, device_bytes=3 << 30
    )
    bench.engine.sink.emit(events.ExcerptReady(job_id=job_id, excerpt=made))
    bench.tasks.finish(KIND)


def test_snippets_are_made_one_after_the_other_and_shown_with_their_figures(bench, film):
    settings = bench.program.queue.find(film).settings
    assert part(page(bench), "tasteMake").text() == "Create samples (4)"
    part(page(bench), "tasteMake").click()
    for number in range(1, 5):
        assert len(bench.asked(commands.MakeExcerpt)) == number
        make_next(bench, film)
    asked = [(c.start, c.seconds, c.settings.crf) for c in bench.asked(commands.MakeExcerpt)]
    assert asked == [(1.0, 2.0, 10), (1.0, 2.0, 20), (5.0, 2.0, 10), (5.0, 2.0, 20)]
    assert bench.asked(commands.MakeExcerpt)[0].settings == applied(PRESETS[0], settings)
    assert not part(page(bench), "tasteMake").isEnabled()
    shown = texts(page(bench))
    assert shown.count("12.5 fps · 3.0 GB") == 2, shown
    assert all(title in shown for title in ("Original", "First", "Second"))


def test_the_page_has_a_title_that_takes_the_focus_at_first(bench, film):
    assert texts(page(bench)).startswith("Compare presets\n")
    assert page(bench).focusWidget().text() == "Compare presets"


def test_one_click_takes_a_preset_for_the_film(bench, film):
    part(page(bench), "tasteMake").click()
    for _ in range(4):
        make_next(bench, film)
    part(part(page(bench), "loop-second"), "usePreset").click()
    bench.hear()
    assert bench.program.queue.find(film).settings.crf == 20
    assert not page(bench).isVisible()


def test_places_can_be_left_out_and_added(bench, film):
    page(bench)._places[5.0].click()
    assert page(bench).places == (1.0,)
    bench.window.preview.timeline.set_step(192)
    part(page(bench), "tasteAdd").click()
    assert len(page(bench).places) == 2
    assert 8.0 < page(bench).places[1] < 8.05
    assert page(bench).looked_at == page(bench).places[1]


def test_four_presets_at_most(bench, film):
    for name in ("third", "fourth"):
        part(page(bench), f"taste-{name}").click()
    assert len(page(bench).presets) == MOST_PRESETS
    assert not part(page(bench), "taste-fifth").isEnabled()
    part(page(bench), "taste-first").click()
    assert part(page(bench), "taste-fifth").isEnabled()


def test_stop_and_failure_end_the_row(bench, film):
    part(page(bench), "tasteMake").click()
    part(page(bench), "tasteStop").click()
    bench.hear()
    assert len(bench.asked(commands.MakeExcerpt)) == 1
    part(page(bench), "tasteMake").click()
    bench.tasks.fail(KIND, DiskFull("folder", folder="D:\\").info())
    assert len(bench.asked(commands.MakeExcerpt)) == 2
    assert "D:\\" in texts(page(bench))


def test_loops_end_with_the_page(bench, film):
    bench.patch.undo()
    stopped = []
    bench.patch.setattr(bench.program.taste._player, "stop", lambda: stopped.append(True))
    page(bench).reject()
    assert stopped


def test_frames_of_a_loop_are_painted(bench, film):
    bench.patch.setattr(bench.program.taste, "_play", lambda: None)
    part(page(bench), "tasteMake").click()
    make_next(bench, film)
    page(bench).show_images({"first": image_of(QColor(200, 40, 40), 64, 36)})
    picture = part(page(bench), "loop-first").picture
    middle = picture.grab().toImage().pixelColor(picture.width() // 2, picture.height() // 2)
    assert middle.red() > 180


def test_real_snippets_play_in_step_with_the_original(qapp, qtbot, tmp_path):
    source = make_clip(tmp_path / "film.mkv", Clip(frames=75, rate=Fraction(25)))
    with real_program(qapp, tmp_path) as program:
        program.controller.add_file(source, settings=JobSettings(model="lite", crf=30))
        bar = part(program.window, "tryBar")
        qtbot.waitUntil(bar.isVisible, timeout=30_000)
        part(bar, "tryCompare").click()
        view = program.taste.view
        make = part(view, "tasteMake")
        qtbot.waitUntil(make.isEnabled, timeout=30_000)
        shown: list[set[str]] = []
        program.taste._player.shown.connect(lambda _seconds, images: shown.append(set(images)))
        for name in view.presets[1:]:
            part(view, f"taste-{name}").click()
        (name,) = view.presets
        make.click()
        qtbot.waitUntil(lambda: {"", name} in shown, timeout=60_000)
        qtbot.waitUntil(lambda: not program.excerpts.model.is_running, timeout=60_000)
        view.close()
        assert not program.taste._player.is_playing
