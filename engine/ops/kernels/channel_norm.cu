// RMS norm of each position over its channels, with or without SiLU.
//
// A block takes some pixels of one frame; blockIdx is (part, frame). Its threads stand in lanes
// (x: a power of two up to 32, on one pixel together) and rows (y: every blockDim.y-th pixel). A
// thread reads PACKS times VECTOR channels at once: channels lane * VECTOR of lanes threadIdx.x,
// threadIdx.x + blockDim.x and so on; they stay in registers between sum and result, so each value
// is read once. Offsets have 64 bits, pixels of one frame 32.

#include "scalars.cuh"

#define THREADS 256  // most threads of a block, whole warps

struct alignas(sizeof(Scalar) * VECTOR) Pack { Scalar channel[VECTOR]; };
struct Strides { long long t, y, x; };  // in elements; channels are contiguous
struct Shape { int width, pixels, per_block, channels; };

// The first of a thread's channels in its i-th pack.
__device__ inline int channel_of(int i) { return (threadIdx.x + i * blockDim.x) * VECTOR; }

// out = x / max(|x|, shortest) * sqrt(channels) * gamma, with SiLU if `silu`; out may be x. It has
// the frames from `written` on. `of_pixel`, [frames, pixels], gets 1 / max(|x|, shortest), if given.
extern "C" __global__ void __launch_bounds__(THREADS) rms_norm(
    const Scalar *x, Strides at, Scalar *out, Strides into, Shape shape, const float *gamma,
    float shortest, int silu, float *of_pixel, int written) {
  const Scalar *frame = x + blockIdx.y * at.t;
  int place = (int)blockIdx.y - written;
  Scalar *target = out + place * into.t;
  float factors[PACKS][VECTOR], root = sqrtf((float)shape.channels);
#pragma unroll
  for (int i = 0; i < PACKS; i++) {
#pragma unroll
    for (int c = 0; c < VECTOR; c++) {
      int channel = channel_of(i) + c;
      factors[i][c] = channel < shape.channels ? gamma[channel] * root : 0.0f;
    }
  }
  int first = blockIdx.x * shape.per_block;
  int end = min(first + shape.per_block, shape.pixels);
  int pixel = first + (int)threadIdx.y, column = pixel % shape.width, row = pixel / shape.width;
  int columns = blockDim.y % shape.width, rows = blockDim.y / shape.width;  // of a step
  // all threads iterate equally often, as they exchange sums
  for (int start = first; start < end; start += blockDim.y) {
    const Scalar *from = frame + (row * at.y + column * at.x);
    Scalar *to = target + (row * into.y + column * into.x);
    Pack pack[PACKS];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      if (pixel < end && channel_of(i) < shape.channels) pack[i] = *(Pack *)(from + channel_of(i));
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (pixel < end && channel_of(i) < shape.channels) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = to_float(pack[i].channel[c]);
          squares += value * value;
        }
      }
    }
    for (int away = blockDim.x / 2; away > 0; away /= 2)
      squares += __shfl_xor_sync(0xffffffffu, squares, away);
    float inverse = 1.0f / fmaxf(sqrtf(squares), shortest);
    if (of_pixel != 0 && threadIdx.x == 0 && pixel < end)
      of_pixel[(long long)blockIdx.y * shape.pixels + pixel] = inverse;
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      if (place >= 0 && pixel < end && channel_of(i) < shape.channels) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = to_float(pack[i].channel[c]) * inverse * factors[i][c];
          pack[i].channel[c] = to_scalar(silu ? silu_of(value) : value);
        }
        *(Pack *)(to + channel_of(i)) = pack[i];
      }
    }
    pixel += blockDim.y;
    column += columns;
    row += rows;
    if (column >= shape.width) {
      column -= shape.width;
      row++;
    }
  }
}
