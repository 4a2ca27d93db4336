"""The page about sums in half precision, and what it promises."""

from tests.pretended_gpu import half_sums


def test_the_page_shows_the_figures() -> None:
    page = half_sums.PAGE.read_text("utf-8")
    assert page == half_sums.page(half_sums.known()), "run python -m tests.pretended_gpu.half_sums"


def test_promoted_sums_lose_little() -> None:
    promoted = [one for one in half_sums.known() if one.sums == "kernel, every 128"]
    of_vaes = [one for one in promoted if not one.of.startswith("films")]
    assert len(of_vaes) == 30
    assert max(one.relative for one in of_vaes) < 10 ** (-51 / 20)
    assert max(one.of_range for one in of_vaes) < 10 ** (-68 / 20)
