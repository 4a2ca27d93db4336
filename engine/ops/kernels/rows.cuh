// Rows of channels, divided among the threads of a block.
//
// A block takes every gridDim.x-th row, a thread PACKS times VECTOR channels of it, read at once:
// channels lane * VECTOR of lanes threadIdx.x, threadIdx.x + blockDim.x and so on. Factors of
// channels are read once for all rows of a block. Offsets have 64 bits, rows and channels 32.

#define THREADS 256  // most threads of a block, whole warps

struct Shape { int rows, channels; };

__device__ inline int channel_of(int i) { return (threadIdx.x + i * blockDim.x) * VECTOR; }

template <class T> struct alignas(sizeof(T) * VECTOR) PackOf { T channel[VECTOR]; };
template <class T> struct MatrixOf { T *first; long long pitch; };  // pitch in elements

// One row as a thread sees it.
template <class T> struct RowOf {
  T *first;
  int channels;
  __device__ RowOf(MatrixOf<T> from, long long row, Shape shape)
      : first(from.first + row * from.pitch), channels(shape.channels) {}
  __device__ bool has(int i) const { return channel_of(i) < channels; }
  __device__ PackOf<T> *pack(int i) const { return (PackOf<T> *)(first + channel_of(i)); }
  __device__ void read(PackOf<T> *into) const {
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      if (has(i)) into[i] = *pack(i);
  }
};

typedef PackOf<Scalar> Pack;
typedef MatrixOf<Scalar> Matrix;
typedef RowOf<Scalar> Row;

// Factors of a thread's channels; `other` where there are none.
struct Factors {
  float of[PACKS][VECTOR];
  __device__ Factors(const float *from, float other, int channels) {
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
#pragma unroll
      for (int c = 0; c < VECTOR; c++) {
        int channel = channel_of(i) + c;
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
