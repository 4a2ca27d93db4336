"""A few cases of every group, a minute in all; the whole is `python -m tests.trials.faults`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.extended import extended
from tests.trials.faults import page
from tests.trials.faults.group import Unavailable
from tests.trials.faults.groups import GROUPS
from tests.trials.faults.outcomes import CRASH, FFMPEG, INTERNAL, OK, Outcome
from tests.trials.faults.pool import run_cases
from tests.trials.faults.syscalls import known
from tests.trials.faults.wrong_cases import WrongCases

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="workers are forked and limited as Linux does it"
)
SAMPLE = {"media": 240, "weights": 240, "community": 12, "records": 600, "http": 210, "farm": 300}
SAMPLE |= {"wheels": 600}
JOBS = {"upscales": 8, "kills": 3, "syscalls": 10}  # half a second each


def failures(name: str, count: int, jobs: int) -> list[str]:
    """What went wrong in the first cases of a group."""
    group, cases = GROUPS[name], list(range(count))
    outcomes: dict[int, Outcome] = {}
    try:
        run_cases(group, cases, outcomes.__setitem__, jobs=jobs)
    except Unavailable as err:
        pytest.skip(str(err))
    assert sorted(outcomes) == cases
    assert any(outcome.kind == OK for outcome in outcomes.values())
    return [f"{n}: {outcomes[n].text}" for n in cases if outcomes[n].is_bad]


@pytest.mark.parametrize(
    "name", ["records", "wheels", *extended("media", "weights", "community", "http", "farm")]
)
def test_damaged_files_and_hostile_replies_are_read_or_refused(name: str) -> None:
    assert failures(name, SAMPLE[name], 2) == []


@pytest.mark.programs("cc")
@pytest.mark.extended
@pytest.mark.parametrize("name", JOBS)
def test_disturbed_jobs_end_with_the_right_result_or_can_be_resumed(name: str) -> None:
    assert failures(name, JOBS[name], 1) == []


@pytest.mark.slow
def test_jobs_of_several_machines_end_with_the_right_segments() -> None:
    assert failures("farm jobs", 7, 1) == []


@pytest.mark.parametrize(
    ("row", "kind", "code", "found"),
    [
        ("allocation in FFmpeg", CRASH, "SIGSEGV", FFMPEG),
        ("allocation in FFmpeg", CRASH, "SIGABRT", FFMPEG),
        ("allocation in FFmpeg", CRASH, "SIGKILL", CRASH),
        ("allocation in FFmpeg", INTERNAL, "", INTERNAL),
        ("write", CRASH, "SIGSEGV", CRASH),
    ],
)
def test_only_a_crash_after_an_allocation_that_ffmpeg_was_refused_is_one_of_ffmpeg(
    row: str, kind: str, code: str, found: str
) -> None:
    assert known(row, Outcome(kind, code)).kind == found


def test_the_harness_notices_each_failure_and_goes_on() -> None:
    outcomes: dict[int, Outcome] = {}
    run_cases(WrongCases, range(6), outcomes.__setitem__)
    assert [outcomes[n].kind for n in range(6)] == [*WrongCases.rows, OK]
    assert "KeyError: 'missing'" in outcomes[1].detail
    assert "Aborted" in outcomes[2].detail
    assert "time.sleep" in outcomes[3].detail or "in run" in outcomes[3].detail
    assert [outcomes[n].is_bad for n in range(5)] == [False, True, True, True, True]


def test_a_run_replaces_its_own_rows_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text(page.merge({("media", "MP4"): Counter({OK: 1500})}), "utf-8")
    text = page.merge({("kills", "kill"): Counter({OK: 2, CRASH: 1})})
    page.PAGE.write_text(text, "utf-8")
    rows = page.read()
    assert list(rows) == [("kills", "kill"), ("media", "MP4")]
    assert rows["media", "MP4"][:3] == ("1,500", "1,500", "0")
    assert rows["kills", "kill"][:6] == ("3", "2", "0", "0", "0", "1")
    page.PAGE.write_text(page.merge({("media", "MP4"): Counter({OK: 7})}), "utf-8")
    assert page.read()["media", "MP4"][0] == "7"
