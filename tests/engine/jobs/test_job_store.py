import json
import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.api import unfinished
from engine.core import atomic_file, errors
from engine.core.errors import UnknownJob
from engine.core.geometry import FrameSpan
from engine.jobs.checkpoint import Checkpoint, check_unchanged, fits_segments, with_fate_of_segments
from engine.jobs.job import Job, JobQueue
from engine.jobs.job_store import JobStore
from engine.models.community.plan import CommunityPlan, NetworkCall, NetworkCost
from engine.pipeline.segments import SegmentRecord
from engine.protocol.model_file_state import NetworkFacts
from engine.settings.schema import JobSettings
from tests.helpers.memory import planned_file
from tests.helpers.plans import a_media, a_plan


@pytest.fixture
def job(tmp_path):
    source = tmp_path / "film.mkv"
    source.write_bytes(b"film")
    media = replace(a_media(), path=source)
    return Job(id="a1", media=media, settings=JobSettings(crf=20), output=None, plan=a_plan())


@pytest.fixture
def store(tmp_path):
    return JobStore(tmp_path / "jobs")


def record(number: int, size: int) -> SegmentRecord:
    return SegmentRecord(number=number, pts=(1, 2), durations=(1, 1), bytes=size, crcs=(6, 7))


def test_a_stored_job_comes_back_whole(store, job):
    store.save(job)
    stored = store.load("a1")
    assert (stored.media, stored.settings, stored.plan) == (job.media, job.settings, job.plan)
    assert store.ids() == ["a1"]
    store.remove("a1")
    assert store.ids() == []
    for name in ("", "..", "../b", "a/b"):  # never leads out of the folder
        with pytest.raises(errors.UnknownJob):
            store.load(name)


def test_damaged_records_and_those_of_another_version_are_refused(store, job):
    file = store.save(job) / "job.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "version": 0}))
    with pytest.raises(errors.CheckpointMismatch, match="another version"):
        store.load("a1")
    for text in ("", "{", "[]", '{"id": "a1"}', "[" * 9999, '{"version": 2, "id": 1e400}'):
        file.write_text(text)
        with pytest.raises(errors.CheckpointMismatch):
            store.load("a1")


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("media", "start", "1/0"),
        ("media", "start", "1e1000000000"),
        ("media", "start", []),
        ("media", "bytes", 10**400),
        ("media", "path", "film\0.mkv"),
        ("plan", "span", {"start": 2**63, "stop": 0}),
        ("plan", "span", {"start": 0, "stop": 2**64 - 1}),
        ("plan", "stages", {}),
        ("plan", "seconds", math.nan),
    ],
)
def test_one_broken_job_is_offered_for_removal_and_stops_nothing(store, job, part, name, value):
    store.save(job)
    broken = store.save(replace(job, id="b2")) / "job.json"
    record = json.loads(broken.read_text())
    record[part][name] = value
    broken.write_text(json.dumps(record))
    left = unfinished(broken.parents[1])
    assert [job.job_id for job in left] == ["a1", "b2"]
    assert [job.problem and job.problem.code for job in left] == [None, "checkpoint-mismatch"]
    assert left[1].source == broken.parent


def test_a_permanent_failure_is_forgotten_when_the_job_starts_again(store, job):
    with pytest.raises(errors.UnreadableMedia), store.failure_kept(job.id):
        raise errors.UnreadableMedia("undecodable", name="film.mkv")
    assert store.failure(job.id) is None, "it has not begun"
    store.save(job)
    with pytest.raises(errors.UnreadableMedia), store.failure_kept(job.id):
        raise errors.UnreadableMedia("undecodable", name="film.mkv")
    kept = store.failure(job.id)
    assert kept is not None
    assert (kept.code, kept.case, kept.is_permanent) == ("unreadable-media", "undecodable", True)
    with pytest.raises(errors.SourceMissing), store.failure_kept(job.id):
        raise errors.SourceMissing("since-start", name="film.mkv")
    assert store.failure(job.id) == kept
    store.save(job)
    assert store.failure(job.id) is None


def test_a_changed_or_missing_source_is_not_continued(store, job):
    store.save(job)
    stored = store.load("a1")
    check_unchanged(stored)
    job.media.path.write_bytes(b"another film")
    with pytest.raises(errors.CheckpointMismatch):
        check_unchanged(stored)
    job.media.path.unlink()
    with pytest.raises(errors.SourceMissing):
        check_unchanged(stored)


def test_another_file_of_a_first_pass_is_not_continued(store, job, tmp_path):
    file, frame = tmp_path / "1x.pth", job.plan.source_size
    file.write_bytes(b"weights")
    first = CommunityPlan(
        frame=frame,
        tile=frame,
        weights=planned_file(file),
        network=NetworkFacts(architecture="Compact", scale=1),
        call=NetworkCall(dtype="float32"),
        cost=NetworkCost(),
    )
    job.plan = replace(job.plan, first_pass=first)
    store.save(job)
    stored = store.load("a1")
    assert stored.plan.first_pass == first
    check_unchanged(stored)
    file.write_bytes(b"others")
    with pytest.raises(errors.CheckpointMismatch):
        check_unchanged(stored)


def test_other_first_passes_do_not_fit_the_segments(store, job):
    store.save(job)
    stored = store.load("a1")
    assert fits_segments(stored, job.settings, job.plan)
    other = replace(job.settings, first_model="1x.pth")
    assert not fits_segments(stored, other, job.plan)


def test_only_whole_segments_count(tmp_path):
    first = Checkpoint(tmp_path)
    for number in range(3):
        first.path(number).write_bytes(b"12345")
        first.add(record(number, 5))
    first.path(1).write_bytes(b"123")  # cut short by a crash
    again = Checkpoint(tmp_path)
    assert [r.number for r in again.records] == [0]
    assert not again.is_complete


def test_choices_are_written_before_the_first_segment_that_depends_on_them(tmp_path, monkeypatch):
    """A job may be killed between the two; a segment without new choices writes none."""
    checkpoint, written = Checkpoint(tmp_path), []
    write = atomic_file.write_json

    def noted(path, *rest, **named):
        written.append(path.name)
        write(path, *rest, **named)

    monkeypatch.setattr(atomic_file, "write_json", noted)
    for number, key in enumerate(("a", "b", "b")):
        checkpoint.choices.agree(key, "1")
        checkpoint.path(number).write_bytes(b"12345")
        checkpoint.add(record(number, 5))
        assert Checkpoint(tmp_path).choices.known == checkpoint.choices.known
    assert written == [
        *("choices.json", "segment_000000.json"),
        *("choices.json", "segment_000001.json"),
        "segment_000002.json",
    ]
    assert checkpoint.choices.known == {"a": "1", "b": "1"}


def test_complete_means_all_segments_are_there(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.path(0).write_bytes(b"12345")
    checkpoint.add(record(0, 5))
    checkpoint.complete()
    assert Checkpoint(tmp_path).is_complete
    checkpoint.path(0).unlink()
    assert not Checkpoint(tmp_path).is_complete


def test_a_job_belongs_to_one_program_until_it_is_killed(store, job):
    with store.held("b2"):
        pass
    assert store.ids() == [], "a job that was never saved leaves no files"
    folder = store.save(job)
    code = (
        "import sys, time, pathlib\n"
        "from engine.jobs.job_store import JobStore\n"
        "with JobStore(pathlib.Path(sys.argv[1])).held('a1'):\n"
        "    print('held', flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder.parent)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline().strip() == b"held"
        assert store.is_held("a1")
        with pytest.raises(errors.JobBusy):
            store.held("a1").__enter__()
        other.kill()
    assert not store.is_held("a1")


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "jobs").write_text("a file where the folder should be")
    with pytest.raises(errors.OutputUnwritable), JobStore(tmp_path / "jobs").held("a1"):
        pass


def a_job(name: str = "a") -> Job:
    return Job(id=name, media=a_media(), settings=JobSettings(), output=None, plan=a_plan())


def test_the_queue_keeps_its_order_and_finds_what_is_next():
    queue = JobQueue()
    assert queue.next_waiting() is None
    jobs = [a_job(name) for name in "abc"]
    for job in jobs:
        queue.add(job)
    queue.move(jobs[2], 0)
    assert [job.id for job in queue] == ["c", "a", "b"]
    jobs[2].take("start")
    assert queue.next_waiting() is jobs[0]
    queue.move(jobs[2], 99)
    assert [job.id for job in queue] == ["a", "b", "c"]
    queue.remove(jobs[0])
    with pytest.raises(UnknownJob):
        queue.get("a")


def test_segments_that_are_replaced_are_a_part_of_the_film_as_it_was_planned():
    stored = SimpleNamespace(plan=a_plan(span=FrameSpan(0, 200)), settings=JobSettings(crf=20))
    for frames, percent in ((0, "0"), (2, "1"), (50, "25"), (200, "100"), (240, "100")):
        now = a_plan(span=FrameSpan(0, 50))
        (notice,) = with_fate_of_segments(stored, JobSettings(crf=30), now, frames).notices
        assert (notice.case, notice.params["percent"]) == ("choices", percent)
