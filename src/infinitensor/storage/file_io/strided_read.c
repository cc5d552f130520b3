// Runs of a file, into memory `out_step` apart. Of a window of runs those that the system has in
// memory are read first; the others are announced to it before one of them is read: a disk works on many
// at once.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_RUNS 256

// Whether a run was read whole; -errno if the system refuses it.
static int64_t read_run(int file, int64_t offset, int64_t n_bytes, char *out) {
    for (int64_t done = 0; done < n_bytes;) {
        ssize_t n = pread(file, out + done, n_bytes - done, offset + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return 0;
        done += n;
    }
    return 1;
}

// Whether a run was in the system's memory, and was read from there.
static int read_cached(int file, int64_t offset, int64_t n_bytes, char *out) {
#ifdef RWF_NOWAIT
    struct iovec into = {out, n_bytes};
    return preadv2(file, &into, 1, offset, RWF_NOWAIT) == n_bytes;
#else
    return 0;
#endif
}

// Of runs lo to hi, at `offset + i * step` or, if there are `offsets`, where these say in `order`:
// hi if all were read whole, or the first that was not; -errno if the system refuses one.
static int64_t read_window(int file, int64_t offset, int64_t step, const int64_t *offsets,
                           const int64_t *order, int64_t lo, int64_t hi, int64_t n_bytes, char *out,
                           int64_t out_step) {
    int64_t missing[MOST_RUNS], n_missing = 0;
    for (int64_t i = lo; i < hi; i++) {
        int64_t at = order ? order[i] : i, from = offsets ? offsets[at] : offset + at * step;
        if (read_cached(file, from, n_bytes, out + at * out_step)) continue;
        posix_fadvise(file, from, n_bytes, POSIX_FADV_WILLNEED);
        missing[n_missing++] = i;
    }
    for (int64_t k = 0; k < n_missing; k++) {
        int64_t i = missing[k], at = order ? order[i] : i;
        int64_t from = offsets ? offsets[at] : offset + at * step;
        int64_t is_read = read_run(file, from, n_bytes, out + at * out_step);
        if (is_read != 1) return is_read < 0 ? is_read : i;
    }
    return hi;
}

static int64_t read_windows(int file, int64_t offset, int64_t step, const int64_t *offsets,
                            const int64_t *order, int64_t n_runs, int64_t n_bytes, char *out,
                            int64_t out_step, int64_t window) {
    if (window > MOST_RUNS) window = MOST_RUNS;
    for (int64_t lo = 0; lo < n_runs; lo += window) {
        int64_t hi = lo + window < n_runs ? lo + window : n_runs;
        int64_t n = read_window(file, offset, step, offsets, order, lo, hi, n_bytes, out, out_step);
        if (n < hi) return n;
    }
    return n_runs;
}

// How many runs `step` bytes apart were read whole; -errno if the system refuses one.
int64_t read_runs(int file, int64_t offset, int64_t step, int64_t n_runs, int64_t n_bytes,
                  char *out, int64_t out_step, int64_t window) {
    return read_windows(file, offset, step, 0, 0, n_runs, n_bytes, out, out_step, window);
}

// The same for runs at any offsets, in the order given.
int64_t read_points(int file, const int64_t *offsets, const int64_t *order, int64_t n_runs,
                    int64_t n_bytes, char *out, int64_t out_step, int64_t window) {
    return read_windows(file, 0, 0, offsets, order, n_runs, n_bytes, out, out_step, window);
}
