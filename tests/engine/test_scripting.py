"""The Python interface, as a program uses it: through `import engine` alone."""

import copy
import io
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.distributions import Normal, kl_divergence

import engine
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import make_clip
from tests.helpers.seedvr2 import tiny_config, write_seedvr2, write_vae
from tests.helpers.swiftvr import write_reae
from tests.helpers.wan import tiny_wan_config, write_wan

LITE = {"model": "lite", "treatment": "faithful"}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clip in the current folder, which a program names as "in.mp4"."""
    monkeypatch.chdir(tmp_path)
    return make_clip(tmp_path / "in.mp4", frames=6, size=(64, 48))


@pytest.mark.extended
def test_a_video_is_upscaled_with_progress(source: Path) -> None:
    seen = []
    report = engine.upscale("in.mp4", "out.mkv", **LITE, on_progress=seen.append)
    assert report.passed
    assert report.frames_out == 6
    assert report.output == Path("out.mkv").absolute()
    assert engine.verify("in.mp4", "out.mkv").passed
    assert engine.probe("out.mkv").video.size == engine.probe(source).video.size.scaled(2)
    assert "upscaling: 6/6 frames, 100 %" in " ".join(map(str, seen))
    with pytest.raises(engine.EngineError, match=r"out\.mkv already exists"):
        engine.upscale(source, Path("out.mkv"), **LITE)
    before = Path("out.mkv").read_bytes()
    assert engine.upscale("in.mp4", "out.mkv", **LITE, overwrite=True, scale=3).passed
    assert Path("out.mkv").read_bytes() != before


@pytest.mark.parametrize(
    ("settings", "text", "hint"),
    [
        ({"heights": 1080}, "Unknown setting 'heights'", "Did you mean height?"),
        ({"progress": print}, "Unknown setting 'progress'", "Did you mean on_progress?"),
        ({"memory_shares": 0.5}, "Unknown setting 'memory_shares'", "Did you mean memory_share?"),
        ({"model": "seedvr3"}, "model cannot be 'seedvr3'", "seedvr2-3b"),
        ({"model": "nothing.pth"}, "nothing.pth", "Choose another file"),
        ({"preset": "besst"}, "Unknown preset 'besst'", "Did you mean best?"),
        ({"height": "tall"}, "height cannot be 'tall'", "a whole number"),
        ({"height": 10.5}, "height must be a whole number", ""),
        ({"vram_limit": 7}, "vram_limit cannot be 7", "0.1 to 1"),
        ({"device": "RTX 1"}, "RTX 1", "cpu"),
        ({"start": "soon"}, "soon", ""),
        ({"model": "seedvr2-3b", "overlap": 64}, "overlap has no effect", "lite-plus, community"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], text: str, hint: str) -> None:
    for call in (engine.plan, engine.upscale):
        if call is engine.plan and "progress" in settings:
            continue
        with pytest.raises(engine.EngineError) as raised:
            call("in.mp4", **settings)
        assert text in str(raised.value)
        assert hint in raised.value.hint
        assert raised.value.__notes__ == [raised.value.hint][: bool(raised.value.hint)]


def test_settings_have_their_values_or_texts(source: Path) -> None:
    plans = [
        engine.plan("in.mp4", height=96, model="lite", stop=0.2, overwrite="yes"),
        engine.plan(source, None, height="96", model="lite", stop="0.2", overwrite=True),
        engine.plan(source, height=96, width=None, model="lite", stop="0:00.2"),
    ]
    assert [plan.picture.size.height for plan in plans] == [96] * 3
    assert len({plan.frames for plan in plans}) == 1
    assert plans[0].frames < 6
    assert engine.plan(source, model="none").picture.size == plans[0].source_size
    assert engine.plan(source, "other.mkv").output == Path("other.mkv").absolute()


def test_every_setting_is_a_keyword(source: Path) -> None:
    usual = asdict(JobSettings()) | asdict(EngineSettings())
    texts = {name: str(value) for name, value in usual.items()}
    plans = [engine.plan(source, **{**given, "model": "lite"}) for given in ({}, usual, texts)]
    first, *others = ((plan.work, plan.picture, plan.output) for plan in plans)
    assert others == [first] * 2


def test_a_plan_can_be_for_another_gpu(source: Path) -> None:
    plan = engine.plan("in.mp4", model="seedvr2-3b", height=96, pretend_gpu="RTX 5070 Ti")
    assert "5070 Ti" in plan.card
    assert not plan.fits
    less = engine.plan("in.mp4", model="seedvr2-3b", pretend_gpu="4090", pretend_vram="8GiB")
    assert "4090" in less.card


def test_what_is_missing_is_named(source: Path, expected_log_errors: list[str]) -> None:
    for call in (engine.probe, engine.plan, engine.upscale):
        with pytest.raises(engine.EngineError, match=r"nope\.mp4 does not exist"):
            call("nope.mp4")
    with pytest.raises(engine.EngineError, match="does not exist"):
        engine.upscale("in.mp4", "no/such/out.mkv", **LITE)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_is_stopped_leaves_no_result(source: Path, error: type[BaseException]) -> None:
    def stop(progress: object) -> None:
        raise error

    with pytest.raises(error):
        engine.upscale("in.mp4", "out.mkv", **LITE, on_progress=stop)
    assert [path.name for path in source.parent.iterdir()] == ["in.mp4"]


def test_notices_are_warnings(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mp4", frames=3, size=(64, 48), interlaced="tt")
    with pytest.warns(UserWarning, match="interlaced") as caught:
        engine.upscale(clip, tmp_path / "out.mp4", **LITE, deinterlace="off")
    assert {one.filename for one in caught} == {__file__}
    too_late = {"switches": "run.passive_threads=off"}  # torch is loaded
    with pytest.warns(UserWarning, match="passive_threads") as caught:
        assert len(list(engine.upscale_frames(pictures(1), **LITE, **too_late))) == 1
    assert {one.filename for one in caught} == {__file__}


# --- frames


def pictures(count: int, dtype: type = np.uint8) -> list[np.ndarray]:
    """Frames of noise that moves to the right."""
    noise = np.random.default_rng(5).integers(0, 256, (12, 16, 3), np.uint8)
    frame = np.asarray(Image.fromarray(noise).resize((64, 48)))
    return [np.roll(frame, step, axis=1).astype(dtype) for step in range(count)]


@pytest.mark.extended
@pytest.mark.parametrize("model", ["lite", "seedvr2-3b"])
def test_frames_are_those_of_images(tmp_path: Path, model: str) -> None:
    settings: dict[str, object] = {"model": model, "scale": 2}
    if model != "lite":
        tiny = write_seedvr2(tmp_path / "models")
        settings |= {"dit": tiny.dit, "vae": tiny.vae, "text_embedding": tiny.text}
    folder = tmp_path / "images"
    folder.mkdir()
    for number, frame in enumerate(pictures(9)):
        Image.fromarray(frame).save(folder / f"a_{number:04}.png")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = engine.upscale(folder, tmp_path / "large", **settings)
        found = list(engine.upscale_frames(pictures(9), **settings))
    assert report.frames_out == 9
    expected = [np.asarray(Image.open(path)) for path in sorted(report.output.iterdir())]
    assert [frame.shape for frame in found] == [(96, 128, 3)] * 9
    assert all(map(np.array_equal, found, expected))


def test_frames_keep_their_depth_and_come_one_by_one() -> None:
    read = []

    def given() -> Iterator[np.ndarray]:
        for number in range(1000):
            read.append(number)
            yield pictures(1, np.uint16)[0]

    found = engine.upscale_frames(given(), rate=50, model="none")
    assert next(found).dtype == np.uint16
    assert np.array_equal(next(found), pictures(1, np.uint16)[0])
    found.close()
    assert len(read) < 200
    with pytest.raises(StopIteration):
        next(found)


def test_torch_has_its_threads_afterwards() -> None:
    def threads() -> int:
        """Threads of torch in a thread that begins now."""
        with ThreadPoolExecutor(1) as other:
            return other.submit(torch.get_num_threads).result()

    torch.set_num_threads(7)
    list(engine.upscale_frames(pictures(1), model="none"))
    assert threads() == 7


@pytest.mark.extended
def test_errors_of_frames_are_raised() -> None:
    def broken() -> Iterator[np.ndarray]:
        yield pictures(1)[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(engine.upscale_frames(broken(), model="none"))
    first, second = pictures(2)
    for frames, settings, text in (
        ([], {}, "There is no frame"),
        ([first / 255], {}, "48x64x3 float64"),
        ([first[..., 0]], {}, "48x64 uint8"),
        ([first, second[:40]], {}, "Frame 2 is 40x64x3 uint8"),
        ([first], {"codec": "hevc"}, "codec has no effect"),
        ([first], {"scales": 2}, "Unknown setting 'scales'"),
        ([first], {"rate": 0}, "rate cannot be 0"),
    ):
        with pytest.raises(engine.EngineError, match=text):
            list(engine.upscale_frames(frames, **{"model": "none", **settings}))


# --- VAEs

WAN = {"wan21": "2.1", "wan22": "2.2", "wan2x": "2x"}


@pytest.fixture(
    params=["seedvr2", *(pytest.param(name, marks=pytest.mark.extended) for name in WAN)]
)
def vae_file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A very small VAE with random weights."""
    path = tmp_path / "vae.safetensors"
    if request.param == "seedvr2":
        write_vae(path, tiny_config(latent_channels=16))
    else:
        write_wan(path, tiny_wan_config(WAN[request.param]))
    return str(path)


def clip_for(vae: torch.nn.Module, frames: int = 5) -> torch.Tensor:
    side = 2 * vae.config.spatial_factor
    return torch.rand(1, 3, frames, side, 2 * side) * 2 - 1


def test_a_vae_takes_clips_and_images(vae_file: str) -> None:
    vae = engine.load_vae(vae_file, device="cpu")
    clip, times = clip_for(vae), vae.config.upscale
    latent = vae.encode(clip)
    assert latent.shape == (1, vae.config.latent_channels, 2, 2, 4)
    assert (latent.device.type, latent.dtype) == ("cpu", torch.float32)
    frames = vae.decode(latent)
    assert frames.shape == (1, 3, 5, times * clip.shape[3], times * clip.shape[4])
    assert not frames.requires_grad
    image = vae.encode(clip[:, :, 0])
    assert image.shape == (1, vae.config.latent_channels, 2, 4)
    assert torch.allclose(image, latent[:, :, 0], atol=1e-5)
    assert torch.allclose(vae.decode(image), frames[:, :, 0], atol=1e-4)
    assert vae(clip).shape == frames.shape
    with torch.inference_mode():
        assert torch.equal(vae.encode(clip), latent)


@pytest.mark.extended
def test_a_vae_works_in_tiles(vae_file: str, request: pytest.FixtureRequest) -> None:
    vae = engine.load_vae(vae_file, device="cpu")
    side, factor = 400, vae.config.spatial_factor
    wide = torch.rand(2, 3, 5, factor, 880 // factor * factor) * 2 - 1
    is_exact = "seedvr2" not in request.node.name  # its norms see a tile alone
    latent = vae.encode(wide)
    frames = vae.decode(latent)
    for found, whole in (
        (vae.encode(wide, tile=side), latent),
        (vae.decode(latent, tile=side), frames),
        (vae.encode(wide[:, :, 0], tile=side), latent[:, :, 0]),
    ):
        assert (found.shape, found.dtype) == (whole.shape, whole.dtype)
        whole = whole if is_exact or whole.shape[1] != 3 else whole.clamp(-1, 1)
        difference = float((found - whole).abs().mean() / whole.abs().mean())
        assert difference < (1e-4 if is_exact else 0.4)
    assert torch.equal(vae.encode(wide, tile=4000), latent)
    with pytest.raises(ValueError, match="sample"):
        vae.encode(wide, torch.Generator(), tile=side)
    with pytest.raises(ValueError, match="tile"):
        vae.decode(latent, tile=16)
    vae.requires_grad_()
    with pytest.raises(ValueError, match="no_grad"):
        vae.encode(wide, tile=side)
    with torch.no_grad():
        assert not vae.encode(wide, tile=side).requires_grad


@pytest.mark.extended
def test_a_vae_is_a_module_of_torch(vae_file: str) -> None:
    vae = engine.load_vae(vae_file, device="cpu").eval()
    clip, weights = clip_for(vae), {name: v.clone() for name, v in vae.state_dict().items()}
    latent = vae.encode(clip)
    assert all(torch.equal(value, weights[name]) for name, value in vae.state_dict().items())
    half = copy.deepcopy(vae).to(torch.bfloat16)
    assert half.encode(clip).dtype == torch.bfloat16
    assert torch.allclose(half.encode(clip).float(), latent, atol=0.1)
    assert torch.allclose(vae.double().encode(clip).float(), latent, atol=1e-4)
    saved = io.BytesIO()
    torch.save(vae.float(), saved)
    saved.seek(0)
    other = torch.load(saved, weights_only=False)
    for value in other.parameters():
        value.data.zero_()
    assert not torch.equal(other.encode(clip), latent)
    other.load_state_dict(weights)
    assert torch.equal(other.encode(clip), vae.encode(clip))
    vae.release()
    assert torch.equal(other.encode(clip), vae.encode(clip))


@pytest.mark.extended
def test_a_vae_follows_autocast(vae_file: str) -> None:
    vae = engine.load_vae(vae_file, device="cpu")
    clip = clip_for(vae)
    exact = vae.encode(clip)
    for needs_gradients in (False, True):
        vae.requires_grad_(needs_gradients)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            latent = vae.encode(clip)
        assert latent.dtype == torch.bfloat16
        assert torch.allclose(latent.float(), exact, atol=0.1)


@pytest.mark.extended
def test_a_vae_can_be_trained(vae_file: str) -> None:
    vae = engine.load_vae(vae_file, device="cpu")
    clip, before = clip_for(vae), vae.encode(clip_for(vae))
    vae.train().requires_grad_()
    optimiser = torch.optim.AdamW(vae.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        loss = vae(clip, return_loss=True)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    with torch.no_grad():
        after = vae.eval().encode(clip)
    assert torch.allclose(after, vae.encode(clip).detach(), atol=1e-4)  # as without the fast one
    assert before.shape == after.shape


@pytest.mark.extended
def test_the_divergence_of_latents_is_a_part_of_the_loss(vae_file: str) -> None:
    vae = engine.load_vae(vae_file, device="cpu").requires_grad_()
    clip = clip_for(vae)
    sides = [side // vae.config.upscale for side in clip.shape[3:]]
    frames = F.interpolate(clip[0].transpose(0, 1), sides, mode="bicubic", antialias=True)
    small = frames.clamp(-1, 1).transpose(0, 1).unsqueeze(0)
    mean, log_variance = vae.posterior(small)
    assert torch.allclose(mean, vae.encode(small), atol=1e-6)
    assert vae.posterior(small[:, :, 0])[1].shape == mean[:, :, 0].shape
    usual = Normal(torch.zeros_like(mean), torch.ones_like(mean))
    each = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), usual)
    losses = []
    for weight in (1e-3, 1.0):
        torch.manual_seed(0)
        losses.append(vae(clip, return_loss=True, kl_weight=weight))
    assert torch.allclose(losses[1] - losses[0], 0.999 * each.mean(), atol=1e-5)
    losses[1].backward()
    assert all(one.grad is not None for one in vae.encoder.parameters())
    with torch.no_grad():
        torch.manual_seed(0)
        assert torch.allclose(vae(clip, return_loss=True, kl_weight=1.0), losses[1], rtol=1e-4)
    with pytest.raises(ValueError, match="return_loss"):
        vae(clip, kl_weight=1.0)


def test_a_wrong_tensor_is_named(vae_file: str) -> None:
    vae = engine.load_vae(vae_file, device="cpu")
    clip, channels = clip_for(vae), vae.config.latent_channels
    for given, text in (
        (clip[:, :, :4], "not 4 frames"),
        (clip[..., :-1], "must be multiples of"),
        (clip[0], "not 3x5x"),
        (clip[:, :, :0], r"not 1x3x0x"),
        (clip.to(torch.uint8), r"not torch\.uint8"),
        (clip.numpy(), "not ndarray"),
    ):
        with pytest.raises(engine.EngineError, match=text):
            vae.encode(given)
    with pytest.raises(engine.EngineError, match=rf"\[B, {channels}, t, h, w\]"):
        vae.decode(clip)


def test_a_file_without_a_vae_is_refused(tmp_path: Path) -> None:
    lite = next(Path(engine.__file__).parents[1].glob("resources/weights/*.safetensors"))
    other = tmp_path / "reae.safetensors"  # its frames have other lengths and another range
    write_reae(other)
    missing = tmp_path / "no.safetensors"
    for path, text in ((lite, "not a VAE"), (other, "not a VAE"), (missing, "no.safetensors")):
        with pytest.raises(engine.EngineError, match=text):
            engine.load_vae(path)
    if not torch.cuda.is_available():
        with pytest.raises(engine.EngineError, match="cannot use an NVIDIA GPU"):
            engine.load_vae(lite, device="cuda")


def test_only_names_of_the_interface_are_there() -> None:
    assert {*engine.__all__} <= {*dir(engine)}
    with pytest.raises(AttributeError, match="upscael"):
        engine.upscael  # noqa: B018 - the look-up itself raises the error that is expected
