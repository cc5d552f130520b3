/* Reductions of every row: column after column, so that rows are the lanes. */
#define EACH_ROW for (int64_t r = 0; r < rows; ++r)
#define LONGER 16 /* rows of so many elements hold lanes of their own */
#define SHORT_EXTREMES(T, name, op)                                                           \
  __attribute__((unused)) static void name##_rows_##T(const T *v, int64_t rows, int64_t n,    \
                                                      char *out, int64_t step) {              \
    T best[BLOCK];                                                                            \
    if (n >= LONGER)                                                                          \
      EACH_ROW best[r] = name##_##T(v + r * n, n);                                            \
    else {                                                                                    \
      EACH_ROW best[r] = v[r * n];                                                            \
      for (int64_t c = 1; c < n; ++c) EACH_ROW {                                              \
        const T x = v[r * n + c];                                                             \
        best[r] = (x op best[r]) | (x != x) ? x : best[r];                                    \
      }                                                                                       \
    }                                                                                         \
    EACH_ROW *(T *)(out + r * step) = best[r];                                                \
  }
#define SHORT_PLACES(T, I, name, op)                                                          \
  __attribute__((unused)) static void name##_rows_##T(                                        \
      const T *v, int64_t rows, int64_t n, char *out, int64_t step, char *where,              \
      int64_t where_step) {                                                                   \
    T best[BLOCK];                                                                            \
    I at[BLOCK];                                                                              \
    EACH_ROW best[r] = v[r * n], at[r] = 0;                                                   \
    for (I c = 1; c < (I)n; ++c) EACH_ROW {                                                   \
      const T x = v[r * n + c];                                                               \
      const int better = (x op best[r]) | ((best[r] == best[r]) & (x != x));                  \
      best[r] = better ? x : best[r];                                                         \
      at[r] = better ? c : at[r];                                                             \
    }                                                                                         \
    EACH_ROW *(T *)(out + r * step) = best[r];                                                \
    EACH_ROW *(int64_t *)(where + r * where_step) = (int64_t)at[r];                           \
  }

/* The lanes of rows that have fewer elements than those are: as columns, added in the same tree. An element each, and
   0 in the end, for lanes begin with it: -0 + 0 is 0. */
#define IN_COLUMNS(T, x, total)                                                               \
  {                                                                                           \
    T lanes[BLOCK];                                                                           \
    for (int64_t c = 0; c < n; ++c) EACH_ROW lanes[c * rows + r] = x;                         \
    for (int64_t left = n; left > 1; left = (left + 1) / 2)                                   \
      for (int64_t c = 0; c < (left + 1) / 2; ++c) {                                          \
        const T *x0 = lanes + 2 * c * rows, *x1 = x0 + rows;                                  \
        if (2 * c + 1 < left) EACH_ROW lanes[c * rows + r] = x0[r] + x1[r];                   \
        else EACH_ROW lanes[c * rows + r] = x0[r];                                            \
      }                                                                                       \
    EACH_ROW total[r] = lanes[r] + 0;                                                         \
  }
/* Sums of every row, in the order of longer ones. */
#define SHORT_SUMS(T)                                                                         \
  __attribute__((unused)) static void totals_##T(const T *v, int64_t rows, int64_t n,         \
                                                 T *total) {                                  \
    if (n >= LANES(T))                                                                        \
      EACH_ROW total[r] = sum_##T(v + r * n, n);                                              \
    else                                                                                      \
      IN_COLUMNS(T, v[r * n + c], total)                                                      \
  }                                                                                           \
  __attribute__((unused)) static void sum_rows_##T(const T *v, int64_t rows, int64_t n,       \
                                                   char *out, int64_t step) {                 \
    T total[BLOCK];                                                                           \
    totals_##T(v, rows, n, total);                                                            \
    EACH_ROW *(T *)(out + r * step) = total[r];                                               \
  }

#define SHORT_MEANS(T)                                                                        \
  __attribute__((unused)) static void mean_rows_##T(const T *v, int64_t rows, int64_t n,      \
                                                    char *out, int64_t step) {                \
    T total[BLOCK];                                                                           \
    totals_##T(v, rows, n, total);                                                            \
    EACH_ROW *(T *)(out + r * step) = total[r] / (T)n;                                        \
  }

/* Means of every row, and squared distances from them. */
#define SHORT_MOMENTS(T)                                                                      \
  __attribute__((unused)) static void away_##T(const T *v, int64_t rows, int64_t n, T *mean,  \
                                               T *squares) {                                  \
    totals_##T(v, rows, n, mean);                                                             \
    EACH_ROW mean[r] = (T)((double)mean[r] / (double)n);                                      \
    if (n >= LANES(T))                                                                        \
      EACH_ROW squares[r] = squares_##T(v + r * n, n, mean[r]);                               \
    else                                                                                      \
      IN_COLUMNS(T, (v[r * n + c] - mean[r]) * (v[r * n + c] - mean[r]), squares)             \
  }                                                                                           \
  __attribute__((unused)) static void moments_rows_##T(                                       \
      const T *v, int64_t rows, int64_t n, char *count, int64_t count_step, char *out,        \
      int64_t step, char *apart, int64_t apart_step) {                                        \
    T mean[BLOCK], squares[BLOCK];                                                            \
    away_##T(v, rows, n, mean, squares);                                                      \
    EACH_ROW *(int64_t *)(count + r * count_step) = n;                                        \
    EACH_ROW *(T *)(out + r * step) = mean[r];                                                \
    EACH_ROW *(T *)(apart + r * apart_step) = squares[r];                                     \
  }                                                                                           \
  __attribute__((unused)) static void var_rows_##T(const T *v, int64_t rows, int64_t n,       \
                                                   char *out, int64_t step, double degrees) { \
    T mean[BLOCK], squares[BLOCK];                                                            \
    away_##T(v, rows, n, mean, squares);                                                      \
    EACH_ROW *(T *)(out + r * step) = squares[r] / (T)degrees;                                \
  }                                                                                           \
  __attribute__((unused)) static void std_rows_##T(const T *v, int64_t rows, int64_t n,       \
                                                   char *out, int64_t step, double degrees) { \
    T mean[BLOCK], squares[BLOCK];                                                            \
    away_##T(v, rows, n, mean, squares);                                                      \
    EACH_ROW *(T *)(out + r * step) = (T)sqrt(squares[r] / (T)degrees);                       \
  }
