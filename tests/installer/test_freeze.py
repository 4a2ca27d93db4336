from installer import freeze
from tools.figures.figure import named


def test_the_newest_copy_of_each_library_is_packed_recognised_by_its_name():
    copies = [
        ("VCRUNTIME140.dll", (14, 38, 1, 0), "python"),
        ("vcruntime140.dll", (14, 44, 35207, 1), "qt"),
        ("msvcp140.dll", (14, 44, 1, 0), "qt"),
        ("msvcp140.dll", (14, 9, 9, 9), "system"),
    ]
    assert freeze.newest_vc_runtime(copies) == {"vcruntime140.dll": "qt", "msvcp140.dll": "qt"}
    for path, is_part in (
        ("PySide6\\MSVCP140.dll", True),
        ("VCRUNTIME140_1.dll", True),
        ("msvcp140_codecvt_ids.dll", True),
        ("numpy.libs/msvcp140-263139962577ecda4cd9469ca360a746.dll", False),  # numpy's own name
        ("ucrtbase.dll", False),  # part of Windows
    ):
        assert freeze.is_vc_runtime(path) == is_part, path


def test_the_packed_program_has_one_limit():
    (size,) = named(["package.size"])
    assert size.limit == freeze.FOLDER_LIMIT_MB


def test_commands_for_the_path_start_the_command_line_beside_their_folder(tmp_path):
    freeze.write_commands(tmp_path)
    for name in ("upreel", "upreel-cli"):
        content = (tmp_path / "bin" / f"{name}.cmd").read_bytes()
        assert content == b'@"%~dp0..\\upreel-cli.exe" %*\r\n'
