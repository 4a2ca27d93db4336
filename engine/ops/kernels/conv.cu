// Convolution of channels-last frames over 1 to 3 frames in half precision, by matrix units.
//
// It is a product of matrices that are never made: rows are pixels of the result, columns its
// channels, and the inner dimension runs over frames, parts of CHUNK channels, and taps. A block
// computes TILE_HEIGHT x TILE_WIDTH pixels x TILE_CHANNELS channels of one frame. The pixels that
// its taps see of one part of one frame, the halo, come into shared memory once for all taps; the
// weights of each tap follow one step after the other:
//
//   copies    halo 1, weights of taps 1, 2 | of tap 3 | of tap 4 | ... | halo 2, of tap 3 | ...
//   products                               |  tap 1   |  tap 2   | ... |      tap 1       | ...
//
// Weights arrive STAGES - 1 steps before they are needed, halos HALOS - 1 halos before; each have a
// ring of as many buffers. Offsets into frames have 64 bits.
//
// Macros
//   ROWS, COLUMNS, STRIDE   taps of a frame; pixels of the input from one of the result to the next
//   TILE_HEIGHT, TILE_WIDTH, TILE_CHANNELS, WARPS_DOWN, WARPS_ACROSS
//                           the tile, 8 or a multiple of 16 wide, and how warps divide its pixels
//                           and its channels
//   CHUNK                   16 or 32
//   STAGES, HALOS           (HALOS - 1) * ROWS * COLUMNS >= STAGES - 1
//   PROMOTE                 products that are summed in half precision before the sum is added to
//                           one in float32, a multiple of CHUNK; 0: all sums are in float32
//   STORE                   channels that a thread writes at once
//   NORM                    0: input frames are convolved as they are; else see `Norm`
//   GROUP                   channels of a group whose statistics come with the result; 0: none
//   BLOCKS                  that a multiprocessor runs at once, where its shared memory suffices

#include "scalars.cuh"
#include "statistics.cuh"
#include "tensor_cores.cuh"

#define WARPS (WARPS_DOWN * WARPS_ACROSS)
#define THREADS (WARPS * WARP)
#define TAPS (ROWS * COLUMNS)
#if (HALOS - 1) * TAPS < STAGES - 1 || PROMOTE % CHUNK != 0
#error "halos would come later than their weights, or sums would be promoted within a chunk"
#endif

#define TILE_PIXELS (TILE_HEIGHT * TILE_WIDTH)
#define WARP_PIXELS (TILE_PIXELS / WARPS_DOWN)
#define WARP_CHANNELS (TILE_CHANNELS / WARPS_ACROSS)
#define DOWN (WARP_PIXELS / 16)      // products of matrix units that a warp has in each direction
#define ACROSS (WARP_CHANNELS / 8)

#define HALO_HEIGHT ((TILE_HEIGHT - 1) * STRIDE + ROWS)
#define HALO_WIDTH ((TILE_WIDTH - 1) * STRIDE + COLUMNS)
#define EVERY ((HALO_WIDTH + STRIDE - 1) / STRIDE)  // columns of a halo that begin STRIDE apart
#define UNITS (CHUNK / UNIT)                        // of a line: a pixel or a row of weights

#define LINE_BYTES (CHUNK * 2)
#define HALO_BYTES (HALO_HEIGHT * HALO_WIDTH * LINE_BYTES)
#define WEIGHT_BYTES (TILE_CHANNELS * LINE_BYTES)
#define WEIGHTS_AT (HALOS * HALO_BYTES)             // first byte of the weights in shared memory

// Floats from one pixel to the next where sums are handed over: 8 banks apart, so that the four
// rows that a half warp writes are in different banks.
#define SUM_PITCH ((WARP_CHANNELS + 23) / 32 * 32 + 8)

// Where statistics of a warp column's channels are merged: behind its sums.
#define PARTS_AT (TILE_PIXELS * SUM_PITCH * 4)
#define PACKS (WARP_CHANNELS / STORE)               // of a pixel in a warp column
#if GROUP > 0
#define SUB (STORE < GROUP ? STORE : GROUP)         // channels of a pack in one group
#define SEGMENTS (STORE / SUB)
#if WARP % PACKS != 0 || WARP_CHANNELS % GROUP != 0 || STORE % SUB != 0 || GROUP % SUB != 0
#error "statistics need a power of two of packs, and whole groups in a warp column"
#endif
#endif

struct alignas(2 * STORE) Pack { Scalar channel[STORE]; };
struct alignas(16) HalfUnit { Scalar channel[UNIT]; };
struct alignas(STORE < 4 ? 4 * STORE : 16) Floats { float of[STORE]; };
struct alignas(8) Pair { float first, second; };
struct Strides {  // in elements; channels are contiguous
  long long t, y, x;
  __device__ long long offset(int frame, int row, int column) const {
    return frame * t + row * y + column * x;
  }
};
struct Source { const Scalar *first; Strides at; };
// Frames that are written; mean and m2, [frames, tiles, groups], are their statistics.
struct Result { Scalar *first; Strides at; int height, width, channels; float *mean, *m2; };
// Factors of a norm that frames still lack; no `scale`: they lack none.
//   GroupNorm, NORM 1: x * scale + shift, both [frames, channels]
//   RMS norm, NORM 2: x * of_pixel * scale, [frames, height, width] and [channels]
struct Norm { const float *scale, *shift, *of_pixel; };
// Input frames: `past` of `past_count` frames, then `frames`; null in place of `past`: zeros.
struct Input {
  Source past, frames;
  Norm past_norm, frames_norm;
  int past_count, height, width, channels, time_stride, reach;  // reach: frames of an output
  int above, left;                                              // zeros outside of a frame
  int silu;                                                     // after the norms
};

// First byte of a unit of a line in a buffer. Eight lines one after the other, which a warp loads
// or stores at once, lie in different banks for each unit: within 128 bytes units are exchanged.
__device__ inline unsigned unit_at(unsigned line, unsigned unit) {
  return line * LINE_BYTES + (unit ^ line / (8 / UNITS) % UNITS) * 16;
}

// Line of a pixel of a halo. Columns that are STRIDE apart are neighbours: taps see them together.
__device__ inline unsigned line_of(unsigned row, unsigned column) {
  return row * HALO_WIDTH + column % STRIDE * EVERY + column / STRIDE;
}

struct Blocks { int x, y, z; };  // first of a launch: parts of columns, rows, frames

// Where a block works. What follows from these is computed again: registers are scarce, as a block
// keeps its sums in them.
struct Place {
  int frame, row, column, part;  // of the result: first of the tile's pixels, TILE_CHANNELS each
  __device__ Place(const Result &result, Blocks first) {
    int block = first.x + blockIdx.x;  // neighbours have the same pixels
    int parts = (result.channels + TILE_CHANNELS - 1) / TILE_CHANNELS;
    part = block % parts;
    column = block / parts * TILE_WIDTH;
    row = (first.y + blockIdx.y) * TILE_HEIGHT;
    frame = first.z + blockIdx.z;
  }
  __device__ static int across(const Result &result) {
    return (result.width + TILE_WIDTH - 1) / TILE_WIDTH;
  }
  // The tile's number, counted through all frames.
  __device__ long long tile(const Result &result) const {
    int down = (result.height + TILE_HEIGHT - 1) / TILE_HEIGHT;
    long long of_rows = (long long)frame * down + row / TILE_HEIGHT;
    return of_rows * across(result) + column / TILE_WIDTH;
  }
};

// The buffer after one of a ring, and the one before it, which was read last.
template <int SIZE> __device__ inline int after(int buffer) {
  return buffer + 1 == SIZE ? 0 : buffer + 1;
}
template <int SIZE> __device__ inline int before(int buffer) {
  return buffer == 0 ? SIZE - 1 : buffer - 1;
}

// Copies halos and weights into buffers. What they are follows from their numbers.
struct Loader {
  const Input &input;
  const Scalar *packed;
  const Place &place;
  char *memory;  // shared

  __device__ int chunks() const { return (input.channels + CHUNK - 1) / CHUNK; }
  // Frames of zeros before a clip, of those that the result's frame sees: they are left out.
  __device__ int zeros() const {
    int past = input.past_count - place.frame * input.time_stride;
    return input.past.first == 0 ? min(max(past, 0), input.reach) : 0;
  }
  __device__ int halos() const { return (input.reach - zeros()) * chunks(); }

  // Frame of a halo, counted from the past on.
  __device__ int frame_of(int number) const {
    return place.frame * input.time_stride + zeros() + number / chunks();
  }

  // Call `work` with each unit of a halo that this thread copies: its first byte in the buffer, its
  // row, column and channel in the frame, and whether the frame has it.
  template <class Work> __device__ void for_units(int number, Work work) const {
    int first = number % chunks() * CHUNK;
#pragma unroll 1
    for (int i = threadIdx.x; i < HALO_HEIGHT * HALO_WIDTH * UNITS; i += THREADS) {
      int unit = i % UNITS, column = i / UNITS % HALO_WIDTH, row = i / UNITS / HALO_WIDTH;
      int y = place.row * STRIDE - input.above + row, channel = first + unit * UNIT;
      int x = place.column * STRIDE - input.left + column;
      bool exists = (unsigned)y < (unsigned)input.height && (unsigned)x < (unsigned)input.width;
      work(unit_at(line_of(row, column), unit), y, x, channel, exists && channel < input.channels);
    }
  }

  __device__ void copy_halo(int number, int buffer) const {
    if (number >= halos()) return;
    int index = frame_of(number);
    bool is_past = index < input.past_count;
    if (!is_past) index -= input.past_count;
    // TRAP: a reference to one of the two would put both on the stack
    long long step = is_past ? input.past.at.t : input.frames.at.t;
    long long at_y = is_past ? input.past.at.y : input.frames.at.y;
    long long at_x = is_past ? input.past.at.x : input.frames.at.x;
    const Scalar *frame = (is_past ? input.past.first : input.frames.first) + index * step;
    unsigned to = shared_address(memory + buffer * HALO_BYTES);
    for_units(number, [&](unsigned byte, int y, int x, int channel, bool exists) {
      copy_unit(to + byte, exists ? frame + (y * at_y + x * at_x + channel) : frame, exists);
    });
  }

  // Normalise the units that this thread copied.
  __device__ void normalise_halo(int number, int buffer) const {
    int index = frame_of(number);
    if (index < input.past_count) normalise_units(number, buffer, input.past_norm, index);
    else normalise_units(number, buffer, input.frames_norm, index - input.past_count);
  }

  // Units outside of the frame stay zeros: they are zeros of what is convolved.
  __device__ void normalise_units(int number, int buffer, const Norm &norm, int frame) const {
    if (norm.scale == 0) return;
    char *from = memory + buffer * HALO_BYTES;
    for_units(number, [&](unsigned byte, int y, int x, int channel, bool exists) {
      if (!exists) return;
      HalfUnit unit = *(HalfUnit *)(from + byte);
#if NORM == 1
      int factor = frame * input.channels + channel;
#elif NORM == 2
      float of_all = norm.of_pixel[((long long)frame * input.height + y) * input.width + x];
#endif
#pragma unroll
      for (int c = 0; c < UNIT; c++) {
        float value = to_float(unit.channel[c]);
#if NORM == 1
        value = value * norm.scale[factor + c] + norm.shift[factor + c];
#elif NORM == 2
        value = value * of_all * norm.scale[channel + c];
#endif
        unit.channel[c] = to_scalar(input.silu ? silu_of(value) : value);
      }
      *(HalfUnit *)(from + byte) = unit;
    });
  }

  __device__ void copy_weights(int number, int buffer) const {
    if (number >= halos() * TAPS) return;
    long long halo = ((long long)place.part * input.reach + zeros()) * chunks();
    const Scalar *weights = packed + (halo * TAPS + number) * (TILE_CHANNELS * CHUNK);
    unsigned to = shared_address(memory + WEIGHTS_AT + buffer * WEIGHT_BYTES);
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_CHANNELS * UNITS; i += THREADS)
      copy_unit(to + unit_at(i / UNITS, i % UNITS), weights + i * UNIT, true);
  }
};

// Sums of a warp: DOWN x ACROSS results of matrix units.
struct Sums {
  float whole[DOWN][ACROSS][4] = {};
#if PROMOTE > 0
  unsigned half[DOWN][ACROSS][2] = {};

  // Add the sums in half precision to those in float32.
  __device__ void promote() {
#pragma unroll
    for (int m = 0; m < DOWN; m++) {
#pragma unroll
      for (int n = 0; n < ACROSS; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
          whole[m][n][i] += to_float((Scalar)(half[m][n][i / 2] >> 16 * (i % 2)));
        half[m][n][0] = half[m][n][1] = 0;
      }
    }
  }
  __device__ auto &running() { return half; }
#else
  __device__ auto &running() { return whole; }
#endif

  // Products of one tap: pixels of a halo and weights, each from its buffer. `pixel` is the line of
  // this lane's pixel under the tap, `channel` that of its row of weights.
  __device__ void add_tap(unsigned halo, unsigned pixel, unsigned weights, unsigned channel) {
    unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
      unsigned a[DOWN][4];
#pragma unroll
      for (int m = 0; m < DOWN; m++) {
        const int rows = m * 16 / TILE_WIDTH * STRIDE, columns = m * 16 % TILE_WIDTH;
        load_matrices(a[m], halo + unit_at(pixel + rows * HALO_WIDTH + columns, 2 * k + lane / 16));
      }
#pragma unroll
      for (int n = 0; n < ACROSS; n += 2) {
        unsigned b[4];  // of two products across
        load_matrices(b, weights + unit_at(channel, 2 * k + lane / 8 % 2) + n * 8 * LINE_BYTES);
#pragma unroll
        for (int m = 0; m < DOWN; m++) {
          multiply_add(running()[m][n], a[m], b[0], b[1]);
          multiply_add(running()[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  // Put the sums where threads find all channels of a pixel: `to` is that of the warp's first one.
  __device__ void hand_over(float *to) const {
    int row = threadIdx.x % WARP / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int m = 0; m < DOWN; m++) {
#pragma unroll
      for (int n = 0; n < ACROSS; n++) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          float *pair = to + (m * 16 + row + i * 4) * SUM_PITCH + n * 8 + column;
          *(Pair *)pair = {whole[m][n][i], whole[m][n][i + 1]};
        }
      }
    }
  }
};

#if GROUP > 0
// Statistics of a warp column's channels, which begin at `channel`, over the pixels of the tile.
struct Statistics {
  Part of[SEGMENTS] = {};  // of this thread, which has the same channels of every pixel

  __device__ void add(const Pack &pack) {
#pragma unroll
    for (int s = 0; s < SEGMENTS; s++) {
      Part some = {SUB, 0.0f, 0.0f};
#pragma unroll
      for (int c = 0; c < SUB; c++) some.mean += to_float(pack.channel[s * SUB + c]) * (1.0f / SUB);
#pragma unroll
      for (int c = 0; c < SUB; c++) {
        float away = to_float(pack.channel[s * SUB + c]) - some.mean;
        some.m2 += away * away;
      }
      of[s].merge(some);
    }
  }

  // Merge those of all threads, first within each warp, and write them.
  __device__ void write(Part *parts, const Place &place, int channel, const Result &result) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int s = 0; s < SEGMENTS; s++) {
#pragma unroll
      for (int away = PACKS; away < WARP; away *= 2) {
        Part other = {__shfl_xor_sync(0xffffffffu, of[s].count, away),
                      __shfl_xor_sync(0xffffffffu, of[s].mean, away),
                      __shfl_xor_sync(0xffffffffu, of[s].m2, away)};
        of[s].merge(other);
      }
      if (lane < PACKS) parts[(warp * PACKS + lane) * SEGMENTS + s] = of[s];
    }
    __syncthreads();
    int group = threadIdx.x, first = channel + group * GROUP;
    if (group >= WARP_CHANNELS / GROUP || first >= result.channels) return;
    Part whole = {0.0f, 0.0f, 0.0f};
    for (int warp = 0; warp < WARPS; warp++)
      for (int piece = 0; piece < GROUP / SUB; piece++)
        whole.merge(parts[warp * PACKS * SEGMENTS + group * (GROUP / SUB) + piece]);
    long long to = place.tile(result) * (result.channels / GROUP);
    result.mean[to + first / GROUP] = whole.mean;
    result.m2[to + first / GROUP] = whole.m2;
  }
};
#endif

// Write a warp column's channels of all pixels of the tile; the first of them is `channel`.
__device__ inline void write(char *memory, const Place &place, int channel, const Result &result,
                             const float *bias, const Source &residual) {
#if GROUP > 0
  Statistics statistics;
#endif
  const float *sums = (const float *)memory;
  for (int i = threadIdx.x; i < TILE_PIXELS * PACKS; i += THREADS) {
    int pixel = i / PACKS, inner = i % PACKS * STORE, c = channel + inner;
    int y = place.row + pixel / TILE_WIDTH, x = place.column + pixel % TILE_WIDTH;
    if (y >= result.height || x >= result.width || c >= result.channels) continue;
    Floats value = *(const Floats *)(sums + pixel * SUM_PITCH + inner);
    Pack pack;
    if (bias != 0) {
#pragma unroll
      for (int j = 0; j < STORE; j++) value.of[j] += bias[c + j];
    }
    if (residual.first != 0) {
      pack = *(const Pack *)(residual.first + residual.at.offset(place.frame, y, x) + c);
#pragma unroll
      for (int j = 0; j < STORE; j++) value.of[j] += to_float(pack.channel[j]);
    }
#pragma unroll
    for (int j = 0; j < STORE; j++) pack.channel[j] = to_scalar(value.of[j]);
    *(Pack *)(result.first + result.at.offset(place.frame, y, x) + c) = pack;
#if GROUP > 0
    statistics.add(pack);
#endif
  }
#if GROUP > 0
  statistics.write((Part *)(memory + PARTS_AT), place, channel, result);
#endif
}

// result = convolution of the input + bias + residual; both may be null, the residual the result.
// `packed` are the weights in the order of the steps, see conv.py.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) convolve(
    Input input, const Scalar *packed, Result result, const float *bias, Source residual,
    Blocks first) {
  extern __shared__ char memory[];
  unsigned shared = shared_address(memory), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned down = warp / WARPS_ACROSS, across = warp % WARPS_ACROSS;
  Place place(result, first);
  Loader loader = {input, packed, place, memory};

  // Fill the rings but for one buffer each: a group of copies for each step.
#pragma unroll
  for (int i = 0; i < HALOS - 1; i++) loader.copy_halo(i, i);
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) {
    loader.copy_weights(i, i);
    end_group();
  }

  // Lines of this lane for the first tap: of 16 pixels and of 16 channels; see `load_matrices`.
  unsigned mine = down * WARP_PIXELS + lane % 16;
  unsigned pixel = line_of(mine / TILE_WIDTH * STRIDE, mine % TILE_WIDTH * STRIDE);
  unsigned channel = across * WARP_CHANNELS + lane % 8 + lane / 16 * 8;

  Sums sums;
  int steps = loader.halos() * TAPS, halo = 0, stage = 0;
  for (int step = 0; step < steps; step++) {
    int tap = step % TAPS;
    wait_for_groups<STAGES - 2>();
#if NORM
    if (tap == 0) loader.normalise_halo(step / TAPS, halo);
#endif
    __syncthreads();  // all see this step's halo, and have read the buffers that are filled next
    if (tap == 0) loader.copy_halo(step / TAPS + HALOS - 1, before<HALOS>(halo));
    loader.copy_weights(step + STAGES - 1, before<STAGES>(stage));
    end_group();
    __syncwarp();  // threads have copied a different number of units
    sums.add_tap(shared + halo * HALO_BYTES, pixel + line_of(tap / COLUMNS, tap % COLUMNS),
                 shared + WEIGHTS_AT + stage * WEIGHT_BYTES, channel);
#if PROMOTE > 0
    if ((step + 1) % (PROMOTE / CHUNK) == 0) sums.promote();
#endif
    stage = after<STAGES>(stage);
    if (tap == TAPS - 1) halo = after<HALOS>(halo);
  }
#if PROMOTE > 0
  sums.promote();
#endif

  for (int part = 0; part < WARPS_ACROSS; part++) {
    __syncthreads();  // no thread reads any more what is here: the buffers, or the part before
    if (across == part) sums.hand_over((float *)memory + down * WARP_PIXELS * SUM_PITCH);
    __syncthreads();
    write(memory, place, place.part * TILE_CHANNELS + part * WARP_CHANNELS, result, bias, residual);
  }
}
