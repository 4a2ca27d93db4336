// Sums of the convolution kernel (engine/ops/kernels/conv.cu), many of them at a time: the same
// products in the same order, rounded where matrix units round. Without borders, bias and residual.

#include <stdint.h>

enum { PIXELS = 8, LANES = 8, PAIR = 2 };  // PIXELS x (PAIR * LANES) sums stay in registers
typedef double Exact __attribute__((vector_size(8 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Bits __attribute__((vector_size(4 * LANES)));

struct Sizes {
  int frames, height, width, channels;        // of the input, its margins included
  int steps, rows, columns, outer;            // of the result; `outer` a multiple of PAIR * LANES
  int reach, tap_rows, tap_columns;           // of the weights
  int time_stride, stride;
  int zeros;                                  // first frames of the input that are left out
  int chunk, depth, promote;                  // as the kernel's macros; `depth`: products of an instruction
};

// The nearest values of half precision, ties to even.
static inline Floats to_half(Floats value) {
  Bits bits = (Bits)value;
  Floats normal = (Floats)(bits + 0xfff + (bits >> 13 & 1) & ~0x1fff);
  Floats size = (Floats)((Bits)normal & 0x7fffffff);
  Floats small = (value + 0.75f) - 0.75f;     // 0.75 is as coarse as the smallest halves
  Floats found = size < 0x1p-14f ? small : normal;
  return size > 65504.0f ? normal * __builtin_inff() : found;
}

// x [frames, height, width, channels] and weights [outer / 16, reach, chunks, taps, chunk, 16];
// out [steps, rows, columns, outer].
extern "C" void kernel_sums(const double *x, const float *weights, float *out, const Sizes *of) {
  const Sizes s = *of;
  const int taps = s.tap_rows * s.tap_columns, chunks = s.channels / s.chunk;
  const int across = PAIR * LANES, pixels = s.rows * s.columns;
  const long long line = (long long)s.width * s.channels, frame = s.height * line;
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int part = 0; part < s.outer / across; part++) {
    for (int step = 0; step < s.steps; step++) {
      const float *mine = weights + (long long)part * s.reach * chunks * taps * s.chunk * across;
      int zeros = s.zeros - step * s.time_stride;
      zeros = zeros < 0 ? 0 : zeros > s.reach ? s.reach : zeros;
      for (int first = 0; first < pixels; first += PIXELS) {
        const double *from[PIXELS];
        for (int p = 0; p < PIXELS; p++) {
          int pixel = first + p < pixels ? first + p : pixels - 1;
          from[p] = x + step * s.time_stride * frame + pixel / s.columns * s.stride * line +
                    pixel % s.columns * s.stride * s.channels;
        }
        Floats running[PIXELS][PAIR] = {}, whole[PIXELS][PAIR] = {};
        int done = 0;
        for (int t = zeros; t < s.reach; t++)
          for (int c = 0; c < chunks; c++)
            for (int tap = 0; tap < taps; tap++)
              for (int k = 0; k < s.chunk; k += s.depth) {
                long long at = t * frame + tap / s.tap_columns * line +
                               tap % s.tap_columns * s.channels + c * s.chunk + k;
                const float *row = mine + (((t * chunks + c) * taps + tap) * s.chunk + k) * across;
                Exact sum[PIXELS][PAIR];
                for (int p = 0; p < PIXELS; p++)
                  for (int i = 0; i < PAIR; i++)
                    sum[p][i] = __builtin_convertvector(running[p][i], Exact);
                for (int d = 0; d < s.depth; d++, row += across) {
                  Exact w[PAIR];
                  for (int i = 0; i < PAIR; i++)
                    w[i] = __builtin_convertvector(((const Floats *)row)[i], Exact);
                  for (int p = 0; p < PIXELS; p++)
                    for (int i = 0; i < PAIR; i++) sum[p][i] += from[p][at + d] * w[i];
                }
                done += s.depth;
                for (int p = 0; p < PIXELS; p++)
                  for (int i = 0; i < PAIR; i++) {
                    Floats found = __builtin_convertvector(sum[p][i], Floats);
                    running[p][i] = s.promote ? to_half(found) : found;
                    if (s.promote && done % s.promote == 0) {
                      whole[p][i] += running[p][i];
                      running[p][i] = Floats{};
                    }
                  }
              }
        for (int p = 0; p < PIXELS && first + p < pixels; p++)
          for (int i = 0; i < PAIR; i++) {
            long long to = (long long)step * pixels + first + p;
            ((Floats *)(out + to * s.outer + part * across))[i] = whole[p][i] + running[p][i];
          }
      }
    }
  }
}
