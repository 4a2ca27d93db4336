from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QPushButton

from app.bench.table import CALM_ROLE, SwitchesTable, percent
from app.bench.view import BenchView
from app.widgets.controls import ElidedLabel
from engine.core.errors import ErrorInfo
from engine.protocol import commands
from tests.app.conftest import Bench, part, texts
from tests.helpers.accessible import unnamed
from tests.helpers.fake_states import SWITCHES, make_report
from tests.helpers.fake_tasks import BENCHMARK


def page(bench: Bench) -> BenchView:
    bench.do("bench")
    return bench.program.bench.view


def button(bench: Bench, name: str) -> QPushButton:
    return part(page(bench), name)


def finish(bench: Bench) -> None:
    bench.tasks.finish(BENCHMARK)


def click(bench: Bench, name: str) -> None:
    button(bench, name).click()
    bench.hear()


def table(bench: Bench) -> SwitchesTable:
    return page(bench).findChild(SwitchesTable)


def whole(bench: Bench) -> str:
    """Including elided texts."""
    labels = page(bench).findChildren(ElidedLabel)
    return "\n".join(label.whole for label in labels if label.isVisible())


def test_the_speed_test_from_the_first_click_to_its_figures(bench):
    assert bench.find("benchButton").isVisible()
    assert bench.window.actions_["bench"].shortcut().toString() == "Ctrl+B"
    assert "Nothing measured" in texts(page(bench))
    assert not button(bench, "benchCopy").isEnabled()
    click(bench, "benchQuick")
    assert [c.quick for c in bench.asked(commands.RunBenchmark)] == [True]
    assert not button(bench, "benchQuick").isVisible()
    bench.tasks.advance(BENCHMARK, 3)
    assert "video VAE · 4 of 12" in texts(page(bench))
    finish(bench)
    shown = texts(page(bench))
    for text in ("65.2 million px/s", "0.283 s", "41200 GFLOP/s"):
        assert text in shown
    for text in ("Reading a video", "Lite ×2 · bfloat16", "Starting a segment · HEVC"):
        assert text in whole(bench)
    assert "Some CPU · 8 threads · torch 2.13" in whole(bench)
    assert not table(bench).isVisible()
    assert button(bench, "benchQuick").isVisible()
    click(bench, "benchCopy")
    assert QGuiApplication.clipboard().text() == make_report(quick=True).markdown
    assert button(bench, "benchCopy").text() == "Copied"


def test_the_full_table_has_a_row_for_each_switch_in_each_language(bench):
    click(bench, "benchFull")
    finish(bench)
    model = table(bench).model()
    assert table(bench).isVisible()
    cells = [[model.index(r, c).data() for c in range(8)] for r in range(model.rowCount())]
    first, second, third, last, claim = cells
    assert first[:3] == ["VAE · upsampler fold", "on", "exact"]
    assert first[3:6] == ["−29 ± 2 %", "−36 %", "2e-7"]
    assert (second[1], second[3], second[7]) == ("off", "–", str(SWITCHES[1].note))
    assert (third[2], third[4], third[5]) == ("rounding", "±0 %", "0")
    assert last[0] == "VAE · all combined"
    assert second[6] == "cuDNN benchmark: 15-30 % faster (unconfirmed)"
    assert claim[:4] == ["CUDA graphs", "–", "–", "–"]
    assert claim[6] == "CUDA graphs: no launch overhead (not used)"
    assert claim[7].startswith("Not implemented: ")
    assert "before frames are enlarged" in model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert model.index(0, 3).data(Qt.ItemDataRole.ToolTipRole).startswith("0.710×")
    assert model.index(0, 5).data(Qt.ItemDataRole.ToolTipRole) == "3e-7 when off"
    assert [model.index(r, 3).data(CALM_ROLE) for r in (0, 2)] == [0.04, 0.02]
    bench.use_language("zh_CN")
    assert button(bench, "benchQuick").text() == "速度测试"
    model = table(bench).model()
    assert model.headerData(3, Qt.Orientation.Horizontal) == "时间"
    assert model.index(0, 0).data() == "VAE · 上采样折叠"
    assert model.index(1, 6).data() == "cuDNN 基准选择：快 15–30 %（未证实）"


def shown(bench: Bench) -> list[str]:
    """First cells of the table."""
    model = table(bench).model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def test_the_filter_shows_rows_with_every_word(bench):
    click(bench, "benchFull")
    field = page(bench).findChild(QLineEdit, "benchFilter")
    assert not field.isVisible()
    finish(bench)
    assert "5 of 5 rows" in texts(page(bench))
    field.setText("CUDNN 15-30")
    model = table(bench).model()
    assert [model.index(r, 0).data() for r in range(model.rowCount())] == [
        "System · cuDNN benchmark"
    ]
    assert "1 of 5 rows" in texts(page(bench))
    assert not unnamed(page(bench))  # the button that clears it has a name, too
    field.setText("vae.up")  # by the name that settings have
    assert shown(bench) == ["VAE · upsampler fold"]
    field.setText("no such thing")
    assert model.rowCount() == 0
    field.clear()
    assert model.rowCount() == 5
    field.setText("图")
    bench.use_language("zh_CN")
    assert shown(bench) == ["CUDA 图"]


def test_a_low_page_has_room_for_a_whole_row_and_more_where_rows_are_sought(bench):
    click(bench, "benchFull")
    finish(bench)
    view, rows = page(bench), table(bench)
    view.resize(910, 432)
    bench.hear()
    area = rows.viewport().rect()
    assert area.contains(rows.visualRect(rows.model().index(0, 0)))
    figures = part(view, "benchFigures")
    assert figures.isVisible()
    field = view.findChild(QLineEdit, "benchFilter")
    field.setText("vae")
    bench.hear()
    assert not figures.isVisible()
    assert rows.viewport().height() > area.height()
    view.resize(1080, 660)
    bench.hear()
    assert figures.isVisible()


def test_a_stopped_and_a_failed_benchmark_are_shown_as_such(bench):
    click(bench, "benchFull")
    click(bench, "benchStop")
    assert bench.asked(commands.StopTask)
    assert "Benchmark stopped." in texts(page(bench))
    click(bench, "benchFull")
    bench.tasks.fail(BENCHMARK, ErrorInfo(code="out-of-memory", case="running"))
    assert "Out of memory." in texts(page(bench))


def test_measure_this_pc_writes_one_archive_and_says_what_to_do_with_it(
    bench, tmp_path, monkeypatch
):
    path = tmp_path / "upreel-measured.zip"
    chosen = [None, path]
    monkeypatch.setattr(bench.program.bench, "ask_file", lambda: chosen.pop(0))
    click(bench, "benchMeasure")
    assert not bench.asked(commands.RunBenchmark)  # no file was chosen
    click(bench, "benchMeasure")
    assert [c.archive for c in bench.asked(commands.RunBenchmark)] == [path]
    for name in ("benchQuick", "benchFull", "benchMeasure"):
        assert not button(bench, name).isVisible()
    bench.tasks.advance(BENCHMARK, 3)
    assert "video VAE · 4 of 12" in texts(page(bench))
    assert "You can keep using Upreel meanwhile." in texts(page(bench))
    assert not bench.find("primaryAction").isEnabled()
    finish(bench)
    assert "Saved: upreel-measured.zip" in texts(page(bench))
    assert "Attach this file to your report." in texts(page(bench))
    bench.use_language("zh_CN")
    assert "已保存：upreel-measured.zip" in texts(page(bench))
    assert button(bench, "benchMeasure").text() == "测量本机…"


def test_an_archive_that_was_stopped_has_the_results_so_far(bench, tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    monkeypatch.setattr(bench.program.bench, "ask_file", lambda: path)
    click(bench, "benchMeasure")
    click(bench, "benchStop")
    assert "Stopped. a.zip has the results so far." in texts(page(bench))
    click(bench, "benchQuick")
    finish(bench)
    assert "a.zip" not in texts(page(bench))


def test_while_a_film_runs_the_benchmark_is_disabled_with_a_reason(bench):
    bench.start()
    assert not button(bench, "benchQuick").isEnabled()
    assert not button(bench, "benchMeasure").isEnabled()
    assert "A video is being processed" in texts(page(bench))
    bench.finish()
    assert button(bench, "benchQuick").isEnabled()
    assert "A video is being processed" not in texts(page(bench))


def test_no_film_starts_during_the_benchmark_and_plans_are_made_again(bench):
    job_id = bench.add()
    click(bench, "benchQuick")
    start = bench.find("primaryAction")
    assert not start.isEnabled()
    assert "A benchmark is running" in start.toolTip()
    assert not bench.window.actions_["start"].isEnabled()
    before = len(bench.asked(commands.ChangeJob))
    finish(bench)
    assert start.isEnabled()
    assert [c.job_id for c in bench.asked(commands.ChangeJob)[before:]] == [job_id]


def test_ratios_are_shown_as_changes():
    for ratio, scatter, text in (
        (0.82, None, "−18 %"),
        (1.03, 0.001, "+3 %"),
        (1.001, None, "±0 %"),
        (0.96, 0.09, "−4 ± 9 %"),
        (1.0, 0.02, "0 ± 2 %"),
        (None, None, "–"),
    ):
        assert percent(ratio, scatter) == text
