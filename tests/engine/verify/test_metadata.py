"""Entries of metadata: kept from container to container, and missed where one is lost."""

from itertools import product
from pathlib import Path

import pytest

from engine.verify.verify import verify
from tests.helpers.clips import make_clip
from tests.helpers.results import make_identity

ENTRIES = {
    **{"title": "T", "date": "2020-01-02", "custom key": "x", "COMMENT": "up", "track": "3/4"},
    **{"location": "+48.1+011.5/", "creation_time": "2020-05-06T07:08:09.5Z", "rating": "5"},
}
CONTAINERS = ("mkv", "mp4", "mov")


@pytest.mark.parametrize(("old", "new"), list(product(CONTAINERS, CONTAINERS)))
def test_all_entries_are_kept(old: str, new: str, tmp_path: Path) -> None:
    source = make_clip(tmp_path / f"source.{old}", frames=3, metadata=ENTRIES)
    result = tmp_path / f"result.{new}"
    make_identity(source, result)
    report = verify(source, result)
    assert report.passed, report.problems


@pytest.mark.parametrize("key", ["creation_time", "location", "custom key"])
def test_an_entry_that_is_lost_is_missed(key: str, tmp_path: Path) -> None:
    source = make_clip(tmp_path / "source.mkv", frames=3, metadata=ENTRIES)
    without = {name: value for name, value in ENTRIES.items() if name != key}
    for suffix in ("mkv", "mp4"):
        result = make_clip(tmp_path / f"result.{suffix}", frames=3, metadata=without)
        (check,) = (one for one in verify(source, result).checks if one.code == "metadata")
        is_optional = suffix == "mp4" and key == "custom key"
        assert check.passed == is_optional
        assert key.replace(" ", "_") in str(check.message)
