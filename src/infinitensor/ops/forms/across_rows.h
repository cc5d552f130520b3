/* Rows reduced element by element, several at a time, so that what they give stays in registers: in the order of one
   after another. `seen` rows came before. */
#define FEW_ROWS 16 /* stay in the nearest cache while all reductions look at them */
#define FOUR_ROWS(T)                                                                          \
  const T *a = (const T *)x, *b = (const T *)(x + step);                                      \
  const T *c = (const T *)(x + 2 * step), *d = (const T *)(x + 3 * step)
#define ACROSS(T, name, FIRST, NEXT)                                                          \
  __attribute__((unused)) static void name##_across_##T(                                      \
      const char *x, int64_t step, int64_t rows, int64_t seen, int64_t n, T *restrict r) {    \
    if (seen == 0)                                                                            \
      for (int64_t i = 0; i < n; ++i) r[i] = FIRST(((const T *)x)[i]);                        \
    int64_t k = 0;                                                                            \
    for (; k + 4 <= rows; k += 4, x += 4 * step) {                                            \
      FOUR_ROWS(T);                                                                           \
      for (int64_t i = 0; i < n; ++i) {                                                       \
        T was = r[i];                                                                         \
        was = NEXT(was, a[i]);                                                                \
        was = NEXT(was, b[i]);                                                                \
        was = NEXT(was, c[i]);                                                                \
        r[i] = NEXT(was, d[i]);                                                               \
      }                                                                                       \
    }                                                                                         \
    for (; k < rows; ++k, x += step)                                                          \
      for (int64_t i = 0; i < n; ++i) r[i] = NEXT(r[i], ((const T *)x)[i]);                   \
  }
#define NOTHING(x) 0
#define AS_IT_IS(x) (x)
#define PLUS(r, x) ((r) + (x))
#define LARGER(r, x) ((x) > (r) ? (x) : (r))
#define SMALLER(r, x) ((x) < (r) ? (x) : (r))
#define LARGER_OR_NAN(r, x) (((x) > (r)) | ((x) != (x)) ? (x) : (r))
#define SMALLER_OR_NAN(r, x) (((x) < (r)) | ((x) != (x)) ? (x) : (r))

/* Means and the squared distances from them. */
#define AWAY(x, share)                                                                        \
  delta = (x) - mean, now = mean + delta * (share), away += delta * ((x) - now), mean = now
#define MOMENTS_ACROSS(T)                                                                     \
  __attribute__((unused)) static void moments_across_##T(                                     \
      const char *x, int64_t step, int64_t rows, int64_t seen, int64_t n, T *restrict means,  \
      T *restrict squares) {                                                                  \
    if (seen == 0)                                                                            \
      for (int64_t i = 0; i < n; ++i) means[i] = squares[i] = 0;                              \
    int64_t k = 0;                                                                            \
    T delta, now;                                                                             \
    for (; k + 4 <= rows; k += 4, x += 4 * step) {                                            \
      FOUR_ROWS(T);                                                                           \
      T share[4];                                                                             \
      for (int w = 0; w < 4; ++w) share[w] = (T)(1.0 / (double)(seen + k + w + 1));           \
      for (int64_t i = 0; i < n; ++i) {                                                       \
        T mean = means[i], away = squares[i];                                                 \
        AWAY(a[i], share[0]);                                                                 \
        AWAY(b[i], share[1]);                                                                 \
        AWAY(c[i], share[2]);                                                                 \
        AWAY(d[i], share[3]);                                                                 \
        means[i] = mean, squares[i] = away;                                                   \
      }                                                                                       \
    }                                                                                         \
    for (; k < rows; ++k, x += step) {                                                        \
      const T share = (T)(1.0 / (double)(seen + k + 1));                                      \
      for (int64_t i = 0; i < n; ++i) {                                                       \
        T mean = means[i], away = squares[i];                                                 \
        AWAY(((const T *)x)[i], share);                                                       \
        means[i] = mean, squares[i] = away;                                                   \
      }                                                                                       \
    }                                                                                         \
  }
