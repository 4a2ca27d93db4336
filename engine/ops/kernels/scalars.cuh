// Scalar type of a kernel, by SCALAR_FLOAT32, SCALAR_FLOAT16 or SCALAR_BFLOAT16; SiLU with the
// accuracy that it needs.

__device__ inline float half_to_float(unsigned short value) {  // of the bits of a float16
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value));
  return result;
}

#if defined(SCALAR_FLOAT32)

typedef float Scalar;
__device__ inline float to_float(Scalar value) { return value; }
__device__ inline Scalar to_scalar(float value) { return value; }

#elif defined(SCALAR_FLOAT16)

typedef unsigned short Scalar;
__device__ inline float to_float(Scalar value) { return half_to_float(value); }
__device__ inline Scalar to_scalar(float value) {
  Scalar result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}

#elif defined(SCALAR_BFLOAT16)

typedef unsigned short Scalar;
__device__ inline float to_float(Scalar value) { return __uint_as_float((unsigned)value << 16); }
__device__ inline Scalar to_scalar(float value) {
#if __CUDA_ARCH__ >= 800
  Scalar result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
#endif
}

#else
#error "one of SCALAR_FLOAT32, SCALAR_FLOAT16, SCALAR_BFLOAT16 must be defined"
#endif

#if defined(SCALAR_FLOAT32)
__device__ inline float silu_of(float value) { return value / (1.0f + expf(-value)); }
#else  // off by a few roundings of float32: less than one rounding to half precision
__device__ inline float silu_of(float value) { return __fdividef(value, 1.0f + __expf(-value)); }
#endif
