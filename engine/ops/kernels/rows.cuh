// Rows of channels, divided among the threads of a block.
//
// A block takes every gridDim.x-th row, a thread PACKS times VECTOR channels of it, read at once:
// channels lane * VECTOR of lanes threadIdx.x, threadIdx.x + blockDim.x and so on. Factors of
// channels are read once for all rows of a block. Offsets have 64 bits, rows and channels 32.

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
  __device__ void read(Pack *into) const {
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      if (has(i)) into[i] = *pack(i);
  }
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

// How the values of two threads are joined; 0 changes nothing.
struct Sum { __device__ static float of(float a, float b) { return a + b; } };
struct Largest {  // of values that are not negative; NaN wins
  __device__ static float of(float a, float b) { return a >= b || a != a ? a : b; }
};

// Value of all threads of a block, which all call it; shared memory: a float for each warp.
template <class Join> __device__ inline float over_block(float value) {
  extern __shared__ char memory[];
  float *part = (float *)memory;
#pragma unroll
  for (int away = 16; away > 0; away /= 2)
    value = Join::of(value, __shfl_xor_sync(0xffffffffu, value, away));
  __syncthreads();  // the value of the row before has been read
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  float all = 0.0f;
  for (int warp = 0; warp < blockDim.x / 32; warp++) all = Join::of(all, part[warp]);
  return all;
}
