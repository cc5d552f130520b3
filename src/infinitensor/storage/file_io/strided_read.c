// Runs of a file that lie `step` bytes apart, into memory `out_step` apart. The system is told of
// the next `window` runs before the first of them is read: a disk works on many at once.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

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

// How many runs were read whole; -errno if the system refuses one.
int64_t read_runs(int file, int64_t offset, int64_t step, int64_t n_runs, int64_t n_bytes,
                  char *out, int64_t out_step, int64_t window) {
    for (int64_t i = 0; i < n_runs; i++) {
        if (i % window == 0)
            for (int64_t k = i; k < i + window && k < n_runs; k++)
                posix_fadvise(file, offset + k * step, n_bytes, POSIX_FADV_WILLNEED);
        int64_t is_read = read_run(file, offset + i * step, n_bytes, out + i * out_step);
        if (is_read != 1) return is_read < 0 ? is_read : i;
    }
    return n_runs;
}

// The same of runs that lie anywhere, in the order given.
int64_t read_points(int file, const int64_t *offsets, const int64_t *order, int64_t n_runs,
                    int64_t n_bytes, char *out, int64_t out_step, int64_t window) {
    for (int64_t i = 0; i < n_runs; i++) {
        if (i % window == 0)
            for (int64_t k = i; k < i + window && k < n_runs; k++)
                posix_fadvise(file, offsets[order[k]], n_bytes, POSIX_FADV_WILLNEED);
        int64_t is_read = read_run(file, offsets[order[i]], n_bytes, out + order[i] * out_step);
        if (is_read != 1) return is_read < 0 ? is_read : i;
    }
    return n_runs;
}
