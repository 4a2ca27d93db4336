"""Foreign text in the window: plain text in one line, whatever it looks like."""

from __future__ import annotations

import ast
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QMessageBox, QToolTip, QWidget

from app.bridge.engine_bridge import EventHub
from app.i18n import tr
from app.jobs.found_files import FoundFiles
from app.jobs.report_dialog import ReportDialog
from app.latents.latent_sheet import LatentSheet
from app.state.machines_model import Step
from app.widgets.controls import ElidedLabel
from app.widgets.plain import Label, RichTextView, message_box, tip
from engine.api import UnfinishedJob
from engine.core.errors import UnreadableMedia
from engine.core.messages import message
from engine.protocol import events, machines
from engine.protocol.gpu_reading import GpuProcess, GpuReading
from engine.protocol.machines import FoundMachine
from engine.protocol.media import ChapterInfo, StreamInfo
from engine.protocol.model_file_state import NetworkFacts, PublishedState
from engine.protocol.plan import Notice
from tests.helpers.fake_states import ATTIC, NO_MACHINES, STUDIO, make_files, make_listed
from tests.helpers.fakes import make_media, make_plan, make_report
from tests.helpers.foreign import HOSTILE, MARK, SHOWN, harm_in, poisoned

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "app" / "widgets" / "plain.py"
ONLY_THERE = {
    *("QLabel", "QTextBrowser", "QTextEdit", "QToolTip", "QErrorMessage", "QTextDocumentFragment"),
    *("setToolTip", "setTextFormat", "setHtml", "showText", "setInformativeText"),
}
BOX = {"about", "critical", "information", "question", "warning"}  # of QMessageBox, with AutoText


def names_in(tree: ast.AST) -> set[str]:
    """What of `ONLY_THERE` a module uses, and where it makes a box of its own."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        if isinstance(node, ast.Call) and is_box(node.func):
            found.add("QMessageBox()")
        if isinstance(node, ast.Attribute) and is_box(node.value):
            found.add(f"QMessageBox.{node.attr}")
    return found & {*ONLY_THERE, "QMessageBox()", *(f"QMessageBox.{one}" for one in BOX)}


def is_box(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "QMessageBox"


def test_all_text_of_the_window_goes_through_one_module():
    files = [path for path in (ROOT / "app").rglob("*.py") if path != PLAIN]
    found = {path.name: names_in(ast.parse(path.read_text("utf-8"))) for path in files}
    assert {name: what for name, what in found.items() if what} == {}
    assert len(files) > 100


@pytest.fixture
def picture(tmp_path, monkeypatch) -> None:
    """The one that hostile text names, in the current folder."""
    monkeypatch.chdir(tmp_path)
    image = QImage(40, 40, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.magenta)
    assert image.save("q.png")


def is_drawn(widget: QWidget) -> bool:
    image = widget.grab().toImage()
    points = ((x, y) for x in range(0, image.width(), 4) for y in range(0, image.height(), 4))
    return any(image.pixelColor(*point) == Qt.GlobalColor.magenta for point in points)


def test_no_picture_of_a_foreign_text_is_drawn(qtbot, picture):
    label, elided, page = Label(), ElidedLabel(), RichTextView()
    box = message_box(QMessageBox.Icon.Warning, HOSTILE, HOSTILE, HOSTILE)
    for widget in (label, elided, page, box):
        qtbot.addWidget(widget)
    label.setText(HOSTILE)
    elided.setText(HOSTILE)
    page.setMarkdown("![a](q.png)\n\n<img src='q.png'>")
    for widget in (label, elided, page, box):
        widget.resize(400, 200)
        widget.show()
        assert not is_drawn(widget), widget
    assert label.text().startswith(MARK + "&b\nFORGED\\r")  # a line end may be one of ours
    assert elided.whole == SHOWN
    QToolTip.showText(QPoint(9, 9), tip(HOSTILE), label)
    (shown,) = [one for one in QApplication.topLevelWidgets() if one.inherits("QTipLabel")]
    assert not is_drawn(shown)
    assert "&lt;!--" in shown.text()
    QToolTip.hideText()


def test_values_of_sentences_are_foreign():
    assert tr("Pair with {name}", name=HOSTILE) == f"Pair with {SHOWN}"
    assert tr("Pair with {name}", name=Path("a\nb")) == r"Pair with a\nb"
    nested = message("reason.machine.left-out", why=HOSTILE)
    for one in (nested, message("output-exists.file", path=nested), (HOSTILE, nested)):
        assert SHOWN in str(message("output-exists.file", path=one))


MEDIA = replace(
    make_media(Path("films/film.mp4")),
    streams=(StreamInfo(index=1, kind="audio", codec="aac", language="eng", title="Song"),),
    chapters=(ChapterInfo(start=Fraction(0), end=Fraction(9), title="One"),),
)
NOTICE = Notice(
    code="source-damaged", severity="warning", params={"problem": "It ends.", "offers": "scale=4"}
)
GPU = GpuReading(
    name="RTX",
    total_mb=16384,
    ours_mb=4096,
    others_mb=900,
    load_percent=9,
    temperature_c=50,
    driver="581.29",
    processes=(GpuProcess(name="game.exe", mb=900),),
)
OWN_FILE = PublishedState(
    id="own-1",
    title="4x.pth",
    kind="upscaler",
    models=("community",),
    precision="fp32",
    filename="4x.pth",
    bytes=9,
    state="here",
    licence="MIT",
    path=Path("4x.pth"),
    network=NetworkFacts(architecture="Compact", scale=4),
)


def test_no_widget_takes_foreign_text_for_more_than_text(bench, monkeypatch):
    """Walks the window and its pages with something hostile in every text of the engine."""
    deliver = EventHub.deliver
    monkeypatch.setattr(EventHub, "deliver", lambda hub, event: deliver(hub, poisoned(event)))
    faults, seen = [], set()

    def look(*windows: QWidget) -> None:
        for window in windows:
            found = harm_in(window)
            faults.extend(found[0])
            seen.update(found[1])

    program, name = bench.program, f"{HOSTILE}film.mp4"
    bench.engine.media[name], bench.engine.notices = MEDIA, (NOTICE,)
    bench.engine.reject["bad.txt"] = UnreadableMedia("empty", name="bad.txt").info()
    bench.measure(GPU)
    for one in (name, "bad.txt", "other.mp4"):
        bench.add(one)
    look(bench.window)
    bench.select(bench.start("third.mp4"))
    job_id = program.queue.active.job_id
    bench.advance(10)
    for worker in range(9):
        bench.emit(
            events.WorkerProgress(
                job_id=job_id, worker=worker, frame=1, frames_per_second=1.0, name="Attic"
            )
        )
    bench.select(program.queue.rows[-1].job_id)
    bench.window.actions_["log"].trigger()
    bench.measure(GPU)
    look(bench.window)
    bench.select(job_id)
    bench.finish(failed=("black",))
    look(bench.window)
    bench.fail(UnreadableMedia("empty", name="a").info())
    look(bench.window)
    bench.engine.tasks.machines = replace(
        NO_MACHINES,
        machines=(replace(STUDIO, state="working", film="a.mp4"), ATTIC),
        found=(FoundMachine(name="Cellar", address="192.168.1.31:1"),),
        is_lent=True,
        lent_to="Studio",
    )
    bench.do("machines")
    words = ("harbour", "violin", "pepper", "window", "ocean", "candle")
    bench.emit(machines.PairingWords(words=words, name="Attic", asks=True))
    assert program.machines.dialog._model.step is Step.WORDS
    look(program.machines.page, program.machines.dialog)
    bench.emit(events.ModelFilesListed(files=(*make_files(), OWN_FILE), free_mb=9e6))
    bench.emit(make_listed())
    bench.do("models")
    program.models.view.unfold()
    bench.do("settings")
    look(program.models.view, program.settings.dialog, bench.window)
    left = UnfinishedJob(job_id="a", source=Path(name), output=Path(name))
    program.left_over.offer((left,))
    column = bench.window.queue_column
    column.watch.show_folder(f"/films/{HOSTILE}", is_on=True, is_away=True)
    column.added.show_found(FoundFiles(skipped={"{count} without video": [Path(name)]}))
    program.controller.remove([program.queue.rows[-1].job_id])
    bench.hear()
    report = ReportDialog(poisoned(make_report(make_plan(MEDIA))), bench.window)
    sheet = LatentSheet(parent=bench.window)
    sheet.show_file(Path(name))
    look(bench.window, report, sheet)
    assert faults == []
    assert len(seen) > 20, seen
