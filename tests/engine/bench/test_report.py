import getpass
import platform
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.bench.chart import check_chart, svg_of, write_chart
from engine.bench.report import (
    about,
    claim_results,
    claims,
    machine_of,
    machine_row,
    markdown,
    measured,
    switch_lines,
    unmeasured,
)
from engine.core.errors import OutputUnwritable, SettingsError
from engine.core.messages import read_entries, text_of
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings

ROWS: list[dict[str, Any]] = [
    {"case": "machine", "processor": "A processor", "torch": "2.13", "system": "Linux"},
    {"case": "optimisations-vae", "switch": "vae.usual", "about": "VAE, small", "error": 2e-6},
    {
        "case": "optimisations-vae",
        "switch": "vae.channels_last",
        "time": 0.8,
        "scatter": 0.02,
        "turns": 3,
        "memory": 0.5,
        "error": 2e-6,
        "error_without": 3e-6,
    },
    {"case": "optimisations-vae", "switch": "vae.convolution=3d", "time": 3.5, "memory": 1.0},
    {"case": "optimisations-vae", "switch": "vae.all", "time": 0.5, "memory": 1.1},
    {"case": "optimisations-around", "switch": "run.cudnn_benchmark", "note": "needs a GPU"},
    {
        "case": "optimisations-around",
        "switch": "tiles",
        "time": 1.8,
        "note": "in tiles | of 64",
    },
    {"case": "models", "model": "Lite 2x", "megapixels_per_second": 12.5},
    {"case": "models", "model": "Wan", "megapixels_per_second": 2.5},
]


def test_a_row_becomes_a_line_with_what_the_table_states() -> None:
    lines = {line.name: line for line in measured(ROWS)}
    assert about(ROWS) == ("VAE, small",)
    assert list(lines) == [row["switch"] for row in ROWS if "switch" in row][1:]
    line = lines["vae.channels_last"]
    assert (str(line.title), line.exactness, line.is_default) == ("channels last", "exact", True)
    assert (line.time, line.scatter, line.memory) == (0.8, 0.02, 0.5)
    assert (line.error, line.error_without) == (2e-6, 3e-6)
    assert str(line.claim) == "channels last: 5-15 % faster (unconfirmed)"
    choice = lines["vae.convolution=3d"]
    assert str(choice.title) == "convolutions over time: 3d"
    assert not choice.is_default
    assert str(lines["vae.all"].title) == "all VAE optimisations"


def test_every_claim_has_a_number_or_a_reason() -> None:
    results = claim_results(measured(ROWS))
    found = {title: figures for title, *_, figures in results}
    assert len(found) == len(claims())
    channels_last = "vae.channels_last: 0.80 ± 0.02 of the time, 0.50 of the memory"
    assert found["channels last"] == channels_last
    assert all(source and state for _, _, source, state, _ in results)
    command = "`bench optimisations` measures it on supported hardware"
    assert found["cuDNN benchmark"] == f"run.cudnn_benchmark: needs a GPU; {command}"
    assert found["all combined"] == "vae.all: 0.50 of the time, 1.10 of the memory"
    assert found["tiles and slices"].startswith("tiles: 1.80 of the time")
    assert found["torch.compile"] == "not measured; `bench optimisations` measures it"
    assert found["CUDA graphs"].startswith("Not implemented: ")
    rows = [row for claim in claims().values() for row in claim.rows]
    assert len(measured({"switch": row} for row in rows)) == len(rows)
    texts = {code for code in read_entries("en") if code.startswith("claim.")}
    assert texts == {f"claim.{claim}" for claim in claims()}


def test_a_claim_without_a_row_has_a_reason_in_each_language() -> None:
    lines = list(unmeasured())
    assert [line.name for line in lines] == [
        f"claim.{name}" for name, claim in claims().items() if not claim.rows
    ]
    for line in lines:
        assert line.note is not None
        for language in ("en", "zh_CN"):
            assert text_of(line.note, language), line.name
        assert (line.time, line.memory, line.exactness) == (None, None, "")


def test_the_table_names_modules_and_settings_that_exist() -> None:
    root = Path(__file__).parents[3]
    for name, claim in claims().items():
        assert claim.source, name
        for module in claim.modules:
            assert (root / module).is_file(), (name, module)
        for setting in claim.settings:
            with_text(JobSettings(), [setting])


def test_the_page_and_the_terminal_have_a_table() -> None:
    page = markdown(ROWS, "bench optimisations")
    lines = page.splitlines()
    assert "processor A processor; system Linux; torch 2.13." in lines
    row = next(line for line in lines if line.startswith("| `vae.channels_last`"))
    assert "| exact | on | 0.80 ± 0.02 | 0.50 | 2.0e-06 | 3.0e-06 |" in row
    assert "in tiles / of 64" in page
    heads = [line for line in lines if line.startswith("## ")]
    assert heads == ["## models", "## Optimisations", "## Claims of documents"]
    for line in lines:  # no table has a line with another number of cells
        assert line.count("|") in (0, 3, 6, 11), line
    columns = switch_lines(ROWS)
    assert columns[0] == "optimisations"
    assert any("vae.channels_last" in line and "0.80 ± 0.02" in line for line in columns)
    assert switch_lines(ROWS[-2:]) == []


def test_nothing_tells_whose_machine_it_is() -> None:
    row = machine_row()
    text = markdown([row, *ROWS[1:]]) + svg_of([row, *ROWS[1:]]) + repr(row)
    known = {"processor", "threads", "memory", "card", "driver", "system", "python", "torch"}
    assert set(machine_of([row])) <= known
    for secret in (getpass.getuser(), platform.node(), str(Path.home()), str(Path.cwd())):
        if len(secret) > 2:
            assert not re.search(rf"\b{re.escape(secret)}\b", text), secret


def test_bars_are_an_svg(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"
    write_chart(path, ROWS)
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "vae.channels_last" in texts
    assert "0.80 ± 0.02" in texts
    assert "3.50 →" in texts  # longer than there is room
    boxes = list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]
    helps = next(box for box in boxes if box.get("fill") == "#2f7d5b")
    ends = float(helps.get("x") or 0) + float(helps.get("width") or 0)
    assert ends == pytest.approx(535, abs=0.2)  # the middle, where both take as long
    assert texts.index("0.5") < texts.index("1") < texts.index("2")
    assert all(float(box.get("x") or 0) + float(box.get("width") or 0) <= 771 for box in boxes)


def test_speeds_are_bars_too_and_other_formats_are_refused(tmp_path: Path) -> None:
    assert "12.5 Mpx/s" in svg_of([ROWS[0], *ROWS[-2:]])
    with pytest.raises(SettingsError, match="nothing that can be drawn"):
        svg_of(ROWS[:1])
    with pytest.raises(SettingsError, match=r"bars\.png does not end in \.svg") as caught:
        check_chart(tmp_path / "bars.png")
    assert "SVG" in caught.value.hint
    with pytest.raises(OutputUnwritable):
        write_chart(tmp_path / "none" / "bars.svg", ROWS)
