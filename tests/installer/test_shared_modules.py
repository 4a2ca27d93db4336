import subprocess
import sys
from pathlib import Path

import PyInstaller.loader
from PyInstaller.archive.writers import ZlibArchiveWriter

HOOK = Path(__file__).parents[2] / "installer" / "shared_modules.py"
_STARTS = """
import runpy, sys

loader, folder, hook = sys.argv[1:]
sys._MEIPASS, sys._pyinstaller_pyz = folder, f"{folder}/none.pyz"
sys.path[:] = [loader, folder, *sys.path[1:]]
import pyimod02_importers

pyimod02_importers.install()
try:
    import of_both
except ImportError as err:
    print(err)
runpy.run_path(hook)
import of_both

print(of_both.__file__)
"""


def test_a_program_without_modules_of_its_own_takes_those_of_the_folder(tmp_path):
    (tmp_path / "of_both.py").write_text("")
    code = {"of_both": compile("", "of_both.py", "exec")}
    entry = ("of_both", str(tmp_path / "of_both.py"), "PYMODULE")
    ZlibArchiveWriter(str(tmp_path / "modules.pyz"), [entry], code)
    ZlibArchiveWriter(str(tmp_path / "none.pyz"), [])
    (tmp_path / "of_both.py").unlink()
    loader = PyInstaller.loader.__path__[0]
    command = [sys.executable, "-c", _STARTS, loader, str(tmp_path), str(HOOK)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["No module named 'of_both'", str(tmp_path / "of_both.py")]
