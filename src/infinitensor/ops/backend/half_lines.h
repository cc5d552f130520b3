/* Lines of numbers of 16 bits as floats, and back: `step` bytes from one to the next. */
enum { AS_THEY_ARE, FLOAT16, BFLOAT16 };
#ifdef CONVERTS_HALVES
#define READ_MANY for (; n >= HALVES_AT_ONCE; n -= HALVES_AT_ONCE, from += 2 * HALVES_AT_ONCE, to += HALVES_AT_ONCE) read_halves((const float16 *)from, to)
#define WRITE_MANY for (; n >= HALVES_AT_ONCE; n -= HALVES_AT_ONCE, from += HALVES_AT_ONCE, to += 2 * HALVES_AT_ONCE) write_halves(from, (float16 *)to)
#else
#define READ_MANY
#define WRITE_MANY
#endif
#define LINES_OF(T, READ_MANY, WRITE_MANY)                                                         \
  static void widen_##T(const char *restrict from, int64_t step, float *restrict to, int64_t n) {  \
    if (step == sizeof(T)) {                                                                       \
      READ_MANY;                                                                                   \
      for (int64_t i = 0; i < n; ++i) to[i] = read_##T(((const T *)from)[i]);                      \
    } else                                                                                         \
      for (int64_t i = 0; i < n; ++i) to[i] = read_##T(*(const T *)(from + i * step));             \
  }                                                                                                \
  static void round_##T(const float *restrict from, char *restrict to, int64_t step, int64_t n) {  \
    if (step == sizeof(T)) {                                                                       \
      WRITE_MANY;                                                                                  \
      for (int64_t i = 0; i < n; ++i) ((T *)to)[i] = written_##T(rounded_##T(from[i]));            \
    } else                                                                                         \
      for (int64_t i = 0; i < n; ++i) *(T *)(to + i * step) = written_##T(rounded_##T(from[i]));   \
  }
LINES_OF(float16, READ_MANY, WRITE_MANY)
LINES_OF(bfloat16, , )

static void widen(int64_t kind, const char *from, int64_t step, float *to, int64_t n) {
  (kind == FLOAT16 ? widen_float16 : widen_bfloat16)(from, step, to, n);
}
static void round_to(int64_t kind, const float *from, char *to, int64_t step, int64_t n) {
  (kind == FLOAT16 ? round_float16 : round_bfloat16)(from, to, step, n);
}
