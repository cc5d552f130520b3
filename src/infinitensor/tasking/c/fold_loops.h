/* Extremes of blocks, and where they are. */

/* Extremes by integers that are ordered as the numbers are; a NaN is found apart. */
#define EXTREME(T, I, shift)                                                                  \
  __attribute__((unused)) static I rank_##T(T x) {                                            \
    I b;                                                                                      \
    memcpy(&b, &x, sizeof x);                                                                 \
    return b ^ ((b >> shift) & (I)~((uint64_t)1 << shift));                                   \
  }                                                                                           \
  __attribute__((unused)) static T ranked_##T(I b) {                                          \
    T x;                                                                                      \
    b ^= (b >> shift) & (I)~((uint64_t)1 << shift);                                           \
    memcpy(&x, &b, sizeof x);                                                                 \
    return x;                                                                                 \
  }                                                                                           \
  __attribute__((unused)) static T max_##T(const T *v, int64_t m) {                           \
    I best = rank_##T(v[0]);                                                                  \
    int32_t unknown = 0;                                                                      \
    for (int64_t i = 0; i < m; ++i) {                                                         \
      const I r = rank_##T(v[i]);                                                             \
      best = r > best ? r : best;                                                             \
      unknown |= v[i] != v[i];                                                                \
    }                                                                                         \
    return unknown ? (T)NAN : ranked_##T(best);                                               \
  }                                                                                           \
  __attribute__((unused)) static T min_##T(const T *v, int64_t m) {                           \
    I best = rank_##T(v[0]);                                                                  \
    int32_t unknown = 0;                                                                      \
    for (int64_t i = 0; i < m; ++i) {                                                         \
      const I r = rank_##T(v[i]);                                                             \
      best = r < best ? r : best;                                                             \
      unknown |= v[i] != v[i];                                                                \
    }                                                                                         \
    return unknown ? (T)NAN : ranked_##T(best);                                               \
  }
EXTREME(float, int32_t, 31)
EXTREME(double, int64_t, 63)
#define ORDERED(T)                                                           \
  __attribute__((unused)) static T max_##T(const T *v, int64_t m) {          \
    T best = v[0];                                                           \
    for (int64_t i = 1; i < m; ++i) best = v[i] > best ? v[i] : best;        \
    return best;                                                             \
  }                                                                          \
  __attribute__((unused)) static T min_##T(const T *v, int64_t m) {          \
    T best = v[0];                                                           \
    for (int64_t i = 1; i < m; ++i) best = v[i] < best ? v[i] : best;        \
    return best;                                                             \
  }
ORDERED(int8_t)
ORDERED(int16_t)
ORDERED(int32_t)
ORDERED(int64_t)
ORDERED(uint8_t)
ORDERED(uint16_t)
ORDERED(uint32_t)
ORDERED(uint64_t)

/* Where a value is first; of NaN, where one is. Chunks are looked through before they are looked
   into. */
#define FIRST(T)                                                                              \
  __attribute__((unused)) static int64_t first_##T(const T *v, int64_t m, T value) {          \
    int64_t i = 0;                                                                            \
    if (value != value) {                                                                     \
      while (i < m && v[i] == v[i]) ++i;                                                      \
      return i;                                                                               \
    }                                                                                         \
    for (; i + 64 <= m; i += 64) {                                                            \
      T any = 0;                                                                              \
      for (int w = 0; w < 64; ++w) any = v[i + w] == value ? 1 : any;                         \
      if (any) break;                                                                         \
    }                                                                                         \
    while (v[i] != value) ++i;                                                                \
    return i;                                                                                 \
  }
FIRST(int8_t)
FIRST(int16_t)
FIRST(int32_t)
FIRST(int64_t)
FIRST(uint8_t)
FIRST(uint16_t)
FIRST(uint32_t)
FIRST(uint64_t)
FIRST(float)
FIRST(double)
VECTORS(int8_t, int8_t)
VECTORS(int16_t, int16_t)
VECTORS(uint8_t, int8_t)
VECTORS(uint16_t, int16_t)
VECTORS(uint32_t, int32_t)
