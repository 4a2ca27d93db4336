// Norm and rotation of q and k between their projection and attention; q, k and v into windows.
//
// LANES neighbouring threads, a power of two within a warp, take one head of one token: VECTOR
// channels each of q, k and v, so that both channels of a pair are in one thread. blockIdx.y counts
// the places that a token is copied to. Offsets have 64 bits, heads of all tokens together 32.

#include "scalars.cuh"

#define THREADS 256

struct alignas(sizeof(Scalar) * VECTOR) Pack { Scalar channel[VECTOR]; };
struct Tokens { const Scalar *first; long long token, part, head; int count, heads; };
struct Rows { Scalar *first; long long row, head; };
struct Places { const long long *target; long long pitch; };  // [copies, tokens]
struct Angles { const float *cos, *sin; const long long *row; int pairs; };  // [rows, pairs]
struct Norm { const float *q, *k; float eps; };

// Sum over the lanes of a head.
__device__ inline float over_head(float value) {
#pragma unroll
  for (int away = LANES / 2; away > 0; away /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, away);
  return value;
}

__device__ inline float squares_of(Pack pack) {
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < VECTOR; c++) sum += to_float(pack.channel[c]) * to_float(pack.channel[c]);
  return sum;
}

// Normalise and rotate the channels of a thread.
__device__ inline Pack rotated(Pack pack, float inverse, const float *weight, Angles angles,
                              long long row, int channel) {
#pragma unroll
  for (int c = 0; c < VECTOR; c += 2) {
    float even = to_float(pack.channel[c]) * inverse * weight[channel + c];
    float odd = to_float(pack.channel[c + 1]) * inverse * weight[channel + c + 1];
    int pair = (channel + c) / 2;
    if (pair < angles.pairs) {
      float cosine = angles.cos[row * angles.pairs + pair];
      float sine = angles.sin[row * angles.pairs + pair];
      float first = even * cosine - odd * sine;
      odd = odd * cosine + even * sine;
      even = first;
    }
    pack.channel[c] = to_scalar(even);
    pack.channel[c + 1] = to_scalar(odd);
  }
  return pack;
}

extern "C" __global__ void __launch_bounds__(THREADS) gather_qk(
    Tokens from, Places places, Angles angles, Norm norm, Rows q, Rows k, Rows v) {
  int unit = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
  bool is_mine = unit < from.count * from.heads;
  if (!is_mine) unit = 0;  // threads after the last head take part in the sums of their warp
  int token = unit / from.heads, head = unit % from.heads;
  int channel = threadIdx.x % LANES * VECTOR;
  const Scalar *at = from.first + token * from.token + head * from.head + channel;
  Pack query = *(const Pack *)at;
  Pack key = *(const Pack *)(at + from.part);
  Pack value = *(const Pack *)(at + 2 * from.part);
  float inverse_q = 1.0f / sqrtf(over_head(squares_of(query)) / (LANES * VECTOR) + norm.eps);
  float inverse_k = 1.0f / sqrtf(over_head(squares_of(key)) / (LANES * VECTOR) + norm.eps);
  if (!is_mine) return;
  long long row = angles.row != 0 ? angles.row[token] : token;
  long long to = places.target[blockIdx.y * places.pitch + token];
  query = rotated(query, inverse_q, norm.q, angles, row, channel);
  key = rotated(key, inverse_k, norm.k, angles, row, channel);
  *(Pack *)(q.first + to * q.row + head * q.head + channel) = query;
  *(Pack *)(k.first + to * k.row + head * k.head + channel) = key;
  *(Pack *)(v.first + to * v.row + head * v.head + channel) = value;
}
