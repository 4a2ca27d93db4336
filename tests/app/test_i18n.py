"""Every text of the window has a Chinese one, and nothing is translated that nobody says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from PySide6.QtWidgets import QApplication, QWidget

from app.engine_messages import hint, text
from app.i18n import Languages, read_catalogue, tr
from engine.core.errors import DownloadFailed, NotSafetensors, UpdateUnreachable, WrongModel
from engine.core.messages import message
from engine.planner.preset_choice import tiers
from engine.protocol.plan import Notice
from tests.app.conftest import Bench

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"\{(\w+)\}")


def texts_of_the_window() -> set[str]:
    found = set()
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0]
            if name in ("tr", "mark") and isinstance(first, ast.Constant):
                found.add(str(first.value))
    goals = (goal for tier in tiers() for goal in tier.goals.values())
    return found | {str(goal["description"]) for goal in goals}


def test_every_text_has_a_chinese_one_and_no_other_is_kept() -> None:
    shown, kept = texts_of_the_window(), set(read_catalogue("zh_CN"))
    assert shown - kept == set(), "missing"
    assert kept - shown == set(), "left over"


def test_translations_have_the_same_places() -> None:
    for source, translated in read_catalogue("zh_CN").items():
        assert set(PLACE.findall(source)) == set(PLACE.findall(translated)), source


def test_a_message_of_the_engine_is_shown_in_the_language(qapp: QApplication) -> None:
    languages = Languages(qapp)
    languages.use("zh_CN")
    try:
        assert text(message("check.frame-count.equal", before=96, after=95)) == (
            "输入 96 帧，输出 95 帧。"
        )
    finally:
        languages.use("en")


def test_the_open_window_changes_its_language(bench: Bench) -> None:
    bench.add()
    bench.program.use_language("zh_CN")
    bench.hear()
    assert bench.button("primaryAction").text() == "开始"
    assert bench.button("moreChoices").text() == "更多选项"
    bench.program.use_language("en")
    bench.hear()
    assert bench.button("primaryAction").text() == "Start"


def test_no_english_word_is_left_in_the_chinese_window(bench: Bench) -> None:
    bench.add()
    bench.program.use_language("zh_CN")
    bench.engine.emit_telemetry()
    bench.hear()
    bench.window.choices.more.unfold()
    chinese = set(read_catalogue("zh_CN"))
    for widget in bench.window.findChildren(QWidget):
        text = getattr(widget, "text", None)
        shown = str(text()) if callable(text) and widget.isVisible() else ""
        assert shown not in chinese or tr(shown) == shown, shown


def test_a_reason_inside_a_sentence_is_translated_too(qapp: QApplication) -> None:
    languages = Languages(qapp)
    languages.use("zh_CN")
    try:
        stream = message("stream.with-codec", kind=message("stream.subtitle"), codec="dvb")
        why = message("reason.stream.codec", title="MP4", codec="dvb")
        params = {"index": "3", "stream": stream, "why": why, "better": "MKV"}
        notice = Notice(
            code="stream-left-out", case="other-container", severity="warning", params=params
        )
        assert text(notice) == "第 3 条流（字幕，dvb）不保留：MP4 不能容纳 dvb。"
        assert hint(notice) == "如需保留，请选择 MKV 文件格式。"
    finally:
        languages.use("en")


def test_errors_inside_errors_are_rendered_in_chinese(qapp: QApplication) -> None:
    languages = Languages(qapp)
    languages.use("zh_CN")
    try:
        wrong = NotSafetensors("kind", name="a.gguf", kind=message("file-kind.gguf"))
        assert text(wrong.info()) == "a.gguf 是 GGUF 文件，不是 safetensors 文件。"
        error = WrongModel("not-seedvr2-vae", name="x", content=message("content.seedvr2-3b"))
        assert text(error.info()) == "x 是 SeedVR2 变换器（3B），不是 SeedVR2 VAE。"
        reset = message("reason.transfer.failed", why="reset")
        names = {"host": "huggingface.co", "name": "a b.safetensors"}
        help_ = message("help.transfer.moved")
        failed = DownloadFailed("server", **names, why=reset, help=help_)
        setup = UpdateUnreachable("setup", problem=failed.as_message)
        assert text(setup.info()) == "huggingface.co 没有提供 a b.safetensors：连接失败（reset）。"
        assert hint(failed.info()) == "文件已移走。如果您有该文件，请导入。"
    finally:
        languages.use("en")
