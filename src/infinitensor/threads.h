/* What C files that share work with `threads.c` have in common with it. */
#include <stdint.h>
#include <time.h>

/* What calls of a kind took of late, in ps for each of their elements: in one thread, and in several. Zeros: nothing
   is known yet. */
typedef struct {
    int64_t alone_ps, shared_ps, n_calls, n_alone, n_shared;
} Times;

/* Of `threads.c`: run numbered parts of a call of so many elements here and in n - 1 other threads, or all at once here
   (part -1), as is quicker. */
typedef void (*ShareParts)(void (*)(void *, int64_t), void *, int64_t n_parts, int64_t n, int64_t size, Times *);

static __attribute__((unused)) int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Let the other thread of a core go first. */
static __attribute__((unused)) void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
