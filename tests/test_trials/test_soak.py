"""Fifty jobs in a row in one program: what it holds afterwards is what it held before."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from statistics import median

import pytest

from tests.helpers.program import NEEDS_FFMPEG
from tests.trials.soak import WARM_UP, Held, grows, kinds_of_jobs, run_jobs

JOBS = 50
ALLOWED = 20 * 10**6  # bytes


@pytest.mark.slow
@NEEDS_FFMPEG
def test_fifty_jobs_leave_memory_as_it_was(tmp_path: Path) -> None:
    jobs = kinds_of_jobs(tmp_path)
    found = list(islice(run_jobs(tmp_path, jobs), JOBS))
    rss = [each.rss for each in found[WARM_UP - 1 :]]
    assert max(abs(each - median(rss)) for each in rss) <= ALLOWED
    assert not grows(found, len(jobs))


@pytest.mark.parametrize("what", ["rss", "tensors", "handles", "threads"])
def test_what_grows_is_seen(what: str) -> None:
    flat = dict.fromkeys(("rss", "tensors", "handles", "threads"), 10)
    assert not grows([Held(**flat)] * 40, 4)
    step = 10**6 if what == "rss" else 1
    found = [Held(**flat | {what: 10 + step * job}) for job in range(40)]
    assert grows(found, 4)
