import os
import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import psutil
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import errors
from engine.files.formats.gguf_file import FORMATS, PREFIX, GgufFile
from engine.ops.kernels.block_formats import BLOCKS

HALF = np.arange(12, dtype=np.float16).reshape(3, 4)
FLOAT = np.linspace(-1, 1, 7, dtype=np.float32)


def blocks(kind: str, rows: int, per_row: int, seed: int = 3) -> np.ndarray:
    size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (rows, per_row * size), dtype=np.uint8)


def write(path: Path, prefix: str = "", **fields: Any) -> Path:
    writer = gguf.GGUFWriter(path, "seedvr2")
    writer.add_array("notes", ["a", "b"])
    writer.add_array("many", list(range(100)))
    writer.add_float32("number", 1.5)
    writer.add_bool("yes", True)
    for name, value in fields.items():
        writer.add_array(name.replace("__", "."), value)
    writer.add_tensor(prefix + "half", HALF)
    writer.add_tensor(prefix + "float", FLOAT)
    for kind in ("Q4_K", "Q6_K", "Q8_0"):
        raw = blocks(kind, 5, 2)
        writer.add_tensor(prefix + kind, raw, raw_dtype=GGMLQuantizationType[kind])
    brain = torch.tensor([[1.5, -3.0]]).bfloat16().view(torch.uint8).numpy()
    writer.add_tensor(prefix + "brain", brain, raw_dtype=GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "model.gguf")


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tensor(name: str, sides: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    parts = [text(name), struct.pack(f"<I{len(sides)}QIQ", len(sides), *sides, kind, offset)]
    return b"".join(parts)


def head(*tensors: bytes, pairs: tuple[bytes, ...] = (), count: int | None = None) -> bytes:
    number = len(tensors) if count is None else count
    start = b"GGUF" + struct.pack("<IQQ", 3, number, len(pairs))
    content = start + b"".join(pairs) + b"".join(tensors)
    return content + b"\0" * (-len(content) % 32)


def opened(folder: Path, content: bytes) -> GgufFile:
    path = folder / "made.gguf"
    path.write_bytes(content)
    return GgufFile(path)


def test_every_tensor_is_what_the_gguf_package_reads(path: Path) -> None:
    theirs = {one.name: one for one in gguf.GGUFReader(path).tensors}
    with GgufFile(path) as file:
        assert set(file.shapes) == set(theirs)
        for name, one in theirs.items():
            assert file.shapes[name] == tuple(reversed(one.shape.tolist()))
            assert file.dtypes[name] == one.tensor_type.name
            for found in (file.tensor(name), file.raw(name)):
                assert found.contiguous().view(torch.uint8).numpy().tobytes() == one.data.tobytes()


def test_values_have_their_format_and_blocks_their_rows(path: Path) -> None:
    with GgufFile(path) as file:
        half = file.raw("half")
        assert torch.equal(file.tensor("half"), half)
        assert file.tensor("brain").tolist() == [[1.5, -3.0]]
        assert file.raw("brain").dtype == torch.bfloat16
        assert file.tensor("float", dtype=torch.float64).dtype == torch.float64
        assert file.raw("Q4_K").shape == (5, 2 * 144)
        assert file.shapes["Q4_K"] == (5, 512)
        assert file.metadata["general.architecture"] == "seedvr2"
        assert (file.metadata["number"], file.metadata["yes"]) == ("1.5", "True")
        assert file.metadata["notes"] == "('a', 'b')"
        with pytest.raises(ValueError, match="blocks of Q8_0"):
            file.tensor("Q8_0", dtype=torch.float32)
    assert torch.equal(half, torch.from_numpy(HALF)), "a raw tensor outlives the file"


def test_the_shape_of_the_model_comes_from_the_metadata(tmp_path: Path) -> None:
    for named in (PREFIX, ""):
        shapes = {
            f"comfy.gguf.orig_shape.{named}Q4_K": [10, 4, 64],
            f"comfy.gguf.orig_shape.{named}half": [6, 2],
        }
        with GgufFile(write(tmp_path / "a.gguf", PREFIX, **shapes)) as file:
            assert set(file.shapes) == {"half", "float", "Q4_K", "Q6_K", "Q8_0", "brain"}
            assert file.shapes["Q4_K"] == (10, 4, 64)
            assert file.raw("Q4_K").shape == (5, 2 * 144)
            assert torch.equal(file.tensor("half"), torch.from_numpy(HALF).reshape(6, 2))
    with pytest.raises(errors.WeightsDamaged):  # another number of values
        GgufFile(write(tmp_path / "a.gguf", **{"comfy.gguf.orig_shape.half": [6, 3]}))


def test_sizes_of_blocks_are_those_of_the_gguf_package() -> None:
    assert {*BLOCKS, "F32", "F16", "BF16"} <= {kind.name for kind in FORMATS.values()}
    assert {"Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_0"} <= set(BLOCKS)
    for number, kind in FORMATS.items():
        theirs = GGMLQuantizationType(number)
        assert (kind.name, (kind.values, kind.bytes)) == (theirs.name, GGML_QUANT_SIZES[theirs])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux tells what is open")
def test_nothing_is_kept_open_after_a_refusal_or_closing(path: Path, tmp_path: Path) -> None:
    GgufFile(path).close()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[:100])
    with pytest.raises(errors.WeightsTruncated):
        GgufFile(cut)
    found = {link.resolve() for link in Path("/proc/self/fd").iterdir()}
    assert not found & {path, cut}


def test_a_file_cut_anywhere_is_refused(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    last = len(whole) - 32  # up to 31 bytes of padding may follow the last tensor
    for size in [*range(0, 1500, 7), *range(1500, last, 997), last]:
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises((errors.WeightsTruncated, errors.NotGguf)):
            GgufFile(tmp_path / "cut.gguf")


@settings(max_examples=25, deadline=None)
@given(place=st.integers(0, 1200), value=st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read_as_some_tensor(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    content = bytearray(write(folder / "a.gguf").read_bytes())
    content[place] = value
    try:
        with opened(folder, bytes(content)) as file:
            for name in file.shapes:
                file.tensor(name)
    except errors.WeightsError:
        pass


def test_other_kinds_are_named(tmp_path: Path) -> None:
    for content, words in (
        (b"PK\x03\x04 and more", "is not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1 of GGUF"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "opposite byte order"),
    ):
        with pytest.raises(errors.NotGguf, match=words) as caught:
            opened(tmp_path, content)
        assert caught.value.hint
    with pytest.raises(errors.WeightsMissing):
        GgufFile(tmp_path / "none.gguf")
    with pytest.raises(errors.WeightsUnreadable, match="is a folder"):
        GgufFile(tmp_path)


def test_headers_that_contradict_themselves_are_damaged(tmp_path: Path) -> None:
    for content in (
        head(tensor("a", (8,)), tensor("a", (8,), offset=32)) + b"\0" * 64,
        head(tensor("a", (8,)), tensor(PREFIX + "a", (8,), offset=32)) + b"\0" * 64,
        head(tensor("a", (8,)), tensor("b", (8,), offset=4)) + b"\0" * 64,
        head(tensor("", (8,))) + b"\0" * 32,
        head(tensor("a", (8, 1, 1, 1, 1, 1))) + b"\0" * 32,
        head(tensor("a", (100,), kind=12)) + b"\0" * 144,
        head(tensor("a", (0,))) + b"\0" * 32,
        head(pairs=(text("x") + struct.pack("<I", 99),)),
        head(pairs=(text("x") + struct.pack("<IIQ", 9, 9, 1),)),
        head(pairs=(text("general.alignment") + struct.pack("<II", 4, 0),)),
        head(pairs=(text("general.alignment") + struct.pack("<I", 8) + text("32"),)),
        head(struct.pack("<Q", 1) + b"\xff" + struct.pack("<IQIQ", 1, 8, 0, 0)) + b"\0" * 32,
    ):
        with pytest.raises(errors.WeightsDamaged):
            opened(tmp_path, content)


def test_sizes_beyond_the_file_are_a_cut_file_and_take_no_memory(tmp_path: Path) -> None:
    for content in (
        head(tensor("a", (2**60,))),
        head(tensor("a", (8,), offset=2**60)),
        head(count=2**60),
        head(struct.pack("<Q", 2**60)),
        head(pairs=(text("x") + struct.pack("<IIQ", 9, 0, 2**60),)),
        head(pairs=(text("x") + struct.pack("<IIQ", 9, 8, 2**60),)),
        head(tensor("a", (8,))) + b"\0" * 31,
    ):
        with pytest.raises(errors.WeightsTruncated):
            opened(tmp_path, content)
    content = head(tensor("a", (8,))) + struct.pack("<8f", *range(8))
    with opened(tmp_path, content) as file:  # it may end right after its last tensor
        assert file.tensor("a").tolist() == list(range(8))


def test_a_header_that_would_take_for_ever_or_all_memory_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a"
    # lists of texts, all empty in a sparse file: too many bytes, and too many pieces
    lists = (struct.pack("<IIQ", 9, 8, count) for count in (10**8, 2**22))
    text = struct.pack("<IQ", 8, 10**9)
    for head in (*(start + texts for texts in lists), start + text):
        path.write_bytes(head)
        os.truncate(path, 2 * 10**9)
        begin = time.process_time()
        with pytest.raises(errors.WeightsDamaged):
            GgufFile(path)
        assert time.process_time() - begin < 0.5


def test_formats_we_cannot_read_are_named_with_those_we_can(tmp_path: Path) -> None:
    for kind, name in ((10, "Q2_K"), (23, "IQ4_XS"), (77, "number 77")):
        with pytest.raises(errors.WrongNumbers, match=name) as caught:
            opened(tmp_path, head(tensor("a", (256,), kind=kind)) + b"\0" * 512)
        assert "Q4_K" in caught.value.hint


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells what is resident")
def test_a_large_file_is_opened_in_no_memory(tmp_path: Path) -> None:
    rows = 2**13
    content = head(*(tensor(f"t{i}", (2**13, rows), 1, i * 2**27) for i in range(8)))
    path = tmp_path / "big.gguf"
    with path.open("wb") as made:
        made.write(content)
        made.truncate(len(content) + 8 * 2**27)  # 1 GiB
    before = psutil.Process().memory_info().rss
    with GgufFile(path) as file:
        kept = [file.raw(name) for name in file.shapes]
        assert float(kept[-1][-1, -1]) == 0
    assert psutil.Process().memory_info().rss - before < 32 * 2**20
