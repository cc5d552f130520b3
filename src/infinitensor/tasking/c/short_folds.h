/* Reductions of every row: column after column, so that rows are the lanes. */
#define EACH_ROW for (int64_t r = 0; r < rows; ++r)
#define LONGER 16 /* rows of so many elements hold lanes of their own */
/* Neighbours of the lanes of all rows, which are one row's after the other's, until one is left of each. */
#define JOIN_NEIGHBOURS(T, lanes, joined)                                                     \
  for (int64_t left = rows * LANES(T) / 2; left >= rows; left /= 2)                           \
    _Pragma("GCC ivdep") for (int64_t c = 0; c < left; ++c) lanes[c] = joined(lanes[2 * c], lanes[2 * c + 1]);
#define SHORT_EXTREMES(T, name, op)                                                           \
  __attribute__((always_inline, unused)) static inline T name##_of_##T(T x, T y) {            \
    return (y op x) | (y != y) ? y : x;                                                       \
  }                                                                                           \
  __attribute__((unused)) static void name##_rows_##T(const T *v, int64_t rows, int64_t n,    \
                                                      char *out, int64_t step) {              \
    T best[BLOCK];                                                                            \
    if (n >= LONGER && n >= LANES(T)) {                                                       \
      EACH_ROW {                                                                              \
        const T *own = v + r * n;                                                             \
        vector_##T lanes[N_VECTORS], x;                                                       \
        EACH_VECTOR READ_VECTOR(T, lanes[p], own);                                            \
        for (int64_t c = LANES(T); c < n; c += LANES(T)) {                                    \
          const T *next = own + (c + LANES(T) <= n ? c : n - LANES(T)); /* the last ones again */\
          EACH_VECTOR {                                                                       \
            READ_VECTOR(T, x, next);                                                          \
            const bits_##T better = (bits_##T)(x op lanes[p]) | (bits_##T)(x != x);           \
            lanes[p] = (vector_##T)((better & (bits_##T)x) | (~better & (bits_##T)lanes[p])); \
          }                                                                                   \
        }                                                                                     \
        memcpy(best + r * LANES(T), lanes, sizeof lanes);                                     \
      }                                                                                       \
      JOIN_NEIGHBOURS(T, best, name##_of_##T)                                                 \
      if ((T)0.5 != 0) /* the sign of a zero and the bits of a NaN are those of longer rows */\
        EACH_ROW if (!(best[r] < 0) & !(best[r] > 0)) best[r] = name##_##T(v + r * n, n);     \
    } else if (n >= LONGER)                                                                   \
      EACH_ROW best[r] = name##_##T(v + r * n, n);                                            \
    else {                                                                                    \
      EACH_ROW best[r] = v[r * n];                                                            \
      for (int64_t c = 1; c < n; ++c) EACH_ROW best[r] = name##_of_##T(best[r], v[r * n + c]);\
    }                                                                                         \
    EACH_ROW *(T *)(out + r * step) = best[r];                                                \
  }
#define SHORT_PLACES(T, I, name, op)                                                          \
  __attribute__((unused)) static void name##_in_lanes_##T(const T *v, int64_t rows, int64_t n,\
                                                          T *best, I *at) {                   \
    I first[LANES(T)];                                                                        \
    for (int w = 0; w < LANES(T); ++w) first[w] = (I)w;                                       \
    EACH_ROW {                                                                                \
      const T *own = v + r * n;                                                               \
      vector_##T lanes[N_VECTORS], x;                                                         \
      bits_##T where[N_VECTORS], from[N_VECTORS];                                             \
      EACH_VECTOR READ_VECTOR(T, lanes[p], own);                                              \
      memcpy(where, first, sizeof where);                                                     \
      memcpy(from, first, sizeof from);                                                       \
      for (int64_t c = LANES(T); c < n; c += LANES(T)) {                                      \
        const I begin = (I)(c + LANES(T) <= n ? c : n - LANES(T)); /* the last ones again */  \
        EACH_VECTOR {                                                                         \
          READ_VECTOR(T, x, own + begin);                                                     \
          const bits_##T is_known = (bits_##T)(lanes[p] == lanes[p]);                         \
          const bits_##T better = (bits_##T)(x op lanes[p]) | (is_known & (bits_##T)(x != x));\
          lanes[p] = (vector_##T)((better & (bits_##T)x) | (~better & (bits_##T)lanes[p]));   \
          where[p] = (better & (from[p] + begin)) | (~better & where[p]);                     \
        }                                                                                     \
      }                                                                                       \
      memcpy(best + r * LANES(T), lanes, sizeof lanes);                                       \
      memcpy(at + r * LANES(T), where, sizeof where);                                         \
    }                                                                                         \
    for (int64_t left = rows * LANES(T) / 2; left >= rows; left /= 2)                         \
      _Pragma("GCC ivdep") for (int64_t c = 0; c < left; ++c) {                               \
        const T x = best[2 * c], y = best[2 * c + 1];                                         \
        const I at_x = at[2 * c], at_y = at[2 * c + 1];                                       \
        const I same = (x == y) | ((x != x) & (y != y)), more = (y op x) | ((x == x) & (y != y));\
        const I second = more | (same & (at_y < at_x));                                       \
        best[c] = second ? y : x;                                                             \
        at[c] = second ? at_y : at_x;                                                         \
      }                                                                                       \
  }                                                                                           \
  __attribute__((unused)) static void name##_rows_##T(                                        \
      const T *v, int64_t rows, int64_t n, char *out, int64_t step, char *where,              \
      int64_t where_step) {                                                                   \
    T best[BLOCK];                                                                            \
    I at[BLOCK];                                                                              \
    if (n >= LONGER && n >= LANES(T)) name##_in_lanes_##T(v, rows, n, best, at);              \
    else {                                                                                    \
      EACH_ROW best[r] = v[r * n], at[r] = 0;                                                 \
      for (I c = 1; c < (I)n; ++c) EACH_ROW {                                                 \
        const T x = v[r * n + c];                                                             \
        const int better = (x op best[r]) | ((best[r] == best[r]) & (x != x));                \
        best[r] = better ? x : best[r];                                                       \
        at[r] = better ? c : at[r];                                                           \
      }                                                                                       \
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
/* The lanes of longer rows. They begin as 0 and are never -0, so that adding 0 changes nothing: what is behind a row is
   read and left out, but for the last one. */
#define PLUS_NEXT(x, y) ((x) + (y))
#define IN_LANES(T, f, total)                                                                 \
  {                                                                                           \
    T lanes[BLOCK];                                                                           \
    bits_##T kept[N_VECTORS];                                                                 \
    memset(kept, 0, sizeof kept);                                                             \
    memset(kept, -1, (size_t)(n % LANES(T)) * sizeof(T));                                     \
    EACH_ROW {                                                                                \
      const T *own = v + r * n;                                                               \
      vector_##T sums[N_VECTORS] = {{0}}, x;                                                  \
      int64_t c = 0;                                                                          \
      for (; c + LANES(T) <= n; c += LANES(T)) EACH_VECTOR {                                  \
        READ_VECTOR(T, x, own + c);                                                           \
        sums[p] += f(x);                                                                      \
      }                                                                                       \
      if (c < n && r + 1 < rows) EACH_VECTOR {                                                \
        READ_VECTOR(T, x, own + c);                                                           \
        sums[p] += (vector_##T)((bits_##T)(f(x)) & kept[p]);                                  \
      }                                                                                       \
      memcpy(lanes + r * LANES(T), sums, sizeof sums);                                        \
      if (r + 1 == rows)                                                                      \
        for (int w = 0; c < n; ++c, ++w) lanes[r * LANES(T) + w] += f(own[c]);                \
    }                                                                                         \
    JOIN_NEIGHBOURS(T, lanes, PLUS_NEXT)                                                      \
    EACH_ROW total[r] = lanes[r];                                                             \
  }
#define AS_IT_STANDS(x) (x)
#define SQUARE_AWAY(x) (((x) - mean[r]) * ((x) - mean[r]))
/* Sums of every row, in the order of longer ones. */
#define SHORT_SUMS(T)                                                                         \
  __attribute__((unused)) static void totals_##T(const T *v, int64_t rows, int64_t n,         \
                                                 T *total) {                                  \
    if (n >= LANES(T))                                                                        \
      IN_LANES(T, AS_IT_STANDS, total)                                                        \
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
      IN_LANES(T, SQUARE_AWAY, squares)                                                       \
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
