// Matrix units and the copies that feed them: what a warp does together, in half precision.
//
// Each function is one instruction, but on GPUs before Ampere (sm_75), which multiply half as deep
// and copy into shared memory through registers. Tests call functions in place of instructions,
// which work on the fragments of a whole warp.

#define WARP 32
#define UNIT 8  // values of half precision in 16 bytes: what is copied and loaded at once

struct alignas(16) Unit { unsigned word[4]; };  // two values in each word

// Address within shared memory.
__device__ inline unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

// Four matrices of 8 x 8 values. Lane 8 * i + r gives the address of row r of matrix i; lane l gets
// values 2 * (l % 4) and the next one of row l / 4 of each matrix.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row) : "memory");
}

// The same, transposed: lane l gets values 2 * (l % 4) and the next one of column l / 4.
__device__ inline void load_transposed(unsigned (&to)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row) : "memory");
}

// sum += a * b: a 16 x 16 values, b 16 x 8, the sum 16 x 8 in half precision.
//
// Lane l has rows l / 4 and l / 4 + 8 of a and of the sum, and column l / 4 of b; of the columns of
// a and the sum, and of the rows of b, 2 * (l % 4) and the next one, and for a and b both plus 8.
__device__ inline void multiply_add(unsigned (&sum)[2], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(sum[0]), "+r"(sum[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
      : "+r"(sum[0]), "+r"(sum[1]) : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
      : "+r"(sum[0]), "+r"(sum[1]) : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

// The same with a sum in float32.
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

// Copy 16 bytes into shared memory while the thread goes on; zeros where `exists` is false, and
// then nothing is read.
__device__ inline void copy_unit(unsigned to, const void *from, bool exists) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               : : "r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
#else
  Unit unit = {};
  if (exists) unit = *(const Unit *)from;
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               : : "r"(to), "r"(unit.word[0]), "r"(unit.word[1]), "r"(unit.word[2]),
                   "r"(unit.word[3]) : "memory");
#endif
}

// End a group of copies, which may be empty.
__device__ inline void end_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

// Wait until all groups of this thread but the newest `LEFT` have arrived.
template <int LEFT> __device__ inline void wait_for_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
#endif
}
