/* Several short rows as one block. */

/* Rows side by side: in place if they are, else lined up. What is the same for all rows is lined up
   once: `had` is where it was read. */
#define SIDE_BY_SIDE(T)                                                                       \
  ((inner == sizeof(T) || n == 1) && (outer == n * (int64_t)sizeof(T) || rows == 1))
#define REPEATED(T, times)                                                                    \
  for (int64_t r = 0; r < rows; ++r) {                                                        \
    const T x = *(const T *)(first + r * outer);                                              \
    for (int64_t c = 0; c < times; ++c) block[r * times + c] = x;                             \
  }
#define LONG_PART 64 /* elements of a row from which it is a line of its own */
#define SHORT_LINES(T)                                                                        \
  __attribute__((unused)) static const T *rows_##T(T *block, const char **had, char *first,   \
                                                   int64_t outer, int64_t inner,              \
                                                   int64_t rows, int64_t n) {                 \
    if (SIDE_BY_SIDE(T)) return (const T *)first;                                             \
    if (outer == 0 && *had == first) return block;                                            \
    *had = first;                                                                             \
    if (inner == 0) { /* one value a row */                                                   \
      if (n == 2) REPEATED(T, 2)                                                              \
      else if (n == 3) REPEATED(T, 3)                                                         \
      else if (n == 4) REPEATED(T, 4)                                                         \
      else if (n == 8) REPEATED(T, 8)                                                         \
      else REPEATED(T, n)                                                                     \
      return block;                                                                           \
    }                                                                                         \
    if (inner == sizeof(T) && outer != 0) {                                                   \
      for (int64_t r = 0; r < rows; ++r) memcpy(block + r * n, first + r * outer, n * sizeof(T)); \
      return block;                                                                           \
    }                                                                                         \
    const int64_t last = outer < 0 ? rows - 1 : 0, width = n * (int64_t)sizeof(T);            \
    if (outer == (outer < 0 ? -1 : 1) * (int64_t)sizeof(T) &&                                 \
        transposed(sizeof(T), (char *)(block + last * n), outer < 0 ? -width : width,         \
                   first + last * outer, inner, n, rows))                                     \
      return block;                                                                           \
    const int64_t others = outer == 0 ? 1 : rows;                                             \
    for (int64_t c = 0; c < n; ++c, first += inner)                                           \
      for (int64_t r = 0; r < others; ++r) block[r * n + c] = *(const T *)(first + r * outer);\
    for (int64_t r = others; r < rows; r *= 2)                                                \
      memcpy(block + r * n, block, (r < rows - r ? r : rows - r) * n * sizeof(T));            \
    return block;                                                                             \
  }                                                                                           \
  __attribute__((unused)) static T *into_##T(T *block, char *first, int64_t outer,            \
                                             int64_t inner, int64_t rows, int64_t n) {        \
    return SIDE_BY_SIDE(T) ? (T *)first : block;                                              \
  }                                                                                           \
  __attribute__((unused)) static void put_rows_##T(const T *block, char *first, int64_t outer,\
                                                   int64_t inner, int64_t rows, int64_t n) {  \
    if (inner == sizeof(T))                                                                   \
      for (int64_t r = 0; r < rows; ++r) memcpy(first + r * outer, block + r * n, n * sizeof(T)); \
    else                                                                                      \
      for (int64_t c = 0; c < n; ++c, first += inner)                                         \
        for (int64_t r = 0; r < rows; ++r) *(T *)(first + r * outer) = block[r * n + c];      \
  } \
  /* The same of rows that are taken one by one where they are long, with the bytes from one to the next. */ \
  __attribute__((unused)) static const char *lines_##T(T *block, const char **had, char *first, \
                                                       int64_t outer, int64_t inner,          \
                                                       int64_t rows, int64_t n, int64_t *pitch) { \
    const int is_there = inner == sizeof(T) && n >= LONG_PART;                                \
    *pitch = is_there ? outer : n * (int64_t)sizeof(T);                                       \
    return is_there ? first : (const char *)rows_##T(block, had, first, outer, inner, rows, n); \
  }                                                                                           \
  __attribute__((unused)) static char *into_lines_##T(T *block, char *first, int64_t outer,   \
                                                      int64_t inner, int64_t rows, int64_t n, \
                                                      int64_t *pitch) {                       \
    const int is_there = inner == sizeof(T) && n >= LONG_PART;                                \
    *pitch = is_there ? outer : n * (int64_t)sizeof(T);                                       \
    return is_there ? first : (char *)into_##T(block, first, outer, inner, rows, n);          \
  }
