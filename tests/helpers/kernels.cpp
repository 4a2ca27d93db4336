// Threads of a launch, one after the other on the processor, and instructions of matrix units.
//
// The threads of a warp meet in `show_`: each shows its operands and goes on when all have. So an
// instruction that only a part of a warp reaches, or that meets another one, is found.

#include "kernels.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

Index threadIdx, blockIdx, blockDim, gridDim;
alignas(16) char memory[65536];

struct Thread { jmp_buf at; Index index; State state; char stack[65536]; };
static Thread *running_;
static jmp_buf scheduler_;

// Go on where another thread, or the scheduler, left off. swapcontext would make a system call.
static void switch_(jmp_buf from, jmp_buf to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}
void yield_(State state) {
  running_->state = state;
  switch_(running_->at, scheduler_);
}

static const char *fault_;   // why this launch is wrong
static unsigned conflicts_;  // further turns that banks took
static unsigned room_;       // bytes of shared memory that the launch asked for

struct Shown { const char *what; unsigned turn; float value[16]; unsigned address; };
static Shown shown_[2][1024];
static unsigned turns_[1024];

static unsigned thread_() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

static float exchanged_[1024];
float __shfl_xor_sync(unsigned, float value, int away) {
  unsigned mine = thread_();
  exchanged_[mine] = value;
  yield_(READY);
  float other = exchanged_[mine / 32 * 32 + (mine % 32 ^ away)];
  yield_(READY);
  return other;
}

void cvt_f32_f16(float &to, unsigned short from) {
  _Float16 half;
  memcpy(&half, &from, 2);
  to = half;
}
void cvt_rn_f16_f32(unsigned short &to, float from) {
  _Float16 half = (_Float16)from;
  memcpy(&to, &half, 2);
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
  const Shown &next = warp[(mine + 1) % 32];  // each looks at the next one: all are compared
  if (next.what != what || next.turn != turn) fault_ = "a warp is not in step";
  return warp;
}

static float half_(unsigned word, int which) {
  float value;
  cvt_f32_f16(value, word >> 16 * which);
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

unsigned __cvta_generic_to_shared(const void *pointer) {
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

void ldmatrix_sync_aligned_m8n8_x4_shared_b16(
    unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned row) {
  static const char *name = "ldmatrix";
  load_(name, false, a, b, c, d, row);
}
void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(
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
  double exact[4] = {sum[0], sum[1], sum[2], sum[3]};
  for (int k = 0; k < DEPTH; k++)  // four sums at a time: none waits for its own last product
    for (int i = 0; i < 4; i++) {
      const float *row = warp[lane / 4 * 4 + k % 8 / 2].value;  // words: rows, then depth
      const float *column = warp[(lane % 4 * 2 + i % 2) * 4 + k % 8 / 2].value + DEPTH / 2;
      exact[i] += (double)row[k / 8 * 4 + i / 2 * 2 + k % 2] * column[k / 8 * 2 + k % 2];
    }
  for (int i = 0; i < 4; i++) sum[i] = exact[i];
}

template <int DEPTH> static void half_products_(
    const char *name, unsigned &s0, unsigned &s1, std::initializer_list<unsigned> a,
    std::initializer_list<unsigned> b) {
  float sum[4] = {half_(s0, 0), half_(s0, 1), half_(s1, 0), half_(s1, 1)};
  products_<DEPTH>(name, sum, a, b);
  s0 = word_(sum[0], sum[1]);
  s1 = word_(sum[2], sum[3]);
}

void mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16(
    unsigned &s0, unsigned &s1, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
    unsigned b1) {
  static const char *name = "16 products, float16";
  half_products_<16>(name, s0, s1, {a0, a1, a2, a3}, {b0, b1});
}
void mma_sync_aligned_m16n8k8_row_col_f16_f16_f16_f16(
    unsigned &s0, unsigned &s1, unsigned a0, unsigned a1, unsigned b0) {
  static const char *name = "8 products, float16";
  half_products_<8>(name, s0, s1, {a0, a1}, {b0});
}
void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(
    float &s0, float &s1, float &s2, float &s3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1) {
  static const char *name = "16 products";
  float sum[4] = {s0, s1, s2, s3};
  products_<16>(name, sum, {a0, a1, a2, a3}, {b0, b1});
  s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
}
void mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(
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
void cp_async_cg_shared_global(unsigned to, const void *from, int bytes) {
  if ((uintptr_t)from % 16 != 0) fault_ = "an address of a copy is not aligned";
  auto &mine = groups_[thread_()];
  if (mine.empty()) mine.emplace_back();
  is_late_ ? mine.back().push_back({to, from, bytes}) : arrive_({to, from, bytes});
}
void cp_async_commit_group() { groups_[thread_()].emplace_back(); }
void cp_async_wait_group(unsigned left) {
  auto &mine = groups_[thread_()];
  while (mine.size() > left + 1) {
    for (const Copy_ &copy : mine.front()) arrive_(copy);
    mine.pop_front();
  }
}
void st_shared_v4_u32(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
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

// The warps of a block run one after the other up to the next barrier, now forwards, now backwards,
// and in the next block the other way round: where a barrier is missing, some threads read or write
// too early in one of the two.
static decltype(&call) call_;
static int which_;
static void **arguments_;
static ucontext_t entry_, outside_;
static void begin_() {
  if (_setjmp(running_->at) == 0) swapcontext(&entry_, &outside_);
  call_(which_, arguments_);
  yield_(ENDED);
}
// Let a thread begin, on its own stack, up to its first switch.
static void make_(Thread &thread, Index index) {
  thread.index = index;
  running_ = &thread;
  getcontext(&entry_);
  entry_.uc_stack.ss_sp = thread.stack;
  entry_.uc_stack.ss_size = sizeof thread.stack;
  makecontext(&entry_, begin_, 0);
  swapcontext(&outside_, &entry_);
}
static bool is_backwards_;
static void run_warp_(Thread *first, Thread *last) {
  for (bool is_ready = true; is_ready;) {
    is_ready = false;
    for (long n = 0; n < last - first; n++) {
      running_ = is_backwards_ ? last - 1 - n : first + n;
      if (running_->state != READY) continue;
      threadIdx = running_->index;
      switch_(scheduler_, running_->at);
      is_ready |= running_->state == READY;
    }
  }
}
static size_t run_to_barrier_(std::vector<Thread> &threads) {
  size_t count = threads.size(), warps = (count + 31) / 32, ended = 0;
  is_backwards_ = !is_backwards_;
  for (Thread &thread : threads) thread.state = READY;
  for (size_t n = 0; n < warps; n++) {
    size_t first = 32 * (is_backwards_ ? warps - 1 - n : n);
    run_warp_(&threads[first], &threads[first] + std::min<size_t>(32, count - first));
  }
  for (Thread &thread : threads) ended += thread.state == ENDED;
  return ended;
}
extern "C" bool launch(decltype(&call) call, int which, const unsigned *d, void **arguments) {
  call_ = call;
  which_ = which;
  forget_();
  room_ = d[6];
  arguments_ = arguments;
  gridDim = {d[0], d[1], d[2]};
  blockDim = {d[3], d[4], d[5]};
  std::vector<Thread> threads(d[3] * d[4] * d[5]);
  for (unsigned block = 0; block < d[0] * d[1] * d[2]; block++) {
    blockIdx = {block % d[0], block / d[0] % d[1], block / d[0] / d[1]};
    for (unsigned n = 0; n < threads.size(); n++) {
      make_(threads[n], {n % d[3], n / d[3] % d[4], n / d[3] / d[4]});
    }
    is_backwards_ = block % 2 == 1;
    size_t ended = 0;
    while (ended == 0) ended = run_to_barrier_(threads);
    if (ended < threads.size()) fault_ = "some threads ended while others wait at a barrier";
    if (fault_ != 0) return false;
  }
  return true;
}
