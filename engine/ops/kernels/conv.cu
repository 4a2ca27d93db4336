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
// ring of so many buffers. Offsets into frames have 64 bits.
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
//   BLOCKS                  that a multiprocessor runs at once, where its shared memory suffices

#include "scalars.cuh"
#include "tensor_cores.cuh"

#define WARPS (WARPS_DOWN * WARPS_ACROSS)
#define THREADS (WARPS * WARP)
#define TAPS (ROWS * COLUMNS)

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

struct alignas(2 * STORE) Pack { Scalar channel[STORE]; };
struct alignas(8) Pair { float first, second; };
struct Strides {  // in elements; channels are contiguous
  long long t, y, x;
  __device__ long long offset(int frame, int row, int column) const {
    return frame * t + row * y + column * x;
  }
};
struct Source { const Scalar *first; Strides at; };
struct Result { Scalar *first; Strides at; int height, width, channels; };
// Input frames: `past` of `past_count` frames, then `frames`; null in place of `past`: zeros.
struct Input {
  Source past, frames;
  int past_count, height, width, channels, time_stride, reach;  // reach: frames of an output
  int above, left;                                              // zeros outside of a frame
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

// Where a block works.
struct Place {
  int frame, row, column, channel;  // of the result; the first of the block's
  int part;                         // channels / TILE_CHANNELS
  __device__ Place(const Result &result, int first_frame, long long first_block) {
    long long block = first_block + blockIdx.x;  // neighbours have the same pixels
    int parts = (result.channels + TILE_CHANNELS - 1) / TILE_CHANNELS;
    int across = (result.width + TILE_WIDTH - 1) / TILE_WIDTH;
    part = block % parts;
    channel = part * TILE_CHANNELS;
    column = block / parts % across * TILE_WIDTH;
    row = block / parts / across * TILE_HEIGHT;
    frame = first_frame + blockIdx.y;
  }
};

// Frames before a clip that are zeros, of those that an output frame sees.
__device__ inline int zero_frames(const Input &input, Place place) {
  if (input.past.first != 0) return 0;
  return min(max(input.past_count - place.frame * input.time_stride, 0), input.reach);
}

// The buffer after one of a ring, and the one before it, which was read last.
template <int SIZE> __device__ inline int after(int buffer) {
  return buffer + 1 == SIZE ? 0 : buffer + 1;
}
template <int SIZE> __device__ inline int before(int buffer) {
  return buffer == 0 ? SIZE - 1 : buffer - 1;
}

// Copies halos and weights into buffers, in the order in which they are used.
struct Loader {
  const Input &input;
  const Scalar *weights;  // of the next step
  unsigned memory;        // address of the shared memory
  int top, left;          // first pixel of the halos, in the input
  int frame, chunk;       // the next halo's, of past and new frames together

  __device__ Loader(const Input &input, const Scalar *packed, Place place, unsigned memory)
      : input(input), memory(memory), chunk(0) {
    top = place.row * STRIDE - input.above;
    left = place.column * STRIDE - input.left;
    int zeros = zero_frames(input, place);  // they add nothing
    frame = place.frame * input.time_stride + zeros;
    long long halos = ((long long)place.part * input.reach + zeros) * chunks();
    weights = packed + halos * (TAPS * TILE_CHANNELS * CHUNK);
  }

  __device__ int chunks() const { return (input.channels + CHUNK - 1) / CHUNK; }

  __device__ void copy_halo(int buffer) {
    bool is_past = frame < input.past_count;
    int index = is_past ? frame : frame - input.past_count;
    // TRAP: a reference to one of the two would put both on the stack
    long long step = is_past ? input.past.at.t : input.frames.at.t;
    long long at_y = is_past ? input.past.at.y : input.frames.at.y;
    long long at_x = is_past ? input.past.at.x : input.frames.at.x;
    const Scalar *first = (is_past ? input.past.first : input.frames.first) + index * step;
    unsigned to = memory + buffer * HALO_BYTES;
#pragma unroll 1
    for (int i = threadIdx.x; i < HALO_HEIGHT * HALO_WIDTH * UNITS; i += THREADS) {
      int unit = i % UNITS, column = i / UNITS % HALO_WIDTH, row = i / UNITS / HALO_WIDTH;
      int channel = chunk * CHUNK + unit * UNIT, y = top + row, x = left + column;
      bool exists = (unsigned)y < (unsigned)input.height && (unsigned)x < (unsigned)input.width &&
                    channel < input.channels;
      const Scalar *from = exists ? first + (y * at_y + x * at_x + channel) : first;
      copy_unit(to + unit_at(line_of(row, column), unit), from, exists);
    }
    if (++chunk == chunks()) {
      chunk = 0;
      frame++;
    }
  }

  __device__ void copy_weights(int buffer) {
    unsigned to = memory + WEIGHTS_AT + buffer * WEIGHT_BYTES;
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_CHANNELS * UNITS; i += THREADS)
      copy_unit(to + unit_at(i / UNITS, i % UNITS), weights + i * UNIT, true);
    weights += TILE_CHANNELS * CHUNK;
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

// Write a warp column's channels of all pixels of the tile, `channel` and the following ones.
__device__ inline void write(const float *sums, Place place, int channel, const Result &result,
                             const float *bias, const Source &residual) {
  const int packs = WARP_CHANNELS / STORE;
  for (int i = threadIdx.x; i < TILE_PIXELS * packs; i += THREADS) {
    int pixel = i / packs, inner = i % packs * STORE, c = channel + inner;
    int y = place.row + pixel / TILE_WIDTH, x = place.column + pixel % TILE_WIDTH;
    if (y >= result.height || x >= result.width || c >= result.channels) continue;
    float value[STORE];
    Pack pack;
#pragma unroll
    for (int j = 0; j < STORE; j++) {
      value[j] = sums[pixel * SUM_PITCH + inner + j];
      if (bias != 0) value[j] += bias[c + j];
    }
    if (residual.first != 0) {
      pack = *(const Pack *)(residual.first + residual.at.offset(place.frame, y, x) + c);
#pragma unroll
      for (int j = 0; j < STORE; j++) value[j] += to_float(pack.channel[j]);
    }
#pragma unroll
    for (int j = 0; j < STORE; j++) pack.channel[j] = to_scalar(value[j]);
    *(Pack *)(result.first + result.at.offset(place.frame, y, x) + c) = pack;
  }
}

// result = convolution of the input + bias + residual; both may be null, the residual the result.
// `packed` are the weights in the order of the steps, see conv.py.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) convolve(
    Input input, const Scalar *packed, Result result, const float *bias, Source residual,
    int first_frame, long long first_block) {
  extern __shared__ char memory[];
  unsigned shared = shared_address(memory), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned down = warp / WARPS_ACROSS, across = warp % WARPS_ACROSS;
  Place place(result, first_frame, first_block);
  Loader loader(input, packed, place, shared);
  int steps = (input.reach - zero_frames(input, place)) * loader.chunks() * TAPS;

  // Fill the rings but for one buffer each: a group of copies for each step.
#pragma unroll
  for (int i = 0; i < HALOS - 1; i++)
    if (i * TAPS < steps) loader.copy_halo(i);
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < steps) loader.copy_weights(i);
    end_group();
  }

  // Lines of this lane for the first tap: of 16 pixels and of 16 channels; see `load_matrices`.
  unsigned first = down * WARP_PIXELS + lane % 16;
  unsigned pixel = line_of(first / TILE_WIDTH * STRIDE, first % TILE_WIDTH * STRIDE);
  unsigned channel = across * WARP_CHANNELS + lane % 8 + lane / 16 * 8;

  Sums sums;
  int row = 0, column = 0, halo = 0, stage = 0;
  for (int left = steps; left > 0; left--) {
    wait_for_groups<STAGES - 2>();
    __syncthreads();  // all see this step's copies, and have read the buffers that are filled next
    if (row == 0 && column == 0 && left > (HALOS - 1) * TAPS) loader.copy_halo(before<HALOS>(halo));
    if (left > STAGES - 1) loader.copy_weights(before<STAGES>(stage));
    end_group();
    sums.add_tap(shared + halo * HALO_BYTES, pixel + line_of(row, column),
                 shared + WEIGHTS_AT + stage * WEIGHT_BYTES, channel);
#if PROMOTE > 0
    if (left % (PROMOTE / CHUNK) == 0) sums.promote();
#endif
    stage = after<STAGES>(stage);
    if (++column == COLUMNS) {
      column = 0;
      if (++row == ROWS) {
        row = 0;
        halo = after<HALOS>(halo);
      }
    }
  }
#if PROMOTE > 0
  sums.promote();
#endif

  float *handed = (float *)memory;
  for (int part = 0; part < WARPS_ACROSS; part++) {
    __syncthreads();  // nobody reads any more what is here: the buffers, or the part before
    if (across == part) sums.hand_over(handed + down * WARP_PIXELS * SUM_PITCH);
    __syncthreads();
    write(handed, place, place.channel + part * WARP_CHANNELS, result, bias, residual);
  }
}
