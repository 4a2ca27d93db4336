// Passes over tokens around linear layers: RMS norm with modulation, gated sum, SwiGLU.
//
// A block takes every gridDim.x-th row, a thread PACKS times VECTOR channels of it, read at once:
// channels lane * VECTOR of lanes threadIdx.x, threadIdx.x + blockDim.x and so on. Factors of
// channels are read once for all rows of a block. Offsets have 64 bits, rows and channels 32.

#include "scalars.cuh"

#define THREADS 256  // most threads of a block, whole warps

struct alignas(sizeof(Scalar) * VECTOR) Pack { Scalar channel[VECTOR]; };
struct Matrix { Scalar *first; long long pitch; };  // pitch in elements
struct Shape { int rows, channels; };

// One row as a thread sees it.
struct Row {
  Scalar *first;
  int channels;
  __device__ Row(Matrix from, long long row, Shape shape)
      : first(from.first + row * from.pitch), channels(shape.channels) {}
  __device__ static int channel(int i) { return (threadIdx.x + i * blockDim.x) * VECTOR; }
  __device__ bool has(int i) const { return channel(i) < channels; }
  __device__ Pack *pack(int i) const { return (Pack *)(first + channel(i)); }
};

// Factors of a thread's channels; `other` where there are none.
struct Factors {
  float of[PACKS][VECTOR];
  __device__ Factors(const float *from, float other, int channels) {
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
#pragma unroll
      for (int c = 0; c < VECTOR; c++) {
        int channel = Row::channel(i) + c;
        of[i][c] = from != 0 && channel < channels ? from[channel] : other;
      }
    }
  }
};

// Sum over all threads of a block, which all call it; shared memory: a float for each warp.
__device__ inline float over_block(float value) {
  extern __shared__ char memory[];
  float *part = (float *)memory;
#pragma unroll
  for (int away = 16; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffffu, value, away);
  __syncthreads();  // the sum of the row before has been read
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < blockDim.x / 32; warp++) sum += part[warp];
  return sum;
}

// out = x / sqrt(mean(x^2) + eps) * scale + shift; scale and shift may be null, out may be x.
extern "C" __global__ void __launch_bounds__(THREADS) rms_modulate(
    Matrix x, Matrix out, Shape shape, const float *scale, const float *shift, float eps) {
  Factors scales(scale, 1.0f, shape.channels), shifts(shift, 0.0f, shape.channels);
  for (long long r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    Row row(x, r, shape), target(out, r, shape);
    Pack pack[PACKS];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      if (row.has(i)) pack[i] = *row.pack(i);
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
    float inverse = 1.0f / sqrtf(over_block(squares) / shape.channels + eps);
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
