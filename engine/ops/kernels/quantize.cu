// Rounding of tokens for matrix products in 8 bits, and what follows an int8 product.

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
        *(Codes *)(codes + r * shape.channels + Row::channel(i)) = found;
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
        *(Codes *)(codes + r * shape.channels + Row::channel(i)) = found;
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
        Sums found = *(const Sums *)(sums + r * shape.channels + Row::channel(i));
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
