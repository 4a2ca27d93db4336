// CUDA on the processor, as far as the kernels use it: included before each of their sources.

#include <string.h>

#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)
#define __expf expf
#define __fdividef(a, b) ((a) / (b))
#define __syncthreads() yield_(AT_BARRIER)
#define __syncwarp()

// Without <cmath>, which takes longer to compile than a kernel.
extern "C" float expf(float), sqrtf(float), fmaxf(float, float), rintf(float), fabsf(float);
extern "C" double sqrt(double);

struct Index { unsigned x, y, z; };
extern Index threadIdx, blockIdx, blockDim, gridDim;
extern char memory[65536];  // of a block, which its threads share
enum State { READY, AT_BARRIER, ENDED };
void yield_(State state);  // other threads go on

// Calls the kernel of that number, with pointers to its arguments. Each source defines it.
extern "C" void call(int which, void **arguments);

static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a < b ? b : a; }
static float __uint_as_float(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }
static unsigned __float_as_uint(float value) { unsigned v; memcpy(&v, &value, 4); return v; }
float __shfl_xor_sync(unsigned, float value, int away);  // all threads of the warp call it

// Instructions, each named after itself.
unsigned __cvta_generic_to_shared(const void *pointer);
void cvt_f32_f16(float &to, unsigned short from);
void cvt_rn_f16_f32(unsigned short &to, float from);
void ldmatrix_sync_aligned_m8n8_x4_shared_b16(
    unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned row);
void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(
    unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned row);
void mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16(
    unsigned &s0, unsigned &s1, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
    unsigned b1);
void mma_sync_aligned_m16n8k8_row_col_f16_f16_f16_f16(
    unsigned &s0, unsigned &s1, unsigned a0, unsigned a1, unsigned b0);
void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(
    float &s0, float &s1, float &s2, float &s3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1);
void mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(
    float &s0, float &s1, float &s2, float &s3, unsigned a0, unsigned a1, unsigned b0);
void cp_async_cg_shared_global(unsigned to, const void *from, int bytes);
void cp_async_commit_group();
void cp_async_wait_group(unsigned left);
void st_shared_v4_u32(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d);
