// Products of matrix units and nothing else: the most that any convolution can reach on a GPU.

#include "tensor_cores.cuh"

#define THREADS 256
#define CHAINS 8  // sums of a warp that do not wait for each other

// HALF_SUMS: sums in half precision, else in float32. `out`, [blocks, THREADS], is of no use, but
// that the products have to be computed.
extern "C" __global__ void __launch_bounds__(THREADS) multiply_only(unsigned *out, int rounds) {
  unsigned a[4], b[2], all = 0;
  for (int i = 0; i < 4; i++) a[i] = 0x38003800u + threadIdx.x * 4 + i;  // values around 0.5
  for (int i = 0; i < 2; i++) b[i] = 0xb8003400u + threadIdx.x * 2 + i;
#if HALF_SUMS
  unsigned sums[CHAINS][2] = {};
#else
  float sums[CHAINS][4] = {};
#endif
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++) multiply_add(sums[chain], a, b[0], b[1]);
  }
#pragma unroll
  for (int chain = 0; chain < CHAINS; chain++) {
#if HALF_SUMS
    all ^= sums[chain][0] ^ sums[chain][1];
#else
    for (int i = 0; i < 4; i++) all ^= __float_as_uint(sums[chain][i]);
#endif
  }
  out[blockIdx.x * THREADS + threadIdx.x] = all;
}
