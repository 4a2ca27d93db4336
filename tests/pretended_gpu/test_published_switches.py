"""The committed counts of single switches are those of the code, for one; the page has them all."""

import pytest

from engine.core.geometry import Size
from tests.pretended_gpu.published import VAE, vae_step
from tests.pretended_gpu.published_switches import PAGE, STEPS, known, names, page

pytestmark = pytest.mark.pretended_gpu


def test_the_page_is_that_of_the_counts() -> None:
    assert PAGE.read_text("utf-8") == page(known())


def test_every_switch_is_counted() -> None:
    wanted = [
        f"{group}.{name}" for group, (default, *_) in STEPS.items() for name in names(default)
    ]
    assert list(known()) == wanted


@pytest.mark.extended
def test_a_switch_that_is_off_takes_more_at_a_small_size_too() -> None:
    size = Size(128, 128)
    usual = vae_step("decode", size, VAE)
    without = vae_step("decode", size, VAE.changed("ring_buffers", False))
    assert without.gigabytes > 1.1 * usual.gigabytes
    assert without.launches > usual.launches
