from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel, QSlider
from pytestqt.qtbot import QtBot

from app.controllers.queue import settings_for_next
from app.jobs.choices_form import ChoicesForm, strength_of
from engine.protocol import commands
from engine.protocol.plan import Notice
from engine.settings.schema import MODELS, SEEDVR2, JobSettings, model_family
from tests.app.conftest import Bench

REAL = ("seedvr2", "wan")  # families with files of their own


def is_shown(form: ChoicesForm, name: str) -> bool:
    return form.more.editors[name].isVisibleTo(form.more.editors[name].parentWidget())


def strength(bench: Bench) -> QSlider:
    slider = bench.find("setting-strength")
    assert isinstance(slider, QSlider)
    return slider


@pytest.mark.parametrize("model", MODELS)
def test_only_what_the_model_looks_at_is_shown(qtbot: QtBot, model: str) -> None:
    form = ChoicesForm()
    qtbot.addWidget(form)
    form.show_job(None, JobSettings(model=model))
    family = model_family("lite" if model == "auto" else model)
    assert is_shown(form, "seed") is is_shown(form, "clip_frames") is (family == "seedvr2")
    assert is_shown(form, "tile") is (family == "lite")
    assert is_shown(form, "device")
    assert is_shown(form, "shots") is is_shown(form, "decode_tile") is (family in REAL)
    assert is_shown(form, "vae") is (family in REAL)
    assert not is_shown(form, "latents")
    headings = [label.text() for label in form.more._headings.values() if not label.isHidden()]
    assert ("Picture" in headings) is (family == "seedvr2")
    assert ("Clips and cuts" in headings) is (family in REAL)


def test_strength_stands_among_the_first_choices_of_seedvr2_alone(bench: Bench) -> None:
    bench.add()
    assert not strength(bench).isVisible()
    assert bench.window.choices.choose({"model": "seedvr2-7b"})
    bench.hear()
    assert strength(bench).isVisible()
    assert not bench.find("setting-treatment").isVisible()


def test_a_strength_reaches_the_job(bench: Bench, qtbot: QtBot) -> None:
    bench.add()
    bench.window.choices.choose({"model": "seedvr2-3b"})
    with qtbot.waitSignal(bench.window.choices.changed, timeout=2000):
        qtbot.keyClick(strength(bench), Qt.Key.Key_Left)
    bench.hear()
    settings = bench.engine.asked(commands.ChangeJob)[-1].settings
    assert (settings.model, settings.strength) == ("seedvr2-3b", 95)


def test_showing_another_strength_is_not_a_change(bench: Bench) -> None:
    job_id = bench.add()
    sent = len(bench.engine.asked(commands.ChangeJob))
    row = bench.program.queue.find(job_id)
    assert row is not None
    row.settings = replace(row.settings, model="seedvr2-3b", strength=30)
    bench.window.choices.show_job(row, JobSettings())
    assert strength(bench).value() == 30
    assert not bench.window.choices._timer.isActive()
    assert len(bench.engine.asked(commands.ChangeJob)) == sent


def test_texts_for_a_strength_are_exact_at_both_ends() -> None:
    assert (strength_of(0), strength_of(100)) == ("Only resized", "All redrawn")
    assert len({strength_of(percent) for percent in (0, 30, 60, 90, 100)}) == 5


def test_availability_is_shown_after_each_model(qtbot: QtBot) -> None:
    form = ChoicesForm()
    qtbot.addWidget(form)
    form.show_availability({name: "here" for name in SEEDVR2})
    box = form._model.control
    assert isinstance(box, QComboBox)
    texts = [box.itemText(at) for at in range(box.count())]
    assert texts == [
        "Automatic",
        "Lite · built in",
        "SeedVR2 3B · here",
        "SeedVR2 7B · here",
        "SeedVR2 7B sharp · here",
        "Wan 2x",
        "None · same picture",
    ]


def test_the_meaning_of_automatic_is_only_shown_where_it_was_chosen(bench: Bench) -> None:
    bench.add()
    box = bench.find("setting-model")
    assert isinstance(box, QComboBox)
    assert box.currentText() == "Auto · Lite · built in"
    bench.window.choices.choose({"model": "none"})
    bench.hear()
    assert box.itemText(0) == "Automatic"


def test_choices_of_a_running_film_cannot_be_made_elsewhere(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    assert not bench.window.choices.choose({"model": "seedvr2-3b"})
    assert bench.window.choices.settings.model == "auto"


def test_the_limits_of_wan_are_shown_where_it_is_chosen(bench: Bench) -> None:
    notice = Notice(code="trained-on-stills", severity="info")
    bench.engine.notices = (notice,)
    bench.add()
    said = bench.find("modelLimits")
    assert isinstance(said, QLabel)
    assert not said.isVisible()
    bench.window.choices.choose({"model": "wan-2x"})
    bench.hear()
    assert said.isVisible()
    assert "still photographs" in said.text()
    assert "resized afterwards" in said.text()
    shown = [label.text() for label in bench.window.findChildren(QLabel) if label.isVisible()]
    assert notice.message not in shown  # once is enough
    assert not bench.find("setting-treatment").isVisible()


def test_a_vae_of_ones_own_stays_with_the_family_it_was_chosen_for(
    bench: Bench, qtbot: QtBot
) -> None:
    bench.add()
    bench.window.choices.choose({"model": "seedvr2-3b", "vae": "/mine.safetensors"})
    box = bench.find("setting-model")
    assert isinstance(box, QComboBox)
    for model, vae in (("seedvr2-7b", "/mine.safetensors"), ("wan-2x", "")):
        box.setCurrentIndex(box.findData(model))
        box.activated.emit(box.currentIndex())
        assert bench.window.choices.settings.vae == vae


def test_how_latents_are_meant_can_only_be_chosen_for_latents(bench: Bench) -> None:
    bench.add()
    form = bench.window.choices
    form.more.unfold()
    assert not is_shown(form, "latents")
    bench.window.queue_column.view.select(bench.program.controller.add_file(Path("a.latent")))
    bench.hear()
    assert is_shown(form, "latents")
    assert is_shown(form, "latent_rate")


def test_the_next_film_has_no_permission_and_no_times_of_this_one() -> None:
    chosen = JobSettings(overwrite=True, start="1", stop="2", height=1080)
    assert settings_for_next(chosen) == JobSettings(height=1080)
