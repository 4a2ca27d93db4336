"""Which golden files there are, and who checks each: the table that grows with the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.golden import (
    cases_dit,
    cases_gguf,
    cases_pipeline,
    cases_sampler,
    cases_vae,
    cases_wan,
    cases_wan_facts,
    cases_wan_units,
)
from tests.golden.cases_colour import check_colour
from tests.golden.cases_prepare import check_blend, check_padding, check_resize
from tests.golden.outcome import Outcome

Check = Callable[[Path], Iterator[Outcome]]

# The first pattern that a file's name has decides.
CHECKS: tuple[tuple[str, Check], ...] = (
    ("manifest_vae*.json", cases_vae.check_manifest),
    ("vae*_weights.safetensors", cases_vae.check_weights),
    ("vae*.safetensors", cases_vae.check_cases),
    ("manifest_dit*.json", cases_dit.check_manifest),
    ("dit*_weights.safetensors", cases_dit.check_weights),
    ("dit*_intermediates.safetensors", cases_dit.check_blocks),
    ("dit*.safetensors", cases_dit.check_cases),
    ("window_partitions.json", cases_dit.check_windows),
    ("embeddings.safetensors", cases_dit.check_embeddings),
    ("sampler_*.safetensors", cases_sampler.check_samples),
    ("timestep_transform.json", cases_sampler.check_shift),
    ("pipeline_*.safetensors", cases_pipeline.check_pipeline),
    ("resize_pad_normalise.safetensors", check_resize),
    ("temporal_padding.json", check_padding),
    ("temporal_blend.safetensors", check_blend),
    ("color_correction.safetensors", check_colour),
    ("gguf_*.safetensors", cases_gguf.check_blocks),
    ("manifest_wan*.json", cases_wan.check_manifest),
    ("wan*_weights.safetensors", cases_wan.check_weights),
    ("wan*_trace.safetensors", cases_wan.check_traces),
    ("wan*_io*.safetensors", cases_wan.check_cases),
    ("ops.safetensors", cases_wan_units.check_units),
    ("diffusers_keymap_wan*.json", cases_wan_facts.check_keymap),
    ("latent_stats.json", cases_wan_facts.check_statistics),
    ("checkpoints.json", cases_wan_facts.check_checkpoints),
    ("cases.json", cases_wan_facts.check_facts),
    ("comfyui_*.latent", cases_wan_facts.check_latent),
    ("comfyui_latent_expected.safetensors", cases_wan_facts.check_expected_latents),
)

# Facts about the files beside them; there is nothing in them that could be wrong here.
DATA = ("README.md", "manifest.toml", "published_files.json", "reference_timing.json")


def check_of(name: str) -> Check | None:
    """Who checks a file of this name; None when nobody does."""
    return next((check for pattern, check in CHECKS if fnmatchcase(name, pattern)), None)
