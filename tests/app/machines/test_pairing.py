"""The dialog of a pairing, from both sides, with an engine that a test moves."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFrame, QLineEdit, QPushButton

from app.machines import pairing_dialog
from app.machines.pairing_dialog import PairingDialog
from engine.protocol import commands, events, machines
from engine.protocol.tasks import TaskKind
from tests.app.conftest import Bench, part, texts
from tests.helpers.fake_states import ATTIC, NO_MACHINES, OFFLINE

WORDS = ("harbour", "violin", "pepper", "window", "ocean", "candle")
ADDRESS = "192.168.1.31:47111"


@pytest.fixture
def dialog(bench: Bench) -> PairingDialog:
    """Of a pairing that was asked for, before the other computer has answered."""
    bench.patch.setattr(pairing_dialog, "READING_MS", 0)
    bench.do("machines")
    part(bench.program.machines.page, "machineAddress", QLineEdit).setText(ADDRESS)
    bench.program.machines.pair(ADDRESS)
    bench.hear()
    return bench.program.machines.dialog


def say_words(bench: Bench, *, asks: bool = False, words: tuple[str, ...] = WORDS) -> None:
    bench.emit(machines.PairingWords(words=words, name="Attic", asks=asks))
    bench.hear()  # the time in which nothing can be confirmed


def press(bench: Bench, name: str) -> None:
    part(bench.program.machines.dialog, name, QPushButton).click()
    bench.hear()


def buttons(dialog: PairingDialog) -> set[str]:
    found = dialog.findChildren(QPushButton)
    return {one.objectName().removeprefix("pairing") for one in found if one.isVisible()}


def answers(bench: Bench) -> list[tuple[tuple[str, ...], bool]]:
    return [(one.words, one.are_same) for one in bench.asked(machines.ConfirmPairing)]


def test_words_are_compared_and_the_other_side_is_waited_for(bench, dialog):
    assert "Contacting 192.168.1.31:47111" in texts(dialog)
    assert buttons(dialog) == {"Cancel"}
    say_words(bench)
    shown = texts(dialog)
    assert "Does Attic show these words?" in shown
    assert "right to run programs on the other" in shown
    assert [word for word in shown.split("\n") if word in WORDS] == list(WORDS)
    assert part(dialog, "pairingWords", QFrame).accessibleName() == " ".join(WORDS)
    assert buttons(dialog) == {"Cancel", "Differ", "Same"}
    press(bench, "pairingSame")
    assert answers(bench) == [(WORDS, True)]
    assert "Waiting for confirmation on Attic" in texts(dialog)
    assert buttons(dialog) == {"Cancel"}
    bench.tasks.finish(TaskKind.PAIRING)
    assert not dialog.isVisible()
    page = bench.program.machines.page
    assert "Paired with Attic." in texts(page)
    assert " ".join(WORDS) in texts(page), "once more: they may have been confirmed in haste"
    field = part(page, "machineAddress", QLineEdit)
    assert not field.text()  # it has been used
    field.setText("192.168.1.4")
    bench.emit(machines.MachinesKnown(state=replace(NO_MACHINES, machines=(ATTIC,))))
    assert field.text() == "192.168.1.4"


def test_words_that_have_just_come_cannot_be_confirmed(bench, dialog, qtbot):
    """Those of a stranger may come where the user has just confirmed others."""
    say_words(bench)
    press(bench, "pairingSame")
    bench.tasks.finish(TaskKind.PAIRING)
    dialog.findChild(QTimer).setInterval(200)
    others = WORDS[::-1]
    say_words(bench, asks=True, words=others)
    assert dialog.isVisible()
    press(bench, "pairingSame")  # the second click
    assert answers(bench) == [(WORDS, True)]
    assert " ".join(WORDS) in texts(bench.program.machines.page), "a stranger hides nothing"
    qtbot.waitUntil(part(dialog, "pairingSame", QPushButton).isEnabled)
    press(bench, "pairingDiffer")
    assert answers(bench) == [(WORDS, True), (others, False)]


def test_a_pairing_that_began_elsewhere_opens_by_itself(bench):
    bench.patch.setattr(pairing_dialog, "READING_MS", 0)
    bench.do("machines")
    say_words(bench, asks=True)
    dialog = bench.program.machines.dialog
    assert dialog.isVisible()
    assert buttons(dialog) == {"Cancel", "Differ", "Same"}
    press(bench, "pairingSame")
    bench.emit(events.TaskFailed(kind=TaskKind.PAIRING, error=OFFLINE))
    assert buttons(dialog) == {"Cancel"}  # it cannot be tried again from here
    assert "huggingface.co" in texts(dialog)
    press(bench, "pairingCancel")
    assert not dialog.isVisible()


def test_words_that_differ_end_the_pairing(bench, dialog):
    say_words(bench)
    press(bench, "pairingDiffer")
    assert answers(bench) == [(WORDS, False)]
    assert bench.program.machines.page.isVisible()
    assert "Not paired" in texts(dialog)


def test_a_failure_is_shown_and_can_be_tried_again(bench, dialog):
    bench.tasks.fail(TaskKind.PAIRING)
    assert "Not paired" in texts(dialog)
    assert buttons(dialog) == {"Again", "Cancel"}
    press(bench, "pairingAgain")
    assert [c.address for c in bench.asked(machines.PairMachine)] == [ADDRESS] * 2
    assert buttons(dialog) == {"Cancel"}


def test_escape_gives_the_pairing_up(bench, dialog):
    say_words(bench)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert [c.kind for c in bench.asked(commands.StopTask)] == [TaskKind.PAIRING]
    bench.hear()
    assert not dialog.isVisible()
    assert bench.program.machines.page.isVisible()


def test_enter_does_not_say_that_the_words_are_the_same(bench, dialog):
    say_words(bench)
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    bench.hear()
    assert not bench.asked(machines.ConfirmPairing)
    same = part(dialog, "pairingSame", QPushButton)
    for _ in range(4):
        QTest.keyClick(dialog.focusWidget() or dialog, Qt.Key.Key_Tab)
        if same.hasFocus():
            break
    assert same.hasFocus()
    QTest.keyClick(same, Qt.Key.Key_Space)
    assert answers(bench) == [(WORDS, True)]


def test_no_button_takes_the_place_of_another_one(bench, dialog):
    say_words(bench)
    bench.hear()
    places = {
        name: part(dialog, name).geometry()
        for name in ("pairingCancel", "pairingSame", "pairingDiffer")
    }
    press(bench, "pairingSame")
    bench.tasks.fail(TaskKind.PAIRING)
    again = part(dialog, "pairingAgain").geometry()
    assert not any(again.intersects(place) for place in places.values())


def test_another_language_reaches_an_open_pairing(bench, dialog):
    say_words(bench)
    bench.use_language("zh_CN")
    assert "Attic 上显示的是这些词吗？" in texts(dialog)
    assert part(dialog, "pairingSame", QPushButton).text() == "词语相同"


def test_a_second_pairing_waits_for_the_end_of_the_first(bench, dialog):
    bench.program.machines.pair("192.168.1.99")
    assert [c.address for c in bench.asked(machines.PairMachine)] == [ADDRESS]


def test_a_computer_that_does_not_answer_is_left_at_once(bench, dialog):
    bench.patch.setattr(bench.engine.tasks, "_stop", lambda kind, subject: None)  # it takes a while
    press(bench, "pairingCancel")
    assert not dialog.isVisible()
    assert bench.program.machines.page.isVisible()
    bench.emit(events.TaskStopped(kind=TaskKind.PAIRING, subject=ADDRESS))
    assert not dialog.isVisible()
