/* The larger and the smaller of two; NaN where either is, the first of two that are equal. Each in two choices: one
   whose condition is made of two becomes jumps where several follow each other, and such a loop is not vectorised. */
#define EXTREMES(T)                                                          \
  __attribute__((unused)) static inline T larger_##T(T x, T y) {             \
    const T found = x >= y ? x : y;                                          \
    return x != x ? x : found;                                               \
  }                                                                          \
  __attribute__((unused)) static inline T smaller_##T(T x, T y) {            \
    const T found = x <= y ? x : y;                                          \
    return x != x ? x : found;                                               \
  }
EXTREMES(float)
EXTREMES(double)
