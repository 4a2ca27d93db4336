import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import api
from engine.cli.main import main
from engine.core import paths
from engine.core.errors import CheckpointMismatch, ErrorInfo, OutputUnwritable, UnknownJob
from engine.jobs.job_store import JobStore
from engine.pipeline import run
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from engine.settings.schema import EngineSettings, JobSettings
from engine.settings.store import settings_file
from tests.helpers.clips import Clip, make_clip
from tests.helpers.command_line import CommandLine, ScriptedEngine

BAD = ErrorInfo(code="unreadable-media", case="undecodable", params={"name": "a.mp4"})


def test_a_film_is_planned_done_and_proved(command_line: CommandLine) -> None:
    command_line.services.notices = (Notice(code="interlaced-as-frames", severity="warning"),)
    command_line.services.script = lambda engine: threading.Timer(0.05, engine.finish).start()
    ended = command_line("upscale", "a.mp4")
    assert ended.status == 0
    assert "warning[interlaced-as-frames]: This video is interlaced" in ended.err
    for part in ("a_x2.mp4", "lite", "Done:", "verified: all 14 checks passed"):
        assert part in ended.out
    assert command_line.services.engine.is_closed
    (job,) = command_line.added
    assert job.source == Path.cwd() / "a.mp4"  # so that it can be resumed from another folder
    assert job.settings == JobSettings()
    assert job.output is None


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_name_of_a_file_forges_no_line(command_line: CommandLine, options: list[str]) -> None:
    forged = "error[update-damaged]: delete C.mp4"
    command_line.services.script = lambda engine: engine.fail(BAD)
    ended = command_line("upscale", *options, f"a\n{forged}", f"b\r\u2028{forged}")
    lines = [*ended.out.splitlines(), *ended.err.splitlines()]
    assert sum(forged in line for line in lines) >= 2
    assert not [line for line in lines if line.startswith(forged)]
    assert not options or ended.objects


def test_options_become_settings(command_line: CommandLine) -> None:
    for words, settings in {
        "--scale 4": JobSettings(scale=4),
        "--height 1080": JobSettings(height=1080),
        "--size 1920x1080": JobSettings(width=1920, height=1080),
        "--model none": JobSettings(model="none", scale=1),
        "--model none --set scale=1": JobSettings(model="none", scale=1),
        "--start 1:00 --stop 62.5": JobSettings(start="1:00", stop="62.5"),
        "--overwrite": JobSettings(overwrite=True),
        "--set crf=20 --set bit-depth=10": JobSettings(crf=20, bit_depth=10),
        "--scale 2 --set scale=3": JobSettings(scale=3),
    }.items():
        assert command_line("upscale", "a.mp4", *words.split()).status == 0
        assert command_line.added[0].settings == settings


def test_a_scale_without_a_model_is_refused(command_line: CommandLine) -> None:
    for words in ("--scale 2", "--set scale=3"):
        ended = command_line("upscale", "a.mp4", "--model", "none", *words.split())
        assert ended.status == 1
        assert "Without a model, scale has no effect." in ended.err


def test_then_names_what_follows_a_first_model(command_line: CommandLine, tmp_path: Path) -> None:
    first, second = tmp_path / "1x.pth", tmp_path / "2x.pth"
    first.touch()
    second.touch()
    own = {"first_model": str(first)}
    for then, settings in {
        "lite": JobSettings(model="lite", **own),
        "seedvr2-3b --scale 3": JobSettings(model="seedvr2-3b", scale=3, **own),
        str(second): JobSettings(model="community", model_file=str(second), **own),
        "none": JobSettings(model="none", scale=1, **own),
    }.items():
        words = ("--model", str(first), "--then", *then.split())
        assert command_line("upscale", "a.mp4", *words).status == 0
        assert command_line.added[0].settings == settings
        named = ("--model", *then.split(), "--set", f"first_model={first}")
        command_line("upscale", "a.mp4", *named)
        assert command_line.added[0].settings == settings, "another spelling"


def test_a_first_model_that_is_none_is_refused(command_line: CommandLine, tmp_path: Path) -> None:
    for words, code, said in (
        ("--then lite", "settings-error", "no first model is set"),
        ("--model lite --then seedvr2-3b", "settings-error", "lite cannot be used to clean frames"),
        (f"--model {tmp_path}/gone.pth --then lite", "weights-missing", "gone.pth"),
        ("--model own-123 --then lite", "unknown-weights", "own-123"),
    ):
        ended = command_line("upscale", "a.mp4", *words.split())
        assert ended.status == 1, words
        assert f"error[{code}]" in ended.err
        assert said in ended.err
        assert "hint:" in ended.err
        assert command_line.services.engine is None


def test_a_setting_without_effect_on_the_model_next_to_it_is_refused(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """The plan has a notice instead with the automatic model, a preset or a film of latents."""
    first = tmp_path / "1x.pth"
    first.touch()
    for words, models in (
        ("--model seedvr2-3b --set overlap=64", "lite, lite-plus, community"),
        ("--set overlap=64 --set model=wan-2x", "lite, lite-plus, community"),
        ("--model lite --set products=int8", "seedvr2-3b, seedvr2-7b, seedvr2-7b-sharp, swiftvr"),
    ):
        ended = command_line("upscale", "a.mp4", *words.split())
        assert ended.status == 1, words
        assert "has no effect with" in ended.err
        assert f"choose a model that uses it: {models}." in ended.err
    for words in (
        "--set overlap=64",
        "--model lite --set overlap=64",
        "--model seedvr2-3b --set overlap=16",
        "--model lite --set vae_precision=float16",
        f"--model seedvr2-3b --set overlap=64 --set first_model={first}",
    ):
        assert command_line("upscale", "a.mp4", *words.split()).status == 0, words


def test_impossible_settings_are_refused_with_a_hint(command_line: CommandLine) -> None:
    for words in (
        "--scale 9",
        "--height 0",
        "--height -2",
        "--size 0x0",
        "--size 10",
        "--size 99999x99999",
        "--model warp",
        "--set colour=red",
        "--set crf",
        "--set crf=high",
        "--set codec=divx",
        "--start soon",
        "--stop -3",
        "--set memory_share=7",
    ):
        ended = command_line("upscale", "a.mp4", *words.split())
        assert ended.status == 1, words
        assert "error[settings-error]" in ended.err
        assert "hint:" in ended.err
        assert command_line.services.engine is None


def test_settings_of_the_machine_are_those_kept_and_those_given(command_line: CommandLine) -> None:
    settings_file().parent.mkdir()
    settings_file().write_text("[engine]\nthreads = 3\n")
    command_line("upscale", "a.mp4", "--set", "memory_share=0.5")
    assert command_line.services.settings == EngineSettings(
        threads=3, memory_share=0.5, tile_previews=False
    )


def test_json_is_an_event_a_line_and_the_report_last(command_line: CommandLine) -> None:
    ended = command_line("upscale", "a.mp4", "--json")
    assert ended.status == 0
    names = [line["event"] for line in ended.objects]
    assert names[:4] == ["JobQueued", "PlanChosen", "JobStarted", "TileDone"]
    assert names[-2:] == ["JobFinished", "Report"]
    assert ended.objects[-1]["passed"] is True
    assert "picture" not in ended.objects[3]
    assert ended.objects[3]["canvas"] == {"width": 960, "height": 540}
    assert "Done:" in ended.err


def test_one_of_several_that_fails_makes_the_status_1(command_line: CommandLine) -> None:
    command_line.services.reject = {"b.mp4": BAD}
    ended = command_line("upscale", "a.mp4", "b.mp4", "c.mp4")
    assert ended.status == 1
    assert ended.err.count("error[") == 1
    assert f"/b.mp4:\nerror[unreadable-media]: {BAD.message}\n  hint: {BAD.hint}\n" in ended.err
    assert ended.out.count("Done:") == 2


def test_a_result_that_ends_like_a_folder_needs_that_folder(
    command_line: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "done"
    for command in ("upscale", "plan"):
        ended = command_line(command, "a.mp4", "-o", f"{folder}/")
        assert ended.status == 1
        assert f"The folder {folder} does not exist." in ended.err
    folder.mkdir()
    assert command_line("upscale", "a.mp4", "-o", f"{folder}/").status == 0
    assert command_line.added[0].output == folder


def test_a_result_that_was_not_proved_makes_the_status_1(command_line: CommandLine) -> None:
    command_line.services.script = lambda engine: engine.finish(failed=("streams",))
    ended = command_line("upscale", "a.mp4")
    assert ended.status == 1
    assert "FAILED checks: streams" in ended.out


def test_a_job_or_an_engine_that_ends_early_makes_the_status_1(command_line: CommandLine) -> None:
    command_line.services.script = lambda engine: engine.fail(BAD)
    ended = command_line("upscale", "a.mp4")
    assert ended.status == 1
    assert f"python -m engine resume {command_line.added[0].job_id}" in ended.err
    command_line.services.script = lambda engine: engine.sink.emit(events.EngineClosed())
    ended = command_line("upscale", "a.mp4")
    assert ended.status == 1
    assert "error[internal-error]: The engine stopped before its work was finished." in ended.err


def test_the_first_ctrl_c_cancels_and_tells_how_to_go_on(command_line: CommandLine) -> None:
    command_line.services.script = lambda engine: os.kill(os.getpid(), signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    ended = command_line("upscale", "a.mp4", "b.mp4")
    assert ended.status == 130
    first, second = (job.job_id for job in command_line.added)
    assert f"resume {first}" in ended.err
    assert second not in ended.err  # it was not begun
    kinds = [type(command) for command in command_line.services.engine.commands[3:]]
    assert kinds == [commands.StopQueue, commands.CancelJob, commands.CancelJob]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_exits(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)

    def impatient(engine: ScriptedEngine) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    command_line.services.script = impatient
    command_line("upscale", "a.mp4")
    assert ends == [130]


def test_patterns_are_expanded_as_a_shell_does(command_line: CommandLine, tmp_path: Path) -> None:
    for name in ("1.mp4", "2.mp4", "3.txt"):
        (tmp_path / name).touch()
    command_line("upscale", str(tmp_path / "*.mp4"), "-o", str(tmp_path))
    assert [job.source.name for job in command_line.added] == ["1.mp4", "2.mp4"]
    assert {job.output for job in command_line.added} == {tmp_path}


def left_over(name: str, done: int = 3) -> SimpleNamespace:
    return SimpleNamespace(
        job_id=name,
        source=Path("old.mp4"),
        output=Path("old_x2.mp4"),
        frames_done=done,
        frames_total=9,
        problem=None,
    )


def test_a_job_that_cannot_go_on_is_said_and_the_others_are_listed(
    command_line: CommandLine,
) -> None:
    broken = left_over("20260101-a")
    broken.problem = CheckpointMismatch("record-unreadable", job="20260101-a").info()
    broken.frames_total = 0
    changed = left_over("20260103-c")
    changed.problem = CheckpointMismatch("source", name="old.mp4").info()
    command_line.services.left_over = (broken, left_over("20260102-b"), changed)
    ended = command_line("resume")
    assert ended.status == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == ["20260102-b", "20260103-c"]
    assert "error[checkpoint-mismatch]: The record of job 20260101-a" in ended.err
    assert "old.mp4 has changed since the job started." in ended.err
    assert command_line("resume", "--all").status == 0
    adopted = command_line.services.engine.asked(commands.AdoptJob)
    assert [command.job_id for command in adopted] == ["20260102-b"]


def test_a_broken_settings_file_stops_nothing_and_is_said(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    (tmp_path / "a.mp4").touch()
    for text in ("engine = []", "[engine]\nthreads = 1" + "0" * 400, "a = " + "[" * 9999):
        (tmp_path / "settings.toml").write_text(text)
        ended = command_line("upscale", str(tmp_path / "a.mp4"))
        assert ended.status == 0
        assert "warning[settings-unused]" in ended.err
        assert command_line.services.settings == EngineSettings(tile_previews=False)


def test_resume_lists_jobs_and_goes_on_with_those_that_are_named(command_line: CommandLine) -> None:
    assert "No unfinished jobs." in command_line("resume").out
    assert command_line("resume", "--all").status == 0
    assert command_line.services.engine is None
    command_line.services.left_over = (left_over("20260101-a"), left_over("20260102-b"))
    ended = command_line("resume")
    assert ended.status == 0
    assert "20260101-a  3/9 frames  old.mp4 -> old_x2.mp4" in ended.out
    ended = command_line("resume", "2026")
    assert ended.status == 1
    assert "error[unknown-job]" in ended.err
    command_line.services.reject = {"other": UnknownJob("none-unfinished", job="other").info()}
    ended = command_line("resume", "other")  # the engine knows whether another program is at it
    assert ended.status == 1
    assert "error[unknown-job]" in ended.err
    assert "--remove" not in ended.err
    command_line.services.reject = {}
    assert command_line("resume", "20260102").status == 0
    adopted = command_line.services.engine.asked(commands.AdoptJob)
    assert adopted == [commands.AdoptJob(job_id="20260102-b")]
    assert command_line("resume", "--all").out.count("Done:") == 2
    assert command_line("resume", "--accept").status == 2, "of which job"


def test_a_result_that_differs_can_be_accepted(command_line: CommandLine) -> None:
    command_line.services.left_over = (left_over("20260101-a"),)
    command_line.services.script = lambda engine: engine.finish(failed=("frame-count",))
    ended = command_line("resume", "--all")
    assert ended.status == 1
    assert "python -m engine resume 20260101-a --accept" in ended.err
    ended = command_line("resume", "20260101-a", "--accept")
    assert ended.status == 0
    (adopted,) = command_line.services.engine.asked(commands.AdoptJob)
    assert adopted.accept


def test_a_job_goes_on_under_another_name_or_is_removed(
    command_line: CommandLine, tmp_path: Path
) -> None:
    command_line.services.left_over = (left_over("20260101-a"), left_over("20260102-b"))
    ended = command_line("resume", "20260101", "-o", "other.mp4", "--overwrite")
    assert ended.status == 0
    assert command_line.services.engine.asked(commands.AdoptJob) == [
        commands.AdoptJob(job_id="20260101-a", output=Path.cwd() / "other.mp4", overwrite=True)
    ]
    assert command_line("resume", "--all", "-o", str(tmp_path)).status == 0
    ended = command_line("resume", "20260102-b", "--remove")
    assert ended.status == 0
    assert ended.out == "20260102-b was removed.\n"
    assert command_line("resume", "--all", "--remove").out.count("was removed.") == 2
    for wrong in (["--remove"], ["--overwrite"], ["-o", "a.mp4"], ["--all", "-o", "a.mp4"]):
        assert command_line("resume", *wrong).status == 2
    assert command_line("resume", "20260101-a", "--remove", "--overwrite").status == 2


def test_a_job_is_removed_by_its_whole_name(command_line: CommandLine) -> None:
    command_line.services.left_over = (left_over("20260101-a"),)
    command_line.services.reject = {"2026": UnknownJob("none", job="2026").info()}
    ended = command_line("resume", "2026", "--remove", "--json")
    assert ended.status == 1
    assert "error[unknown-job]: The job 2026 does not exist." in ended.err
    (event,) = ended.objects
    assert (event["event"], event["job_id"]) == ("Warned", "2026")
    assert (event["notice"]["code"], event["notice"]["severity"]) == ("unknown-job", "refusal")


def test_the_same_command_again_goes_on_with_what_it_began(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OutputUnwritable("no-folder", folder="x")

    words = ["upscale", str(clip), "--model", "none", "--set", "codec=ffv1"]
    with monkeypatch.context() as patch:
        patch.setattr(run, "mux", refuse)
        assert main(words) == 1
    (begun,) = api.unfinished()
    with JobStore(paths.jobs_folder()).held(begun.job_id):
        assert main(words) == 1
        assert "error[job-busy]" in capsys.readouterr().err
    assert main(words) == 0
    assert "Continuing after 6 of 6 frames." in capsys.readouterr().out
    assert api.unfinished() == ()


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    make_clip(path, Clip(frames=6, audio_tracks=1))
    return path


def test_a_film_goes_through_and_is_proved(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upscale", str(clip), "--model", "none", "--height", "128", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    report = lines[-1]
    assert report["event"] == "Report"
    assert report["passed"] is True
    assert (report["frames_in"], report["frames_out"]) == (6, 6)
    result = clip.with_name("clip_128p.mp4")
    assert Path(report["output"]) == result
    assert main(["verify", str(clip), str(result)]) == 0
    assert main(["upscale", str(clip), "--model", "none", "--height", "128"]) == 1
    assert "error[output-exists]" in capsys.readouterr().err
    assert main(["resume"]) == 0
    assert "No unfinished jobs." in capsys.readouterr().out


def test_a_part_is_compared_with_its_part(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, part = clip.with_name("part.mkv"), ("--start", "0.08", "--stop", "0.2")
    assert main(["upscale", str(clip), "--model", "none", "-o", str(result), *part]) == 0
    assert main(["verify", str(clip), str(result)]) == 1
    assert main(["verify", str(clip), str(result), *part]) == 0
    assert main(["verify", str(clip), str(result), "--start", "9"]) == 1
    assert "error[settings-error]" in capsys.readouterr().err


def test_a_missing_source_and_an_unknown_case_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["upscale", str(tmp_path / "none.mp4")]) == 1
    assert "error[source-missing]" in capsys.readouterr().err
    assert main(["bench", "flying"]) == 1
    assert "error[settings-error]: Unknown case 'flying'." in capsys.readouterr().err
