"""Suffixes of files that people open: videos, images, latents. Loads without Qt.

The setup reads this too: Upreel stands under "Open with" for the videos and latents of this list.
"""

# Names without the dot, for reading.
_VIDEO = (
    "3gp asf avi divx dv flv m2ts m2v m4v mkv mov mp4 mpeg mpg mts mxf nut ogv rm rmvb ts vob "
    "webm wmv y4m"
)
_PICTURE = "avif bmp dpx exr heic heif hif jpeg jpg png tif tiff webp"
VIDEO_ENDINGS = frozenset(f".{name}" for name in _VIDEO.split())
PICTURE_ENDINGS = frozenset(f".{name}" for name in _PICTURE.split())
LATENT_ENDINGS = frozenset({".latent"})
WHEEL_ENDINGS = frozenset({".whl"})  # of an NVIDIA runtime
MODEL_ENDINGS = frozenset({".ckpt", ".gguf", ".pt", ".pth", ".safetensors"})
