"""Small jobs of every family of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.helpers.jobs import SmallJob


@pytest.fixture(autouse=True, scope="package")
def _vaes_are_not_measured() -> Iterator[None]:
    from tests.helpers.figures import figures_of_published_vaes  # loads torch

    with figures_of_published_vaes():
        yield


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], SmallJob]:
    """A job of each kind, made when it is asked for."""
    from tests.helpers.jobs import small_job  # needs av, which a machine for GPU tests may lack

    return cache(lambda kind: small_job(kind, tmp_path_factory.mktemp(kind)))
