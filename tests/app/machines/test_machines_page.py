"""The page of other computers, with an engine that a test moves."""

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton

from app.engine_messages import text as text_of
from app.machines.machines_page import MachinesPage
from app.widgets.controls import ElidedLabel, Switch
from engine.core.errors import DiskFull
from engine.core.messages import message
from engine.protocol import events, machines
from engine.protocol.machines import FoundMachine
from engine.protocol.tasks import TaskKind
from tests.app.conftest import Bench, part, texts
from tests.helpers.fake_states import ATTIC, NO_MACHINES, STUDIO

FOUND = FoundMachine(name="Attic", address="192.168.1.31:47111")


def page(bench: Bench, **changes: object) -> MachinesPage:
    bench.engine.tasks.machines = replace(NO_MACHINES, **changes)
    bench.do("machines")
    return bench.program.machines.page


def whole(bench: Bench) -> str:
    """Including elided texts."""
    shown = bench.program.machines.page
    labels = shown.findChildren(ElidedLabel)
    whole = "\n".join(label.whole for label in labels if label.isVisible())
    return f"{whole}\n{texts(shown)}"


def press(bench: Bench, name: str) -> None:
    part(bench.program.machines.page, name, QPushButton).click()
    bench.hear()


def accept(bench: Bench, *, is_accepted: bool) -> list[str]:
    """Answer the question before a computer is forgotten; the names that it asks about."""
    asked: list[str] = []

    def confirm(name: str) -> bool:
        asked.append(name)
        return is_accepted

    bench.patch.setattr(bench.program.machines, "confirm_forget", confirm)
    return asked


def test_the_first_page_says_what_to_do_on_both_computers(bench):
    assert bench.window.actions_["machines"].shortcut().toString() == "Ctrl+K"
    bench.window.resize(1500, 900)
    bench.hear()
    bench.press("machinesButton")
    bench.engine.sink.emit(machines.MachinesKnown(state=NO_MACHINES))
    bench.hear()
    shown = whole(bench)
    for text in (
        "Office",
        "Address: 192.168.1.20:47110",
        "No other computer",
        "1. On",
        "2. On this computer",
    ):
        assert text in shown
    assert "right to run programs on this one" in shown
    assert bench.asked(machines.ShowMachines) == [machines.ShowMachines()]


def test_this_computer_is_found_only_while_the_page_is_open(bench):
    shown = page(bench)
    QTest.keyClick(shown, Qt.Key.Key_Escape)
    assert [c.are_shown for c in bench.asked(machines.ShowMachines)] == [True, False]
    bench.do("machines")
    press(bench, "closeMachines")
    assert [c.are_shown for c in bench.asked(machines.ShowMachines)] == [True, False] * 2


def test_a_row_says_what_a_computer_lends_and_does(bench):
    page(bench, machines=(ATTIC, STUDIO))
    shown = whole(bench)
    for text in ("Attic", "Not connected", "Last seen at 192.168.1.31:50122", "It joins when"):
        assert text in shown
    for text in ("Studio", "Ready", "RTX 4090 · RTX 3080 · 31.0 GB free"):
        assert text in shown
    assert "No other computer" not in shown
    assert (
        "To use them for a video: More settings › Other computers › All paired computers." in shown
    )
    working = replace(STUDIO, state="working", film="a.mkv", frames_per_second=1.923, spans_done=31)
    bench.emit(machines.MachinesKnown(state=replace(NO_MACHINES, machines=(ATTIC, working))))
    shown = whole(bench)
    assert "Working" in shown
    assert "a.mkv · 1.92 fps · 31 parts finished" in shown


def test_a_row_says_why_a_computer_does_nothing(bench):
    why = message("reason.transfer.silent")
    page(bench)
    for state, *labels in (
        ("refused", "Not compatible", "不兼容"),
        ("left-out", "Excluded", "已排除"),
        ("paused", "Paused remotely", "对方已暂停"),
    ):
        shown = replace(NO_MACHINES, machines=(replace(STUDIO, state=state, why=why),))
        bench.emit(machines.MachinesKnown(state=shown))
        for language, said in zip(("en", "zh_CN"), labels, strict=True):
            bench.use_language(language)
            assert said in whole(bench)
            assert text_of(why) in whole(bench), state


def test_a_computer_is_forgotten_after_a_question(bench):
    page(bench, machines=(ATTIC, STUDIO))
    asked = accept(bench, is_accepted=False)
    press(bench, f"forget-{ATTIC.fingerprint}")
    assert asked == ["Attic"]
    assert not bench.asked(machines.ForgetMachine)
    accept(bench, is_accepted=True)
    press(bench, f"forget-{ATTIC.fingerprint}")
    assert [c.fingerprint for c in bench.asked(machines.ForgetMachine)] == [ATTIC.fingerprint]
    assert "Attic" not in whole(bench)
    assert "Studio" in whole(bench)


def test_lending_is_kept_and_begins_again_at_the_next_start(bench):
    shown = page(bench)
    switch = part(shown, "lendMachine", Switch)
    switch.click()
    bench.hear()
    assert [c.is_lent for c in bench.asked(machines.LendMachine)] == [True]
    assert switch.isChecked()
    assert bench.program.ui_state.engine_settings.lend
    bench.engine.commands.clear()
    bench.program.machines.look()
    assert not bench.asked(machines.LendMachine)  # it is lent already
    switch.click()
    bench.hear()
    assert [c.is_lent for c in bench.asked(machines.LendMachine)] == [False]
    assert not bench.program.ui_state.engine_settings.lend


def test_a_computer_that_was_lent_is_lent_from_the_start(bench, qapp):
    settings = bench.program.ui_state.engine_settings
    bench.program.ui_state.engine_settings = replace(settings, lend=True)
    bench.program.machines.look()
    assert [c.is_lent for c in bench.asked(machines.LendMachine)] == [True]


def test_the_page_says_whom_this_computer_works_for(bench):
    helped = replace(STUDIO, state="helped", devices=(), free_bytes=0)
    page(bench, is_lent=True, lent_to="Studio", machines=(helped,))
    shown = whole(bench)
    for text in ("Now working for Studio.", "Using this computer", STUDIO.address):
        assert text in shown
    assert "Not connected" not in shown


def test_an_address_is_typed_and_enter_pairs(bench):
    shown = page(bench)
    field = part(shown, "machineAddress", QLineEdit)
    assert not part(shown, "pairAddress").isEnabled()
    field.setFocus()
    QTest.keyClicks(field, " 192.168.1.31 ")
    QTest.keyClick(field, Qt.Key.Key_Return)
    bench.hear()
    assert [c.address for c in bench.asked(machines.PairMachine)] == ["192.168.1.31"]
    assert shown.isVisible()


def test_a_computer_that_waits_is_paired_by_a_press(bench):
    shown = page(bench, found=(FOUND,))
    assert "Attic" in whole(bench)
    button = part(shown, f"pair-{FOUND.address}", QPushButton)
    assert button.accessibleName() == "Pair with Attic"
    button.click()
    bench.hear()
    assert [c.address for c in bench.asked(machines.PairMachine)] == [FOUND.address]
    assert not button.isEnabled()  # one pairing at a time


def test_what_keeps_others_from_finding_this_computer_is_said(bench):
    page(bench, address="", problem=message("reason.transfer.silent"))
    shown = whole(bench)
    assert "Address" not in shown.replace("Address of the other", "")
    assert text_of(message("reason.transfer.silent")) in shown


def test_an_error_that_is_about_no_pairing_is_shown_on_the_page(bench):
    page(bench, machines=(STUDIO,))
    error = DiskFull("while-writing", name="machines.json").info()
    bench.emit(events.TaskFailed(kind=TaskKind.PAIRING, error=error))
    assert "machines.json" in whole(bench)
    assert not bench.program.machines.dialog.isVisible()


def test_all_is_readable_in_a_low_window(bench):
    shown = page(bench, machines=(ATTIC, STUDIO), found=(FOUND,))
    shown.resize(910, 432)
    bench.hear()
    field = part(shown, "machineAddress", QLineEdit)
    field.setFocus(Qt.FocusReason.TabFocusReason)
    bench.hear()
    seen = field.visibleRegion().boundingRect()
    assert seen.height() == field.height()


def test_a_narrow_window_leads_to_the_page_by_the_settings(bench):
    bench.window.resize(1500, 900)
    bench.hear()
    assert bench.find("machinesButton").isVisible()
    bench.window.resize(1024, 600)
    bench.hear()
    assert not bench.find("machinesButton").isVisible()
    bench.do("settings")
    part(bench.program.settings.dialog, "openMachines", QPushButton).click()
    assert bench.program.machines.page.isVisible()
    assert bench.asked(machines.ShowMachines)
