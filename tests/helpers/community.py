"""Files of community models: every architecture that spandrel lists, as small as it can be."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import torch
from safetensors.torch import save_file
from torch import nn

from engine.core.geometry import Size
from engine.files.catalogue import PublishedFile, catalogue
from engine.files.model_files import named
from engine.models.community.library import spandrel, warnings_ignored
from engine.models.community.network import load
from engine.models.community.plan import NetworkCall, NetworkCost
from engine.models.community.upscaler import CommunityUpscaler, called, cost_of
from engine.protocol.model_file_state import NetworkFacts

# Arguments of each network; spandrel recognises a few only at sizes that are not small.
_TINY: dict[str, dict[str, Any]] = {
    "ATD": dict(
        embed_dim=12, depths=(2, 2), num_heads=(2, 2), window_size=8, category_size=32,
        num_tokens=8, reducted_dim=4, upscale=2, upsampler="pixelshuffledirect",
    ),
    "AuraSR": dict(
        dim=8, image_size=None, input_image_size=None, up_dim_mults=(1, 1, 1, 1, 1),
        style_network={"dim_in": 8, "dim_out": 32, "depth": 1}, down_dim_mults=(1, 1, 1),
        resnet_block_groups=1, full_attn=(False, False, False, True, True), init_dim=8,
        self_attn_dim_head=4, self_attn_heads=8, attn_depths=(1, 1, 1, 1, 1), mid_attn_depth=1,
        num_conv_kernels=2,
    ),
    "CRAFT": dict(embed_dim=12, depths=[1, 1], num_heads=[2, 2], upscale=2),
    "Compact": dict(num_feat=8, num_conv=2, upscale=2),
    "DAT": dict(embed_dim=16, split_size=[2, 4], depth=[2], num_heads=[2], upscale=2),
    "DCTLSA": dict(nf=20, num_modules=6, upscale=2, num_head=5),
    "DITN": dict(dim=12, ITL_blocks=1, SAL_blocks=1, upscale=2),
    "DRCT": dict(
        embed_dim=16, depths=(1,), num_heads=(2,), window_size=8, upscale=2,
        upsampler="pixelshuffle", gc=8,
    ),
    "DRUNet": dict(in_nc=4, out_nc=3, nc=[8, 8, 8, 8], nb=2),
    "DnCNN": dict(in_nc=3, out_nc=3, nc=8, nb=9, act_mode="R"),
    "ESRGAN": dict(num_filters=8, num_blocks=1, scale=2),
    "FBCNN": dict(nc=[8, 8, 16, 512], nb=2),
    "FDAT": dict(scale=2, embed_dim=16, num_groups=1, depth_per_group=2, num_heads=2, mid_dim=8),
    "FFTformer": dict(dim=8, num_blocks=[1, 1, 1], num_refinement_blocks=1),
    "GFPGAN": {},
    "GRL": dict(
        img_size=16, embed_dim=16, upscale=2, upsampler="pixelshuffledirect", depths=[1, 1],
        num_heads_window=[2, 2], num_heads_stripe=[2, 2], window_size=8, stripe_size=[8, 8],
        anchor_window_down_factor=2, mlp_ratio=2.0,
    ),
    "HAT": dict(
        img_size=16, embed_dim=12, depths=(1, 1), num_heads=(2, 2), window_size=8, upscale=2,
        num_feat=16, squeeze_factor=4, mlp_ratio=2.0,
    ),
    "HVICIDNet": dict(channels=[8, 8, 16, 16], heads=[1, 1, 2, 2]),
    "IPT": dict(patch_size=48, n_feats=8, num_layers=1, num_heads=4, scale=[2]),
    "KBNet": dict(width=8, middle_blk_num=1, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1]),
    "LaMa": {},
    "MMRealSR": dict(
        num_in_ch=3, num_out_ch=3, scale=4, num_feat=8, num_block=1, num_grow_ch=4,
        num_feats=[8, 8, 8, 8], num_blocks=[1, 1, 1, 1],
    ),
    "MixDehazeNet": dict(embed_dims=[8, 8, 8, 8, 8], depths=[1] * 5),
    "MoESR": dict(scale=2, dim=8, n_blocks=1, n_block=1, upsample_dim=8),
    "MoSR": dict(upscale=2, n_block=2, dim=8),
    "NAFNet": dict(width=8, middle_blk_num=1, enc_blk_nums=[1], dec_blk_nums=[1]),
    "OmniSR": dict(num_feat=16, block_num=1, res_num=1, up_scale=2),
    "PLKSR": dict(dim=16, n_blocks=2, upscaling_factor=2, kernel_size=5),
    "RCAN": dict(scale=2, n_resgroups=1, n_resblocks=1, n_feats=8, reduction=4),
    "RGT": dict(embed_dim=16, depth=[2], num_heads=[2], upscale=2),
    "RealCUGAN": {},
    "RestoreFormer": dict(
        n_embed=16, embed_dim=32, ch=32, ch_mult=(1,) * 6, num_res_blocks=1, z_channels=32
    ),
    "RetinexFormer": dict(n_feat=8, stage=1, num_blocks=[1, 1, 1]),
    "SAFMN": dict(dim=16, n_blocks=2, upscaling_factor=2),
    "SAFMNBCIE": dict(dim=8, n_blocks=1, num_layers=1),
    "SCUNet": dict(config=[1] * 7),
    "SPAN": dict(num_in_ch=3, num_out_ch=3, feature_channels=8, upscale=2),
    "SeemoRe": dict(scale=2, num_experts=2, num_layers=1, embedding_dim=8),
    "Swin2SR": dict(
        img_size=16, embed_dim=12, depths=[1, 1], num_heads=[2, 2], window_size=8, upscale=2,
        upsampler="pixelshuffledirect", mlp_ratio=2.0,
    ),
    "SwiftSRGAN": dict(num_channels=8, num_blocks=2, upscale_factor=2),
    "SwinIR": dict(
        img_size=16, embed_dim=12, depths=[1, 1], num_heads=[2, 2], window_size=8, upscale=2,
        upsampler="pixelshuffledirect", mlp_ratio=2.0,
    ),
    "Uformer": dict(img_size=256, embed_dim=8, depths=[1] * 9, num_heads=[1] * 9),
}  # fmt: skip
_CLASSES = {"KBNet": "KBNet_s", "PLKSR": "RealPLKSR", "RealCUGAN": "UpCunet2x"}

REFUSED = {"GFPGAN": "redraws-a-face", "RestoreFormer": "redraws-a-face", "LaMa": "needs-a-mask"}
RUN = tuple(name for name in _TINY if name not in REFUSED)


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A file as a job takes it."""

    path: Path
    facts: NetworkFacts
    call: NetworkCall
    upscaler: CommunityUpscaler

    def cost(self, size: Size) -> NetworkCost:
        """Of a frame of that size."""
        return cost_of(named(self.path), self.call, self.facts.extended(size))


def architectures() -> list[str]:
    """Ids of all that spandrel itself lists."""
    return sorted(one.architecture.id for one in spandrel().MAIN_REGISTRY)


def network(architecture: str = "Compact", *, seed: int = 0, **arguments: Any) -> nn.Module:
    """A network with random weights; arguments other than those of the table count first."""
    spandrel()
    module = importlib.import_module(f"spandrel.architectures.{architecture}")
    make: Callable[..., nn.Module] = getattr(module, _CLASSES.get(architecture, architecture))
    with torch.random.fork_rng(), warnings_ignored():
        torch.manual_seed(seed)
        return make(**{**_TINY[architecture], **arguments}).eval()


def write_network(path: Path, architecture: str = "Compact", **arguments: Any) -> Path:
    """A model file; .safetensors, else as PyTorch writes it, in the table that trainers use."""
    return write_state(path, network(architecture, **arguments).state_dict())


def write_state(path: Path, state: dict[str, torch.Tensor]) -> Path:
    """The same of tensors."""
    tensors = {name: value.contiguous().clone() for name, value in state.items()}
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save({"params_ema": tensors}, path)
    return path


def write_wheel(folder: Path) -> PublishedFile:
    """The installed library as a wheel in a folder, and the file of a catalogue that pins it."""
    published = next(file for file in catalogue() if file.kind == "library")
    content = _wheel()
    (folder / published.filename).write_bytes(content)
    return replace(published, sha256=sha256(content).hexdigest(), bytes=len(content))


@cache
def _wheel() -> bytes:
    """The installed library, packed."""
    package, packed = Path(spandrel().__file__).parent, io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as wheel:
        for module in package.rglob("*.py"):
            wheel.write(module, f"{package.name}/{module.relative_to(package).as_posix()}")
    return packed.getvalue()


def loaded(path: Path, device: str = "cpu") -> Loaded:
    """A file measured, in float32, and its network on a device."""
    weights = named(path)
    facts, call = called(weights, half=False)
    return Loaded(path, facts, call, CommunityUpscaler(load(weights), facts, call, device))
