import hashlib
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.core import paths
from engine.ops.kernels import build, nvrtc
from engine.ops.kernels.block_formats import BLOCKS
from tests.helpers.extended import rest_extended

SOURCE = 'extern "C" __global__ void put(int *at, int value) { *at = value; }'


class Compiler:
    """Stands in for NVRTC: the cubin is the number of the call."""

    version = (13, 0)

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []

    def compile(self, text: str, options: tuple[str, ...]) -> bytes:
        self.calls.append((text, options))
        return b"cubin %d" % len(self.calls)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(nvrtc, "find", lambda: made)
    return made


def cached() -> list[Path]:
    return list((paths.cache_folder() / "kernels").iterdir())


ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
KERNELS = {
    "group_norm": ("GROUP", (b"group_statistics", b"add_residual", b"normalise")),
    "token_rows": ("PACKS", (b"rms_modulate", b"add_gated", b"swiglu")),
    "quantize": (
        "PACKS",
        (
            b"round_to_e4m3",
            b"round_to_int8",
            b"scale_sums",
            b"widen_e4m3",
            b"widen_e5m2",
            b"widen_int8",
            b"widen_mxfp8",
            b"widen_rotated",
        ),
    ),
    "blocks": ("ALIGNMENT", tuple(f"unpack_{kind.lower()}".encode() for kind in BLOCKS)),
    "channel_norm": ("PACKS", (b"rms_norm",)),
    "heads": ("LANES", (b"gather_qk",)),
}


def compiled(family: str, dtype: torch.dtype, arch: str = "sm_86", **macros: int) -> bytes:
    return nvrtc.compile_cuda(build.source(family), arch, build.macros(dtype, **macros))


def assert_compiles(family, dtype, arch):
    macro, kernels = KERNELS[family]
    vector = 16 // dtype.itemsize
    value = 128 // vector if macro == "LANES" else 4
    cubin = compiled(family, dtype, arch, VECTOR=vector, **{macro: value})
    assert cubin.startswith(b"\x7fELF")
    assert all(kernel in cubin for kernel in kernels)


@pytest.mark.parametrize("family", rest_extended(KERNELS, "group_norm", "channel_norm", "heads"))
def test_every_kernel_compiles(family):
    """One dtype for the oldest architecture and another for the newest."""
    assert_compiles(family, build.DTYPES[-1], ARCHITECTURES[0])
    assert_compiles(family, build.DTYPES[1], ARCHITECTURES[-1])


@pytest.mark.extended
@pytest.mark.parametrize("family", KERNELS)
def test_every_kernel_compiles_for_every_architecture_and_dtype(family):
    """For the oldest architecture with every dtype, for the others with one of them in turn."""
    for dtype in build.DTYPES:
        assert_compiles(family, dtype, ARCHITECTURES[0])
    for number, arch in enumerate(ARCHITECTURES[1:]):
        assert_compiles(family, build.DTYPES[number % len(build.DTYPES)], arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("family", KERNELS)
def test_every_kernel_compiles_for_every_architecture_with_each_dtype(family, arch):
    for dtype in build.DTYPES:
        assert_compiles(family, dtype, arch)


def test_products_alone_are_instructions_of_matrix_units():
    for half in (0, 1):
        macros = build.macros(torch.float16, HALF_SUMS=half)
        found = nvrtc.find().usage(build.source("product_rate"), "sm_86", macros)
        assert 24 <= found["multiply_only"].registers <= 128
        assert not found["multiply_only"].stack_bytes


def test_a_stream_of_float32_compiles():
    for arch in (ARCHITECTURES[0], ARCHITECTURES[-1]):
        cubin = compiled("token_rows", torch.float16, arch, VECTOR=8, PACKS=2, STREAM_FLOAT32=1)
        assert b"add_gated" in cubin


@pytest.mark.extended
def test_other_sizes_compile_too():
    for vector, packs in ((8, 1), (8, 3), (8, 5), (8, 8), (1, 2)):
        assert compiled("channel_norm", torch.float16, VECTOR=vector, PACKS=packs)
    for packs in (1, 8):
        assert compiled("token_rows", torch.bfloat16, VECTOR=1, PACKS=packs)
    for alignment in (2, 4, 8, 16):
        assert compiled("blocks", torch.bfloat16, VECTOR=8, ALIGNMENT=alignment)
    for vector, group in ((8, 8), (8, 16), (4, 16), (2, 6), (1, 3)):
        assert compiled("group_norm", torch.float16, VECTOR=vector, GROUP=group)


def test_errors_name_the_file_and_its_line():
    with pytest.raises(nvrtc.CompileFailed, match=r"heads\.cu\(\d+\): error") as caught:
        nvrtc.compile_cuda(build.source("heads"), "sm_86", build.macros(torch.float16, VECTOR=2))
    line = int(re.search(r"heads\.cu\((\d+)\)", str(caught.value))[1])
    file = Path(build.__file__).with_name("heads.cu")
    assert "LANES" in file.read_text("utf-8").splitlines()[line - 1]
    with pytest.raises(nvrtc.CompileFailed, match=r"scalars\.cuh\(\d+\): .*must be defined"):
        nvrtc.compile_cuda(build.source("heads"), "sm_86", ("-DVECTOR=2", "-DLANES=2"))


def test_the_assembler_reports_registers_and_what_it_spills():
    macros = build.macros(torch.float16, VECTOR=8, GROUP=4)
    found = nvrtc.find().usage(build.source("group_norm"), "sm_86", macros)
    assert found.keys() == {"group_statistics", "add_residual", "scale_and_shift", "normalise"}
    assert all(16 <= one.registers <= 128 and not one.spilled_bytes for one in found.values())
    many = "float a[256]; for (int i = 0; i < 256; i++) a[i] = at[i]; __syncthreads();"
    text = f"""extern "C" __global__ void __launch_bounds__(1024) put(float *at) {{
      {many} for (int i = 0; i < 256; i++) at[i] = a[i] * a[255 - i]; }}"""
    spilling = nvrtc.find().usage(text, "sm_86")["put"]
    assert spilling.registers <= 64
    assert spilling.spilled_bytes + spilling.stack_bytes > 0
    with pytest.raises(nvrtc.CompileFailed):
        nvrtc.find().usage("nonsense;", "sm_86")


def test_a_refused_source_is_not_cached():
    with pytest.raises(nvrtc.CompileFailed, match=r"upreel\.cu\(2\): error") as caught:
        nvrtc.compile_cuda("\nnonsense;", "sm_86")
    assert "NVRTC_ERROR_COMPILATION" in str(caught.value)
    assert not (paths.cache_folder() / "kernels").exists()
    with pytest.raises(nvrtc.CompileFailed, match="gpu-architecture"):
        nvrtc.compile_cuda(SOURCE, "sm_12345")


def test_what_could_change_the_result_is_compiled_again_and_nothing_else(compiler):
    first = nvrtc.compile_cuda(SOURCE, "sm_86")
    assert nvrtc.compile_cuda(SOURCE, "sm_86") == first
    assert len(compiler.calls) == 1
    nvrtc.compile_cuda(SOURCE + "//", "sm_86")
    nvrtc.compile_cuda(SOURCE, "sm_89")
    nvrtc.compile_cuda(SOURCE, "sm_86", ("-DVECTOR=1",))
    compiler.version = (13, 1)
    nvrtc.compile_cuda(SOURCE, "sm_86")
    assert len(compiler.calls) == len(cached()) == 5


def test_a_damaged_entry_is_compiled_again(compiler):
    nvrtc.compile_cuda(SOURCE, "sm_86")
    (entry,) = cached()
    whole = entry.read_bytes()
    for number, damage in enumerate((b"", b"short", bytes(40), whole[:-1]), 2):
        entry.write_bytes(damage)
        cubin = b"cubin %d" % number
        assert nvrtc.compile_cuda(SOURCE, "sm_86") == cubin
        assert nvrtc.compile_cuda(SOURCE, "sm_86") == cubin
        assert entry.read_bytes() == hashlib.sha256(cubin).digest() + cubin
        assert cached() == [entry]


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(compiler, caplog):
    paths.cache_folder().mkdir(parents=True)
    (paths.cache_folder() / "kernels").write_text("a file where the folder should be")
    with caplog.at_level(logging.INFO):
        assert nvrtc.compile_cuda(SOURCE, "sm_86") == b"cubin 1"
    assert "not cached" in caplog.text


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder where the packages torch and nvidia seem to be."""

    def found(name: str) -> SimpleNamespace:
        return SimpleNamespace(submodule_search_locations=[str(tmp_path / name)])

    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", found)
    nvrtc.find.cache_clear()
    yield tmp_path
    nvrtc.find.cache_clear()


def put(site: Path, *names: str) -> list[Path]:
    for name in names:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(b"no library")
    return [site / name for name in names]


def test_on_linux_that_of_torch_comes_first(site, monkeypatch):
    monkeypatch.setattr(nvrtc, "_PATTERNS", ("libnvrtc.so*", "libnvrtc-*.so*"))
    wanted = put(site, "torch/lib/libnvrtc-1ea278b5.so.12", "nvidia/cu13/lib/libnvrtc.so.13")
    put(site, "torch/lib/libnvrtc-builtins.so.12.8", "nvidia/cu13/lib/libnvrtc-builtins.so.13.0")
    put(site, "nvidia/cu13/lib/libnvrtc.alt.so.13")
    assert list(nvrtc.candidates()) == wanted


def test_on_windows_too(site, monkeypatch):
    monkeypatch.setattr(nvrtc, "_PATTERNS", ("nvrtc64_*.dll",))
    wanted = put(site, "torch/lib/nvrtc64_130_0.dll", "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll")
    put(site, "torch/lib/nvrtc64_130_0.alt.dll", "torch/lib/nvrtc-builtins64_130.dll")
    assert list(nvrtc.candidates()) == wanted


SHIM = """
#include <dlfcn.h>
const char *nvrtcGetErrorString(int code) { return "failed to open its builtins"; }
int nvrtcVersion(int *major, int *minor) {
  *major = 99; *minor = 1;
  return dlopen("libnvrtc-builtins.so.99.1", RTLD_NOW) ? 0 : 7;
}
"""


@pytest.mark.programs("cc")
@pytest.mark.skipif(sys.platform != "linux", reason="a library of Linux")
def test_builtins_are_found_beside_a_library_that_opens_them_by_their_bare_name(tmp_path):
    builtins = "libnvrtc-builtins.so.99.1"
    folder = tmp_path / "ünï 库"
    folder.mkdir()
    for name, text, *options in (
        ("libnvrtc.so.99", SHIM),
        (builtins, "int builtins;", f"-Wl,-soname,{builtins}"),
    ):
        (tmp_path / "shim.c").write_text(text)
        command = ["cc", "-shared", "-fPIC", *options, str(tmp_path / "shim.c"), "-ldl"]
        subprocess.run([*command, "-o", str(folder / name)], check=True)
    library = folder / "libnvrtc.so.99"
    alone = tmp_path / "libnvrtc.so.99"
    shutil.copy(library, alone)
    with pytest.raises(nvrtc.CompileFailed, match="failed to open its builtins"):
        nvrtc.Nvrtc(alone)
    (folder / "libnvrtc-builtins.so").symlink_to(builtins)
    (folder / "libnvrtc-builtins.alt.so.99.1").write_bytes(b"no library")
    assert [path.name for path in nvrtc.builtins_beside(library)] == [builtins]
    assert nvrtc.Nvrtc(library).version == (99, 1)


def test_builtins_of_windows_are_those_of_its_names(tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "_BUILTINS", "nvrtc-builtins64_*.dll")
    library, builtins = put(tmp_path, "nvrtc64_120_0.dll", "nvrtc-builtins64_126.dll")
    put(tmp_path, "nvrtc64_120_0.alt.dll", "nvrtc-builtins64_126.alt.dll")
    assert nvrtc.builtins_beside(library) == [builtins]


def test_a_library_that_is_missing_or_does_not_load_is_an_error(site, monkeypatch):
    with pytest.raises(nvrtc.NvrtcMissing, match="CUDA builds of torch"):
        nvrtc.find()
    monkeypatch.setattr(nvrtc, "_PATTERNS", ("libnvrtc.so*",))
    put(site, "nvidia/cu13/lib/libnvrtc.so.13")
    with pytest.raises(nvrtc.NvrtcMissing, match=r"libnvrtc\.so\.13 cannot be loaded"):
        nvrtc.find()
