"""What a job says when it goes on with a smaller plan is said in Chinese too, to the last word."""

from __future__ import annotations

import re

import pytest
from PySide6.QtWidgets import QApplication

from app.engine_messages import said
from app.i18n import Languages
from engine.planner.downgrade import holder_words, no_smaller
from engine.protocol.gpu_reading import GpuProcess
from tests.helpers.plans import a_plan

CHANGES = [
    "clips of 9 instead of 21 frames",
    "2 instead of 4 frames at a time",
    "tiles of 320x180 instead of 640x360",
    "decoding in tiles of 512x512 instead of whole frames",
    "encoding in tiles of 512x512 instead of 1024x1024",
    "32 blocks of the model kept loaded instead of all of it",
    "24 instead of 32 blocks of the model kept loaded",
    "numbers of float32 instead of bfloat16",
    "tiles that begin early instead of keeping their state",
    "the states of whole frames waiting in main memory",
    "fewer copies of the model in main memory",
    "smaller pieces",
]
ENGLISH = re.compile(r"\b(?!GB|MB|Windows|float32|bfloat16)[A-Za-z]{3,}\b")


@pytest.fixture
def chinese(qapp: QApplication):
    languages = Languages(qapp)
    languages.use("zh_CN")
    yield
    languages.use("en")


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_plan_are_said_in_chinese(chinese: None, change: str) -> None:
    for sentence in (
        f"Memory ran out: the job goes on with {change}.",
        f"Windows moved 1.5 GB of the card's memory to main memory, which is slow: the job goes "
        f"on with {change}.",
    ):
        assert not ENGLISH.findall(said(sentence)), said(sentence)


def test_the_floor_is_said_in_chinese(chinese: None) -> None:
    holders = (GpuProcess(name="a.x", mb=2048),)
    error = no_smaller(a_plan(), 5 * 2**30)
    for sentence in (error.message, error.hint, holder_words(holders)):
        assert not ENGLISH.findall(said(sentence)), said(sentence)
    who = f"{holder_words(holders)} {error.hint}"
    assert not ENGLISH.findall(said(who)), said(who)
