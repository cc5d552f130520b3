/* Lines of numbers of 16 bits as floats, and back: `step` bytes from one to the next. */
enum { AS_THEY_ARE, FLOAT16, BFLOAT16 };
enum { SOME_HALVES = 64 }; /* that are apart, and cast together */
#define IN_LINES(T)                                                                                \
  static void widen_line_##T(const T *restrict from, float *restrict to, int64_t n) {              \
    for (int64_t i = 0; i < n; ++i) to[i] = read_##T(from[i]);                                     \
  }                                                                                                \
  static void round_line_##T(const float *restrict from, T *restrict to, int64_t n) {              \
    for (int64_t i = 0; i < n; ++i) to[i] = written_##T(rounded_##T(from[i]));                     \
  }
#define APART(T)                                                                                   \
  static void widen_##T(const char *restrict from, int64_t step, float *restrict to, int64_t n) {  \
    if (step == sizeof(T))                                                                         \
      widen_line_##T((const T *)from, to, n);                                                      \
    else                                                                                           \
      for (int64_t i = 0; i < n; i += SOME_HALVES) {                                               \
        const int64_t m = n - i < SOME_HALVES ? n - i : SOME_HALVES;                               \
        T line[SOME_HALVES];                                                                       \
        for (int64_t w = 0; w < m; ++w) line[w] = *(const T *)(from + (i + w) * step);             \
        widen_line_##T(line, to + i, m);                                                           \
      }                                                                                            \
  }                                                                                                \
  static void round_##T(const float *restrict from, char *restrict to, int64_t step, int64_t n) {  \
    if (step == sizeof(T))                                                                         \
      round_line_##T(from, (T *)to, n);                                                            \
    else                                                                                           \
      for (int64_t i = 0; i < n; i += SOME_HALVES) {                                               \
        const int64_t m = n - i < SOME_HALVES ? n - i : SOME_HALVES;                               \
        T line[SOME_HALVES];                                                                       \
        round_line_##T(from + i, line, m);                                                         \
        for (int64_t w = 0; w < m; ++w) *(T *)(to + (i + w) * step) = line[w];                     \
      }                                                                                            \
  }
#ifdef CONVERTS_HALVES /* some at once; what is left of a line as well */
#define LINE_AT_ONCE(name, convert, From, To)                                                      \
  static void name(const From *restrict from, To *restrict to, int64_t n) {                        \
    for (; n >= HALVES_AT_ONCE; n -= HALVES_AT_ONCE, from += HALVES_AT_ONCE, to += HALVES_AT_ONCE) \
      convert(from, to);                                                                           \
    if (n <= 0) return;                                                                            \
    From rest[HALVES_AT_ONCE] = {0};                                                               \
    To made[HALVES_AT_ONCE];                                                                       \
    memcpy(rest, from, (size_t)n * sizeof *from);                                                  \
    convert(rest, made);                                                                           \
    memcpy(to, made, (size_t)n * sizeof *to);                                                      \
  }
LINE_AT_ONCE(widen_line_float16, read_halves, float16, float)
LINE_AT_ONCE(round_line_float16, write_halves, float, float16)
#else
IN_LINES(float16)
#endif
IN_LINES(bfloat16)
APART(float16)
APART(bfloat16)

static void widen(int64_t kind, const char *from, int64_t step, float *to, int64_t n) {
  (kind == FLOAT16 ? widen_float16 : widen_bfloat16)(from, step, to, n);
}
static void round_to(int64_t kind, const float *from, char *to, int64_t step, int64_t n) {
  (kind == FLOAT16 ? round_float16 : round_bfloat16)(from, to, step, n);
}
