from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace

import pytest

from engine.models import registry


@pytest.fixture
def round_family() -> Iterator[None]:
    """RoundPlan is known: 2 frames become 1, 4 threads become 1, float16 becomes float32."""
    family = SimpleNamespace(name="round", models=())
    family.needs, family.frames_around = attrgetter("takes"), attrgetter("around")
    for name, field, old, new in (
        ("smaller", "clip_frames", 2, 1),
        ("less_on_host", "threads", 4, 1),
        ("wider", "dtype", "float16", "float32"),
    ):

        def changed(work, *_, field=field, old=old, new=new):
            return replace(work, **{field: new}) if getattr(work, field) == old else None

        setattr(family, name, changed)
    with registry.registered(family):
        yield
