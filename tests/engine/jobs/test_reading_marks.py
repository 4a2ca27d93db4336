"""A source that crashes the program is not read again at each start."""

import subprocess
import sys

import pytest

from engine.core.errors import SourceUnreadable
from engine.jobs import job_service
from engine.jobs.reading_marks import being_read, check_safe
from engine.protocol import commands as c
from engine.protocol import events as e
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import running_engine

_CRASH = """
import os, sys
from pathlib import Path
from engine.jobs.reading_marks import being_read
with being_read(Path(sys.argv[1]), sys.argv[2]):
    os._exit(139)
"""


def crash(source, way: str) -> None:
    subprocess.run([sys.executable, "-c", _CRASH, str(source), way], check=False)


@pytest.mark.parametrize("way", ["probe", "picture", "examination"])
def test_a_film_that_ended_the_program_twice_is_read_only_when_asked_for(
    tmp_path, way, monkeypatch
):
    source = make_clip(tmp_path / "film.mkv", Clip(frames=5))
    crash(source, way)
    check_safe(source)
    crash(source, way)
    reads: list[object] = []
    probe = job_service.probe_source
    monkeypatch.setattr(job_service, "probe_source", lambda *a: reads.append(a) or probe(*a))
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AddJob(job_id="a", source=source, is_automatic=True))
        error = heard.wait(e.JobRejected).error
        assert (error.code, error.case) == ("source-unreadable", "ended-program")
        assert not reads
        engine.send(c.AddJob(job_id="a", source=source))
        heard.wait(e.JobQueued)


def test_a_film_that_can_be_read_is_safe_again(tmp_path):
    source = tmp_path / "film.mkv"
    for _ in range(2):
        crash(source, "probe")
    with pytest.raises(SourceUnreadable):
        check_safe(source)
    with being_read(source, "probe"):
        pass
    check_safe(source)
