from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from engine.cli.console import encode
from engine.core.geometry import FrameSpan
from engine.core.messages import message
from engine.protocol.events import PreviewReady
from engine.protocol.plan import Notice
from tests.helpers.fakes import grey, make_media, make_plan, make_report


def test_every_kind_of_value_has_its_json() -> None:
    value = {
        "rate": Fraction(24000, 1001),
        "path": Path("a"),
        "span": FrameSpan(1, 3),
        4: (1, None),
    }
    assert encode(value) == {
        "rate": "24000/1001",
        "path": "a",
        "span": {"start": 1, "stop": 3},
        "4": [1, None],
    }


def test_numbers_that_json_does_not_know_are_null() -> None:
    assert encode([float("nan"), float("inf"), 1.5]) == [None, None, 1.5]


def test_pictures_are_left_out() -> None:
    event = PreviewReady(job_id="a", frame=1, seconds=0.5, source=grey())
    assert set(encode(event)) == {"at", "job_id", "frame", "seconds", "result"}


def test_what_classes_work_out_is_there() -> None:
    media = make_media(Path("a.mp4"))
    plan = make_plan(media)
    assert encode(plan)["fits"] is True
    assert encode(make_report(plan, failed=("black",)))["passed"] is False
    assert encode(media)["video"]["seen_size"] == {"width": 480, "height": 270}
    json.dumps(encode(plan), allow_nan=False)


def test_something_else_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="object"):
        encode(object())


def test_messages_are_english_text() -> None:
    problem = message("reading.ends-early", count=3, expected=5)
    notice = Notice(code="source-damaged", severity="warning", params={"problem": problem})
    text = "The film ends early: 3 of 5 frames are there."
    assert encode(notice)["message"] == encode(notice)["params"]["problem"] == text
    report = make_report(make_plan(make_media(Path("a.mp4"))))
    assert encode(report)["checks"][1]["message"] == "240 frames in, 240 out."
