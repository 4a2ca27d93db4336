"""The beginning of every kernel's source: one type of numbers, and SiLU as exact as it needs."""

from __future__ import annotations

_SILU = """
__device__ inline float silu_of(float value) { return value / (1.0f + expf(-value)); }
"""
_QUICK_SILU = """  // some float32 roundings off: nothing beside the one to half precision
__device__ inline float silu_of(float value) { return __fdividef(value, 1.0f + __expf(-value)); }
"""

SCALARS = {
    "float32": _SILU
    + """
typedef float Scalar;
__device__ inline float to_float(Scalar value) { return value; }
__device__ inline Scalar to_scalar(float value) { return value; }
""",
    "float16": _QUICK_SILU
    + """
typedef unsigned short Scalar;
__device__ inline float to_float(Scalar value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value));
  return result;
}
__device__ inline Scalar to_scalar(float value) {
  Scalar result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}
""",
    "bfloat16": _QUICK_SILU
    + """
typedef unsigned short Scalar;
__device__ inline float to_float(Scalar value) { return __uint_as_float((unsigned)value << 16); }
__device__ inline Scalar to_scalar(float value) {
  unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
}
""",
}
