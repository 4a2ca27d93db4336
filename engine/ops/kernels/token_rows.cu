// Passes over tokens around linear layers: RMS norm with modulation, gated sum, SwiGLU.
//
// STREAM_FLOAT32: the tokens that are normed and added to, the residual stream, are in float32,
// everything else is of the scalar type, whose range is too small for them.

#include "scalars.cuh"
#include "rows.cuh"

#if defined(STREAM_FLOAT32)
typedef float Stream;
__device__ inline float from_stream(float value) { return value; }
__device__ inline float to_stream(float value) { return value; }
#else
typedef Scalar Stream;
__device__ inline float from_stream(Stream value) { return to_float(value); }
__device__ inline Stream to_stream(float value) { return to_scalar(value); }
#endif

typedef PackOf<Stream> StreamPack;
typedef MatrixOf<Stream> StreamMatrix;
typedef RowOf<Stream> StreamRow;

// out = x / sqrt(mean(x^2) + eps) * scale + shift; scale and shift may be null, out may be x.
extern "C" __global__ void __launch_bounds__(THREADS) rms_modulate(
    StreamMatrix x, Matrix out, Shape shape, const float *scale, const float *shift, float eps) {
  Factors scales(scale, 1.0f, shape.channels), shifts(shift, 0.0f, shape.channels);
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    StreamRow row(x, r, shape);
    Row target(out, r, shape);
    StreamPack pack[PACKS];
    float squares = 0.0f;
    row.read(pack);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = from_stream(pack[i].channel[c]);
          squares += value * value;
        }
      }
    }
    float inverse = 1.0f / sqrtf(over_block<Sum>(squares) / shape.channels + eps);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
        Pack result;
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = from_stream(pack[i].channel[c]) * inverse;
          result.channel[c] = to_scalar(value * scales.of[i][c] + shifts.of[i][c]);
        }
        *target.pack(i) = result;
      }
    }
  }
}

// residual += y * gate
extern "C" __global__ void __launch_bounds__(THREADS) add_gated(
    StreamMatrix residual, Matrix y, Shape shape, const float *gate) {
  Factors gates(gate, 1.0f, shape.channels);
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    StreamRow row(residual, r, shape);
    Row branch(y, r, shape);
    StreamPack pack[PACKS];
    Pack added[PACKS];
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
        pack[i] = *row.pack(i);
        added[i] = *branch.pack(i);
      }
    }
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = to_float(added[i].channel[c]) * gates.of[i][c];
          pack[i].channel[c] = to_stream(from_stream(pack[i].channel[c]) + value);
        }
        *row.pack(i) = pack[i];
      }
    }
  }
}

// out = silu(gate) * value; out may be either of them.
extern "C" __global__ void __launch_bounds__(THREADS) swiglu(
    Matrix gate, Matrix value, Matrix out, Shape shape) {
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row left(gate, r, shape), right(value, r, shape), target(out, r, shape);
    Pack pack[PACKS], factor[PACKS];
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (left.has(i)) {
        pack[i] = *left.pack(i);
        factor[i] = *right.pack(i);
      }
    }
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (left.has(i)) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float opened = silu_of(to_float(pack[i].channel[c]));
          pack[i].channel[c] = to_scalar(opened * to_float(factor[i].channel[c]));
        }
        *target.pack(i) = pack[i];
      }
    }
  }
}
