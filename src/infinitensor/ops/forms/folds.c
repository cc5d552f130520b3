/* Sums and moments of arrays of any strides, in the order of generated code (`fold_order.py`): the same bits as a group
   that is compiled, before it is.

   Axes are numbers: how many there are, how many elements they have together, the length of each, then the bytes of a
   step along each. */

#include <math.h>
#include <stdint.h>

#include "ops/forms/sums.h"
#include "ops/forms/across_rows.h"

#define BLOCK 1024 /* as C_BLOCK_ELEMENTS of generated code */

static const char *at(const char *x, int64_t i, const int64_t *axes) {
  const int64_t n_axes = axes[0], *shape = axes + 2, *steps = shape + n_axes;
  for (int64_t axis = n_axes - 1; axis > 0; --axis) {
    x += i % shape[axis] * steps[axis];
    i /= shape[axis];
  }
  return n_axes ? x + i * steps[0] : x;
}

/* The sum of N numbers that follow each other, fewer than lanes: as `sum_T` adds them up, but with no lanes in memory,
   which a short line would wait for. */
#define LANE(T, v, i, N) ((i) < N ? 0 + (v)[(i) < N ? (i) : 0] : (T)0)
#define TWO(T, v, i, N) (LANE(T, v, i, N) + LANE(T, v, (i) + 1, N))
#define FOUR(T, v, i, N) (TWO(T, v, i, N) + TWO(T, v, (i) + 2, N))
#define EIGHT(T, v, i, N) (FOUR(T, v, i, N) + FOUR(T, v, (i) + 4, N))
#define SHORT(T, N)                                                                                 \
  case N:                                                                                           \
    for (int64_t k = 0; k < kept[1]; ++k) {                                                         \
      const T *v = (const T *)at(x, k, kept);                                                       \
      const T low = EIGHT(T, v, 0, N);                                                              \
      out[k] = LANES(T) > 8 ? low + EIGHT(T, v, 8, N) : low;                                        \
    }                                                                                               \
    return;
#define SHORT_LINES(T)                                                                              \
  static void sum_short_lines_##T(const char *x, const int64_t *kept, int64_t n, T *out) {          \
    switch (n) {                                                                                    \
      SHORT(T, 1) SHORT(T, 2) SHORT(T, 3) SHORT(T, 4) SHORT(T, 5) SHORT(T, 6) SHORT(T, 7)           \
      SHORT(T, 8) SHORT(T, 9) SHORT(T, 10) SHORT(T, 11) SHORT(T, 12) SHORT(T, 13) SHORT(T, 14)      \
      SHORT(T, 15)                                                                                  \
    }                                                                                               \
  }
SHORT_LINES(float)
SHORT_LINES(double)

#define FOLDS(T)                                                                                    \
  /* m elements of a line, from `begun` on: in place, or lined up in a block. */                    \
  static const T *lined_##T(T *block, const char *x, const int64_t *line, int64_t begun,            \
                            int64_t m) {                                                            \
    const int64_t last = line[0] - 1, length = line[2 + last], step = line[2 + line[0] + last];     \
    if (last == 0 && step == sizeof(T)) return (const T *)x + begun;                                \
    for (int64_t i = 0; i < m;) {                                                                   \
      const int64_t left = length - (begun + i) % length, end = left < m - i ? i + left : m;        \
      for (const char *from = at(x, begun + i, line); i < end; ++i, from += step)                   \
        block[i] = *(const T *)from;                                                                \
    }                                                                                               \
    return block;                                                                                   \
  }                                                                                                 \
                                                                                                    \
  /* Every line, of which several become one element of `out`. */                                   \
  void sum_lines_##T(const char *x, const int64_t *kept, const int64_t *reduced,                    \
                     const int64_t *line, T *out) {                                                 \
    T block[BLOCK];                                                                                 \
    const int64_t n = line[1];                                                                      \
    if (reduced[1] == 1 && line[0] == 1 && line[3] == sizeof(T) && n > 0 && n < LANES(T)) {         \
      sum_short_lines_##T(x, kept, n, out);                                                         \
      return;                                                                                       \
    }                                                                                               \
    for (int64_t k = 0; k < kept[1]; ++k) {                                                         \
      const char *first = at(x, k, kept);                                                           \
      Sum sum = {0, 0};                                                                             \
      for (int64_t r = 0; r < reduced[1]; ++r) {                                                    \
        const char *row = at(first, r, reduced);                                                    \
        for (int64_t begun = 0; begun < n; begun += BLOCK) {                                        \
          const int64_t m = n - begun < BLOCK ? n - begun : BLOCK;                                  \
          add_to(&sum, sum_##T(lined_##T(block, row, line, begun, m), m));                          \
        }                                                                                           \
      }                                                                                             \
      out[k] = (T)sum_of(&sum);                                                                     \
    }                                                                                               \
  }                                                                                                 \
                                                                                                    \
  /* Likewise the mean and the squared distances from it. */                                        \
  void moments_of_lines_##T(const char *x, const int64_t *kept, const int64_t *reduced,             \
                            const int64_t *line, T *means, T *squares) {                            \
    T block[BLOCK];                                                                                 \
    const int64_t n = line[1];                                                                      \
    for (int64_t k = 0; k < kept[1]; ++k) {                                                         \
      const char *first = at(x, k, kept);                                                           \
      Moments so_far = {0, 0, 0};                                                                   \
      for (int64_t r = 0; r < reduced[1]; ++r) {                                                    \
        const char *row = at(first, r, reduced);                                                    \
        for (int64_t begun = 0; begun < n; begun += BLOCK) {                                        \
          const int64_t m = n - begun < BLOCK ? n - begun : BLOCK;                                  \
          const T *v = lined_##T(block, row, line, begun, m);                                       \
          const double mean = (double)sum_##T(v, m) / m;                                            \
          join(&so_far, m, mean, squares_##T(v, m, (T)mean));                                       \
        }                                                                                           \
      }                                                                                             \
      means[k] = (T)so_far.mean, squares[k] = (T)so_far.m2;                                         \
    }                                                                                               \
  }                                                                                                 \
                                                                                                    \
  ACROSS(T, sum, NOTHING, PLUS)                                                                     \
  MOMENTS_ACROSS(T)                                                                                 \
  static void reduced_##T(const char *x, int64_t step, int64_t rows, int64_t seen, int64_t n,       \
                          T *out, T *squares) {                                                     \
    if (squares) moments_across_##T(x, step, rows, seen, n, out, squares);                          \
    else sum_across_##T(x, step, rows, seen, n, out);                                               \
  }                                                                                                 \
                                                                                                    \
  /* Lines reduced element by element, one after another. */                                        \
  static void across_##T(const char *x, const int64_t *kept, const int64_t *reduced,                \
                         const int64_t *line, T *out, T *squares) {                                 \
    T block[BLOCK];                                                                                 \
    const int64_t n = line[1], n_rows = reduced[1];                                                 \
    const int in_place = line[0] == 1 && line[3] == sizeof(T) && reduced[0] == 1;                   \
    for (int64_t k = 0; k < kept[1]; ++k, out += n, squares += squares ? n : 0) {                   \
      const char *first = at(x, k, kept);                                                           \
      if (in_place || n_rows == 0) reduced_##T(first, reduced[3], n_rows, 0, n, out, squares);      \
      else                                                                                          \
        for (int64_t r = 0; r < n_rows; ++r)                                                        \
          for (int64_t begun = 0; begun < n; begun += BLOCK) {                                      \
            const int64_t m = n - begun < BLOCK ? n - begun : BLOCK;                                \
            const T *v = lined_##T(block, at(first, r, reduced), line, begun, m);                   \
            T *apart = squares ? squares + begun : 0;                                               \
            reduced_##T((const char *)v, 0, 1, r, m, out + begun, apart);                           \
          }                                                                                         \
    }                                                                                               \
  }                                                                                                 \
  void add_lines_##T(const char *x, const int64_t *kept, const int64_t *reduced,                    \
                     const int64_t *line, T *out) {                                                 \
    across_##T(x, kept, reduced, line, out, 0);                                                     \
  }                                                                                                 \
  /* Likewise their means and the squared distances from them. */                                   \
  void moments_of_rows_##T(const char *x, const int64_t *kept, const int64_t *reduced,              \
                           const int64_t *line, T *means, T *squares) {                             \
    across_##T(x, kept, reduced, line, means, squares);                                             \
  }
FOLDS(float)
FOLDS(double)
