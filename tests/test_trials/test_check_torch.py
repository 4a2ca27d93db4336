import importlib.util
import os
import py_compile
import zipfile
from pathlib import Path

from tests.trials.packaging import check_torch


def value_of(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.value


def test_bytecode_as_python_writes_it_is_compared_with_its_source(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    module = tmp_path / "module.py"
    module.write_text("value = 1")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    path = Path(py_compile.compile(str(module), invalidation_mode=unchecked))
    module.write_text("value = 2")
    assert value_of(module) == 1
    path.write_bytes(check_torch._as_of_python(path.read_bytes(), module))
    assert value_of(module) == 1, "time and size are those of the source"
    os.utime(module, (1, 1))
    assert value_of(module) == 2


def test_the_entry_of_a_wheel_has_the_version_that_its_torch_states(tmp_path):
    path = tmp_path / "torch-2.13.0-cp312-cp312-win_amd64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/version.py", "__all__ = []\n__version__ = '2.13.0+cpu'\n")
    about = check_torch.pinned(path)
    assert (about.torch, about.bytes) == ("2.13.0+cpu", path.stat().st_size)
    assert about.wheels[0].filename == path.name
