import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core.geometry import FrameSpan, Size
from engine.core.serialization import from_plain, to_plain
from engine.protocol.plan import (
    ModelPlan,
    Notice,
    PicturePlan,
    Plan,
    StagePlan,
)


def a_plan() -> Plan:
    return Plan(
        source=Path("in put.mkv"),
        output=Path("out.mkv"),
        container="mkv",
        source_size=Size(4, 2),
        span=FrameSpan(0, 9),
        start=Fraction(1001, 24000),
        model=ModelPlan(model="lite", tile=Size(4, 2)),
        picture=PicturePlan(
            size=Size(8, 4),
            codec="h264",
            encoder="libx264",
            pixel_format="yuv420p",
            chroma="420",
            bit_depth=8,
            frame_rate=Fraction(24000, 1001),
            options={"crf": "16"},
        ),
        stages=(StagePlan(stage="read", peak_bytes=3, seconds=0.5),),
        notices=(Notice(code="x", severity="info", message="m", params={"a": "b"}),),
    )


def test_a_plan_comes_back_from_json():
    assert from_plain(Plan, json.loads(json.dumps(to_plain(a_plan())))) == a_plan()


def test_unknown_keys_are_ignored_and_missing_ones_take_their_default():
    assert from_plain(Size, {"width": 1, "height": 2, "depth": 3}) == Size(1, 2)
    assert from_plain(StagePlan, {"stage": "a", "peak_bytes": 1, "seconds": 2}).seconds == 2.0


@pytest.mark.parametrize(
    "data", [{"width": "1", "height": 2}, {"width": 1}, 5, {"width": 1.5, "height": 2}]
)
def test_other_data_is_refused(data):
    with pytest.raises((TypeError, ValueError, AttributeError)):
        from_plain(Size, data)


def test_literals_are_checked():
    with pytest.raises(ValueError, match="none of"):
        from_plain(Notice, {"code": "x", "severity": "loud", "message": ""})


def test_bytes_are_left_out():
    @dataclass
    class Picture:
        rgb: bytes

    assert to_plain(Picture(b"123")) == {"rgb": None}


def test_old_names_of_fields_are_read_and_new_ones_count_more():
    @dataclass
    class Renamed:
        new: int = field(default=0, metadata={"old_names": ("old", "older")})

    assert from_plain(Renamed, {"older": 1}) == Renamed(1)
    assert from_plain(Renamed, {"new": 2, "old": 1}) == Renamed(2)
