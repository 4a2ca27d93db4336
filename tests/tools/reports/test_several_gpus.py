"""The page of what several GPUs are predicted to gain."""

from pathlib import Path

import pytest

from tools.reports.several_gpus import TEAMS, page

DOCS = Path(__file__).parents[3] / "docs" / "several-gpus.md"


@pytest.mark.extended
def test_the_page_in_docs_is_that_of_this_program() -> None:
    """Of two GPUs; all of it in the slow test."""
    some = [TEAMS[0], ("RTX 4090", "RTX 3060")]
    assert set(page(some)) <= set(DOCS.read_text("utf-8").splitlines())


@pytest.mark.slow
def test_the_whole_page_in_docs_is_that_of_this_program() -> None:
    assert DOCS.read_text("utf-8") == "\n".join(page()) + "\n"
