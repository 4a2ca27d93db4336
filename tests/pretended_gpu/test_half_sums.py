"""The page about sums in half precision, and what it promises."""

import pytest

from tests.pretended_gpu import half_sums
from tests.pretended_gpu.half_sums import FILMS, OURS, TODAY


def test_the_page_shows_the_figures() -> None:
    page = half_sums.PAGE.read_text("utf-8")
    assert page == half_sums.page(half_sums.known()), "run python -m tests.pretended_gpu.half_sums"


@pytest.mark.parametrize("sums", OURS)
def test_promoted_sums_lose_little(sums: str) -> None:
    of_vaes = [one for one in half_sums.known() if one.sums == sums and one.of not in FILMS]
    assert len(of_vaes) == 30
    assert max(one.relative for one in of_vaes) < 10 ** (-51 / 20)
    assert max(one.of_range for one in of_vaes) < 10 ** (-68 / 20)


@pytest.mark.parametrize(("films", "sums"), [*zip(FILMS, OURS, strict=True)])
def test_promoted_sums_are_hardly_seen_in_any_film(films: str, sums: str) -> None:
    errors = {(one.sums, one.case): one.relative for one in half_sums.known() if one.of == films}
    cases = [case for kind, case in errors if kind == sums]
    assert len(cases) == 5
    assert max(errors[sums, case] / errors[TODAY, case] for case in cases) <= 1.2
