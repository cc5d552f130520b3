/* Where a row begins in every array: `steps` has the bytes of a step for each axis and array. */
__attribute__((unused)) static void at_row(int64_t row, int64_t n_outer, const int64_t *shape,
                                           int n_arrays, char **p, const int64_t *steps, char **q) {
  if (n_outer == 1) { /* short rows are many: a division is longer than they are */
    for (int a = 0; a < n_arrays; ++a) q[a] = p[a] + row * steps[a];
    return;
  }
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
  if (n_outer == 1) return folded[0] ? row : 0;
  int64_t seen = 0, all = 1;
  for (int64_t axis = n_outer - 1; axis >= 0; --axis) {
    if (folded[axis]) seen += row % shape[axis] * all, all *= shape[axis];
    row /= shape[axis];
  }
  return seen;
}

/* m elements from `begun` on: in place if they are side by side, else lined up in a block, in
   vectors where few lie between; and the way back. */
#define FEW_APART(T, few)                                                                     \
  if (step == few * sizeof(T)) {                                                              \
    const T *from = (const T *)row + begun * few;                                             \
    for (int64_t i = 0; i < m; ++i) block[i] = from[i * few];                                 \
    return block;                                                                             \
  }
#define LINES(T)                                                                              \
  __attribute__((unused)) static const T *lined_##T(T *block, const char *row, int64_t step,  \
                                                    int64_t begun, int64_t m) {               \
    if (step == sizeof(T)) return (const T *)row + begun;                                     \
    FEW_APART(T, 2) FEW_APART(T, 3) FEW_APART(T, 4)                                           \
    for (int64_t i = 0; i < m; ++i) block[i] = *(const T *)(row + (begun + i) * step);        \
    return block;                                                                             \
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
