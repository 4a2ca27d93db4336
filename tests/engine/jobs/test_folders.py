"""Folders and names that the user has chosen for results and for jobs."""

from pathlib import Path

import pytest

from engine import api
from engine.cli.main import main
from engine.core import paths
from engine.core.file_access import content_mark
from engine.jobs.job_store import JobStore
from engine.pipeline.prepare import Machine, make_plan
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import ENDS, Listener

FAST = JobSettings(model="lite", crf=30, segment_seconds=0.5, treatment="faithful")


@pytest.fixture
def source(tmp_path):
    return make_clip(tmp_path / "film.mkv", Clip(frames=30, size=(64, 48)))


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("{name}_{size}", "film_x2.mkv"),
        ("{size} of {name}", "x2 of film.mkv"),
        ("a/b:{name}", "a-b-film.mkv"),
        ("", "film_x2.mkv"),
    ],
)
def test_results_without_a_name_of_their_own_go_where_the_settings_say(
    source, tmp_path, pattern, name
):
    (tmp_path / "results").mkdir()
    chosen = EngineSettings(output_folder=str(tmp_path / "results"), name_pattern=pattern)
    machine = Machine(settings=chosen, jobs_folder=tmp_path / "jobs")
    media = api.probe(source)
    assert make_plan(media, FAST, None, machine).output == tmp_path / "results" / name
    assert make_plan(media, FAST, tmp_path, machine).output == tmp_path / name
    own = tmp_path / "own.mkv"
    assert make_plan(media, FAST, own, machine).output == own


def test_a_folder_of_results_that_is_gone_is_a_refusal_in_the_plan(source, tmp_path):
    chosen = EngineSettings(output_folder=str(tmp_path / "gone"))
    machine = Machine(settings=chosen, jobs_folder=tmp_path / "jobs")
    assert not make_plan(api.probe(source), FAST, None, machine).fits


def interrupted(source: Path) -> e.PlanChosen:
    heard = Listener()
    engine = api.Engine(heard)
    engine.start()
    engine.send(c.StartQueue())
    engine.send(c.AddJob(job_id="a", source=source, settings=FAST))
    chosen = heard.wait(e.PlanChosen)
    heard.wait(e.SegmentDone)
    assert engine.close(timeout_s=60)
    return chosen


def test_pieces_are_kept_and_played_in_the_chosen_folder_of_jobs(source, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", "")
    paths.choose_jobs_folder(str(tmp_path / "large disk"))
    plan = interrupted(source).plan
    assert list((tmp_path / "large disk" / "a").glob("segment_*.mkv"))
    assert not paths.own_jobs_folder().exists()
    frames = api.played_frames("a", api.probe(source), plan, "pieces", 0.0)
    assert next(iter(frames)).seconds == 0
    assert [job.job_id for job in api.unfinished()] == ["a"]


def go_on_to_the_end() -> None:
    """Finish the job "a", which has finished pieces."""
    heard = Listener()
    engine = api.Engine(heard)
    engine.start()
    engine.send(c.AdoptJob(job_id="a"))
    engine.send(c.StartQueue())
    assert isinstance(heard.wait(*ENDS), e.JobFinished)
    assert engine.close(timeout_s=60)
    assert heard.of(e.JobStarted)[0].done


def test_a_job_that_was_begun_goes_on_after_another_folder_was_chosen(
    source, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", "")
    interrupted(source)
    paths.choose_jobs_folder(str(tmp_path / "large disk"))
    assert [job.job_id for job in api.unfinished()] == ["a"]
    (begun,) = api.begun_jobs([tmp_path / "other.mkv", source])
    assert (begun.job_id, begun.settings, begun.chosen_output) == ("a", FAST, None)
    assert 0 < begun.frames_done < begun.frames_total
    go_on_to_the_end()
    assert JobStore(paths.jobs_folder()).ids() == []


def test_jobs_in_a_folder_that_was_chosen_before_go_on_and_it_is_forgotten_after_them(
    source, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", "")
    first, second = tmp_path / "first disk", tmp_path / "second disk"
    paths.choose_jobs_folder(str(first))
    interrupted(source)
    paths.choose_jobs_folder(str(second))
    assert [job.job_id for job in api.unfinished()] == ["a"]
    assert api.job_folders() == (second, paths.own_jobs_folder(), first)
    go_on_to_the_end()
    assert not list(first.glob("*")), "nothing of it is left"
    assert api.job_folders() == (second, paths.own_jobs_folder())


def test_a_drive_with_jobs_that_is_away_keeps_its_place(source, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", "")
    first, away = tmp_path / "first disk", tmp_path / "away"
    paths.choose_jobs_folder(str(first))
    interrupted(source)
    paths.choose_jobs_folder("")
    first.rename(away)
    assert api.unfinished() == ()
    away.rename(first)
    assert [job.job_id for job in api.unfinished()] == ["a"]


def test_a_result_is_known_by_what_it_holds_whatever_its_name(source, tmp_path):
    heard = Listener()
    engine = api.Engine(heard, jobs_folder=tmp_path / "jobs")
    engine.start()
    engine.send(c.StartQueue())
    engine.send(c.AddJob(job_id="a", source=source, settings=FAST))
    ended = heard.finished_job()
    assert engine.close(timeout_s=60)
    copy = tmp_path / "another name.mkv"
    copy.write_bytes(ended.report.output.read_bytes())
    assert content_mark(copy) in api.made_results()
    assert content_mark(source) not in api.made_results()


def test_the_command_line_finds_the_jobs_of_the_folder_in_the_settings_file(
    source, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", "")
    paths.choose_jobs_folder(str(tmp_path / "large disk"))
    interrupted(source)
    (paths.data_folder() / "job_folders.json").unlink()  # of a program on another machine
    paths.choose_jobs_folder("")
    assert api.unfinished() == ()
    toml = f"[engine]\njob_folder = '{tmp_path / 'large disk'}'\n"
    paths.data_folder().mkdir(parents=True, exist_ok=True)
    (paths.data_folder() / "settings.toml").write_text(toml, encoding="utf-8")
    assert main(["resume"]) == 0
    assert "film.mkv" in "".join(capsys.readouterr())


def test_the_folder_of_jobs_can_be_set_for_one_command(source, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", "")
    folder = tmp_path / "large disk"
    changes = [f"--set={one}" for one in ("model=none", "codec=ffv1", f"job_folder={folder}")]
    assert main(["upscale", str(source), *changes]) == 0
    assert folder.is_dir()
    assert not paths.own_jobs_folder().exists()
