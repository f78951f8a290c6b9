// Loops shared by a few threads. What a kernel does takes tens of microseconds, less than waking a thread that sleeps, and
// another program may hold a core for milliseconds. So workers stay awake for a moment after a loop, whoever is there takes
// the next piece, and a loop ends when its pieces are done: it never waits for a thread that has not come.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

class Team {
 public:
  // The one team of the process: all cores it may run on when the first loop is shared.
  static Team &instance() {
    static Team *team = new Team;  // never destroyed: its threads end with the process
    return *team;
  }

  int64_t size() const { return size_; }

  // Another number of threads for all loops from now on.
  void resize(int64_t size) {
    const std::lock_guard<std::mutex> turn(turn_);
    size_ = std::max<int64_t>(1, size);
  }

  // each(first, last) for runs of 0 .. count - 1, in any order and on any of the threads.
  template <class Each>
  void share(int64_t count, const Each &each) {
    const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (count < 2 || size_ < 2 || !turn.owns_lock()) return each(0, count);  // the workers are another caller's
    while (started_ < size_) start(started_++);
    run_ = [](const void *what, int64_t first, int64_t last) { (*static_cast<const Each *>(what))(first, last); };
    what_ = &each;
    count_ = count;
    piece_ = std::max<int64_t>(1, count / (16 * size_));
    next_.store(0, std::memory_order_relaxed);
    state_.store((++loops_ << ROUND) | OPEN);
    if (sleepers_.load() > 0) {
      { const std::lock_guard<std::mutex> guard(sleep_); }
      wake_.notify_all();
    }
    work();
    state_.fetch_and(~OPEN);
    await_last();
  }

 private:
  static constexpr uint64_t INSIDE = 0xFFFF, OPEN = 0x10000;  // workers in the loop, and whether more may come
  static constexpr int ROUND = 17;                            // the loop's number is above these bits
  static constexpr std::chrono::microseconds AWAKE{300};      // after a loop
  static constexpr int SPINS = 10000;                         // until the caller sleeps as well, some 200 microseconds

  Team() {
    cpu_set_t cores;
    const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
    size_ = known ? CPU_COUNT(&cores) : std::max(1u, std::thread::hardware_concurrency());
    // a forked child has none of the threads, and locks that nobody may open
    pthread_atfork(nullptr, nullptr, [] { instance().size_ = 1; });
  }

  void start(int64_t number) {
    std::thread([this, number] { serve(number); }).detach();
  }

  void work() {
    for (int64_t first; (first = next_.fetch_add(piece_, std::memory_order_relaxed)) < count_;)
      run_(what_, first, std::min(first + piece_, count_));
  }

  [[noreturn]] void serve(int64_t number) {
    for (uint64_t last = 0;;) {
      uint64_t seen = await(last);
      last = seen >> ROUND;
      while (number < size_ && (seen & OPEN) && seen >> ROUND == last)
        if (state_.compare_exchange_weak(seen, seen + 1)) {
          work();
          state_.fetch_sub(1);
          if (is_awaited_.load()) {
            { const std::lock_guard<std::mutex> guard(sleep_); }
            left_.notify_one();
          }
          break;
        }
    }
  }

  // The state once a loop after `last` is open.
  uint64_t await(uint64_t last) {
    const auto is_new = [&](uint64_t state) { return (state & OPEN) && state >> ROUND != last; };
    const auto until = std::chrono::steady_clock::now() + AWAKE;
    do
      for (int i = 0; i < 64; i++) {
        const uint64_t state = state_.load(std::memory_order_acquire);
        if (is_new(state)) return state;
        relax();
      }
    while (std::chrono::steady_clock::now() < until);
    std::unique_lock<std::mutex> guard(sleep_);
    sleepers_.fetch_add(1);
    uint64_t state;
    wake_.wait(guard, [&] { return is_new(state = state_.load()); });
    sleepers_.fetch_sub(1);
    return state;
  }

  // Returns when no worker is in the loop. Their last pieces are short, unless another program has taken a core of one:
  // sleeping gives it ours.
  void await_last() {
    for (int spins = 0; spins < SPINS; spins++, relax())
      if (!(state_.load(std::memory_order_acquire) & INSIDE)) return;
    std::unique_lock<std::mutex> guard(sleep_);
    is_awaited_.store(true);
    left_.wait(guard, [&] { return !(state_.load() & INSIDE); });
    is_awaited_.store(false);
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<int64_t> size_{1};
  int64_t started_ = 1, count_ = 0, piece_ = 1;  // threads there are, the caller's included
  uint64_t loops_ = 0;
  void (*run_)(const void *, int64_t, int64_t) = nullptr;
  const void *what_ = nullptr;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> is_awaited_{false};
  std::mutex turn_, sleep_;
  std::condition_variable wake_, left_;
};

// Whether about so many floating-point operations are worth another thread's attention.
static inline bool worth_sharing(int64_t operations) { return operations > 1 << 18; }

// each(i) for 0 .. count - 1, shared if all of it takes about so many operations. No result may depend on the order.
template <class Each>
static inline void share(int64_t count, int64_t operations, const Each &each) {
  const auto run = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) each(i);
  };
  worth_sharing(operations) ? Team::instance().share(count, run) : run(0, count);
}
