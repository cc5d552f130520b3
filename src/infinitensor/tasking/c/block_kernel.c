/* Kernels one after another on blocks of rows, so that what one leaves for the next stays in cache.

   A stage is 12 numbers: its function, n_rows, n, n_outer, shape, steps, scalars, folded, n_same
   (see loops.py), how many arrays it has, where these begin, and how far into them each block is. */
#include <stdint.h>

typedef void (*Kernel)(int64_t, int64_t, int64_t, const int64_t *, char **, const int64_t *,
                       const char *, const int64_t *, int64_t);

void run(int64_t n_blocks, int64_t n_stages, const int64_t *stages) {
  for (int64_t block = 0; block < n_blocks; ++block)
    for (int64_t s = 0; s < n_stages; ++s) {
      const int64_t *t = stages + 12 * s;
      const int64_t n = t[9];
      const int64_t *begin = (const int64_t *)t[10], *in = (const int64_t *)t[11] + block * n;
      char *p[n];
      for (int64_t a = 0; a < n; ++a) p[a] = (char *)(begin[a] + in[a]);
      ((Kernel)t[0])(t[1], t[2], t[3], (const int64_t *)t[4], p, (const int64_t *)t[5],
                     (const char *)t[6], (const int64_t *)t[7], t[8]);
    }
}
