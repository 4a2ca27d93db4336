from pathlib import Path

import pytest

from engine.cli.formatting import plan_words
from engine.core.errors import WeightsMissing
from engine.core.geometry import Size
from engine.protocol.plan import LatentPlan, WeightsPlan
from engine.settings.schema import JobSettings
from tests.helpers.command_line import CommandLine
from tests.helpers.plans import a_plan
from tests.helpers.wan import a_latent, write_latent


@pytest.fixture
def latent(tmp_path: Path) -> Path:
    write_latent(tmp_path / "a.latent")
    return tmp_path / "a.latent"


def usual(**changes: object) -> JobSettings:
    return JobSettings(**{"model": "none", "scale": 1, "latents": "raw", **changes})


def test_options_of_decoding_become_settings(command_line: CommandLine, latent: Path) -> None:
    vae = str(Path.cwd() / "my.safetensors")
    for words, settings in {
        "": usual(),
        "--normalised": usual(latents="normalised"),
        "--rate 24000/1001": usual(latent_rate=24000 / 1001),
        "--model wan21-vae": usual(),
        "--upscale seedvr2-3b --height 1080": usual(model="seedvr2-3b", height=1080, scale=2),
        "--upscale lite": usual(model="lite", scale=2),
        "--set latents=auto --set codec=h264": usual(latents="auto", codec="h264"),
        "--start 1 --stop 2 --overwrite": usual(start="1", stop="2", overwrite=True),
        "--vae my.safetensors": usual(latent_vae=vae),
    }.items():
        ended = command_line("decode-latent", str(latent), "-o", "out.mp4", *words.split())
        assert ended.status == 0, ended.err
        (job,) = command_line.added
        assert (job.source, job.settings) == (latent, settings)
        assert job.output == Path.cwd() / "out.mp4"


def test_a_vae_that_does_not_belong_to_the_latents(command_line: CommandLine, latent: Path) -> None:
    ended = command_line("decode-latent", str(latent), "-o", "o.mp4", "--model", "wan22-vae")
    assert ended.status == 1
    assert "a.latent has 16 channels: it belongs to wan21-vae" in ended.err
    write_latent(latent, a_latent(4))
    ended = command_line("decode-latent", str(latent), "-o", "o.mp4", "--model", "wan22-vae")
    assert "error[unsupported-media]" in ended.err


@pytest.mark.parametrize("options", ["", "--model wan21-vae"])
def test_a_source_without_latents_is_refused(
    options: str, command_line: CommandLine, tmp_path: Path
) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(b"no latents")
    for source, words in {
        video: "a.mp4 is not a latent file.",
        tmp_path: f"{tmp_path.name} is not a regular file.",
        tmp_path / "none": "none does not exist.",
    }.items():
        ended = command_line("decode-latent", str(source), "-o", "o.mp4", *options.split())
        assert ended.status == 1
        assert words in ended.err
        assert command_line.services.engine is None


def test_wrong_usage(command_line: CommandLine) -> None:
    for words in (
        "decode-latent a.latent",
        "decode-latent -o b.mp4",
        "decode-latent a.latent b.latent -o b.mp4",
        "decode-latent a.latent -o b.mp4 --rate 0",
        "decode-latent a.latent -o b.mp4 --rate 1/0",
        "decode-latent a.latent -o b.mp4 --model lite",
        "decode-latent a.latent -o b.mp4 --scale 2 --height 9",
        "encode-latent a.mp4",
        "encode-latent a.mp4 -o a.latent --model wan-2x",
        "encode-latent a.mp4 -o a.latent --scale 2",
    ):
        assert command_line(*words.split()).status == 2, words


def test_a_film_is_encoded_and_reported_in_words(command_line: CommandLine) -> None:
    ended = command_line("encode-latent", "a.mp4", "-o", "a.latent")
    assert ended.status == 0
    assert "3 latents of wan21-vae, raw, 98.0 kB, in 2 s" in ended.out
    assert "padded from 250x130 to 256x136" in ended.out
    assert "padded from 7 to 9 frames" in ended.out
    assert "encoding: 7/7 frames, 100 %" in ended.err
    ((source, target, model, job, _),) = command_line.services.asked
    assert (source, target) == (Path.cwd() / "a.mp4", Path.cwd() / "a.latent")
    assert (model, job) == ("wan21-vae", usual())


def test_options_of_encoding(command_line: CommandLine) -> None:
    words = "--model wan22-vae --normalised --vae v.pth --start 1 --stop 0:02 --set device=cpu"
    ended = command_line("encode-latent", "a.mp4", "-o", "a.latent", *words.split(), "--json")
    (reported,) = ended.objects
    assert (reported["model"], reported["latents"], reported["size"]["width"]) == (
        "wan22-vae",
        3,
        250,
    )
    ((_, _, _, job, _),) = command_line.services.asked
    vae = str(Path.cwd() / "v.pth")
    assert job == usual(latents="normalised", latent_vae=vae, start="1", stop="0:02", device="cpu")
    command_line.services.error = WeightsMissing(
        "vae", model="Wan 2.1", names="vae.safetensors", file="wan21-vae-fp32"
    )
    ended = command_line("encode-latent", "a.mp4", "-o", "a.latent")
    assert ended.status == 1
    assert "error[weights-missing]: The VAE of Wan 2.1 is not installed" in ended.err


def test_the_plan_says_how_latents_are_decoded() -> None:
    vae = WeightsPlan(path=Path("models/vae.safetensors"))
    latent = LatentPlan(vae=vae, model="wan21-vae", normalised=True, decode_tile=Size(640, 512))
    said = "\n".join(plan_words(a_plan(latent=latent)))
    assert "normalised, decoded with vae.safetensors on cpu, float32, tiles of 640x512" in said
    assert "Latents" not in "\n".join(plan_words(a_plan()))
