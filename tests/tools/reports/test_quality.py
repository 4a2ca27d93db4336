import numpy as np
import pytest
from PIL import Image

from tools.reports import quality
from tools.reports.photographs import installed_photographs, photographs_in


def test_tables_name_pictures_and_a_mean_and_an_empty_folder_is_one_sentence(tmp_path, capsys):
    with pytest.raises(FileNotFoundError):
        photographs_in(tmp_path)
    assert quality.main(["--photographs", str(tmp_path)]) == 1
    assert "no uncompressed pictures" in capsys.readouterr().err
    picture = installed_photographs()["astronaut"][160:208, 160:224]
    Image.fromarray(picture).save(tmp_path / "face.png")
    assert quality.main(["--photographs", str(tmp_path), "--scale", "2"]) == 0
    text = capsys.readouterr().out
    head = next(line for line in text.splitlines() if "clean source" in line)
    assert head.split(" | ")[1:6] == ["Lanczos dB", "Lite dB", "gain dB", "Lite Plus dB", "gain dB"]
    lines = [line.split("|") for line in text.splitlines() if line]
    assert {len(line) for line in lines} == {11, 13}
    assert "| face |" in text
    assert "| **mean** |" in text
    assert "| crf 33 |" in text


def test_photographs_beat_lanczos_by_the_promised_margin():
    net = quality.load_lite(quality.resource("weights", "lite_x2_faithful.safetensors"))
    pictures = installed_photographs()
    gains = []
    for name in ("astronaut", "chelsea", "coffee", "motorcycle_left", "camera", "rocket (a third)"):
        scores = quality.score_faithful(net, pictures[name][:320, :320])
        gains.append(scores["lite"].psnr_db - scores["lanczos"].psnr_db)
    assert min(gains) > 0
    assert np.mean(gains) > 1.1
