import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file

from engine.core import errors
from engine.files.formats.safetensors_file import SafetensorsFile

TENSORS = {
    "half": torch.randn(3, 5).half(),
    "brain": torch.randn(2, 2, 2).bfloat16(),
    "float": torch.randn(7),
    "double": torch.randn(4, 1).double(),
    "eight": torch.randn(9).to(torch.float8_e4m3fn),
    "whole": torch.arange(5),
    "single": torch.tensor(3.5),
    "none": torch.empty(0, 4),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "a.safetensors", {"config": "{}"})
    return tmp_path / "a.safetensors"


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return path


def file_of(head: object, data: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_every_tensor_comes_back_as_it_was_and_outlives_the_file(path: Path) -> None:
    with SafetensorsFile(path) as file:
        assert file.metadata == {"config": "{}"}
        assert file.dtypes["eight"] == "F8_E4M3"
        assert file.shapes == {name: tuple(tensor.shape) for name, tensor in TENSORS.items()}
        found = {name: (file.tensor(name), file.raw(name)) for name in TENSORS}
        wide = file.tensor("half", dtype=torch.float64)
    assert torch.equal(wide, TENSORS["half"].double())
    for name, tensor in TENSORS.items():
        for one in found[name]:
            assert (one.dtype, one.shape) == (tensor.dtype, tensor.shape)
            assert torch.equal(one.float(), tensor.float())
    path.unlink()
    assert torch.equal(found["float"][0].add_(1), TENSORS["float"] + 1)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells what is mapped")
def test_no_map_is_kept_and_no_file_after_closing(path: Path) -> None:
    with SafetensorsFile(path) as file:
        kept = [file.tensor(name) for name in TENSORS]
        assert str(path) not in Path("/proc/self/maps").read_text()
    opened = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert path not in opened
    assert len(kept) == len(TENSORS)


def test_writing_to_a_tensor_does_not_reach_the_file(path: Path) -> None:
    before = path.read_bytes()
    with SafetensorsFile(path) as file:
        file.tensor("float").zero_()
        assert torch.equal(file.tensor("float"), TENSORS["float"])
    assert path.read_bytes() == before


def test_odd_headers_give_tensors_odd_offsets(tmp_path: Path) -> None:
    head = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    text = json.dumps(head)
    for padding in range(4):
        content = file_of((text + " " * padding).encode(), struct.pack("<2f", 1.5, -2))
        with SafetensorsFile(written(tmp_path, content)) as file:
            assert file.tensor("x").tolist() == [1.5, -2]


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(0, 40000), min_size=1, max_size=5))
def test_any_sizes_cross_pages(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    tensors = {f"t{i}": torch.arange(size, dtype=torch.int16) + i for i, size in enumerate(sizes)}
    path = written(tmp_path_factory.mktemp("sizes"), save(tensors))
    with SafetensorsFile(path) as file:
        for name, tensor in tensors.items():
            assert torch.equal(file.tensor(name), tensor)


def test_files_of_another_kind_are_named(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    torch.save({"x": torch.ones(2)}, tmp_path / "model.pt")
    others = {
        b"": "is empty",
        b"GGUF\x03\x00\x00\x00\x7b\x02" + bytes(6): "is a GGUF file",  # 635 tensors: "{"
        (tmp_path / "model.pt").read_bytes(): "is a zip archive or a PyTorch pickle",
        b"\x80\x02}q\x00(X\x01\x00\x00\x00": "is a pickle",
        b"<!DOCTYPE html><html>": "is a web page",
        b"version https://git-lfs.github.com/spec/v1\noid": "is a Git LFS pointer",
        b"short": "is not a safetensors file",
        bytes(64): "is not a safetensors file",
        b"\xff" * 7 + b"\x7f{" + bytes(9): "is not a safetensors file",  # a head of 2**63 bytes
    }
    for content, words in others.items():
        with pytest.raises(errors.NotSafetensors, match=words) as caught:
            SafetensorsFile(written(tmp_path, content))
        assert caught.value.hint
    held = [warning for warning in recwarn if warning.category is ResourceWarning]
    assert not held, "a refused file is not held open"


def test_a_file_that_is_missing_locked_or_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.WeightsMissing, match=r"nothing\.safetensors is missing"):
        SafetensorsFile(path.parent / "nothing.safetensors")
    with pytest.raises(errors.WeightsUnreadable, match="is a folder"):
        SafetensorsFile(path.parent)
    whole = path.read_bytes()
    for length in (9, 10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(errors.WeightsTruncated, match=rf"{length} of \d+ bytes"):
            SafetensorsFile(path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(errors.WeightsUnreadable, match=r"a\.safetensors cannot be read"):
        SafetensorsFile(path)


X = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_contradictions_are_reported_as_damage(tmp_path: Path) -> None:
    for why, content in {
        "no JSON": file_of(b"{'x': 1}"),
        "no text": file_of(b"{\xff\xfe}"),
        "bytes after the last tensor": file_of({"x": X}, bytes(9)),
        "a hole": file_of({"x": X | {"data_offsets": [4, 12]}}, bytes(12)),
        "overlap": file_of({"x": X, "y": X}, bytes(8)),
        "size and shape differ": file_of({"x": X | {"shape": [3]}}, bytes(8)),
        "negative": file_of({"x": X | {"shape": [-2]}}, bytes(8)),
        "backwards": file_of({"x": X | {"data_offsets": [8, 0]}}, bytes(8)),
        "a broken side": file_of({"x": X | {"shape": [2.0]}}, bytes(8)),
        "no places": file_of({"x": {"dtype": "F32", "shape": [2]}}, bytes(8)),
        "no description": file_of({"x": 3}),
        "metadata is no table": file_of({"__metadata__": [1]}),
        "deep": file_of(b'{"x": ' + b"[" * 10**6),
        "millions of values": file_of(b'{"x": [' + b"1," * 4_000_000 + b"1]}"),
        "a product of a million digits": file_of({"x": X | {"shape": [2**63] * 50_000}}, bytes(8)),
        "a number that is none": file_of(b'{"x": NaN}'),
    }.items():
        with pytest.raises(errors.WeightsDamaged, match="damaged"):
            SafetensorsFile(written(tmp_path, content))
            pytest.fail(why)


@settings(max_examples=25, deadline=None)
@given(place=st.integers(0, 250), value=st.integers(0, 255))
def test_a_changed_byte_in_the_header_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    content = bytearray(save({"x": torch.ones(3), "y": torch.ones(2).half()}))
    content[min(place, len(content) - 1)] = value
    path = written(tmp_path_factory.mktemp("changed"), bytes(content))
    try:
        with SafetensorsFile(path) as file:
            for name in file.shapes:
                file.tensor(name)
    except errors.WeightsError as error:
        assert error.hint  # noqa: PT017  # most changes do no harm


def test_a_file_that_is_written_to_while_it_is_read_is_not_taken(path: Path) -> None:
    def loaded() -> torch.Tensor:
        with SafetensorsFile(path) as file:
            with path.open("r+b") as other:
                other.seek(-4, 2)
                other.write(bytes(4))
            os.utime(path, ns=(1, 1))  # within one tick of the clock times do not differ
            return file.tensor("single")

    with pytest.raises(errors.WeightsUnreadable, match="was changed"):
        loaded()


def test_a_file_that_shrinks_or_has_a_format_that_torch_does_not_have(path: Path) -> None:
    file = SafetensorsFile(path)
    os.truncate(path, 16)
    with pytest.raises(errors.WeightsTruncated, match="became shorter"):
        file.tensor("float")
    with pytest.raises(errors.WeightsUnreadable, match="was changed"):
        file.close()
    file.close()
    head = {"x": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}
    path.write_bytes(file_of(head, b"\x00"))
    with SafetensorsFile(path) as file, pytest.raises(errors.WrongNumbers, match="format F4"):
        file.tensor("x")


def test_looking_at_a_file_does_not_load_torch(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from engine.files.formats.safetensors_file import SafetensorsFile;"
        f"print(len(SafetensorsFile(Path({str(path)!r})).shapes), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(TENSORS)), "False"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux tells what is open")
def test_many_raw_tensors_take_one_descriptor(tmp_path: Path) -> None:
    save_file({f"t{i}": torch.full((3,), i) for i in range(200)}, tmp_path / "many.safetensors")
    with SafetensorsFile(tmp_path / "many.safetensors") as file:
        before = len(list(Path("/proc/self/fd").iterdir()))
        kept = [file.raw(f"t{i}") for i in range(200)]
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    assert int(torch.stack(kept).sum()) == 3 * sum(range(200))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what is resident")
def test_opening_and_mapping_reads_nothing(tmp_path: Path) -> None:
    big = 512 * 2**20
    head = json.dumps({"x": {"dtype": "U8", "shape": [big], "data_offsets": [0, big]}}).encode()
    path = tmp_path / "big.safetensors"
    with path.open("wb") as made:
        made.write(struct.pack("<Q", len(head)) + head)
        made.truncate(8 + len(head) + big)
    before = psutil.Process().memory_info().rss
    with SafetensorsFile(path) as file:
        found = file.raw("x")
        assert int(found[-1]) == 0
    assert found.shape == (big,)
    assert psutil.Process().memory_info().rss - before < 32 * 2**20
