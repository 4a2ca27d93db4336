"""Files of SwiftVR: which are taken, what their headers say, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from engine.core import errors
from engine.core.geometry import Size
from engine.files.model_files import Store, named
from engine.files.transfer import Listener
from engine.jobs.model_file_service import take
from engine.models.identify import SWIFTVR_PROMPT, SWIFTVR_TRANSFORMER, SWIFTVR_VAE
from engine.models.swiftvr import files
from engine.models.swiftvr.convert import convert
from engine.models.swiftvr.family import FAMILY
from engine.models.swiftvr.load import load_swift_dit
from engine.models.swiftvr.vae.config import REAE
from engine.settings.schema import JobSettings
from tests.helpers.swiftvr import TINY_DIT, TINY_REAE, SwiftVrFiles, write_swiftvr

_SIZE = Size(64, 64)
AUTO = JobSettings(model="swiftvr")


@pytest.fixture
def tiny(tmp_path: Path) -> SwiftVrFiles:
    return write_swiftvr(tmp_path / "tiny")


def converted(tiny: SwiftVrFiles, folder: Path) -> Path:
    return convert(tiny.dit, tiny.text, folder, "converted.safetensors")


def test_with_nothing_here_they_are_those_of_the_catalogue(tmp_path: Path) -> None:
    found = files.files_of("swiftvr", AUTO, Store(tmp_path))
    assert found.text is not None
    ids = [one.published for one in (found.dit, found.vae, found.text)]
    assert ids == ["swiftvr-fp32", "swiftvr-vae", "swiftvr-prompt"]
    assert (found.dit.bytes, found.dit.is_here) == (19_999_235_584, False)


def test_a_converted_transformer_is_taken_before_the_published_one(
    tiny: SwiftVrFiles, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    place = store.target(store.catalogue.file("swiftvr-fp32").filename)
    take(tiny.vae, "copy", store, Listener())
    take(converted(tiny, tmp_path / "made"), "copy", store, Listener())
    with place.open("wb") as hole:
        hole.truncate(19_999_235_584)
    found = files.files_of("swiftvr", AUTO, store)
    assert found.dit.name == "converted.safetensors"
    assert found.text is None, "its constants include the prompt"
    assert found.vae.name == tiny.vae.name


def test_sizes_are_read_from_headers(tiny: SwiftVrFiles, tmp_path: Path) -> None:
    found = files.files_of("swiftvr", tiny.settings())
    assert found.text is not None
    plan = FAMILY.plan  # of its fields only files count here
    about = {"dit": found.dit, "vae": found.vae, "text": found.text}
    made = plan(model="swiftvr", size=_SIZE, padded=_SIZE, **about)
    config, rows, vae = files.configs(made)
    assert (config, vae) == (TINY_DIT, TINY_REAE)
    dit = load_swift_dit(tiny.dit, tiny.text)
    assert rows == len(dit.blocks[0].attn2.log_counts) == 5  # four words, and zeros
    other = replace(made, dit=named(converted(tiny, tmp_path)), text=None)
    assert files.configs(other) == (config, rows, vae)
    missing = replace(made, vae=replace(found.vae, modified_ns=0))
    assert files.configs(missing)[2] == REAE


def test_each_kind_of_file_is_known(tiny: SwiftVrFiles) -> None:
    kinds = {SWIFTVR_TRANSFORMER: "dit", SWIFTVR_VAE: "vae", SWIFTVR_PROMPT: "text"}
    for content, kind in kinds.items():
        use = FAMILY.use_of(content)
        assert use is not None
        assert (use.kind, use.models) == (kind, ("swiftvr",))
    assert FAMILY.use_of("wan21-vae") is None


def test_a_transformer_that_may_be_wan_22_is_not_imported(
    tiny: SwiftVrFiles, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(errors.WrongModel, match=r"may be a transformer of Wan 2\.2 5B"):
        take(tiny.dit, "link", store, Listener())
    made = converted(tiny, tmp_path)
    state, _ = take(made, "link", store, Listener())
    assert (state.kind, state.models, state.precision) == ("dit", ("swiftvr",), "bf16")
    tensors = load_file(made)
    del tensors["blocks.0.attn2.log_counts"]
    save_file(tensors, tmp_path / "wrong.safetensors")
    with pytest.raises(errors.WeightsError):
        take(tmp_path / "wrong.safetensors", "link", store, Listener())


def test_a_prompt_of_another_width_is_refused(tiny: SwiftVrFiles, tmp_path: Path) -> None:
    with pytest.raises(errors.WrongModel, match="10 values wide"):
        take(tiny.text, "link", Store(tmp_path / "store"), Listener())
