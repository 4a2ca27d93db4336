// GroupNorm: statistics of parts (with a sum before them), their merge, normalise + SiLU.
//
// A block takes some pixels of one frame, all channels of each. Its threads stand in lanes (x:
// VECTOR channels each, read at once) and rows (y: every blockDim.y-th pixel); blockIdx is
// (part, frame). Macros: the scalar type, VECTOR, and GROUP, the channels of a group; one of the
// two divides the other. Offsets have 64 bits, pixels of one frame 32.

#include "scalars.cuh"
#include "statistics.cuh"

#define SUB (VECTOR < GROUP ? VECTOR : GROUP)  // channels of a thread in one group
#define SEGMENTS (VECTOR / SUB)
#define BATCH 4                                // pixels that a thread loads at once
#define THREADS 512                            // most threads of a block

struct alignas(sizeof(Scalar) * VECTOR) Pack { Scalar channel[VECTOR]; };
struct Strides { long long t, y, x; };  // in elements; channels are contiguous
struct Shape { int width, pixels, per_block, channels; };

// The pixels of one thread: every blockDim.y-th of its block's.
struct PixelSteps {
  int pixel, end, x, y, step_x, step_y, width;
  __device__ PixelSteps(Shape shape) {
    int first = blockIdx.x * shape.per_block;
    width = shape.width;
    end = min(first + shape.per_block, shape.pixels);
    pixel = first + (int)threadIdx.y;
    x = pixel % width;
    y = pixel / width;
    step_x = blockDim.y % width;
    step_y = blockDim.y / width;
  }
  __device__ bool more() const { return pixel < end; }
  __device__ long long offset(Strides at) const { return y * at.y + x * at.x; }
  __device__ void step() {
    pixel += blockDim.y;
    x += step_x;
    y += step_y;
    if (x >= width) { x -= width; y++; }
  }
};

// Sum of the parts of all rows of a block (a power of two); the result is in row 0.
__device__ Part over_rows(Part mine, Part *row, int pitch, int rows) {
  row[threadIdx.y * pitch] = mine;
  __syncthreads();
  for (int half = rows / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) {
      mine.merge(row[(threadIdx.y + half) * pitch]);
      row[threadIdx.y * pitch] = mine;
    }
    __syncthreads();
  }
  return mine;
}

// Loads VECTOR channels of some factors; `other` where there are none.
__device__ inline void load_factors(float (&of)[VECTOR], const float *from, float other) {
#pragma unroll
  for (int c = 0; c < VECTOR; c++) of[c] = from == 0 ? other : from[threadIdx.x * VECTOR + c];
}

// mean and m2 of each (frame, part, group) of x + bias. ADDS: x becomes x + change + bias, and the
// statistics are those of its rounded values. Shared: a Part for every row, lane and segment.
template <bool ADDS>
__device__ inline void statistics(
    Scalar *x, Strides at, const Scalar *change, Strides change_at, const float *bias, Shape shape,
    float *mean, float *m2) {
  extern __shared__ char memory[];
  Part *shared = (Part *)memory;
  Scalar *frame = x + blockIdx.y * at.t + threadIdx.x * VECTOR;
  const Scalar *added = change + blockIdx.y * change_at.t + threadIdx.x * VECTOR;
  float biases[VECTOR], means[SEGMENTS] = {}, m2s[SEGMENTS] = {}, seen = 0.0f;
  load_factors(biases, bias, 0.0f);
  PixelSteps steps(shape);
  while (steps.more()) {
    Pack batch[BATCH], more[BATCH];
    long long to[BATCH];
    int loaded = 0;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      if (steps.more()) {
        to[i] = steps.offset(at);
        batch[i] = *(const Pack *)(frame + to[i]);
        if (ADDS) more[i] = *(const Pack *)(added + steps.offset(change_at));
        loaded++;
        steps.step();
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      if (i < loaded) {
        float share = __fdividef(1.0f, seen + 1.0f), value[VECTOR];
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          value[c] = to_float(batch[i].channel[c]) + biases[c];
          if (ADDS) {
            batch[i].channel[c] = to_scalar(value[c] + to_float(more[i].channel[c]));
            value[c] = to_float(batch[i].channel[c]);
          }
        }
        if (ADDS) *(Pack *)(frame + to[i]) = batch[i];
#pragma unroll
        for (int s = 0; s < SEGMENTS; s++) {
          float sum = 0.0f, squares = 0.0f;
#pragma unroll
          for (int c = 0; c < SUB; c++) sum += value[s * SUB + c];
          float middle = sum * (1.0f / SUB);
#pragma unroll
          for (int c = 0; c < SUB; c++) {
            float off = value[s * SUB + c] - middle;
            squares += off * off;
          }
          float away = middle - means[s];
          means[s] += away * share;
          m2s[s] += squares + away * away * (seen * share * SUB);
        }
        seen += 1.0f;
      }
    }
  }
  int pitch = blockDim.x * SEGMENTS;
#pragma unroll
  for (int s = 0; s < SEGMENTS; s++) {
    Part mine = {seen * SUB, means[s], m2s[s]};
    over_rows(mine, shared + threadIdx.x * SEGMENTS + s, pitch, blockDim.y);
  }
  int groups = shape.channels / GROUP, pieces = GROUP / SUB;
  long long into = ((long long)blockIdx.y * gridDim.x + blockIdx.x) * groups;
  for (int g = threadIdx.y * blockDim.x + threadIdx.x; g < groups; g += blockDim.x * blockDim.y) {
    Part whole = shared[g * pieces];
    for (int i = 1; i < pieces; i++) whole.merge(shared[g * pieces + i]);
    mean[into + g] = whole.mean;
    m2[into + g] = whole.m2;
  }
}

// Statistics of x + bias; bias may be null.
extern "C" __global__ void __launch_bounds__(THREADS) group_statistics(
    Scalar *x, Strides at, Shape shape, const float *bias, float *mean, float *m2) {
  statistics<false>(x, at, x, at, bias, shape, mean, m2);
}

// x += change + bias, and the statistics of the sum; bias may be null.
extern "C" __global__ void __launch_bounds__(THREADS) add_residual(
    Scalar *x, Strides at, const Scalar *change, Strides change_at, Shape shape, const float *bias,
    float *mean, float *m2) {
  statistics<true>(x, at, change, change_at, bias, shape, mean, m2);
}

// scale and shift of each (frame, channel) from `parts` parts; a block for each (group, frame).
// `pixels` of each part may be null: then all but the last have per_block. `added` may be null: what
// the statistics had added to x, and normalise has not.
extern "C" __global__ void __launch_bounds__(THREADS) scale_and_shift(
    const float *mean, const float *m2, Shape shape, int parts, const int *pixels,
    const float *weight, const float *bias, const float *added, float eps, float *scale,
    float *shift) {
  extern __shared__ char memory[];
  int groups = shape.channels / GROUP;
  Part mine = {0.0f, 0.0f, 0.0f};
  for (int p = threadIdx.y; p < parts; p += blockDim.y) {
    int usual = min(shape.per_block, shape.pixels - p * shape.per_block);
    long long from = ((long long)blockIdx.y * parts + p) * groups + blockIdx.x;
    Part other = {(float)(pixels != 0 ? pixels[p] : usual) * GROUP, mean[from], m2[from]};
    mine.merge(other);
  }
  over_rows(mine, (Part *)memory, 1, blockDim.y);
  Part whole = *(Part *)memory;
  float inverse = 1.0f / sqrtf(whole.m2 / whole.count + eps);
  for (int c = threadIdx.y; c < GROUP; c += blockDim.y) {
    int channel = blockIdx.x * GROUP + c;
    long long to = (long long)blockIdx.y * shape.channels + channel;
    float factor = inverse * weight[channel];
    scale[to] = factor;
    float middle = added == 0 ? whole.mean : whole.mean - added[channel];
    shift[to] = bias[channel] - middle * factor;
  }
}

// out = x * scale + shift, with SiLU if `silu`; out may be x. Frames from `first` on are written to
// `kept`, too, which may be null: frames of `step` values, pixels as those of out.
extern "C" __global__ void __launch_bounds__(THREADS) normalise(
    const Scalar *x, Strides at, Scalar *out, Strides into, Shape shape, const float *scale,
    const float *shift, int silu, Scalar *kept, long long step, int first) {
  int channel = threadIdx.x * VECTOR;
  const Scalar *frame = x + blockIdx.y * at.t + channel;
  Scalar *target = out + blockIdx.y * into.t + channel, *copy = 0;
  if (kept != 0 && (int)blockIdx.y >= first) copy = kept + (blockIdx.y - first) * step + channel;
  float scales[VECTOR], shifts[VECTOR];
  load_factors(scales, scale + (long long)blockIdx.y * shape.channels, 1.0f);
  load_factors(shifts, shift + (long long)blockIdx.y * shape.channels, 0.0f);
  PixelSteps steps(shape);
  while (steps.more()) {
    Pack batch[BATCH];
    long long to[BATCH];
    int loaded = 0;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      if (steps.more()) {
        batch[i] = *(const Pack *)(frame + steps.offset(at));
        to[i] = steps.offset(into);
        loaded++;
        steps.step();
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      if (i < loaded) {
#pragma unroll
        for (int c = 0; c < VECTOR; c++) {
          float value = to_float(batch[i].channel[c]) * scales[c] + shifts[c];
          batch[i].channel[c] = to_scalar(silu ? silu_of(value) : value);
        }
        *(Pack *)(target + to[i]) = batch[i];
        if (copy != 0) *(Pack *)(copy + to[i]) = batch[i];
      }
    }
  }
}
