from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from engine.model_files.formats.gguf_header import GgufFile
from engine.model_files.formats.open_weights import WeightsFile, open_weights
from engine.model_files.formats.safetensors_file import SafetensorsFile


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
