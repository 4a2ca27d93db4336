import json
from pathlib import Path

from engine.bench.options import BenchOptions
from engine.core.geometry import Size
from engine.core.messages import message
from engine.protocol.report import DoctorLine
from tests.helpers.command_line import CommandLine


def test_doctor_ends_with_1_only_when_something_is_broken(command_line: CommandLine) -> None:
    for state, status in (("ok", 0), ("warning", 0), ("problem", 1)):
        little = message("doctor.disk.little", free="1 GB")
        command_line.services.lines = (
            DoctorLine(name="torch", state="ok", message=message("doctor.version", version="2.13")),
            DoctorLine(name="disk", state=state, message=little),
        )
        ended = command_line("doctor")
        assert ended.status == status
        assert "hint: Free some space" in ended.out
        (answer,) = command_line("doctor", "--json").objects
        assert answer["works"] is (status == 0)
        first, second = answer["lines"]
        assert first == {"name": "torch", "state": "ok", "message": "2.13", "hint": ""}
        assert (second["state"], second["message"]) == (state, "1 GB free for unfinished jobs")
        assert second["hint"].startswith("Free some space")


def test_doctor_writes_an_archive(command_line: CommandLine) -> None:
    line = DoctorLine(name="torch", state="ok", message=message("doctor.version", version="2.13"))
    command_line.services.lines = (line,)
    ended = command_line("doctor", "--zip", "a.zip")
    assert (ended.status, "Written: a.zip" in ended.err) == (0, True)
    assert command_line("doctor", "--zip", "b.zip", "--with-names").status == 0
    archives = [(Path("a.zip"), (line,), False), (Path("b.zip"), (line,), True)]
    assert command_line.services.asked == archives
    assert command_line("doctor", "--with-names").status == 2


def test_bench_shows_and_writes_the_figures(command_line: CommandLine, tmp_path: Path) -> None:
    rows = [
        {"case": "lite", "size": "480x270", "ms": 41.26},
        {"case": "lite", "size": "960x540", "ms": 160.0, "note": "tiled"},
        {"case": "read", "frames_per_second": 210.0},
    ]
    command_line.services.rows = rows
    ended = command_line("bench", "lite", "read", "--quick", "--json", str(tmp_path / "b.json"))
    assert ended.status == 0
    assert command_line.services.asked == [(["lite", "read"], BenchOptions(quick=True))]
    assert "  480x270  41.3\n" in ended.out
    assert "read\n  frames_per_second\n  210.0" in ended.out
    assert json.loads((tmp_path / "b.json").read_text())["results"] == rows
    assert "measured" in ended.err


def test_bench_hands_the_options_of_video_models_on(command_line: CommandLine) -> None:
    words = "--size 64x32 --frames 9 --frames 1 --dtype float16 --threads 2 --runs 4 --form fast"
    switches = "--without in_place --without kernels --only image_mode --device cpu --no-memory"
    assert command_line("bench", "vae", *words.split(), *switches.split()).status == 0
    ((cases, options),) = command_line.services.asked
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


def test_bench_refuses_impossible_options(command_line: CommandLine, tmp_path: Path) -> None:
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
        assert command_line.services.asked == []
    ended = command_line("bench", "--json", str(tmp_path / "none" / "b.json"))
    assert ended.status == 1
    assert "error[output-unwritable]" in ended.err


def test_a_wide_table_is_turned(command_line: CommandLine) -> None:
    wide = {f"a rather long name {number}": 1.25 * number for number in range(8)}
    command_line.services.rows = [{"case": "pipeline", **wide}, {"case": "pipeline", **wide}]
    lines = command_line("bench").out.splitlines()
    assert lines[0] == "pipeline"
    assert lines[2] == "  a rather long name 1  1.25  1.25"
    assert max(map(len, lines)) < 100


def test_a_page_and_bars_are_written(command_line: CommandLine, tmp_path: Path) -> None:
    command_line.services.rows = [
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
