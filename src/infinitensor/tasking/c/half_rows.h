/* Rows of halves as floats that follow each other, so that rows of floats are reduced (`across_rows.h`). Rows behind each
   other are one: what is left of a line after those that are converted at once is left once. */
#define WIDE_ROWS(T)                                                                          \
  __attribute__((unused)) static void wide_rows_##T(                                          \
      const char *x, int64_t step, int64_t rows, int64_t n, float *restrict to) {             \
    if (step == n * (int64_t)sizeof(T)) n *= rows, rows = 1;                                  \
    for (; rows > 0; --rows, x += step, to += n) widen_##T((const T *)x, to, n);              \
  }
#ifdef CONVERTS_HALVES
__attribute__((unused)) static void widen_float16(const float16 *from, float *restrict to, int64_t n) {
  int64_t i = 0;
  for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE) read_halves(from + i, to + i);
  if (i == n) return;
  float16 rest[HALVES_AT_ONCE] = {0};
  float made[HALVES_AT_ONCE];
  memcpy(rest, from + i, (size_t)(n - i) * sizeof *from);
  read_halves(rest, made);
  memcpy(to + i, made, (size_t)(n - i) * sizeof *to);
}
#else
__attribute__((unused)) static void widen_float16(const float16 *from, float *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = (float)read_float16(from[i]);
}
#endif
__attribute__((unused)) static void widen_bfloat16(const bfloat16 *from, float *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = read_bfloat16(from[i]);
}
WIDE_ROWS(float16)
WIDE_ROWS(bfloat16)
