"""Every text of the window has a Chinese one, and every translated text is used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtWidgets import QWidget

from app.engine_messages import hint, text
from app.i18n import Languages, read_catalogue, tr
from engine.core.errors import DownloadFailed, NotSafetensors, UpdateUnreachable
from engine.core.messages import message
from engine.planner.preset_choice import narrowed, tiers
from engine.protocol.plan import Notice
from tests.app.conftest import texts
from tests.helpers.old_words import old_words

ROOT = Path(__file__).parents[2]
TEXT_AT = {"tr": 0, "mark": 0, "label": 0, "elided": 0, "button": 0, "icon_button": 1}
TEXT_AT |= {"bind_text": 2, "bind_tip": 1, "scroll_area": 2, "_part": 0}
TEXT_AT |= dict.fromkeys(("PageLine", "__init__"), 99)  # only those that are named
ALSO_TEXTS = {"tip", "says", "title", "explanation", "text"}
PLACE = re.compile(r"\{(\w+)\}")


def texts_of_the_window() -> set[str]:
    found = set()
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                found |= {one.value for one in texts_of(node) if isinstance(one, ast.Constant)}
    found -= {""}
    every = (one for tier in tiers() for one in (tier, narrowed(tier)))
    goals = (goal for tier in every for goal in tier.presets.values())
    presets = (one for goal in goals for one in (goal, *goal.get("installed", {}).values()))
    return found | {str(one[text]) for one in presets for text in ("description", "effect")}


def texts_of(call: ast.Call) -> Iterator[ast.expr]:
    """Arguments that are texts of the catalogue."""
    at = TEXT_AT.get(getattr(call.func, "id", getattr(call.func, "attr", "")))
    if at is not None:
        yield from call.args[at : at + 1]
        yield from (one.value for one in call.keywords if one.arg in ALSO_TEXTS)


def test_every_text_has_a_chinese_one_with_the_same_places_and_no_other_is_kept():
    shown, kept = texts_of_the_window(), set(read_catalogue("zh_CN"))
    assert shown - kept == set(), "missing"
    assert kept - shown == set(), "left over"
    for source, translated in read_catalogue("zh_CN").items():
        assert set(PLACE.findall(source)) == set(PLACE.findall(translated)), source


def test_texts_use_the_words_of_the_field_in_both_languages():
    catalogue = read_catalogue("zh_CN")
    assert {
        text: found for text in (*catalogue, *catalogue.values()) if (found := old_words(text))
    } == {}


def test_no_english_word_is_left_in_the_chinese_window(bench):
    bench.add()
    bench.program.use_language("zh_CN")
    bench.measure()
    assert bench.find("primaryAction").text() == "开始"
    bench.window.choices.more.unfold()
    chinese = set(read_catalogue("zh_CN"))
    for widget in bench.window.findChildren(QWidget):
        text = getattr(widget, "text", None)
        shown = str(text()) if callable(text) and widget.isVisible() else ""
        assert shown not in chinese or tr(shown) == shown, shown
    bench.use_language("en")
    assert bench.find("primaryAction").text() == "Start"


def test_choices_of_a_started_film_follow_the_language(bench):
    bench.start()
    english = texts(bench.find("chosenText"))
    bench.use_language("zh_CN")
    assert tr("Size") in texts(bench.find("chosenText"))
    assert "Size" not in texts(bench.find("chosenText"))
    bench.use_language("en")
    assert texts(bench.find("chosenText")) == english


def test_messages_of_the_engine_and_those_inside_them_are_translated(qapp):
    stream = message("stream.with-codec", kind=message("stream.subtitle"), codec="dvb")
    why = message("reason.stream.codec", title="MP4", codec="dvb")
    params = {"index": "3", "stream": stream, "why": why, "better": "MKV"}
    about = {"case": "other-container", "severity": "warning", "params": params}
    notice = Notice(code="stream-left-out", **about)
    wrong = NotSafetensors("kind", name="a.gguf", kind=message("file-kind.gguf"))
    reset = message("reason.transfer.failed", why="reset")
    names = {"host": "huggingface.co", "name": "a b.safetensors"}
    failed = DownloadFailed("server", **names, why=reset, help=message("help.transfer.moved"))
    setup = UpdateUnreachable("setup", problem=failed.as_message)
    languages = Languages(qapp)
    languages.use("zh_CN")
    try:
        assert text(notice) == "第 3 条流（字幕，dvb）不保留：MP4 不能容纳 dvb。"
        assert hint(notice) == "如需保留，请选择 MKV 文件格式。"
        assert text(wrong.info()) == "a.gguf 是 GGUF 文件，不是 safetensors 文件。"
        assert (
            text(setup.info()) == "无法从 huggingface.co 下载 a b.safetensors：连接失败（reset）。"
        )
        assert hint(failed.info()) == "文件已移走。如果您有该文件，请导入。"
    finally:
        languages.use("en")
