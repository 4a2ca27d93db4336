"""Pickles of tensors are read; those that ask for anything else are refused, and nothing runs."""

import os
import pickle
import time
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path
from random import Random

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from engine.core import errors
from engine.files.formats.gguf_file import GgufFile
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.files.formats.pickle_file import PickleFile
from engine.files.formats.safetensors_file import SafetensorsFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pth"


def test_it_keeps_the_contract_of_all_formats(path: Path) -> None:
    stored = {
        "a.weight": torch.arange(6.0).view(2, 3).half(),
        "b": torch.nn.Parameter(torch.ones(2)),
        "c": torch.ones(4, dtype=torch.int64),
        "d": torch.tensor(3.0, dtype=torch.float8_e5m2),
    }
    torch.save(OrderedDict(stored), path)
    file: WeightsFile = open_weights(path)
    assert type(file) is PickleFile
    with file:
        assert file.shapes == {"a.weight": (2, 3), "b": (2,), "c": (4,), "d": ()}
        assert file.dtypes == {"a.weight": "F16", "b": "F32", "c": "I64", "d": "F8_E5M2"}
        assert file.metadata == {}
        wide = file.tensor("a.weight", dtype=torch.float32)
        same, raw = file.tensor("a.weight"), file.raw("a.weight")
        assert not file.tensor("b").requires_grad
        assert same.data_ptr() != raw.data_ptr()
        with pytest.raises(KeyError):
            file.tensor("e")
    assert wide.tolist() == same.tolist() == [[0, 1, 2], [3, 4, 5]]
    path.unlink()  # a copy does not need the file any more
    assert same.sum() == 15


def test_a_view_of_a_larger_tensor_is_copied_alone(path: Path) -> None:
    view = torch.arange(12.0).view(3, 4).T[1:3]
    torch.save({"state_dict": {"x": view}, "epoch": 3}, path)  # a table inside a checkpoint
    with PickleFile(path) as file:
        assert file.shapes == {"x": (2, 3)}
        found = file.tensor("x")
    assert found.is_contiguous()
    assert found.tolist() == [[1, 5, 9], [2, 6, 10]]
    assert found.untyped_storage().nbytes() == 6 * 4


class Hostile:
    """What makes a folder when it is read by the usual reader of pickles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_a_hostile_pickle_runs_nothing(path: Path, tmp_path: Path) -> None:
    trace = tmp_path / "it ran"
    attack = Hostile(trace)
    inside = {"state_dict": {"x": torch.ones(1)}, "note": attack}
    for content in ({"x": attack}, inside, attack):
        torch.save(content, path)
        with pytest.raises(errors.UnsafeWeights, match="could run a program") as caught:
            open_weights(path)
        assert "safetensors" in caught.value.hint
        assert not trace.exists()
        torch.load(path, weights_only=False)  # the attack is one
        trace.rmdir()


def test_files_of_older_versions_of_torch_are_read(path: Path) -> None:
    both = torch.arange(12.0)
    content = {
        "turned": torch.arange(6.0).reshape(2, 3).t(),
        "half": torch.ones(3).half(),
        "whole": torch.tensor([7]),
        "first of a storage": both[:4],
        "rest of it": both[4:],
    }
    torch.save({"params_ema": content}, path, _use_new_zipfile_serialization=False)
    with open_weights(path) as file:
        assert list(file.shapes) == list(content)
        for name, value in content.items():
            assert torch.equal(file.tensor(name), value)
    whole = path.read_bytes()
    for cut in (1, 60, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        with pytest.raises(errors.WeightsError):
            open_weights(path)


def test_other_pickles_are_refused_and_nothing_of_them_is_run(path: Path, tmp_path: Path) -> None:
    trace = tmp_path / "it ran"
    torch.save({"x": Hostile(trace)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(errors.UnsafeWeights):
        open_weights(path)
    path.write_bytes(pickle.dumps(Hostile(trace)))
    with pytest.raises(errors.NotSafetensors, match="pickle"):
        open_weights(path)
    assert not trace.exists()


def test_a_file_that_is_cut_off_missing_or_damaged(path: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.WeightsMissing):
        open_weights(path)
    with pytest.raises(errors.WeightsUnreadable):
        open_weights(tmp_path)
    torch.save({"x": torch.ones(1000)}, path)
    content = path.read_bytes()
    for kept in (0.2, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(kept * len(content))])
        with pytest.raises(errors.WeightsTruncated, match="incomplete"):
            open_weights(path)
    start = content.index(b"data.pkl") + 60
    path.write_bytes(content[:start] + bytes(40) + content[start + 40 :])
    with pytest.raises((errors.WeightsDamaged, errors.UnsafeWeights)):
        open_weights(path)


def test_other_archives(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(errors.NotSafetensors, match="archive without tensors"):
        open_weights(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}q\x00.")
    with pytest.raises(errors.WeightsDamaged):
        open_weights(path)
    torch.save({"model": {"step": 3}}, path)
    with pytest.raises(errors.WeightsDamaged, match="does not contain a list of tensors"):
        open_weights(path)


def write_program(path: Path, program: bytes, **members: bytes) -> None:
    """An archive like those of torch.save, with another program."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", program)
        for name, content in members.items():
            archive.writestr(f"model/data/{name}", content)


def tensor_program(length: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """What torch.save writes of {"x": a tensor of float32 in the storage "0"}."""
    sizes = b"".join(pickle.dumps(one, protocol=2)[2:-1] for one in (shape, strides))
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuJ"
    call = b"\x80\x02}X\x01\0\0\0xctorch._utils\n_rebuild_tensor_v2\n("
    return call + storage + length.to_bytes(4, "little") + b"tQK\0" + sizes + b"\x89NtRs."


DOUBLED = b"\x80\x02}(K\x00" + b"q\x00h\x00\x86" * 60 + b"K\x01u."  # 2^60 hashes of a key
PROGRAMS = {
    "a doubled key": DOUBLED,
    "a bytearray": b"\x80\x02c__builtin__\nbytearray\nJ\x00\xca\x9a\x3b\x85R.",
    "many tables": b"\x80\x02(" + b"}" * 7_000_000 + b"t.",
    "a deep list": b"\x80\x02" + b"]" * 400_000 + b"a" * 399_999 + b".",
    "nothing on the stack": b"\x80\x02R.",
    "too much on the stack": b"\x80\x02NN.",
    "no end": b"\x80\x02}",
}


def extended(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.extended)


@pytest.mark.parametrize(
    "name", [extended(n) if len(program) > 1000 else n for n, program in PROGRAMS.items()]
)
def test_small_programs_neither_spin_nor_blow_up(path: Path, name: str) -> None:
    write_program(path, PROGRAMS[name])
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises((errors.WeightsDamaged, errors.UnsafeWeights)):
        open_weights(path)
    assert time.process_time() - begin < 10
    assert tracemalloc.get_traced_memory()[1] < 2e8
    tracemalloc.stop()


def test_a_tensor_is_never_larger_than_what_is_stored_of_it(path: Path) -> None:
    write_program(path, tensor_program(4, (2, 2), (2, 1)), **{"0": bytes(16)})
    assert open_weights(path).tensor("x").tolist() == [[0, 0], [0, 0]]
    for length, shape, strides in (
        *((4, (2, 3), (2, 1)), (4, (10**9, 10**9), (0, 0)), (4, (5,), (0,)), (8, (2, 2), (2, 1))),
        *((4, (2,), (2**62,)), (4, (-1,), (1,)), (4, (1,) * 65, (1,) * 65), (4, (2,), ())),
    ):
        write_program(path, tensor_program(length, shape, strides), **{"0": bytes(16)})
        with pytest.raises(errors.WeightsDamaged):
            open_weights(path)


def test_compressed_members_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}" + b"N" * 2**22)
    with pytest.raises(errors.WeightsDamaged):
        open_weights(path)


def test_any_changed_byte_is_read_as_tensors_or_refused(path: Path) -> None:
    torch.save({"a.weight": torch.ones(2, 3), "b": torch.ones(2).half()}, path)
    whole, random = path.read_bytes(), Random(1)
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(random.choice((1, 1, 3))):
            changed[random.randrange(len(changed))] = random.randrange(256)
        path.write_bytes(changed)
        try:
            file = open_weights(path)
        except errors.WeightsError:
            continue
        with file:
            for name, shape in file.shapes.items():
                assert tuple(file.tensor(name).shape) == shape


def test_something_else_than_a_list_of_tensors(path: Path) -> None:
    one = torch.ones(1)
    sparse = {"x": torch.ones(3).to_sparse()}
    for content in ([one], {}, {"x": 3}, {3: one}, sparse, {"x": {"y": one}}):
        torch.save(content, path)
        with pytest.raises((errors.WeightsDamaged, errors.UnsafeWeights)):
            open_weights(path)


def test_the_content_decides_the_format_not_the_name(tmp_path: Path) -> None:
    save_file({"x": torch.ones(2)}, tmp_path / "a.gguf")
    writer = gguf.GGUFWriter(tmp_path / "b.safetensors", "seedvr2")
    writer.add_tensor("x", np.ones(2, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    kinds = {"a.gguf": SafetensorsFile, "b.safetensors": GgufFile}
    for name, kind in kinds.items():
        file: WeightsFile = open_weights(tmp_path / name)
        with file:
            assert type(file) is kind
            assert file.shapes == {"x": (2,)}
            assert file.dtypes == {"x": "F32"}
            assert file.tensor("x").tolist() == file.raw("x").tolist() == [1, 1]
