"""The fidelity matrix: its page is whole and green, and its judge sees what differs."""

from dataclasses import replace
from pathlib import Path

from tests.helpers.clips import make_clip
from tests.helpers.program import NEEDS_FFMPEG
from tools.reports import fidelity
from tools.reports.fidelity import PROPERTIES, Row, described, page, rows
from tools.reports.fidelity_sources import sources

PAGE = Path(__file__).parents[3] / "docs" / "fidelity.md"


def test_the_page_has_a_green_row_for_each_source() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    wanted = [source.about for source in sources()]
    table = [line.split(" | ") for line in lines if line.startswith("| ")][1:]
    assert len(wanted) >= 80
    assert [row[0].removeprefix("| ") for row in table] == wanted
    assert not [row for row in table if any(cell.startswith("no:") for cell in row)]


@NEEDS_FFMPEG
def test_sources_are_written_and_compared(tmp_path: Path) -> None:
    names = ("subrip.mkv", "turned90.mp4", "telecined.mkv")
    wanted = [source for source in sources() if source.name in names]
    found = {row.source.name: row for row in rows(wanted, tmp_path)}
    assert not any(row.is_red or row.refused for row in found.values())
    said = {name for name, mark in found["telecined.mkv"].marks.items() if mark != "yes"}
    assert said == {"pictures", "times"}
    red = replace(found["subrip.mkv"], marks=dict.fromkeys(PROPERTIES, "no: other"))
    refused = Row(source=wanted[0], refused="too large")
    text = page([red, refused])
    assert "2 sources, 1 with an unannounced difference." in text
    assert "| refused: too large |" in text


@NEEDS_FFMPEG
def test_the_judge_sees_what_differs(tmp_path: Path) -> None:
    whole = {"frames": 8, "audio_tracks": 1, "subtitles": ("subrip",), "chapters": 2}
    one = described(make_clip(tmp_path / "one.mkv", **whole, metadata={"title": "A"}))
    other = described(make_clip(tmp_path / "other.mkv", frames=8, rate=30, sar=2, codec="mpeg4"))
    faults = {name: fault(one, other) for name, fault in fidelity.FAULTS.items()}
    assert all(faults[name] for name in ("times", "shape", "sound", "other streams", "titles"))
    assert not any(fault(one, one) for fault in fidelity.FAULTS.values())
    shorter = described(make_clip(tmp_path / "shorter.mkv", frames=7))
    assert fidelity.FAULTS["pictures"](one, shorter) == "8 frames, 7 in the result"
