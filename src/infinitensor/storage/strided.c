// Runs of a file that lie `step` bytes apart, into memory `out_step` apart. The system is told of
// the next `window` runs before the first of them is read: a disk works on many at once.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

// How many runs were read whole; -errno if the system refuses one.
int64_t read_runs(int file, int64_t offset, int64_t step, int64_t n_runs, int64_t n_bytes,
                  char *out, int64_t out_step, int64_t window) {
    for (int64_t i = 0; i < n_runs; i++) {
        if (i % window == 0)
            for (int64_t k = i; k < i + window && k < n_runs; k++)
                posix_fadvise(file, offset + k * step, n_bytes, POSIX_FADV_WILLNEED);
        for (int64_t done = 0; done < n_bytes;) {
            ssize_t n = pread(file, out + i * out_step + done, n_bytes - done,
                              offset + i * step + done);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return -errno;
            if (n == 0) return i;
            done += n;
        }
    }
    return n_runs;
}
