import argparse
import errno
import os
import re
import shlex
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from engine import __version__
from engine.cli import main
from engine.cli.console import Console
from engine.core.errors import OutputExists
from engine.core.file_access import missing_source
from engine.core.messages import read_entries
from engine.protocol.plan import Notice
from tests.helpers.command_line import CommandLine
from tests.helpers.fakes import make_media, make_plan, make_report
from tests.helpers.plans import PRETENDED, to_download

ROOT = Path(__file__).parents[3]


def test_wrong_usage_ends_with_2(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = main.parser.build()  # it takes longer than all the rest
    monkeypatch.setattr(main.parser, "build", lambda: parser)
    for words in (
        "",
        "fly",
        "upscale",
        "upscale a.mp4 --scale many",
        "upscale a.mp4 --scale 2 --height 720",
        "upscale a.mp4 --scal 2",
        "plan",
        "plan a.mp4 b.mp4",
        "verify a.mp4",
        "resume job --all",
        "upscale a.mp4 b.mp4 -o c.mp4",
        "--json",
        "upscale ''",
        "upscale a.mp4 -o ''",
        "plan ''",
        "probe ''",
        "verify a.mp4 ''",
        "resume --all -o ''",
        "resume ''",
        "resume '' --remove",
        "encode-latent a.mp4 -o ''",
        "doctor --zip ''",
    ):
        ended = command_line(*shlex.split(words))
        assert ended.status == 2, words
        assert "usage:" in ended.err
        assert ended.out == ""


def test_help_ends_with_0(command_line: CommandLine) -> None:
    for command in ("", "plan", "probe", "verify", "resume", "bench", "upscale"):
        ended = command_line(*command.split(), "--help")
        assert ended.status == 0
        assert "usage: python -m engine" in ended.out
    for part in ("crf=16", "segment_seconds=5.0", "memory_share=0.7", "h264, hevc", "tile=0 "):
        assert part in ended.out, "upscale lists every setting"
    assert command_line("--version").out == f"Upreel {__version__}\n"


@pytest.mark.parametrize("words", ["--verbose doctor", "doctor --verbose", "models list --verbose"])
def test_verbose_prints_the_log(
    words: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_LOG", "loud")
    warning = "UPREEL_LOG=loud is none of debug, info, warning, error"
    assert warning not in command_line(*words.replace("--verbose", "").split()).err
    assert warning in command_line(*words.split()).err


def test_an_error_is_a_code_a_sentence_and_a_hint(command_line: CommandLine) -> None:
    command_line.services.error = missing_source(Path("films", "a.mp4"))
    ended = command_line("probe", "a.mp4")
    assert ended.status == 1
    assert ended.out == ""
    assert ended.err.startswith("error[source-missing]: a.mp4 does not exist.\n  hint: Check its")
    (answer,) = command_line("probe", "a.mp4", "--json").objects
    error = answer["error"]
    params = {"name": "a.mp4", "folder": str(Path("films").absolute()), "path": "films/a.mp4"}
    assert (error["code"], error["params"]) == ("source-missing", params)
    assert error["message"] == "a.mp4 does not exist."
    assert params["folder"] in error["hint"]
    command_line.services.error = OutputExists("before-start", name="b.mp4")
    ended = command_line("plan", "a.mp4")
    assert "hint: Choose another name: -o NAME. Or replace the file: --overwrite." in ended.err
    command_line.services.error = KeyboardInterrupt()
    assert command_line("probe", "a.mp4").status == 130


def test_ctrl_c_before_there_is_a_command_has_no_traceback(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> argparse.ArgumentParser:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.parser, "build", interrupted)
    assert command_line("doctor").status == 130


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_while_the_program_is_loaded_has_no_traceback() -> None:
    program = """if True:
        import engine, os, runpy, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
        class Interrupting:
            def find_spec(self, name, *rest):
                if name == "engine.cli.main":
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupting())
        runpy.run_module("engine", run_name="__main__")
    """
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_an_answer_that_cannot_be_written_is_one_error(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("internal error in a command")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Console, "data", full)
    ended = command_line("probe", "a.mp4", "--json")
    assert ended.status == 1
    assert ended.err.startswith("error[disk-full]")


def test_a_mistake_of_ours_has_no_traceback_but_a_log(
    command_line: CommandLine, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("internal error in a command")
    command_line.services.error = KeyError("oops")
    ended = command_line("probe", "a.mp4")
    assert ended.status == 1
    assert "error[internal-error]" in ended.err
    assert "Traceback" not in ended.err


def test_probe_and_plan_answer_in_words_and_in_json(command_line: CommandLine) -> None:
    words = command_line("probe", "a.mp4")
    assert words.status == 0
    assert "480x270 h264" in words.out
    (answer,) = command_line("probe", "a.mp4", "--json").objects
    assert answer["path"] == "a.mp4"
    assert answer["video"]["time_base"] == "1/12288"
    assert answer["video"]["seen_size"] == {"width": 480, "height": 270}
    words = command_line("plan", "a.mp4", "--scale", "4", "-o", "b.mkv")
    assert words.status == 0
    for part in ("b.mkv", "1920x1080 h264", "lite", "1 audio", "s, not measured on this computer"):
        assert part in words.out
    (answer,) = command_line("plan", "a.mp4", "--json").objects
    assert (answer["fits"], answer["frames"]) == (True, 240)
    assert answer["seconds_low"] < answer["seconds"] < answer["seconds_high"]
    assert answer["picture"]["frame_rate"] == "24"


def test_probe_has_a_line_for_each_finding_with_what_helps(command_line: CommandLine) -> None:
    command_line.services.notices = (
        Notice(code="blocks-visible", severity="info", params={"offers": "treatment=restore"}),
        Notice(
            code="aspect-doubtful",
            severity="info",
            params={"size": "720x576", "seen": "1.25:1", "offers": "aspect=4:3;aspect=16:9"},
        ),
        Notice(code="frames-repeat", severity="info", params={"share": "20 %"}),
    )
    lines = command_line("probe", "a.mp4").out.splitlines()[-3:]
    assert lines[0].startswith("Found:     Compression blocks are visible")
    assert lines[0].endswith(" [--set treatment=restore]")
    assert lines[1].endswith(" [--set aspect=4:3 or --set aspect=16:9]")
    assert lines[2].endswith("so that time stamps stay the same.")
    (answer,) = command_line("probe", "a.mp4", "--json").objects
    assert answer["notices"][0]["code"] == "blocks-visible"


def test_a_plan_that_is_refused_ends_with_1(command_line: CommandLine) -> None:
    command_line.services.notices = (
        Notice(code="disk-full", case="folder", severity="refusal", params={"folder": "b"}),
        Notice(code="cuts-not-looked-for", severity="warning"),
    )
    ended = command_line("plan", "a.mp4")
    assert ended.status == 1
    assert "error[disk-full]: The disk of b is full.\n  hint: Free some space" in ended.err
    assert "\nwarning[cuts-not-looked-for]: Cut detection is off" in ended.err


def test_words_and_status_of_a_plan_for_another_gpu_agree(command_line: CommandLine) -> None:
    missing = (PRETENDED, to_download())
    command_line.services.notices = missing
    words = ("plan", "a.mp4", "--pretend-gpu", "RTX 5070 Ti")
    ended = command_line(*words)
    assert ended.status == 0
    assert "note[pretended-card]" in ended.err
    assert "note[weights-missing]" in ended.err
    assert "error[" not in ended.err
    (answer,) = command_line(*words, "--json").objects
    assert {one["severity"] for one in answer["notices"]} == {"info"}
    assert command_line("plan", "a.mp4").status == 1  # here they refuse it
    command_line.services.notices = (
        *missing,
        Notice(code="disk-full", case="folder", severity="refusal", params={"folder": "b"}),
    )
    ended = command_line(*words)
    assert ended.status == 1
    assert "error[disk-full]" in ended.err


def test_a_plan_for_another_gpu(command_line: CommandLine) -> None:
    command_line("plan", "a.mp4", "--pretend-gpu", "RTX 5070 Ti", "--pretend-vram", "12GiB")
    (gpu,) = command_line.services.pretend
    assert gpu.title == "RTX 5070 Ti, 12 GB"
    command_line("plan", "a.mp4")
    assert command_line.services.pretend == ()
    ended = command_line("plan", "a.mp4", "--pretend-gpu", "RTX 5070 Tii")
    assert ended.status == 1
    assert "error[settings-error]: The table of GPUs does not contain 'RTX 5070 Tii'" in ended.err
    assert "NVIDIA GeForce RTX 5070 Ti" in ended.err


def test_a_gpu_is_chosen_by_number_or_by_a_part_of_its_name(command_line: CommandLine) -> None:
    two = ("--pretend-gpu", "RTX 5070 Ti", "--pretend-gpu", "RTX 3060 12 GB")
    for words, device in (
        *((("--device", "1"), "NVIDIA GeForce RTX 3060"), (("--device", "cpu"), "cpu")),
        *((("--device", "5070 ti"), "NVIDIA GeForce RTX 5070 Ti"), ((), "auto")),
        *((("--set", "device=cuda:1"), "NVIDIA GeForce RTX 3060"), (("--device", "all"), "all")),
    ):
        command_line("plan", "a.mp4", *two, *words)
        assert command_line.services.asked[-1][0].device == device
    for word in ("4090", "2", "RTX"):
        ended = command_line("plan", "a.mp4", *two, "--device", word)
        assert ended.status == 1
        assert "cuda:0 (NVIDIA GeForce RTX 5070 Ti), cuda:1 (NVIDIA GeForce RTX 3060)" in ended.err
    command_line("plan", "a.mp4", *two, "--set", "device=all", "--set", "excluded_gpus=3060")
    asked = command_line.services.asked[-1][0]
    assert (asked.device, asked.excluded_gpus) == ("all", "NVIDIA GeForce RTX 3060")
    ended = command_line("plan", "a.mp4", *two, "--set", "excluded_gpus=4090")
    assert "This computer has no GPU 4090" in ended.err


def test_verify_ends_with_1_when_a_check_failed(command_line: CommandLine) -> None:
    assert command_line("verify", "a.mp4", "b.mp4").status == 0
    plan = make_plan(make_media(Path("a.mp4")))
    command_line.services.report = make_report(plan, failed=("frame-count", "black"))
    ended = command_line("verify", "a.mp4", "b.mp4")
    assert ended.status == 1
    assert "BAD  240 frames in, 240 out." in ended.out
    assert "frame-count, black" in ended.out
    (answer,) = command_line("verify", "a.mp4", "b.mp4", "--json").objects
    assert answer["passed"] is False


def test_the_reader_of_a_pipe_may_leave() -> None:
    code = (
        "import sys; sys.stdin.readline(); from engine.cli.main import main;"
        "raise SystemExit(main(['upscale', '--help']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        process.stdout.close()
        process.stdin.write("\n")
        process.stdin.close()
        text = process.stderr.read()
    assert "Traceback" not in text
    assert "Exception ignored" not in text


def test_a_help_text_longer_than_the_buffer_may_lose_its_reader(monkeypatch) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    silenced = []
    monkeypatch.setattr(main, "_silence", lambda: silenced.append(True))
    monkeypatch.setattr(argparse.ArgumentParser, "print_help", closed)
    assert (main.main(["upscale", "--help"]), silenced) == (1, [True])


def test_paths_of_any_writing_can_be_printed(tmp_path: Path) -> None:
    """Also on a terminal whose code page has none of the letters."""
    missing = tmp_path / "影片 🎞.mp4"
    done = subprocess.run(
        [sys.executable, "-m", "engine", "resume", str(missing)],
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONIOENCODING": "ascii", "UPREEL_DATA": str(tmp_path), "PYTHONUTF8": "0"},
    )
    assert done.returncode == 1
    assert "影片 🎞.mp4" in done.stderr.decode("utf-8")


OPTION = re.compile(r"(?<![\w-])(?:--[a-z-]+|-o\b)")
COMMANDS_OF = {  # commands that can meet an error, where they are not upscale and plan
    "library-missing.sources": (),  # an option of pip
    "no-usable-gpu.bench": ("bench",),
    "output-exists.before-start": ("upscale", "resume", "encode-latent", "decode-latent"),
    "output-exists.file": ("presets export",),
    "output-exists.meanwhile": ("resume",),
    "settings-error.latents-of-another-model": ("decode-latent",),
    "settings-error.no-clip": ("bench",),
    "settings-error.no-gpu-to-pretend": ("plan",),
    "settings-error.not-a-size": ("upscale", "plan", "decode-latent", "bench"),
    "settings-error.trace-not-possible": ("bench",),
    "settings-error.trace-of-many-cases": ("bench",),
    "weights-missing.to-measure": ("bench",),
}


def test_every_option_that_a_hint_names_is_one_of_the_command(command_line: CommandLine) -> None:
    @cache
    def options_of(command: str) -> set[str]:
        return {*OPTION.findall(command_line(*command.split(), "--help").out)}

    for code, entry in read_entries("en").items():
        options = OPTION.findall(entry.get("hint", ""))
        for command in COMMANDS_OF.get(code, ("upscale", "plan")) if options else ():
            assert set(options) <= options_of(command), (code, command)


def test_probe_and_plan_do_without_torch(samples: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from engine.cli.main import main\n"
        f"clip = {str(samples / 'upreel_sample.mp4')!r}\n"
        "status = main(['probe', clip]) or main(['plan', clip, '-o', sys.argv[1]])\n"
        "sys.exit(9 if 'torch' in sys.modules else status)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "result.mp4")]
    done = subprocess.run(command, capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    assert b"320x180 h264" in done.stdout
