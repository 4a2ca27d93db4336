from collections.abc import Iterator

import pytest

from engine.models import registry
from tests.helpers.plans import RoundFamily


@pytest.fixture
def round_family() -> Iterator[None]:
    """The family of RoundPlan is known."""
    with registry.registered(RoundFamily()):
        yield
