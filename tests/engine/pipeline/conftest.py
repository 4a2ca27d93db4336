"""Small jobs of every family of models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.helpers.jobs import SmallJob, small_job


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], SmallJob]:
    """A job of each kind, made when it is asked for."""
    return cache(lambda kind: small_job(kind, tmp_path_factory.mktemp(kind)))
