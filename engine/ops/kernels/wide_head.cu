// Attention with one head of many channels in half precision, by matrix units: softmax(q k') v.
//
// A block computes QUERIES rows of the result. It goes through the keys KEYS at a time and keeps,
// of each query, the largest score so far, the sum of the weights relative to it, and the weighted
// sum of values in float32, each warp 64 channels of it; where a larger score comes, what was summed
// becomes smaller. No matrix of scores exists. Keys come in steps, through a ring of SLOTS buffers:
//
//   scores of KEYS keys: DEPTH channels of queries and keys a step   | CHANNELS / DEPTH steps
//   weights: softmax of the scores, in half precision                | no step
//   values of these keys: STEP_KEYS keys with all channels a step    | KEYS / STEP_KEYS steps
//
// For scores a warp takes some queries and some keys, for values all queries and its own channels.
// Offsets into frames have 64 bits.
//
// Macros
//   CHANNELS     a multiple of 64
//   KEYS         a multiple of 16, and each warp takes 16 or a multiple of scores
//   WARPS_DOWN   how CHANNELS / 64 warps divide queries and keys for scores
//   SLOTS        at least 2

#include "scalars.cuh"
#include "tensor_cores.cuh"

#define QUERIES 64
#define DEPTH 64
#define STEP_KEYS 16
#define WARP_CHANNELS 64

#define WARPS (CHANNELS / WARP_CHANNELS)
#define WARPS_ACROSS (WARPS / WARPS_DOWN)
#define THREADS (WARPS * WARP)
#define DOWN (QUERIES / WARPS_DOWN / 16)       // products of matrix units that a warp has of scores
#define ACROSS (KEYS / WARPS_ACROSS / 8)
#define ROWS (QUERIES / 16)                    // and of sums
#define COLUMNS (WARP_CHANNELS / 8)

#define SCORE_STEPS (CHANNELS / DEPTH)
#define STEPS (SCORE_STEPS + KEYS / STEP_KEYS)
#define LINE_UNITS (DEPTH / UNIT)
#define VALUE_UNITS (CHANNELS / UNIT)
#define SLOT_LINES (QUERIES + KEYS)
#define SCORE_BYTES (SLOT_LINES * LINE_UNITS * 16)
#define VALUE_BYTES (STEP_KEYS * VALUE_UNITS * 16)
#define SLOT_BYTES (SCORE_BYTES > VALUE_BYTES ? SCORE_BYTES : VALUE_BYTES)
#define WEIGHT_PITCH (KEYS * 2 + 16)           // bytes; an odd number of units: banks differ
#define WEIGHTS_AT (SLOTS * SLOT_BYTES)
#define ROWS_AT (WEIGHTS_AT + QUERIES * WEIGHT_PITCH)  // floats of each query

// Rows [T, N, CHANNELS] of frames; strides in elements.
struct Frames { Scalar *first; long long frame, row; };

// First byte of a unit of a line in a buffer; eight neighbouring lines differ in their banks.
template <int UNITS> __device__ inline unsigned unit_at(unsigned line, unsigned unit) {
  return (line * UNITS + (unit ^ line % 8)) * 16;
}

template <int SIZE> __device__ inline int after(int slot) { return slot + 1 == SIZE ? 0 : slot + 1; }
template <int SIZE> __device__ inline int before(int slot) { return slot == 0 ? SIZE - 1 : slot - 1; }

// Copies steps into buffers, in their order.
struct Loader {
  const Scalar *q, *k, *v;
  long long q_row, k_row, v_row;
  int query, queries, keys;  // the block's first query; all of a frame
  unsigned memory;
  int key, step;             // of the next one

  __device__ bool has_more() const { return key < keys; }

  __device__ void copy(int slot) {
    unsigned to = memory + slot * SLOT_BYTES;
    if (step < SCORE_STEPS) {
#pragma unroll 1
      for (int i = threadIdx.x; i < SLOT_LINES * LINE_UNITS; i += THREADS) {
        int line = i / LINE_UNITS, unit = i % LINE_UNITS;
        bool is_query = line < QUERIES;
        int row = is_query ? query + line : key + line - QUERIES;
        bool exists = row < (is_query ? queries : keys);
        const Scalar *from = is_query ? q + row * q_row : k + row * k_row;
        from += step * DEPTH + unit * UNIT;
        copy_unit(to + unit_at<LINE_UNITS>(line, unit), exists ? from : q, exists);
      }
    } else {
      int first = key + (step - SCORE_STEPS) * STEP_KEYS;
#pragma unroll 1
      for (int i = threadIdx.x; i < STEP_KEYS * VALUE_UNITS; i += THREADS) {
        int line = i / VALUE_UNITS, unit = i % VALUE_UNITS, row = first + line;
        const Scalar *from = v + row * v_row + unit * UNIT;
        copy_unit(to + unit_at<VALUE_UNITS>(line, unit), row < keys ? from : v, row < keys);
      }
    }
    if (++step == STEPS) {
      step = 0;
      key += KEYS;
    }
  }
};

// The step that is due is in its buffer; another one begins to come into the buffer before it.
__device__ inline void turn(Loader &loader, int slot) {
  wait_for_groups<SLOTS - 2>();
  __syncthreads();  // all see this step's copies, and have read the buffer that is filled next
  if (loader.has_more()) loader.copy(before<SLOTS>(slot));
  end_group();
}

__device__ inline float over_four(float value, bool is_sum) {  // lanes that have the same row
#pragma unroll
  for (int away = 1; away < 4; away *= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, away);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  return value;
}

// The scores of a warp, and what it knows of its queries.
struct Scores {
  float of[DOWN][ACROSS][4];
  float largest[DOWN][2], total[DOWN][2];  // of rows lane / 4 and 8 more; the total of this lane
  int down, across;                        // of the warp

  __device__ Scores() {
    int warp = threadIdx.x / WARP;
    down = warp / WARPS_ACROSS;
    across = warp % WARPS_ACROSS;
#pragma unroll
    for (int m = 0; m < DOWN; m++) {
      largest[m][0] = largest[m][1] = __uint_as_float(0xff800000);
      total[m][0] = total[m][1] = 0.0f;
    }
  }

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < DOWN; m++)
#pragma unroll
      for (int n = 0; n < ACROSS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) of[m][n][i] = 0.0f;
  }

  // Products of DEPTH channels from a buffer.
  __device__ void add(unsigned slot) {
    int lane = threadIdx.x % WARP;
    int query = down * DOWN * 16 + lane % 16;
    int key = QUERIES + across * ACROSS * 8 + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int d = 0; d < DEPTH / 16; d++) {
      unsigned a[DOWN][4];
#pragma unroll
      for (int m = 0; m < DOWN; m++)
        load_matrices(a[m], slot + unit_at<LINE_UNITS>(query + m * 16, 2 * d + lane / 16));
#pragma unroll
      for (int n = 0; n < ACROSS; n += 2) {
        unsigned b[4];
        load_matrices(b, slot + unit_at<LINE_UNITS>(key + n * 8, 2 * d + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < DOWN; m++) {
          multiply_add(of[m][n], a[m], b[0], b[1]);
          multiply_add(of[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  __device__ int row(int m, int half) const {
    return (down * DOWN + m) * 16 + half * 8 + threadIdx.x % WARP / 4;
  }
  __device__ int column(int n) const { return (across * ACROSS + n) * 8 + threadIdx.x % 4 * 2; }

  // Write the weights in half precision, and by how much earlier sums of each row shrink. `keys`
  // are left: the first is column 0.
  __device__ void weigh(char *memory, int keys, float scale) {
    float *parts = (float *)(memory + ROWS_AT), *shrinks = parts + WARPS_ACROSS * QUERIES;
    bool is_first = threadIdx.x % 4 == 0;
#pragma unroll
    for (int m = 0; m < DOWN; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float most = __uint_as_float(0xff800000);
#pragma unroll
        for (int n = 0; n < ACROSS; n++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            if (column(n) + i < keys) most = fmaxf(most, of[m][n][half * 2 + i]);
        most = over_four(most, false);
        if (is_first) parts[across * QUERIES + row(m, half)] = most;
      }
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < DOWN; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float most = largest[m][half], sum = 0.0f;
#pragma unroll
        for (int part = 0; part < WARPS_ACROSS; part++)
          most = fmaxf(most, parts[part * QUERIES + row(m, half)]);
        float shrink = __expf((largest[m][half] - most) * scale);
        if (is_first && across == 0) shrinks[row(m, half)] = shrink;
        char *line = memory + WEIGHTS_AT + row(m, half) * WEIGHT_PITCH;
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
          unsigned pair = 0;
#pragma unroll
          for (int i = 0; i < 2; i++) {
            float score = (of[m][n][half * 2 + i] - most) * scale;
            float weight = column(n) + i < keys ? __expf(score) : 0.0f;
            sum += weight;
            pair |= (unsigned)to_scalar(weight) << 16 * i;
          }
          *(unsigned *)(line + column(n) * 2) = pair;
        }
        total[m][half] = total[m][half] * shrink + sum;
        largest[m][half] = most;
      }
    }
    __syncthreads();
  }

  // Write the sum of the weights of each row that this warp has seen.
  __device__ void hand_over(char *memory) {
    float *parts = (float *)(memory + ROWS_AT);
#pragma unroll
    for (int m = 0; m < DOWN; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float sum = over_four(total[m][half], true);
        if (threadIdx.x % 4 == 0) parts[across * QUERIES + row(m, half)] = sum;
      }
    }
  }
};

// Weighted sums of all queries of a block, of a warp's channels.
struct Sums {
  float of[ROWS][COLUMNS][4] = {};

  __device__ static int row(int m, int half) { return m * 16 + half * 8 + threadIdx.x % WARP / 4; }

  // Multiply each row.
  __device__ void scale(const float *factors) {
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float factor = factors[row(m, half)];
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
          of[m][n][half * 2] *= factor;
          of[m][n][half * 2 + 1] *= factor;
        }
      }
    }
  }

  // Add the values of STEP_KEYS keys from a buffer, by their weights.
  __device__ void add(unsigned weights, unsigned slot) {
    int lane = threadIdx.x % WARP, unit = threadIdx.x / WARP * COLUMNS + lane / 16;
    unsigned a[ROWS][4];
#pragma unroll
    for (int m = 0; m < ROWS; m++)
      load_matrices(a[m], weights + (m * 16 + lane % 16) * WEIGHT_PITCH + lane / 16 * 16);
#pragma unroll
    for (int n = 0; n < COLUMNS; n += 2) {
      unsigned b[4];  // of two products across: keys 0 to 7 and 8 to 15 of each
      load_transposed(b, slot + unit_at<VALUE_UNITS>(lane % 16, unit + n));
#pragma unroll
      for (int m = 0; m < ROWS; m++) {
        multiply_add(of[m][n], a[m], b[0], b[1]);
        multiply_add(of[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) attend(
    Frames q, Frames k, Frames v, Frames out, int queries, int keys, float scale, int first_frame,
    int first_block) {
  extern __shared__ char memory[];
  unsigned shared = shared_address(memory);
  int frame = first_frame + blockIdx.y, query = (first_block + blockIdx.x) * QUERIES;
  Loader loader = {q.first + frame * q.frame, k.first + frame * k.frame, v.first + frame * v.frame,
                   q.row, k.row, v.row, query, queries, keys, shared, 0, 0};
#pragma unroll
  for (int i = 0; i < SLOTS - 1; i++) {
    if (loader.has_more()) loader.copy(i);
    end_group();
  }

  Scores scores;
  Sums sums;
  float *rows = (float *)(memory + ROWS_AT);
  int slot = 0;
  for (int key = 0; key < keys; key += KEYS) {
    scores.clear();
#pragma unroll 1
    for (int step = 0; step < SCORE_STEPS; step++) {
      turn(loader, slot);
      scores.add(shared + slot * SLOT_BYTES);
      slot = after<SLOTS>(slot);
    }
    scores.weigh(memory, keys - key, scale);
    sums.scale(rows + WARPS_ACROSS * QUERIES);
#pragma unroll 1
    for (int step = 0; step < KEYS / STEP_KEYS; step++) {
      turn(loader, slot);
      sums.add(shared + WEIGHTS_AT + step * STEP_KEYS * 2, shared + slot * SLOT_BYTES);
      slot = after<SLOTS>(slot);
    }
  }

  scores.hand_over(memory);
  __syncthreads();
  int channel = threadIdx.x / WARP * WARP_CHANNELS + threadIdx.x % 4 * 2;
#pragma unroll
  for (int m = 0; m < ROWS; m++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = Sums::row(m, half);
      if (query + row >= queries) continue;
      float total = 0.0f;
#pragma unroll
      for (int part = 0; part < WARPS_ACROSS; part++) total += rows[part * QUERIES + row];
      Scalar *to = out.first + frame * out.frame + (query + row) * out.row + channel;
#pragma unroll
      for (int n = 0; n < COLUMNS; n++) {
        unsigned low = to_scalar(sums.of[m][n][half * 2] / total);
        unsigned high = to_scalar(sums.of[m][n][half * 2 + 1] / total);
        *(unsigned *)(to + n * 8) = low | high << 16;
      }
    }
  }
}
