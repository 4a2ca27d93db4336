// Instructions of tensor_cores.cuh on the processor, each named after itself.
//
// The threads of a warp meet in `show_`: each shows its operands and goes on when all have. So an
// instruction that only a part of a warp reaches, or that meets another one, is found.

#include <cstdint>
#include <deque>
#include <initializer_list>

static const char *fault_;   // why this launch is wrong
static unsigned conflicts_;  // further turns that banks took
static unsigned room_;       // bytes of shared memory that the launch asked for

struct Shown { const char *what; unsigned turn; float value[16]; unsigned address; };
static Shown shown_[2][1024];
static unsigned turns_[1024];

static unsigned thread_() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

// What the warp's threads show. Two slots a thread: none shows more before all have read this.
template <class Fill> static const Shown *show_(const char *what, Fill fill) {
  unsigned mine = thread_(), turn = turns_[mine]++;
  Shown *all = shown_[turn % 2];
  all[mine].what = what;
  all[mine].turn = turn;
  fill(all[mine]);
  yield_(READY);
  const Shown *warp = all + mine / 32 * 32;
  for (int lane = 0; lane < 32; lane++)
    if (warp[lane].what != what || warp[lane].turn != turn) fault_ = "a warp is not in step";
  return warp;
}

static float half_(unsigned word, int which) {
  _Float16 value;
  unsigned short bits = word >> 16 * which;
  memcpy(&value, &bits, 2);
  return value;
}
static unsigned word_(float first, float second) {
  _Float16 halves[2] = {(_Float16)first, (_Float16)second};
  unsigned word;
  memcpy(&word, halves, 4);
  return word;
}

static char *shared_(unsigned address, unsigned bytes) {
  if (address % bytes != 0) fault_ = "an address in shared memory is not aligned";
  if (address + bytes > room_) fault_ = "an address is outside of shared memory";
  return memory + (fault_ ? 0 : address);
}

static unsigned __cvta_generic_to_shared(const void *pointer) {
  return (const char *)pointer - memory;
}

static void load_(const char *name, bool transposed, unsigned &a, unsigned &b, unsigned &c,
                  unsigned &d, unsigned row) {
  const Shown *warp = show_(name, [&](Shown &mine) { mine.address = row; });
  unsigned lane = thread_() % 32, *to[4] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 2; j++) {  // values of a word
      unsigned down = lane / 4, right = lane % 4 * 2 + j;
      const Shown &from = warp[8 * i + (transposed ? right : down)];
      const char *at = shared_(from.address, 16) + (transposed ? down : right) * 2;
      memcpy((char *)to[i] + 2 * j, at, 2);
    }
    unsigned banks = 0;
    for (int r = 0; r < 8 && lane == 0; r++) {
      unsigned bank = 1u << warp[8 * i + r].address / 16 % 8;
      conflicts_ += (banks & bank) != 0;
      banks |= bank;
    }
  }
}

static void ldmatrix_sync_aligned_m8n8_x4_shared_b16(
    unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned row) {
  static const char *name = "ldmatrix";
  load_(name, false, a, b, c, d, row);
}
static void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(
    unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned row) {
  static const char *name = "ldmatrix, transposed";
  load_(name, true, a, b, c, d, row);
}

// The four sums of a lane: rows lane / 4 and 8 more, columns 2 * (lane % 4) and the next one.
template <int DEPTH> static void products_(
    const char *name, float (&sum)[4], std::initializer_list<unsigned> a,
    std::initializer_list<unsigned> b) {
  const Shown *warp = show_(name, [&](Shown &mine) {
    float *value = mine.value;
    for (auto words : {a, b})
      for (unsigned word : words)
        for (int i = 0; i < 2; i++) *value++ = half_(word, i);
  });
  unsigned lane = thread_() % 32;
  for (int i = 0; i < 4; i++) {
    double exact = sum[i];
    for (int k = 0; k < DEPTH; k++) {
      const float *row = warp[lane / 4 * 4 + k % 8 / 2].value;  // words: rows, then depth
      const float *column = warp[(lane % 4 * 2 + i % 2) * 4 + k % 8 / 2].value + DEPTH / 2;
      exact += (double)row[k / 8 * 4 + i / 2 * 2 + k % 2] * column[k / 8 * 2 + k % 2];
    }
    sum[i] = exact;
  }
}

template <int DEPTH> static void half_products_(
    const char *name, unsigned &s0, unsigned &s1, std::initializer_list<unsigned> a,
    std::initializer_list<unsigned> b) {
  float sum[4] = {half_(s0, 0), half_(s0, 1), half_(s1, 0), half_(s1, 1)};
  products_<DEPTH>(name, sum, a, b);
  s0 = word_(sum[0], sum[1]);
  s1 = word_(sum[2], sum[3]);
}

static void mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16(
    unsigned &s0, unsigned &s1, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
    unsigned b1) {
  static const char *name = "16 products, float16";
  half_products_<16>(name, s0, s1, {a0, a1, a2, a3}, {b0, b1});
}
static void mma_sync_aligned_m16n8k8_row_col_f16_f16_f16_f16(
    unsigned &s0, unsigned &s1, unsigned a0, unsigned a1, unsigned b0) {
  static const char *name = "8 products, float16";
  half_products_<8>(name, s0, s1, {a0, a1}, {b0});
}
static void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(
    float &s0, float &s1, float &s2, float &s3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1) {
  static const char *name = "16 products";
  float sum[4] = {s0, s1, s2, s3};
  products_<16>(name, sum, {a0, a1, a2, a3}, {b0, b1});
  s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
}
static void mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(
    float &s0, float &s1, float &s2, float &s3, unsigned a0, unsigned a1, unsigned b0) {
  static const char *name = "8 products";
  float sum[4] = {s0, s1, s2, s3};
  products_<8>(name, sum, {a0, a1}, {b0});
  s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
}

// Copies of a thread arrive as early or as late as they may: at once, or when it waits for them.
struct Copy_ { unsigned to; const void *from; int bytes; };
static bool is_late_;
static std::deque<std::vector<Copy_>> groups_[1024];  // the last one is not ended

static void arrive_(const Copy_ &copy) {
  char *to = shared_(copy.to, 16);
  memset(to, 0, 16);
  memcpy(to, copy.from, copy.bytes);
}
static void cp_async_cg_shared_global(unsigned to, const void *from, int bytes) {
  if ((uintptr_t)from % 16 != 0) fault_ = "an address of a copy is not aligned";
  auto &mine = groups_[thread_()];
  if (mine.empty()) mine.emplace_back();
  is_late_ ? mine.back().push_back({to, from, bytes}) : arrive_({to, from, bytes});
}
static void cp_async_commit_group() { groups_[thread_()].emplace_back(); }
static void cp_async_wait_group(unsigned left) {
  auto &mine = groups_[thread_()];
  while (mine.size() > left + 1) {
    for (const Copy_ &copy : mine.front()) arrive_(copy);
    mine.pop_front();
  }
}
static void st_shared_v4_u32(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  unsigned words[4] = {a, b, c, d};
  memcpy(shared_(to, 16), words, 16);
}

// Begin a launch without anything from the one before.
static void forget_() {
  fault_ = 0;
  conflicts_ = 0;
  for (auto &groups : groups_) groups.clear();
  memset(turns_, 0, sizeof turns_);
}

extern "C" const char *fault() { return fault_; }
extern "C" unsigned conflicts() { return conflicts_; }
extern "C" void set_late(bool late) { is_late_ = late; }
