import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.bench import run
from engine.bench.run import BenchOptions
from engine.core.geometry import Size
from tests.helpers.command_line import CommandLine


@dataclass
class Measured:
    """Takes the place of what measures: its rows, and the cases and options it got."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    def run(
        self, cases: Sequence[str], *, options: BenchOptions, report: Callable[[str], None]
    ) -> list[dict[str, Any]]:
        self.asked.append((list(cases), options))
        report("measured")
        return self.rows


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    measured = Measured()
    monkeypatch.setattr(run, "run", measured.run)
    return measured


def test_bench_shows_and_writes_the_figures(
    command_line: CommandLine, measured: Measured, tmp_path: Path
) -> None:
    rows = [
        {"case": "lite", "size": "480x270", "ms": 41.26},
        {"case": "lite", "size": "960x540", "ms": 160.0, "note": "tiled"},
        {"case": "read", "frames_per_second": 210.0},
    ]
    measured.rows = rows
    ended = command_line("bench", "lite", "read", "--quick", "--json", str(tmp_path / "b.json"))
    assert ended.status == 0
    assert measured.asked == [(["lite", "read"], BenchOptions(quick=True))]
    assert "  480x270  41.3\n" in ended.out
    assert "read\n  frames_per_second\n  210.0" in ended.out
    assert json.loads((tmp_path / "b.json").read_text())["results"] == rows
    assert "measured" in ended.err


def test_bench_hands_the_options_of_video_models_on(
    command_line: CommandLine, measured: Measured
) -> None:
    words = "--size 64x32 --frames 9 --frames 1 --dtype float16 --threads 2 --runs 4 --form fast"
    switches = "--without in_place --without kernels --only image_mode --device cpu --no-memory"
    assert command_line("bench", "vae", *words.split(), *switches.split()).status == 0
    ((cases, options),) = measured.asked
    assert cases == ["vae"]
    assert options == BenchOptions(
        size=Size(64, 32),
        frames=(9, 1),
        dtype="float16",
        threads=2,
        runs=4,
        form="fast",
        without=("in_place", "kernels"),
        only=("image_mode",),
        device="cpu",
        memory=False,
    )


def test_bench_refuses_impossible_options(
    command_line: CommandLine, measured: Measured, tmp_path: Path
) -> None:
    for words, text in (
        ("vae --size 100x64", "100x64 cannot be encoded"),
        ("vae --size large", "'large' is not a valid size"),
        ("vae --frames 4", "A clip cannot have 4 frames"),
        ("vae --without fly", "Unknown optimisation 'fly'"),
        ("vae --model wan22-vae --size 72x64", "72x64 cannot be encoded"),
        ("vae --threads 0", "--threads must be at least 1"),
        ("--profile t.json", "A trace can record only one case"),
        ("lite read --profile t.json", "A trace can record only one case"),
        ("optimisations-vae --profile t.json", "uses torch's profiler"),
        ("models --profile t.json", "uses torch's profiler"),
        ("optimisations --picture p.png", "p.png does not end in .svg"),
    ):
        ended = command_line("bench", *words.split())
        assert ended.status == 1
        assert "error[settings-error]" in ended.err
        assert text in ended.err
        assert measured.asked == []
    ended = command_line("bench", "--json", str(tmp_path / "none" / "b.json"))
    assert ended.status == 1
    assert "error[output-unwritable]" in ended.err


def test_a_wide_table_is_turned(command_line: CommandLine, measured: Measured) -> None:
    wide = {f"a rather long name {number}": 1.25 * number for number in range(8)}
    measured.rows = [{"case": "pipeline", **wide}, {"case": "pipeline", **wide}]
    lines = command_line("bench").out.splitlines()
    assert lines[0] == "pipeline"
    assert lines[2] == "  a rather long name 1  1.25  1.25"
    assert max(map(len, lines)) < 100


def test_a_page_and_bars_are_written(
    command_line: CommandLine, measured: Measured, tmp_path: Path
) -> None:
    measured.rows = [
        {"case": "machine", "processor": "A processor"},
        {"case": "optimisations-vae", "switch": "vae.in_place", "time": 0.9, "memory": 0.8},
    ]
    files = {name: tmp_path / f"file.{name}" for name in ("md", "svg", "json")}
    ended = command_line(
        "bench", "optimisations", "--quick", "--runs", "2", "--markdown", str(files["md"]),
        "--picture", str(files["svg"]), "--json", str(files["json"]),
    )  # fmt: skip
    assert ended.status == 0
    assert "vae.in_place" in ended.out
    page = files["md"].read_text(encoding="utf-8")
    assert "`bench optimisations --quick --runs 2`" in page
    assert str(tmp_path) not in page
    assert "vae.in_place" in files["svg"].read_text(encoding="utf-8")
    assert len(json.loads(files["json"].read_text(encoding="utf-8"))["results"]) == 2


def test_a_file_that_cannot_be_written_is_refused_before_it_is_measured(
    command_line: CommandLine, measured: Measured, tmp_path: Path
) -> None:
    for option, name in (("--json", "."), ("--markdown", "none/a.md"), ("--picture", "none/a.svg")):
        ended = command_line("bench", "facts", option, str(tmp_path / name))
        assert ended.status == 1
        assert "error[output-unwritable]" in ended.err
    assert not measured.asked
