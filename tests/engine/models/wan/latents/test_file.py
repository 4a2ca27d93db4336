from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from engine.core.errors import (
    SourceMissing,
    SourceUnreadable,
    TruncatedMedia,
    UnreadableMedia,
    UnsupportedMedia,
)
from engine.core.geometry import Size
from engine.models.latents import LatentFilm
from engine.models.wan.latents.file import LatentFile, LatentWriter, examined, metadata_of
from tests.helpers.wan import a_latent, write_latent

WAN = Path(__file__).parents[4] / "golden" / "wan"


def read(path: Path) -> torch.Tensor:
    with LatentFile(path) as file:
        return file.latents(0, file.header.length)


def test_what_a_file_holds(tmp_path: Path) -> None:
    for channels, model, size, rate in (
        (16, "wan21-vae", Size(40, 24), 16),
        (48, "wan22-vae", Size(80, 48), 24),
    ):
        latent = write_latent(tmp_path / "a.latent", a_latent(channels))
        with LatentFile(tmp_path / "a.latent") as file:
            assert (file.header.model, file.header.length) == (model, 3)
            assert file.header.film == LatentFilm(size=size, frames=9, rate=Fraction(rate))
            assert torch.equal(file.latents(1, 3), latent[0, :, 1:3])
            assert torch.equal(torch.cat(list(file.pieces()), dim=1), latent[0])


def test_other_formats_of_values_and_shapes(tmp_path: Path) -> None:
    path = tmp_path / "a.latent"
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        latent = write_latent(path, a_latent().to(dtype))
        assert torch.equal(read(path), latent[0].float())
    write_latent(path, a_latent() * 0.18215, marked=False)  # as the oldest version scaled them
    torch.testing.assert_close(read(path), a_latent()[0])
    write_latent(path, a_latent()[:, :, 0])  # a picture without a time axis
    assert torch.equal(read(path), a_latent()[0, :, :1])


def test_the_published_examples() -> None:
    for name in ("comfyui_wan21_00001_", "comfyui_wan22_00001_"):
        stored = load_file(WAN / f"{name}.latent")["latent_tensor"]
        assert torch.equal(read(WAN / f"{name}.latent"), stored[0])
    legacy = read(WAN / "comfyui_legacy_nomarker_00001_.latent")
    torch.testing.assert_close(legacy, read(WAN / "comfyui_wan21_00001_.latent"))


def test_latents_of_others_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.latent"
    for shape, words in (
        ((1, 4, 8, 8), "4 channels, as used by Stable Diffusion or SDXL; latents of Wan have 16"),
        ((1, 12, 2, 8, 8), "Mochi"),
        ((1, 128, 2, 8, 8), "LTX-Video"),
        ((1, 8, 2, 8, 8), "8 channels; latents of Wan have 16 (Wan 2.1), 48 (Wan 2.2 5B)"),
        ((2, 16, 1, 2, 2), "a batch of 2 videos"),
        ((16, 8, 8), "has the shape 16x8x8"),
        ((7,), "has the shape 7,"),
        ((1, 16, 1, 1, 2049), "16392x8 pixels"),
    ):
        write_latent(path, torch.zeros(shape))
        with pytest.raises(UnsupportedMedia) as caught:
            LatentFile(path)
        assert words in caught.value.message
        assert caught.value.hint
    for bad in (torch.nan, torch.inf):
        latent = a_latent()
        latent[0, 7, 2, 1, 1] = bad
        write_latent(path, latent)
        with pytest.raises(UnreadableMedia, match="NaN"):
            examined(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.latent"
    pickled = b"\x80\x02}q\x00."  # which must not be unpickled
    for content in (b"", pickled, b"GGUF" + bytes(40), b"hello, this is no file of that kind"):
        path.write_bytes(content)
        with pytest.raises(UnreadableMedia) as caught:
            LatentFile(path)
        assert "a.latent" in caught.value.message
        assert "model" not in caught.value.hint


def test_damaged_files_say_how(tmp_path: Path) -> None:
    path = tmp_path / "a.latent"
    write_latent(path)
    whole = path.read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 60):
        path.write_bytes(whole[:length])
        with pytest.raises(TruncatedMedia):
            LatentFile(path)
    for tensors, error, words in (
        ({"noise_mask": a_latent()}, UnreadableMedia, "no latent"),
        ({"latent_tensor": a_latent().int()}, UnsupportedMedia, "I32"),
        ({"latent_tensor": torch.empty(1, 16, 0, 4, 4)}, UnreadableMedia, "empty"),
    ):
        save_file(tensors, path)
        with pytest.raises(error, match=words):
            LatentFile(path)
    for there, error in ((tmp_path / "none.latent", SourceMissing), (tmp_path, SourceUnreadable)):
        with pytest.raises(error):
            LatentFile(there)


def test_a_file_is_looked_at_again_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.latent"
    write_latent(path)
    first = examined(path)
    assert examined(path) is first
    write_latent(path, a_latent(48, 2))
    assert examined(path)[0].channels == 48


@settings(max_examples=15, deadline=None)
@given(
    parts=st.lists(st.integers(1, 3), min_size=1, max_size=4), channels=st.sampled_from((16, 48))
)
def test_what_is_written_piece_by_piece_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, parts: list[int], channels: int
) -> None:
    path = tmp_path_factory.mktemp("latents") / "a.latent"
    latent = a_latent(channels, sum(parts))[0]
    size = Size(40 * channels // 16 - 3, 24 * channels // 16)
    film = LatentFilm(size=size, frames=4 * sum(parts) - 3, rate=Fraction(24000, 1001))
    writer = LatentWriter(path, channels, Size(5, 3))
    for piece in latent.split(parts, dim=1):
        writer.add(piece)
    assert writer.close(metadata_of(film)) == path.stat().st_size
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == metadata_of(film)
    assert torch.equal(load_file(path)["latent_tensor"][0], latent), "as any reader finds it"
    assert load_file(path)["latent_format_version_0"].shape == (0,)
    assert torch.equal(read(path), latent)
    assert list(path.parent.iterdir()) == [path]
    with LatentFile(path) as file:
        found = file.header.film
    assert found.frames == film.frames
    assert (found == film) == (channels == 16), "a size that cannot be is not believed"


def test_metadata_of_others_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.latent"
    for size, frames, rate in (
        ("40", "9", "24"),
        ("40x24", "nine", "24"),
        ("40x24", "9", "1/0"),
        ("41x24", "9", "24"),
        ("40x16", "9", "24"),
        ("40x24", "10", "24"),
        ("40x24", "5", "24"),
        ("40x24", "9", "-1"),
        ("40x24", "9", "5000"),
    ):
        note = {"upreel.size": size, "upreel.frames": frames, "upreel.frame_rate": rate}
        save_file({"latent_tensor": a_latent()}, path, note)
        with LatentFile(path) as file:
            assert file.header.film == LatentFilm(size=Size(40, 24), frames=9, rate=Fraction(16))


def test_an_unfinished_file_leaves_nothing(tmp_path: Path) -> None:
    writer = LatentWriter(tmp_path / "a.latent", 16, Size(5, 3))
    writer.add(a_latent()[0])
    with pytest.raises(ValueError, match="instead of"):
        writer.add(a_latent(16, 1, 3, 4)[0])
    writer.discard()
    with pytest.raises(ValueError, match="needs one"):
        LatentWriter(tmp_path / "b.latent", 16, Size(5, 3)).close()
    assert not list(tmp_path.iterdir())
