/* Kernels one after another on blocks of rows, so that what one leaves for the next stays in cache.

   To be called as a kernel of `loops.py` is, so that a program of C has it as any other. Blocks of one size are a set: how
   many there are, and where its stages begin. A stage is 12 numbers: its function, n_rows, n, n_outer, shape, steps, how
   far into the scalars its own are, folded, n_same, how many arrays it has, which of all arrays these are, and how far
   into them each block is. Behind the arrays that are given come `n_rooms` that only stages see: `rooms` has where each
   begins in memory of this thread, and how much that is. */
#include <stdint.h>

typedef void (*Kernel)(int64_t, int64_t, int64_t, const int64_t *, char **, const int64_t *,
                       const char *, const int64_t *, int64_t);

static void run_set(int64_t n_blocks, int64_t n_stages, const int64_t *stages, char **arrays,
                    const char *scalars) {
  for (int64_t block = 0; block < n_blocks; ++block)
    for (int64_t s = 0; s < n_stages; ++s) {
      const int64_t *t = stages + 12 * s, n = t[9];
      const int64_t *which = (const int64_t *)t[10], *in = (const int64_t *)t[11] + block * n;
      char *p[n];
      for (int64_t a = 0; a < n; ++a) p[a] = arrays[which[a]] + in[a];
      ((Kernel)t[0])(t[1], t[2], t[3], (const int64_t *)t[4], p, (const int64_t *)t[5], scalars + t[6],
                     (const int64_t *)t[7], t[8]);
    }
}

void run(int64_t n_sets, int64_t n_stages, int64_t n_given, const int64_t *sets, char **given,
         const int64_t *rooms, const char *scalars, const int64_t *unused, int64_t n_rooms) {
  (void)unused;
  char room[(n_rooms ? rooms[n_rooms] : 0) + 64] __attribute__((aligned(64)));
  char *arrays[n_given + n_rooms];
  for (int64_t a = 0; a < n_given; ++a) arrays[a] = given[a];
  for (int64_t a = 0; a < n_rooms; ++a) arrays[n_given + a] = room + rooms[a];
  for (int64_t s = 0; s < n_sets; ++s)
    run_set(sets[2 * s], n_stages, (const int64_t *)sets[2 * s + 1], arrays, scalars);
}
