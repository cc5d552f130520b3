/* Where a row begins in every array: `steps` has the bytes of a step for each axis and array. */
__attribute__((unused)) static void at_row(int64_t row, int64_t n_outer, const int64_t *shape,
                                           int n_arrays, char **p, const int64_t *steps, char **q) {
  for (int a = 0; a < n_arrays; ++a) q[a] = p[a];
  for (int64_t axis = n_outer - 1; axis >= 0; --axis) {
    const int64_t at = row % shape[axis];
    row /= shape[axis];
    for (int a = 0; a < n_arrays; ++a) q[a] += at * steps[axis * n_arrays + a];
  }
}

/* How many rows before this one were reduced into the same elements. */
__attribute__((unused)) static int64_t n_seen(int64_t row, int64_t n_outer, const int64_t *shape,
                                              const int64_t *folded) {
  int64_t seen = 0, all = 1;
  for (int64_t axis = n_outer - 1; axis >= 0; --axis) {
    if (folded[axis]) seen += row % shape[axis] * all, all *= shape[axis];
    row /= shape[axis];
  }
  return seen;
}

/* Where neighbours in memory are neighbours of different rows, as of a transposed table, so many
   rows are lined up together, if the parts of them fill no more than LINED elements: `lined` of the
   row with number `nth` does it for those behind it. Two or three are lined up as fast one by one. */
#define ROWS_TOGETHER 16
#define APART 16 /* elements between them: rows a power of two apart would be in the same places of a cache */
__attribute__((unused)) static int is_across(int64_t size, int64_t outer, int64_t step,
                                             int64_t length, int64_t chunk) {
  const int64_t together = length < ROWS_TOGETHER ? length : ROWS_TOGETHER;
  return (outer == size || outer == -size) && step != size && step != 0 && length > 3 &&
         together * (chunk < BLOCK ? chunk : BLOCK) <= LINED - ROWS_TOGETHER * APART;
}

/* m elements from `begun` on: in place if they are side by side, else lined up in a block, four
   before any is stored, so that no load waits for a store; and the way back. Not inlined: loops
   over rows that are in place took 1.7 times as long beside it. */
#define LINES(T)                                                                              \
  __attribute__((unused, noinline)) static const T *lined_##T(                                \
      T *block, const char *row, int64_t step, int64_t begun, int64_t m) {                    \
    if (step == sizeof(T)) return (const T *)row + begun;                                     \
    int64_t i = 0;                                                                            \
    row += begun * step;                                                                      \
    if (step == -(int64_t)sizeof(T)) {                                                        \
      for (const T *x = (const T *)row; i < m; ++i) block[i] = x[-i];                         \
    } else if (step == 2 * sizeof(T)) {                                                       \
      for (const T *x = (const T *)row; i < m; ++i) block[i] = x[2 * i];                      \
    } else if (step == 3 * sizeof(T)) {                                                       \
      for (const T *x = (const T *)row; i < m; ++i) block[i] = x[3 * i];                      \
    }                                                                                         \
    for (; i + 4 <= m; i += 4, row += 4 * step) {                          \
      const T a = *(const T *)row, b = *(const T *)(row + step);                              \
      const T c = *(const T *)(row + 2 * step), d = *(const T *)(row + 3 * step);             \
      block[i] = a, block[i + 1] = b, block[i + 2] = c, block[i + 3] = d;                     \
    }                                                                                         \
    for (; i < m; ++i, row += step) block[i] = *(const T *)row;                               \
    return block;                                                                             \
  }                                                                                           \
  __attribute__((unused, noinline)) static const T *across_##T(                               \
      T *block, const char *row, int64_t step, int64_t outer, int64_t begun, int64_t m,       \
      int64_t nth, int64_t left) {                                                            \
    T *own = block + nth % ROWS_TOGETHER * (m + APART);                                       \
    if (nth % ROWS_TOGETHER) return own;                                                      \
    const int64_t rows = left < ROWS_TOGETHER ? left : ROWS_TOGETHER;                         \
    const int64_t last = outer < 0 ? rows - 1 : 0, pitch = (m + APART) * (int64_t)sizeof(T);  \
    row += begun * step;                                                                      \
    if (!transposed(sizeof(T), (char *)(block + last * (m + APART)), outer < 0 ? -pitch : pitch,        \
                    row + last * outer, step, m, rows))                                       \
      for (int64_t r = 0; r < rows; ++r)                                                      \
        lined_##T(block + r * (m + APART), row + r * outer, step, 0, m);                      \
    return own;                                                                               \
  }                                                                                           \
  __attribute__((unused)) static void put_##T(const T *block, char *row, int64_t step,        \
                                              int64_t begun, int64_t m) {                     \
    for (int64_t i = 0; i < m; ++i) *(T *)(row + (begun + i) * step) = block[i];              \
  }
LINES(int8_t)
LINES(int16_t)
LINES(int32_t)
LINES(int64_t)
LINES(uint8_t)
LINES(uint16_t)
LINES(uint32_t)
LINES(uint64_t)
LINES(float)
LINES(double)
