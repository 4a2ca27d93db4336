from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from app.bench.table import CALM_ROLE, SwitchesTable, percent
from app.bench.view import BenchView
from app.widgets.controls import ElidedLabel
from engine.core.errors import ErrorInfo
from engine.protocol import commands
from tests.app.conftest import Bench
from tests.helpers.fake_states import SWITCHES, make_report
from tests.helpers.fake_tasks import BENCHMARK


def page(bench: Bench) -> BenchView:
    bench.do("bench")
    return bench.program.bench.view


def button(bench: Bench, name: str) -> QPushButton:
    found = page(bench).findChild(QPushButton, name)
    assert isinstance(found, QPushButton)
    return found


def click(bench: Bench, name: str) -> None:
    button(bench, name).click()
    bench.hear()


def texts(bench: Bench) -> str:
    labels = page(bench).findChildren(QLabel)
    return "\n".join(label.text() for label in labels if label.isVisible())


def whole(bench: Bench) -> str:
    """Including elided texts."""
    labels = page(bench).findChildren(ElidedLabel)
    return "\n".join(label.whole for label in labels if label.isVisible())


def table(bench: Bench) -> SwitchesTable:
    found = page(bench).findChild(SwitchesTable)
    assert found is not None
    return found


def test_the_speed_test_from_the_first_click_to_its_figures(bench: Bench) -> None:
    assert "Nothing was measured" in texts(bench)
    assert not button(bench, "benchCopy").isEnabled()
    click(bench, "benchQuick")
    assert [c.quick for c in bench.engine.asked(commands.RunBenchmark)] == [True]
    assert not button(bench, "benchQuick").isVisible()
    bench.engine.tasks.advance(BENCHMARK, 3)
    bench.hear()
    assert "video VAE · 4 of 12" in texts(bench)
    bench.engine.tasks.finish(BENCHMARK)
    bench.hear()
    shown = texts(bench)
    for text in ("65.2 million px/s", "0.283 s", "41200 GFLOP/s"):
        assert text in shown
    for text in ("Reading a film", "Lite ×2 · bfloat16", "Beginning a piece · HEVC"):
        assert text in whole(bench)
    assert "Some CPU · 8 threads · torch 2.13" in whole(bench)
    assert not table(bench).isVisible()
    assert button(bench, "benchQuick").isVisible()


def test_the_full_table_has_a_row_for_each_switch(bench: Bench) -> None:
    click(bench, "benchFull")
    bench.engine.tasks.finish(BENCHMARK)
    bench.hear()
    model = table(bench).model()
    assert table(bench).isVisible()
    cells = [[model.index(r, c).data() for c in range(8)] for r in range(model.rowCount())]
    first, second, third, last = cells
    assert first[:6] == [
        "VAE · upsampler fold",
        "on",
        "exact",
        "−29 ± 2 %",
        "−36 %",
        "2e-7",
    ]
    assert (second[1], second[3], second[7]) == ("off", "–", str(SWITCHES[1].note))
    assert (third[2], third[4], third[5]) == ("rounding", "±0 %", "0")
    assert last[0] == "VAE · all together"
    assert second[6] == "cuDNN benchmark: 15-30 % faster"
    assert "before they are enlarged" in model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    tip = model.index(0, 3).data(Qt.ItemDataRole.ToolTipRole)
    assert tip.startswith("0.710 times")
    assert model.index(0, 5).data(Qt.ItemDataRole.ToolTipRole) == "without it 3e-7"
    assert [model.index(r, 3).data(CALM_ROLE) for r in (0, 2)] == [0.04, 0.02]


def test_the_report_is_copied(bench: Bench) -> None:
    click(bench, "benchFull")
    bench.engine.tasks.finish(BENCHMARK)
    bench.hear()
    click(bench, "benchCopy")
    assert QGuiApplication.clipboard().text() == make_report(quick=False).markdown
    assert button(bench, "benchCopy").text() == "Copied"


def test_a_stopped_benchmark_is_shown_as_such(bench: Bench) -> None:
    click(bench, "benchFull")
    click(bench, "benchStop")
    assert bench.engine.asked(commands.StopTask)
    assert "The benchmark was stopped." in texts(bench)
    assert button(bench, "benchFull").isEnabled()


def test_an_error_is_shown(bench: Bench) -> None:
    click(bench, "benchQuick")
    error = ErrorInfo(code="out-of-memory", case="running")
    bench.engine.tasks.fail(BENCHMARK, error)
    bench.hear()
    assert "Memory ran out." in texts(bench)


def test_while_a_film_runs_the_benchmark_is_disabled_with_a_reason(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    assert not button(bench, "benchQuick").isEnabled()
    assert "A film is being worked on" in texts(bench)
    bench.engine.finish()
    bench.hear()
    assert button(bench, "benchQuick").isEnabled()
    assert "A film is being worked on" not in texts(bench)


def test_no_film_starts_during_the_benchmark_and_plans_are_made_again(bench: Bench) -> None:
    job_id = bench.add()
    click(bench, "benchQuick")
    start = bench.button("primaryAction")
    assert not start.isEnabled()
    assert "The benchmark runs" in start.toolTip()
    assert not bench.window.actions_["start"].isEnabled()
    before = len(bench.engine.asked(commands.ChangeJob))
    bench.engine.tasks.finish(BENCHMARK)
    bench.hear()
    assert start.isEnabled()
    assert [c.job_id for c in bench.engine.asked(commands.ChangeJob)[before:]] == [job_id]


def test_the_open_page_changes_its_language(bench: Bench) -> None:
    click(bench, "benchFull")
    bench.engine.tasks.finish(BENCHMARK)
    bench.hear()
    bench.program.use_language("zh_CN")
    bench.hear()
    assert button(bench, "benchQuick").text() == "速度测试"
    heads = table(bench).model()
    assert heads.headerData(3, Qt.Orientation.Horizontal) == "时间"
    assert heads.index(0, 0).data() == "VAE · 上采样折叠"
    assert heads.index(1, 6).data() == "cuDNN 基准选择：快 15–30 %"


@pytest.mark.parametrize(
    ("ratio", "scatter", "text"),
    [
        (0.82, None, "−18 %"),
        (1.03, 0.001, "+3 %"),
        (1.001, None, "±0 %"),
        (0.96, 0.09, "−4 ± 9 %"),
        (1.0, 0.02, "0 ± 2 %"),
        (None, None, "–"),
    ],
)
def test_ratios_are_shown_as_changes(ratio: float | None, scatter: float | None, text: str) -> None:
    assert percent(ratio, scatter) == text


def test_it_opens_from_the_strip_and_by_shortcut(bench: Bench) -> None:
    assert bench.find("benchButton").isVisible()
    assert bench.window.actions_["bench"].shortcut().toString() == "Ctrl+B"
    assert isinstance(bench.window.findChild(QWidget, "settingsButton"), QWidget)
