// Weights in the blocks of GGUF files, unpacked: each byte is read once, each value written once.
//
// The layouts are those of ggml (ggml-common.h, MIT), as `block_formats.py` has them. A thread reads
// VECTOR bytes with the low bits of values and writes VECTOR values at once: one pack where a byte
// has one value; where it has two, those of the low halves and those of the high halves; four where
// it has four. Every
// product of an integer and a scale is exact in float32, so a value is rounded as by the reference
// whether or not the compiler fuses a product and a sum. Blocks begin at multiples of ALIGNMENT
// bytes or of their own size; offsets have 64 bits.

#include "scalars.cuh"

#define THREADS 256

typedef unsigned char Byte;
struct alignas(sizeof(Scalar) * VECTOR) Pack { Scalar channel[VECTOR]; };
template <int COUNT> struct alignas(4 * COUNT) Words { unsigned of[COUNT]; };

// COUNT words of four bytes, whose address and that of the block are multiples of WIDTH bytes.
template <int COUNT, int WIDTH> __device__ inline Words<COUNT> words_at(const Byte *from) {
  if constexpr (WIDTH >= 4 * COUNT) {
    return *(const Words<COUNT> *)from;
  } else {
    Words<COUNT> found;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const unsigned short *half = (const unsigned short *)from + 2 * i;
      found.of[i] = WIDTH >= 4 ? ((const unsigned *)from)[i] : half[0] | (unsigned)half[1] << 16;
    }
    return found;
  }
}

// VECTOR bytes.
typedef Words<VECTOR / 4> Bytes;
__device__ inline unsigned byte_of(Bytes bytes, int i) { return bytes.of[i / 4] >> i % 4 * 8 & 255; }

__device__ inline float half_at(const Byte *at) { return half_to_float(*(const unsigned short *)at); }

// Bytes that addresses in blocks of a size are multiples of.
__device__ constexpr int width_of(int bytes) {
  return (bytes & -bytes) < ALIGNMENT ? bytes & -bytes : ALIGNMENT;
}

// 32 values of 8 bits.
struct Q8_0 {
  static const int values = 32, bytes = 34, packs = 1;
  __device__ static void unpack(const Byte *from, int first, Scalar *to) {
    Bytes content = words_at<VECTOR / 4, width_of(bytes)>(from + 2 + first);
    float scale = half_at(from);
    Pack pack;
#pragma unroll
    for (int c = 0; c < VECTOR; c++)
      pack.channel[c] = to_scalar((float)(signed char)byte_of(content, c) * scale);
    *(Pack *)(to + first) = pack;
  }
};

// 32 values of 4 or 5 bits: a scale, the lowest value if there is one, fifth bits, 16 bytes.
template <bool HAS_LOW, bool HAS_FIFTH> struct Legacy {
  static const int head = HAS_LOW ? 4 : 2, begin = head + (HAS_FIFTH ? 4 : 0);
  static const int values = 32, bytes = begin + 16, packs = 2;
  __device__ static Scalar value(int code, float scale, float low) {
    if (HAS_LOW) return to_scalar((float)code * scale + low);
    return to_scalar((float)(code - (HAS_FIFTH ? 16 : 8)) * scale);
  }
  __device__ static void unpack(const Byte *from, int first, Scalar *to) {
    Bytes content = words_at<VECTOR / 4, width_of(bytes)>(from + begin + first);
    unsigned fifth = HAS_FIFTH ? words_at<1, width_of(bytes)>(from + head).of[0] >> first : 0;
    float scale = half_at(from), lowest = HAS_LOW ? half_at(from + 2) : 0.0f;
    Pack low, high;
#pragma unroll
    for (int c = 0; c < VECTOR; c++) {
      unsigned code = byte_of(content, c);
      low.channel[c] = value((code & 15) | (fifth >> c & 1) << 4, scale, lowest);
      high.channel[c] = value(code >> 4 | (fifth >> (16 + c) & 1) << 4, scale, lowest);
    }
    *(Pack *)(to + first) = low;
    *(Pack *)(to + 16 + first) = high;
  }
};
typedef Legacy<false, false> Q4_0;
typedef Legacy<true, false> Q4_1;
typedef Legacy<false, true> Q5_0;
typedef Legacy<true, true> Q5_1;

// Scale and lowest value of a group of 32: 6 bits each, times those of the block.
struct Factors {
  float scale, low;
  __device__ Factors(Words<4> head, int group) {
    int away = group % 4 * 8;
    unsigned first = head.of[1] >> away & 255, second = head.of[2] >> away & 255;
    unsigned rest = head.of[3] >> away & 255;
    unsigned scales = group < 4 ? first & 63 : (rest & 15) | first >> 6 << 4;
    unsigned lows = group < 4 ? second & 63 : rest >> 4 | second >> 6 << 4;
    scale = half_to_float(head.of[0] & 0xffff) * (float)scales;
    low = half_to_float(head.of[0] >> 16) * (float)lows;
  }
  __device__ Scalar value(unsigned code) const { return to_scalar((float)code * scale - low); }
};

// 256 values of 4 or 5 bits in eight groups, of which two share 32 bytes.
template <bool HAS_FIFTH> struct Grouped {
  static const int begin = HAS_FIFTH ? 48 : 16, values = 256, bytes = begin + 128, packs = 2;
  __device__ static void unpack(const Byte *from, int first, Scalar *to) {
    const int width = width_of(bytes);
    int group = first / 32 * 2, inside = first % 32;
    Bytes content = words_at<VECTOR / 4, width>(from + begin + first), fifth;
    if (HAS_FIFTH) fifth = words_at<VECTOR / 4, width>(from + 16 + inside);
    Words<4> head = words_at<4, width>(from);
    Factors of_low(head, group), of_high(head, group + 1);
    Pack low, high;
#pragma unroll
    for (int c = 0; c < VECTOR; c++) {
      unsigned code = byte_of(content, c), more = HAS_FIFTH ? byte_of(fifth, c) >> group : 0;
      low.channel[c] = of_low.value((code & 15) | (more & 1) << 4);
      high.channel[c] = of_high.value(code >> 4 | (more >> 1 & 1) << 4);
    }
    *(Pack *)(to + group * 32 + inside) = low;
    *(Pack *)(to + group * 32 + 32 + inside) = high;
  }
};
typedef Grouped<false> Q4_K;
typedef Grouped<true> Q5_K;

// 256 values of 3 bits: the high bit of each in 32 bytes, then for each half 32 bytes of four low
// pairs of bits; 16 scales of 6 bits.
struct Q3_K {
  static const int values = 256, bytes = 110, packs = 4;
  __device__ static void unpack(const Byte *from, int first, Scalar *to) {
    const int width = width_of(bytes);
    int half = first / 32, inside = first % 32;
    Bytes content = words_at<VECTOR / 4, width>(from + 32 + first);
    Bytes upper = words_at<VECTOR / 4, width>(from + inside);
    float scale = half_at(from + 108);
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {
      int place = half * 128 + quarter * 32 + inside, group = place / 16;
      int low = from[96 + group % 8] >> group / 8 * 4 & 15;
      int high = from[104 + group % 4] >> group / 4 * 2 & 3;
      float factor = (float)((low | high << 4) - 32) * scale;
      Pack pack;
#pragma unroll
      for (int c = 0; c < VECTOR; c++) {
        unsigned code = byte_of(content, c) >> quarter * 2 & 3;
        code |= (byte_of(upper, c) >> (half * 4 + quarter) & 1) << 2;
        pack.channel[c] = to_scalar((float)((int)code - 4) * factor);
      }
      *(Pack *)(to + place) = pack;
    }
  }
};

// 256 values of 6 bits: in each half, 64 bytes of low bits and 32 of high ones; 16 signed scales.
struct Q6_K {
  static const int values = 256, bytes = 210, packs = 2;
  __device__ static void unpack(const Byte *from, int first, Scalar *to) {
    const int width = width_of(bytes);
    int half = first / 64, inside = first % 64, place = half * 128 + inside;
    Bytes content = words_at<VECTOR / 4, width>(from + first);
    Bytes upper = words_at<VECTOR / 4, width>(from + 128 + half * 32 + inside % 32);
    float scale = half_at(from + 208);
    float of_low = (float)(signed char)from[192 + place / 16] * scale;
    float of_high = (float)(signed char)from[192 + (place + 64) / 16] * scale;
    Pack low, high;
#pragma unroll
    for (int c = 0; c < VECTOR; c++) {
      unsigned code = byte_of(content, c), more = byte_of(upper, c) >> inside / 32 * 2;
      low.channel[c] = to_scalar((float)((int)((code & 15) | (more & 3) << 4) - 32) * of_low);
      high.channel[c] = to_scalar((float)((int)(code >> 4 | (more >> 4 & 3) << 4) - 32) * of_high);
    }
    *(Pack *)(to + place) = low;
    *(Pack *)(to + place + 64) = high;
  }
};

template <class Format>
__device__ inline void unpack(const Byte *blocks, Scalar *out, long long count) {
  const int parts = Format::values / (VECTOR * Format::packs);
  const unsigned long long all = count * parts, step = (unsigned long long)gridDim.x * THREADS;
  for (unsigned long long i = (unsigned long long)blockIdx.x * THREADS + threadIdx.x; i < all;
       i += step) {
    unsigned long long block = i / parts;
    int first = (int)(i % parts) * VECTOR;
    Format::unpack(blocks + block * Format::bytes, first, out + block * Format::values);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) unpack_q4_0(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q4_0>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q4_1(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q4_1>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q5_0(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q5_0>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q5_1(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q5_1>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q8_0(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q8_0>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q3_k(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q3_K>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q4_k(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q4_K>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q5_k(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q5_K>(blocks, out, count); }
extern "C" __global__ void __launch_bounds__(THREADS) unpack_q6_k(
    const Byte *blocks, Scalar *out, long long count) { unpack<Q6_K>(blocks, out, count); }
