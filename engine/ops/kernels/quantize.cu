// Rounding of tokens for matrix products in 8 bits, what follows an int8 product, and weights in
// 8 bits as values to multiply with.

#include "scalars.cuh"
#include "rows.cuh"

typedef unsigned char Code;  // the bits of an e4m3 or int8 value
struct alignas(VECTOR) Codes { Code channel[VECTOR]; };
struct alignas(4 * VECTOR < 16 ? 4 * VECTOR : 16) Sums { int channel[VECTOR]; };

// e4m3 of a value: to nearest, ties to even; beyond 448 the largest; NaN stays NaN.
__device__ inline Code to_e4m3(float value) {
  unsigned bits = __float_as_uint(value), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7f;
  if (size > 0x43e00000) return sign | 0x7e;  // 448
  if (size < 0x3c800000)  // below 2^-6 steps are 2^-9: the last place of 2^14 in a float
    return sign | (__float_as_uint(__uint_as_float(size) + 16384.0f) - 0x46800000);
  size += 0x7ffff + (size >> 20 & 1);
  return sign | ((size >> 20) - (120 << 3));  // an exponent counts from -7, not -127
}

__device__ inline Code to_int8(float value) { return (Code)(signed char)rintf(value); }

struct E4m3 {
  __device__ static float value(Code code) {
    if ((code & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000);  // NaN; there is no infinity
    return half_to_float((code & 0x80) << 8 | (code & 0x7f) << 7) * 256.0f;  // 2^(15 - 7)
  }
};
struct E5m2 {  // the upper byte of a float16
  __device__ static float value(Code code) { return half_to_float(code << 8); }
};
struct Int8 {
  __device__ static float value(Code code) { return (signed char)code; }
};

// codes = e4m3(x / scale), one scale for all
extern "C" __global__ void __launch_bounds__(THREADS) round_to_e4m3(
    Matrix x, Code *codes, Shape shape, const float *scale) {
  float of_all = *scale;
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row row(x, r, shape);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
        Pack pack = *row.pack(i);
        Codes found;
#pragma unroll
        for (int c = 0; c < VECTOR; c++)
          found.channel[c] = to_e4m3(to_float(pack.channel[c]) / of_all);
        *(Codes *)(codes + r * shape.channels + channel_of(i)) = found;
      }
    }
  }
}

// codes = int8(x / scale), scale = largest magnitude of the row / 127
extern "C" __global__ void __launch_bounds__(THREADS) round_to_int8(
    Matrix x, Code *codes, Shape shape, float *scales, float least) {
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row row(x, r, shape);
    Pack pack[PACKS];
    float largest = 0.0f;
    row.read(pack);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++)
          largest = Largest::of(largest, fabsf(to_float(pack[i].channel[c])));
      }
    }
    float scale = Largest::of(over_block<Largest>(largest), least) / 127.0f;
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
        Codes found;
#pragma unroll
        for (int c = 0; c < VECTOR; c++)
          found.channel[c] = to_int8(to_float(pack[i].channel[c]) / scale);
        *(Codes *)(codes + r * shape.channels + channel_of(i)) = found;
      }
    }
    if (threadIdx.x == 0) scales[r] = scale;
  }
}

// out = sums * scale of the row * scale of the channel + bias; bias may be null.
extern "C" __global__ void __launch_bounds__(THREADS) scale_sums(
    const int *sums, Matrix out, Shape shape, const float *of_rows, const float *of_channels,
    const float *bias) {
  Factors scales(of_channels, 1.0f, shape.channels), added(bias, 0.0f, shape.channels);
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row target(out, r, shape);
    float of_row = of_rows[r];
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (target.has(i)) {
        Sums found = *(const Sums *)(sums + r * shape.channels + channel_of(i));
        Pack pack;
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = found.channel[c] * of_row;
          pack.channel[c] = to_scalar(value * scales.of[i][c] + added.of[i][c]);
        }
        *target.pack(i) = pack;
      }
    }
  }
}

// Scales of codes: one for each row, or for all rows where step is 0; null: 1.
struct OfRows {
  const float *scales;
  int step;
  __device__ float of(long long row, int) const {
    return scales != 0 ? scales[row * step] : 1.0f;
  }
};
// A power of two for each 32 neighbours in a row, by its exponent: 127 for 1, 255 for NaN.
struct OfBlocks {
  const Code *exponents;
  int blocks;  // of a row
  __device__ float of(long long row, int channel) const {
    unsigned exponent = exponents[row * blocks + channel / 32];
    unsigned half = exponent == 0 || exponent == 255 ? 1 << 22 : 0;  // 2^-127 has no leading 1
    return __uint_as_float(exponent << 23 | half);
  }
};

// out = value of a code * its scale
template <class Format, class Scales>
__device__ inline void widen(const Code *codes, Matrix out, Shape shape, Scales scales) {
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row target(out, r, shape);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (target.has(i)) {
        float scale = scales.of(r, channel_of(i));
        Codes found = *(const Codes *)(codes + r * shape.channels + channel_of(i));
        Pack pack;
#pragma unroll
        for (int c = 0; c < VECTOR; c++)
          pack.channel[c] = to_scalar(Format::value(found.channel[c]) * scale);
        *target.pack(i) = pack;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) widen_e4m3(
    const Code *codes, Matrix out, Shape shape, const float *scales, int step) {
  widen<E4m3>(codes, out, shape, OfRows{scales, step});
}

extern "C" __global__ void __launch_bounds__(THREADS) widen_e5m2(
    const Code *codes, Matrix out, Shape shape, const float *scales, int step) {
  widen<E5m2>(codes, out, shape, OfRows{scales, step});
}

extern "C" __global__ void __launch_bounds__(THREADS) widen_int8(
    const Code *codes, Matrix out, Shape shape, const float *scales, int step) {
  widen<Int8>(codes, out, shape, OfRows{scales, step});
}

extern "C" __global__ void __launch_bounds__(THREADS) widen_mxfp8(
    const Code *codes, Matrix out, Shape shape, const Code *exponents) {
  widen<E4m3>(codes, out, shape, OfBlocks{exponents, shape.channels / 32});
}

// What four values become by the regular Hadamard matrix over 2: half their sum minus the opposite.
__device__ inline float turned(float sum, float opposite) { return 0.5f * sum - opposite; }

// Multiply `group` neighbouring values by that matrix of their number, 4, 16, 64 or 256, over its
// norm: by its factors, each for four values that are 1, 4, 16 or 64 apart. A warp has 256 values,
// 8 to a lane, and all of its lanes call this. Sums of int8 values are exact.
__device__ inline void rotate(float (&value)[VECTOR], int group) {
#if VECTOR == 8  // fewer values of a lane are left to torch
#pragma unroll
  for (int c = 0; c < VECTOR; c += 4) {
    float a = value[c], b = value[c + 1], x = value[c + 2], y = value[c + 3], sum = a + b + x + y;
    value[c] = turned(sum, y);
    value[c + 1] = turned(sum, x);
    value[c + 2] = turned(sum, b);
    value[c + 3] = turned(sum, a);
  }
  if (group >= 16) {
#pragma unroll
    for (int c = 0; c < 4; c++) {
      float a = __shfl_xor_sync(0xffffffffu, value[c], 1);
      float b = __shfl_xor_sync(0xffffffffu, value[c + 4], 1), sum = value[c] + value[c + 4] + a + b;
      value[c] = turned(sum, b);
      value[c + 4] = turned(sum, a);
    }
  }
  for (int lanes = 2; lanes * VECTOR < group; lanes *= 4) {
#pragma unroll
    for (int c = 0; c < VECTOR; c++) {
      float sum = value[c] + __shfl_xor_sync(0xffffffffu, value[c], lanes);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2 * lanes);
      value[c] = turned(sum, __shfl_xor_sync(0xffffffffu, value[c], 3 * lanes));
    }
  }
#endif
}

// As `widen_int8`, of codes of which `group` neighbours were rotated together.
extern "C" __global__ void __launch_bounds__(THREADS) widen_rotated(
    const Code *codes, Matrix out, Shape shape, const float *scales, int step, int group) {
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row target(out, r, shape);
    float scale = scales != 0 ? scales[r * step] : 1.0f;
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      float value[VECTOR] = {};
      if (target.has(i)) {
        Codes found = *(const Codes *)(codes + r * shape.channels + channel_of(i));
#pragma unroll
        for (int c = 0; c < VECTOR; c++) value[c] = Int8::value(found.channel[c]);
      }
      rotate(value, group);
      if (target.has(i)) {
        Pack pack;
#pragma unroll
        for (int c = 0; c < VECTOR; c++) pack.channel[c] = to_scalar(value[c] * scale);
        *target.pack(i) = pack;
      }
    }
  }
}
