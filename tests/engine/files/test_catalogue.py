import json
import math
import re
from itertools import product
from pathlib import Path

import pytest

from engine.core.errors import UnknownWeights, WeightsError
from engine.files.catalogue import (
    best_present,
    best_vae,
    catalogue,
    files_of,
    load,
    precisions_of,
    suited_precision,
)
from engine.files.formats.keymap import KeyMap
from engine.files.formats.safetensors_file import ITEM_BYTES
from engine.protocol.model_file_state import LIBRARIES, PublishedState, is_library
from engine.settings.schema import SEEDVR2, JobSettings, describe

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
PUBLISHED = GOLDEN / "seedvr2" / "published_files.json"
CHECKPOINTS = GOLDEN / "wan" / "checkpoints.json"
TINY = Path(__file__).parents[2] / "golden" / "seedvr2"
HALF = ("emb_in.", "txt_in.", "vid_in.", "vid_out.")  # matrices that Comfy-Org leaves in fp16
EMBEDDINGS = {"positive": 58, "negative": 64}
ORDER = ("F32", "BF16", "F16", "F8_E4M3", "I8", "U8")  # of tensors in a file
WAN = {"wan21-vae": "wan21", "wan22-vae": "wan22", "wan-2x": "wan21_upscale2x"}


def test_every_file_can_be_known_and_found() -> None:
    files = list(catalogue())
    assert len({file.id for file in files}) == len(files)
    names = {file.filename.casefold() for file in files}
    assert len(names) == len(files), "Windows takes names in other capitals for the same"
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), file.id
        assert file.licence == ("MIT" if file.kind == "library" else "Apache-2.0")
        assert file.bytes or file.about_bytes, file.id
        assert all(url.startswith("https://") for url in catalogue().addresses(file))
        assert set(file.models) <= {*SEEDVR2, *WAN, "swiftvr", "community"}
    first, second = catalogue().addresses(catalogue().file("wan21-vae-16bit"))
    folder = "/Wan_2.1_ComfyUI_repackaged/resolve/main/split_files/vae/"
    assert first.endswith(folder + "wan_2.1_vae.safetensors")
    assert "/Wan_2.2_ComfyUI_Repackaged/" in second


def test_libraries_are_brought_by_the_user() -> None:
    found = [file for file in catalogue() if file.kind == "library"]
    assert tuple(file.id for file in found) == LIBRARIES
    assert all(not catalogue().addresses(file) for file in found)
    assert all(is_library(Path(file.filename)) and file.bytes for file in found)
    assert not is_library(Path("torch-2.13.0-py3-none-any.whl"))


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the golden folder is not next to the checkout")
def test_names_and_hashes_are_those_of_the_golden_list() -> None:
    golden = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    wanted = {
        (file["filename"], file["sha256"])
        for file in [*golden["files"], *golden["text_embeddings"][:1]]
    }
    mine = [file for file in catalogue() if set(SEEDVR2) & set(file.models)]
    others = {file.id for file in mine if file.repository == "Comfy-Org/SeedVR2"}
    found = {(file.filename, file.sha256) for file in mine if file.id not in others}
    assert found - wanted == {("ema_vae.pth", catalogue().file("seedvr2-vae-pth").sha256)}
    assert wanted <= found
    addresses = {url for file in catalogue() for url in catalogue().addresses(file)}
    assert {file["url"] for file in golden["files"]} <= addresses


@pytest.mark.skipif(not CHECKPOINTS.exists(), reason="no golden folder next to the checkout")
def test_files_of_wan_are_those_of_the_golden_list() -> None:
    golden = json.loads(CHECKPOINTS.read_text(encoding="utf-8"))
    for model, name in WAN.items():
        about = golden[name]
        mine = [file for file in catalogue() if model in file.models]
        for file in mine:
            published = next(one for one in about["files"] if file.filename in one["name"])
            assert file.sha256 in published["sha256"]
            assert file.repository in published["repo"] or "Wan-AI" in file.repository
            if isinstance(published["bytes"], int):
                assert file.bytes == published["bytes"]
            width = {"fp32": 4, "bf16": 2, "16-bit": 2}[file.precision]
            expected = pytest.approx(width * about["param_count"], rel=0.01)
            assert file.bytes or file.about_bytes == expected
        assert (mine[0].precision, mine[0].filename.rpartition(".")[2]) == ("fp32", "safetensors")
        assert mine[0].bytes > 0


def test_every_model_has_its_three_files() -> None:
    choices = describe(JobSettings)["precision"].choices
    for model in SEEDVR2:
        assert {"fp16", "q4"} <= set(precisions_of(model)) <= set(choices)
        for precision in precisions_of(model):
            files = [[catalogue().file(name) for name in ids] for ids in files_of(model, precision)]
            kinds = [{file.kind for file in some} for some in files]
            assert kinds == [{"dit"}, {"vae"}, {"text"}], (model, precision)
            assert not any(some[0].spare for some in files) or precision == "mxfp8"


def test_files_of_comfyui_have_the_sizes_of_their_tensors() -> None:
    """Each stated size, and those that nobody states, from the names and shapes alone."""
    found = [file for file in catalogue() if file.repository == "Comfy-Org/SeedVR2"]
    kinds = {(*file.models, file.precision) for file in found}
    assert kinds == set(product(SEEDVR2, ("fp16", "fp8", "int8", "mxfp8")))
    for file in found:
        assert (file.bytes or file.about_bytes) == comfy_bytes(file), file.id


def comfy_bytes(file: PublishedState) -> int:
    """Bytes of a file as Comfy-Org's converter writes it, with the two text embeddings."""
    manifest = f"manifest_dit_{'3b' if '3b' in file.id else '7b'}.json"
    shapes = json.loads((TINY / manifest).read_text())["state_dict"]
    formats = {"fp16": "F16", "fp8": "F8_E4M3", "int8": "I8", "mxfp8": "F8_E4M3"}
    narrow, marker = formats[file.precision], {"format": "mxfp8"}
    if file.precision == "int8":
        marker = {"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": 256}
    tensors = {f"{which}_conditioning": ("BF16", n, 5120) for which, n in EMBEDDINGS.items()}
    for name, shape in shapes.items():
        layer = name.removesuffix(".weight")
        is_matrix = layer != name and len(shape) == 2 and not name.startswith(HALF)
        if file.precision in ("fp16", "fp8"):
            tensors[name] = (narrow, *shape)
        elif not is_matrix or (narrow == "I8" and shape[1] % 256):
            tensors[name] = ("F16", *shape)
        else:
            rows, columns = shape
            blocks = ("U8", -(-rows // 128) * 128, -(-columns // 128) * 4)
            tensors[name] = (narrow, rows, columns)
            tensors[f"{layer}.weight_scale"] = ("F32", rows, 1) if narrow == "I8" else blocks
            tensors[f"{layer}.comfy_quant"] = ("U8", len(json.dumps(marker)))
    head, end = {}, 0
    for name in sorted(tensors, key=lambda name: (ORDER.index(tensors[name][0]), name)):
        kind, *shape = tensors[name]
        begin, end = end, end + ITEM_BYTES[kind] * math.prod(shape)
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(head, separators=(",", ":"))
    return 8 + -(-len(text) // 8) * 8 + end


def test_a_precision_that_was_not_published_is_refused_with_those_that_were() -> None:
    with pytest.raises(UnknownWeights, match="q8") as caught:
        files_of("seedvr2-7b", "q8")
    assert "fp16, int8, mxfp8, fp8, q4" in caught.value.hint
    with pytest.raises(UnknownWeights):
        files_of("seedvr2-9b", "fp16")


def here(file_id: str, **changes: object) -> PublishedState:
    values = {"id": file_id, "title": "", "filename": file_id, "models": ("m",), "state": "here"}
    return PublishedState(**({"repository": "a/b"} | values | changes))


def test_the_most_exact_file_that_is_here_is_taken() -> None:
    vae = here("vae", kind="vae", precision="fp16")
    text = here("text", kind="text", precision="bf16", state="unverified")
    q4, q8 = (here(name, kind="dit", precision=name) for name in ("q4", "q8"))
    gone = here("fp16", kind="dit", precision="fp16", state="damaged")
    own = here("own", kind="dit", precision="fp16", repository="")
    assert best_present("m", [q4, vae, own, gone, q8, text]) == (q8, vae, text)
    assert best_present("m", [own, vae, text]) == (own, vae, text)
    assert best_present("m", [q8, vae]) is None
    assert best_present("other", [q8, vae, text]) is None


def test_of_equal_files_one_that_is_here_is_used() -> None:
    first, second, own = (
        here("first", kind="vae", precision="fp32", state="missing"),
        here("second", kind="vae", precision="bf16", state="unverified"),
        here("own", kind="vae", precision="fp32", repository=""),
    )
    assert best_vae("m", [first, second, own]) == second
    assert best_vae("m", [first, own]) == own
    assert best_vae("m", [first]) == first
    with pytest.raises(UnknownWeights):
        best_vae("n", [first])


def test_a_damaged_catalogue_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    with pytest.raises(WeightsError, match="list of published models"):
        load(path)
    for text in ("files = 3", "not toml", '[hosts]\n[[files]]\nid = "x"'):
        path.write_text(text)
        with pytest.raises(WeightsError, match="list of published models"):
            load(path)


def test_the_first_rule_that_fits_is_applied_once() -> None:
    rules = KeyMap(((r"^model\.", ""), (r"^to_", "attn."), ("b", "c")))
    assert rules.ours("model.to_b") == "to_b"
    assert rules.ours("to_b") == "attn.b"
    assert rules.ours("bb") == "cb"
    assert rules.ours("z") == "z"


def test_two_names_that_become_one_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"model\.a and a both become a|a and model\.a both"):
        KeyMap(((r"^model\.", ""),)).published(["model.a", "a"])


def test_ignored_names_are_left_out_and_rules_may_follow_rules() -> None:
    keys = KeyMap(((r"^model\.", ""),), ignored=(r"^freqs$",))
    assert keys.published(["model.freqs", "a.freqs"]) == {"a.freqs": "a.freqs"}
    leaves = KeyMap(((r"\.norm$", ".0"),))
    keys = KeyMap(((r"^down\.", "a."), (r"^up\.", "b.")), then=leaves)
    expected = {"a.0": "down.norm", "b.0": "up.norm", "norm": "norm"}
    assert keys.published(["down.norm", "up.norm", "norm"]) == expected


def test_the_precision_that_suits_a_gpu() -> None:
    """fp16 of 3B from 12 GiB on, of 7B from 24 GiB on, of which an eighth may be missing."""
    eighth = 2**30 // 8
    large = ((168, "fp16", "int8"), (112, "int8", "q4"))
    for model, steps in (("3b", ((84, "fp16", "q8"),)), ("7b", large), ("7b-sharp", large)):
        for least, above, below in steps:
            sizes = (least * eighth - 1, least * eighth)
            assert [suited_precision(f"seedvr2-{model}", size) for size in sizes] == [below, above]
        assert suited_precision(f"seedvr2-{model}", 32 * 2**30) == "fp16"
        assert suited_precision(f"seedvr2-{model}", 0) == steps[-1][2]
    assert suited_precision("lite", 32 * 2**30) == ""
