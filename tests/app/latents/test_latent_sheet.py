from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QPushButton, QRadioButton
from pytestqt.qtbot import QtBot

from app.latents.latent_sheet import Decision, LatentSheet
from app.widgets.picture_box import PictureBox
from engine.core.errors import UnsupportedMedia, WrongModel
from engine.core.messages import message
from engine.protocol.events import LatentShown
from tests.app.conftest import part, texts
from tests.helpers.fake_states import MISSING, flat, made_read

FILE = Path("ComfyUI_00001_.latent")
READ = made_read(FILE)
SHOWN = LatentShown(path=FILE, raw=flat(60), normalised=flat(200), is_whole=True)
REFUSED = UnsupportedMedia("latent-channels", name=FILE, channels=4, known="16 and 48").info()


class Sheet:
    """An open sheet and what it said."""

    def __init__(self, qtbot: QtBot) -> None:
        self.view = LatentSheet()
        qtbot.addWidget(self.view)
        self.decisions: list[Decision] = []
        self.view.decided.connect(self.decisions.append)
        self.view.show_file(FILE)
        self.view.show()

    def card(self, reading: str) -> QRadioButton:
        return part(self.view, f"reading-{reading}")

    def image(self, reading: str) -> PictureBox:
        return self.card(reading).parentWidget().findChild(PictureBox)

    def button(self, name: str) -> QAbstractButton:
        return part(self.view, name)

    def texts(self) -> str:
        return texts(self.view)


@pytest.fixture
def sheet(qtbot: QtBot) -> Sheet:
    return Sheet(qtbot)


def test_both_readings_are_seen_and_the_guess_is_taken(sheet):
    assert "Reading the file" in sheet.texts()
    undecided = (sheet.button("latentAdd"), sheet.button("latentUpscale"), sheet.card("raw"))
    assert not any(one.isEnabled() for one in undecided)
    sheet.view.show_read(replace(READ, guess="normalised"))
    assert sheet.image("raw").instead == "Decoding one image …"
    sheet.view.show_pictures(SHOWN)
    assert not any(sheet.image(name).image.isNull() for name in ("raw", "normalised"))
    assert sheet.view.reading == "normalised"
    assert sheet.view.picture() == SHOWN.normalised
    said = sheet.texts()
    assert "Wan 2.1 VAE · 16 channels · 832×480 · 81 frames" in said
    assert 'so "Normalised" is selected.' in said
    assert "Only the middle" not in said


def test_a_guess_that_may_be_wrong_says_so(sheet):
    sheet.view.show_file(FILE, place=(1, 3))
    sheet.view.show_read(replace(READ, is_sure=False))
    sheet.view.show_pictures(replace(SHOWN, is_whole=False))
    assert "The values fit both." in sheet.texts()
    assert "Only the centre of the first frame is shown." in sheet.texts()
    sheet.view.show_refusal(MISSING)
    least = sheet.view.minimumSizeHint()
    assert (least.width() <= 1024, least.height() <= 640) == (True, True), "the smallest window"


def test_the_keyboard_is_enough(sheet, qtbot):
    sheet.view.show_read(READ)
    sheet.view.show_pictures(SHOWN)
    assert sheet.card("raw").isChecked()
    qtbot.keyClick(sheet.card("raw"), Qt.Key.Key_Right)
    assert sheet.view.reading == "normalised"
    qtbot.keyClick(sheet.card("normalised"), Qt.Key.Key_Return)
    assert [(d.reading, d.upscales) for d in sheet.decisions] == [("normalised", True)]
    for button in sheet.view.findChildren(QAbstractButton):
        if button.isVisible() and button is not sheet.card("raw"):  # arrow keys go there
            assert button.focusPolicy() & Qt.FocusPolicy.TabFocus, button.objectName()
            assert button.accessibleName() or button.text(), button.objectName()


def test_what_was_chosen_stays_when_another_vae_shows_it_again(sheet, qtbot):
    sheet.view.show_read(READ)
    qtbot.mouseClick(sheet.image("normalised"), Qt.MouseButton.LeftButton)
    sheet.view._rate.control.setValue(24)
    sheet.view.look_again()
    assert sheet.image("raw").image.isNull()
    sheet.view.show_read(READ)
    sheet.view.show_pictures(SHOWN)
    sheet.button("latentAdd").click()
    assert [(d.reading, d.rate, d.upscales) for d in sheet.decisions] == [("normalised", 24, False)]


def test_the_rate_begins_with_what_the_model_was_made_for(sheet):
    sheet.view.show_read(replace(READ, frames=1))
    assert "832×480 · one image" in sheet.texts()
    assert not sheet.view._rate.isVisible()
    for rate in (16, 24, 30):
        sheet.view.show_file(FILE)
        sheet.view.show_read(replace(READ, frame_rate=Fraction(rate)))
        assert sheet.view.rate == rate
        assert sheet.view._rate.control.text() == f"{rate} fps"
        assert sheet.view._rate.isVisible()


def test_any_rate_can_be_typed_and_tells_how_long_the_film_is(sheet, qtbot):
    sheet.view.show_read(READ)
    assert "→ 5 s" in sheet.texts()
    field = sheet.view._rate.control
    qtbot.keyClicks(field, "a")  # no number: nothing happens
    field.setValue(8.0)
    assert sheet.view.rate == 8.0
    assert "→ 10 s" in sheet.texts()
    field.setValue(0.0)
    assert (sheet.view.rate, field.text()) == (16.0, "16 fps")
    field.setValue(23.976)
    assert field.text() == "23.976 fps"


def test_an_unusable_file_says_why_and_leaves_one_button(sheet, qtbot):
    sheet.view.show_refusal(REFUSED)
    said = sheet.texts()
    assert "This file format is not supported" in said
    assert f"{REFUSED.message}\n{REFUSED.hint}" in said
    assert not sheet.card("raw").isVisible()
    shown = [b.text() for b in sheet.view.findChildren(QPushButton) if b.isVisible()]
    assert shown == ["Close"]
    with qtbot.waitSignal(sheet.view.next_requested, timeout=1000):
        qtbot.keyClick(sheet.view, Qt.Key.Key_Return)
    assert sheet.decisions == []


def test_a_wrong_vae_can_be_replaced(sheet, qtbot, tmp_path):
    sheet.view.show_read(READ)
    wrong = WrongModel("not-wan", name="x", content=message("content.seedvr2-vae")).info()
    sheet.view.show_refusal(wrong)
    assert "The file contains another model" in sheet.texts()
    assert not sheet.button("latentAdd").isEnabled()
    assert sheet.button("latentUpscale").text() == "Close"
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(b"")
    with qtbot.waitSignal(sheet.view.vae_chosen, timeout=1000) as heard:
        sheet.view._vae.control.setText(str(mine))
        sheet.view._vae.control.editingFinished.emit()
    assert heard.args == [str(mine)]
    assert "another model" not in sheet.texts()
    sheet.view.show_pictures(SHOWN)
    sheet.button("latentAdd").click()
    assert sheet.decisions[0].vae == str(mine)
