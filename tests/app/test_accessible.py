"""Names, keys and contrast of all that acts, as screen readers and eyes find them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.actions import SPECS
from app.widgets.tab_stop import TabStop
from engine.protocol import events
from tests.app.plan.test_plan_card import TOO_MUCH, plan
from tests.helpers.accessible import alike, stateless, unnamed, unreachable, unreadable

DO_THE_SAME = ("'Add files'",)  # in the column and in the empty stage


def faults_of(window: QWidget) -> list[str]:
    same = [one for one in alike(window) if not one.startswith(DO_THE_SAME)]
    return unnamed(window) + stateless(window) + same + unreachable(window) + unreadable(window)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_all_that_acts_has_a_name_a_key_and_contrast(bench, theme):
    bench.program.use_theme(theme)
    faults = [faults_of(bench.window)]
    bench.add()
    bench.window.choices.more.unfold()
    bench.hear()
    faults.append(faults_of(bench.window))
    bench.do("start")
    bench.advance(10)
    faults.append(faults_of(bench.window))
    bench.finish()
    bench.window.actions_["log"].trigger()
    bench.hear()
    faults.append(faults_of(bench.window))
    for page, dialog in (
        ("models", lambda: bench.program.models.view),
        ("settings", lambda: bench.program.settings.dialog),
        ("bench", lambda: bench.program.bench.view),
        ("help", lambda: bench.program.window.help),
    ):
        bench.do(page)
        if page == "models":
            dialog().unfold()
        faults.append(faults_of(dialog()))
        dialog().close()
    bench.program.use_theme("dark")
    assert not [fault for found in faults for fault in found]


def tab_stops(window: QWidget) -> list[QWidget]:
    """All controls at which Tab stops, from the first to the last."""
    window.setFocus()
    found = list[QWidget]()
    while True:
        QTest.keyClick(window.focusWidget() or window, Qt.Key.Key_Tab)
        at = window.focusWidget()
        if at is None or at in found:
            return found
        found.append(at)


def test_one_waiting_video_has_at_most_20_tab_stops_and_arrow_keys_reach_the_rest(bench):
    job_id = bench.add()
    notices = (TOO_MUCH, replace(TOO_MUCH, severity="warning"))
    bench.emit(events.PlanChosen(job_id=job_id, plan=replace(plan(), notices=notices)))
    stops = tab_stops(bench.window)
    assert len(stops) <= 20, [one.objectName() for one in stops]
    reached = set(stops)
    for stop in reversed(bench.window.findChildren(TabStop)):  # choices would change the notices
        at = next((one for one in stops if one in stop.controls), None)
        while at is not None:
            QTest.keyClick(at, Qt.Key.Key_Right)
            at = bench.window.focusWidget()
            at = None if at in reached else at
            reached |= {at} - {None}
    assert {
        *("modelsButton", "benchButton", "settingsButton", "themeSwitch", "segment-zh_CN"),
        *("addFiles", "addFolder", "dropZone", "zoomFit", "zoomWhole", "segment-split"),
        *("tryCompare", "playButton", "muteButton", "volumeSlider"),
        *("segment-x4", "planOffer0", "noticeHead", "whyThisPlan", "logButton", "helpButton"),
    } <= {one.objectName() for one in reached}


def test_every_action_has_a_key_of_its_own():
    keys = [key for spec in SPECS.values() for key in spec.shortcuts]
    assert all(spec.shortcuts for spec in SPECS.values())
    assert len(keys) == len(set(keys))


def test_each_key_triggers_its_action(bench, qtbot):
    bench.add()
    view = bench.window.queue_column.view
    for name, spec in SPECS.items():
        action = bench.window.actions_[name]
        action.triggered.disconnect()
        action.setEnabled(True)
        place = view if name == "remove" else bench.window
        place.setFocus()
        for keys in spec.shortcuts:
            with qtbot.waitSignal(action.triggered, timeout=2000):
                qtbot.keySequence(place, QKeySequence(keys))
