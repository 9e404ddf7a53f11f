// A mutex that Clang's thread-safety analysis knows, and the words that say what it guards. CI takes what the analysis
// finds as errors (tools/check_sources.py); for other compilers the words are nothing.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define RODA_LOCKS(attribute) __attribute__((attribute))
#else
#define RODA_LOCKS(attribute)
#endif

// A type that a thread can hold.
#define RODA_CAPABILITY(name) RODA_LOCKS(capability(name))
// A member or variable that is touched only while `x` is held; PT: a pointer whose target is.
#define RODA_GUARDED_BY(x) RODA_LOCKS(guarded_by(x))
#define RODA_PT_GUARDED_BY(x) RODA_LOCKS(pt_guarded_by(x))
// A function whose caller holds `x`; a function that takes `x`, or gives it back.
#define RODA_REQUIRES(...) RODA_LOCKS(requires_capability(__VA_ARGS__))
#define RODA_ACQUIRE(...) RODA_LOCKS(acquire_capability(__VA_ARGS__))
#define RODA_RELEASE(...) RODA_LOCKS(release_capability(__VA_ARGS__))
#define RODA_TRY_ACQUIRE(...) RODA_LOCKS(try_acquire_capability(__VA_ARGS__))
// A function that the analysis can't follow; a comment there says why.
#define RODA_UNCHECKED RODA_LOCKS(no_thread_safety_analysis)

namespace roda {

class RODA_CAPABILITY("mutex") Mutex {
 public:
  void lock() RODA_ACQUIRE() { mutex_.lock(); }
  void unlock() RODA_RELEASE() { mutex_.unlock(); }
  // For lambdas, which the analysis takes for functions of their own: the caller holds it.
  void assert_held() const RODA_LOCKS(assert_capability(this)) {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex for its life, or until unlock(). `held()` is for std::condition_variable.
class RODA_LOCKS(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RODA_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() RODA_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() RODA_ACQUIRE() { lock_.lock(); }
  void unlock() RODA_RELEASE() { lock_.unlock(); }
  std::unique_lock<std::mutex>& held() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace roda
