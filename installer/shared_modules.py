"""Run first in both packed programs: has them import from the one archive that they share.

PyInstaller puts an archive of modules into each program. Those of Upreel are empty, because the
modules of torch and all else would be there twice.
"""

import os
import sys

import pyimod01_archive
import pyimod02_importers

pyimod02_importers.pyz_archive = pyimod01_archive.ZlibArchiveReader(
    f"{sys._MEIPASS}{os.sep}modules.pyz", start_offset=0, check_pymagic=True
)
sys.path_importer_cache.clear()  # finders keep the archive that they were made with
