"""The transformer of SwiftVR: windows, fast equals plain, weights streamed or narrow, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core import errors
from engine.models.swiftvr.dit.config import reaches, windows
from engine.models.swiftvr.dit.fast import FastSwiftDit, window_calls
from engine.models.swiftvr.files import CONFIG
from engine.models.swiftvr.load import (
    AnySwiftDit,
    SwiftOptions,
    load_prompt,
    load_swift_dit,
)
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import PROMPT, TINY_DIT, write_dit, write_reae
from tests.helpers.tensors import relative_rms

EXACT = 1e-12


def latent(times: int, height: int, width: int) -> Tensor:
    return random_frames(1, TINY_DIT.channels, times, height, width)


def load(path: Path, *, dtype: torch.dtype = torch.float64, **about: Any) -> AnySwiftDit:
    about = {"options": SwiftOptions(attention="sdpa"), **about}  # no backend is measured
    return load_swift_dit(path, path.parent / PROMPT, dtype=dtype, **about)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@given(length=st.integers(1, 300), window=st.integers(1, 40), shifted=st.booleans())
def test_windows_along_an_axis_answer_each_token_once(
    length: int, window: int, shifted: bool
) -> None:
    found = reaches(length, window, shifted)
    assert [token for one in found for token in range(one.first, one.stop)] == list(range(length))
    for one in found:
        assert 0 <= one.start <= one.first < one.stop <= one.end <= length
        assert one.end - one.start == min(window, length)


def test_calls_have_windows_that_answer_as_many_tokens() -> None:
    for grid in ((2, 5, 7), (1, 1, 1), (3, 9, 4)):
        for shifted in (False, True):
            calls = window_calls(TINY_DIT, grid, shifted, torch.device("cpu"))
            answered = torch.cat([call.queries.flatten() for call in calls])
            assert answered.sort().values.tolist() == list(range(grid[0] * grid[1] * grid[2]))
            count = sum(len(call.keys) for call in calls)
            assert count == len(windows(TINY_DIT, grid, shifted))


@pytest.mark.parametrize("rows", [4, 30])
def test_the_fast_variant_equals_the_plain_one(path: Path, rows: int) -> None:
    """A prompt of few rows is folded into the layer after its attention, one of many is not."""
    plain, fast = write_dit(path, rows=rows), load(path)
    assert isinstance(fast, FastSwiftDit)
    assert (fast.blocks[0].attn2.values is None) == (rows == 4)
    for sides in ((3, 10, 14), (1, 2, 2), (2, 4, 6)):
        given = latent(*sides)
        torch.testing.assert_close(fast(given), plain(given), rtol=0, atol=EXACT)
        torch.testing.assert_close(plain(given, 999), plain(given), rtol=0, atol=1e-9)


@pytest.mark.parametrize("resident", [0, 2])
def test_streamed_blocks_change_no_value(path: Path, resident: int) -> None:
    write_dit(path)
    given, resides = latent(2, 6, 8).float(), partial(load, path, dtype=torch.float32)
    fast = resides(options=SwiftOptions(attention="sdpa", blocks_on_device=resident, buffers=1))
    assert isinstance(fast, FastSwiftDit)
    found = [fast(given) for _ in range(2)]
    fast.release()
    for one in (*found, fast(given)):
        assert torch.equal(one, resides()(given))
    fast.close()


@pytest.mark.parametrize("streamed", [None, 0])
def test_narrow_products_are_close(path: Path, streamed: int | None) -> None:
    plain, given = write_dit(path), latent(2, 6, 8)
    options = SwiftOptions(products="int8", blocks_on_device=streamed)
    found = load(path, dtype=torch.float32, options=options)(given.float())
    assert 1e-4 < relative_rms(found, plain(given)) < 0.05


@settings(max_examples=6, deadline=None)
@given(
    times=st.integers(1, 3), rows=st.integers(1, 9), columns=st.integers(1, 9), wide=st.booleans()
)
def test_any_size_and_window(
    tmp_path_factory: pytest.TempPathFactory, times: int, rows: int, columns: int, wide: bool
) -> None:
    path = tmp_path_factory.mktemp("dit") / "model.safetensors"
    plain = write_dit(path, replace(TINY_DIT, window=(4, 5) if wide else (3, 2), layers=2))
    given = latent(times, 2 * rows, 2 * columns)
    torch.testing.assert_close(load(path)(given), plain(given), rtol=0, atol=EXACT)


def _without_prompt(path: Path) -> None:
    (path.parent / PROMPT).unlink()


def _with_prompt(path: Path, change: Callable[[Tensor], Tensor]) -> None:
    prompt = load_file(path.parent / PROMPT)
    save_file(prompt | {"prompt_emb": change(prompt["prompt_emb"])}, path.parent / PROMPT)


def _vae_for_a_prompt(path: Path) -> None:
    write_reae(path.parent / PROMPT)


WRONG: dict[str, tuple[Callable[[Path], object], type[errors.EngineError], str]] = {
    "no prompt": (_without_prompt, errors.WeightsMissing, "prompt.safetensors is missing"),
    "a wider prompt": (
        lambda path: _with_prompt(path, lambda x: x.repeat(1, 1, 2)),
        errors.WrongModel,
        "is 20 values wide, but the transformer needs 10",
    ),
    "a prompt of two": (
        lambda path: _with_prompt(path, lambda x: x.repeat(2, 1, 1)),
        errors.WrongModel,
        "is a tensor 2x9x10 of",
    ),
    "a prompt of numbers": (
        lambda path: _with_prompt(path, lambda x: x.int()),
        errors.WrongModel,
        "not a SwiftVR prompt",
    ),
    "a prompt that is not finite": (
        lambda path: _with_prompt(path, lambda x: x / 0),
        errors.WeightsDamaged,
        "NaN or infinite",
    ),
    "a VAE for a prompt": (_vae_for_a_prompt, errors.WrongModel, "is a SwiftVR VAE, not a"),
    "a configuration that is none": (
        lambda path: (path.parent / CONFIG).write_text("{"),
        errors.WeightsDamaged,
        "config.json is not a readable configuration",
    ),
    "another configuration": (
        lambda path: (path.parent / CONFIG).write_text('{"attention_head_dim": 24}'),
        errors.UnknownKeys,
        "32 channels do not come in heads of 24",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_wrong_are_refused_in_a_sentence(path: Path, case: str) -> None:
    spoil, error, words = WRONG[case]
    write_dit(path)
    spoil(path)
    for form in ("plain", "fast"):
        with pytest.raises(error, match=words) as caught:
            load(path, form=form)
        assert caught.value.hint


def test_what_is_not_stated_is_as_published(path: Path) -> None:
    write_dit(path)
    (path.parent / CONFIG).unlink()
    with pytest.raises(errors.UnknownKeys, match="32 channels do not come in heads of 128"):
        load(path)
    assert load_prompt(path.parent / PROMPT, TINY_DIT).shape == (9, 10)
