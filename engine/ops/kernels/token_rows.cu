// Passes over tokens around linear layers: RMS norm with modulation, gated sum, SwiGLU.

#include "scalars.cuh"
#include "rows.cuh"

// out = x / sqrt(mean(x^2) + eps) * scale + shift; scale and shift may be null, out may be x.
extern "C" __global__ void __launch_bounds__(THREADS) rms_modulate(
    Matrix x, Matrix out, Shape shape, const float *scale, const float *shift, float eps) {
  Factors scales(scale, 1.0f, shape.channels), shifts(shift, 0.0f, shape.channels);
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row row(x, r, shape), target(out, r, shape);
    Pack pack[PACKS];
    float squares = 0.0f;
    row.read(pack);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = to_float(pack[i].channel[c]);
          squares += value * value;
        }
      }
    }
    float inverse = 1.0f / sqrtf(over_block<Sum>(squares) / shape.channels + eps);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (row.has(i)) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = to_float(pack[i].channel[c]) * inverse;
          pack[i].channel[c] = to_scalar(value * scales.of[i][c] + shifts.of[i][c]);
        }
        *target.pack(i) = pack[i];
      }
    }
  }
}

// residual += y * gate
extern "C" __global__ void __launch_bounds__(THREADS) add_gated(
    Matrix residual, Matrix y, Shape shape, const float *gate) {
  Factors gates(gate, 1.0f, shape.channels);
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row row(residual, r, shape), branch(y, r, shape);
    Pack pack[PACKS], added[PACKS];
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
          pack[i].channel[c] = to_scalar(to_float(pack[i].channel[c]) + value);
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
