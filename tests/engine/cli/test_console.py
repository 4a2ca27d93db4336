import io
import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from engine.cli import console, parser
from engine.cli.console import code_page, encode
from engine.core.file_access import missing_source
from engine.core.geometry import FrameSpan
from engine.core.messages import message
from engine.protocol.events import PreviewReady
from engine.protocol.plan import Notice
from tests.helpers.fakes import grey, make_media, make_plan, make_report


def test_every_kind_of_value_has_its_json() -> None:
    value = {"rate": Fraction(24000, 1001), "path": Path("a"), "span": FrameSpan(1, 3), 4: (1,)}
    span = {"start": 1, "stop": 3}
    assert encode(value) == {"rate": "24000/1001", "path": "a", "span": span, "4": [1]}
    assert encode([float("nan"), float("inf"), 1.5, None]) == [None, None, 1.5, None]
    event = PreviewReady(job_id="a", frame=1, seconds=0.5, source=grey())
    assert set(encode(event)) == {"at", "job_id", "frame", "seconds", "result"}, "no pictures"
    with pytest.raises(TypeError, match="object"):
        encode(object())


def test_no_name_of_a_file_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b]0;b\x07\x1b[31m\u202e\x9b\n\r\u2028error[x]: no\x7f\udc80.mp4"
    out, err = io.StringIO(), io.StringIO()
    shown = console.Console(out, err)
    shown.say(name, "two")
    shown.note(name)
    shown.data({"name": name})
    shown.error(missing_source(Path(name)))
    with pytest.raises(SystemExit):
        parser.build().parse_args(["doctor", f"--{name}"])
    for text in (out.getvalue(), err.getvalue(), capsys.readouterr().err):
        assert (
            "a\\x1b]0;b\\x07\\x1b[31m\\u202e\\x9b\\n\\r\\u2028error[x]: no\\x7f\\udc80.mp4" in text
        )
        assert not {"\x1b", "\x07", "\u202e", "\x9b", "\r", "\x7f", "\u2028", "\udc80"} & set(text)
        assert not re.search(r"^error\[x\]", text, re.MULTILINE)
    _line, two, data = out.getvalue().splitlines()
    assert (two, json.loads(data)) == ("two", {"name": name})


def test_what_classes_work_out_is_there() -> None:
    media = make_media(Path("a.mp4"))
    plan = make_plan(media)
    assert encode(plan)["fits"] is True
    assert encode(media)["video"]["seen_size"] == {"width": 480, "height": 270}
    json.dumps(encode(plan), allow_nan=False)
    report = encode(make_report(plan, failed=("black",)))
    assert report["passed"] is False
    assert report["checks"][1]["message"] == "240 frames in, 240 out."
    problem = message("reading.ends-early", count=3, expected=5)
    notice = Notice(code="source-damaged", severity="warning", params={"problem": problem})
    text = "The video ends early: it has 3 of 5 frames."
    assert encode(notice)["message"] == encode(notice)["params"]["problem"] == text


class Console:
    """kernel32 with a console, or without one (0)."""

    def __init__(self, page: int) -> None:
        self.page = page
        self.set: list[int] = []

    def GetConsoleOutputCP(self) -> int:
        return self.page

    def SetConsoleOutputCP(self, page: int) -> int:
        self.set.append(page)
        self.page = page
        return 1


def test_the_console_gets_its_code_page_back_even_after_a_mistake() -> None:
    console = Console(936)
    with pytest.raises(KeyboardInterrupt), code_page(console, 65001):
        assert console.page == 65001
        raise KeyboardInterrupt
    assert console.page == 936
    for page in (0, 65001):  # no console, or no need
        console = Console(page)
        with code_page(console, 65001):
            pass
        assert console.set == []
