from pathlib import Path

from tools.reports import farm


def test_the_page_is_made_of_what_was_recorded() -> None:
    assert Path(farm.PAGE).read_text(encoding="utf-8") == farm.page()
