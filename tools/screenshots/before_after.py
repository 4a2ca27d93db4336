"""The picture at the top of README: a crop of a photograph, before and after the Lite model.

    python -m tools.screenshots.before_after [OUT]

The photograph is reduced to half its size. On the right is what the command line of Upreel makes of
that with Lite, on the left what a bicubic filter makes of it. Both crops are shown at 300 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

OUT = Path(__file__).parents[2] / "docs" / "screenshots" / "before_after.png"
# "Chelsea" by Stefan van der Walt, CC0.
_PHOTOGRAPH = ("skimage.data", "chelsea.png")
_SCALE = 2
_CROP = (104, 28, 244, 168)  # px of the result: left, top, right, bottom
_SHOWN_AT = 3  # times the size of the result
_LABELS = ("Before: bicubic enlargement, 2x", "After: Upreel, Lite model, 2x")
_GAP, _LABEL_HEIGHT, _FONT_SIZE = 8, 34, 18  # px of the picture
_PAPER, _INK = (255, 255, 255), (30, 30, 30)


def main() -> int:
    """Write the picture; the exit status."""
    parser = argparse.ArgumentParser(description="Draw the picture of before and after for README.")
    parser.add_argument("out", type=Path, nargs="?", default=OUT)
    out = parser.parse_args().out
    small = _reduced(_photograph())
    before = small.resize((small.width * _SCALE, small.height * _SCALE), Image.Resampling.BICUBIC)
    _sheet(before, _enlarged_by_lite(small)).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size:,} bytes")
    return 0


def _photograph() -> Image.Image:
    with files(_PHOTOGRAPH[0]).joinpath(_PHOTOGRAPH[1]).open("rb") as file:
        return Image.open(file).convert("RGB")


def _reduced(photograph: Image.Image) -> Image.Image:
    """The photograph at half its size, by an antialiased bicubic filter."""
    width, height = photograph.width // _SCALE, photograph.height // _SCALE
    whole = photograph.crop((0, 0, width * _SCALE, height * _SCALE))
    return whole.resize((width, height), Image.Resampling.BICUBIC)


def _enlarged_by_lite(small: Image.Image) -> Image.Image:
    """The result of `python -m engine upscale` on the CPU.

    Raises:
        CalledProcessError: The engine failed.
    """
    with tempfile.TemporaryDirectory() as name:
        source, result = Path(name, "small.png"), Path(name, "large.png")
        small.save(source)
        command = [sys.executable, "-m", "engine", "upscale", source, "-o", result]
        command += ["--model", "lite", "--scale", str(_SCALE), "--device", "cpu"]
        subprocess.run(command, check=True, env={**os.environ, "UPREEL_DATA": name})
        return Image.open(result).convert("RGB")


def _sheet(*panels: Image.Image) -> Image.Image:
    """The crop of each panel with its label above it, side by side."""
    width, height = (_SHOWN_AT * (_CROP[2 + axis] - _CROP[axis]) for axis in (0, 1))
    sheet = Image.new("RGB", (len(panels) * (width + _GAP) - _GAP, _LABEL_HEIGHT + height), _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT_SIZE)
    for number, (panel, label) in enumerate(zip(panels, _LABELS, strict=True)):
        left = number * (width + _GAP)
        draw.text((left + _GAP, _LABEL_HEIGHT / 2), label, fill=_INK, font=font, anchor="lm")
        crop = panel.crop(_CROP).resize((width, height), Image.Resampling.BICUBIC)
        sheet.paste(crop, (left, _LABEL_HEIGHT))
    return sheet


if __name__ == "__main__":
    sys.exit(main())
