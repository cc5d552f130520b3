/* Reductions of blocks. Many lanes, then a tree: a fixed order that vectorises as it stands. */

#define MOST_LANES 16
#define LANES(T) ((int)(64 / sizeof(T)))
#define SUMMED(T)                                                                            \
  __attribute__((unused)) static inline T total_##T(T *lanes) {                              \
    for (int n = LANES(T) / 2; n; n /= 2)                                                \
      for (int w = 0; w < n; ++w) lanes[w] += lanes[w + n];                              \
    return lanes[0];                                                                         \
  }
SUMMED(float)
SUMMED(double)
SUMMED(int64_t)
SUMMED(uint64_t)

#define SQUARES(T)                                                                           \
  __attribute__((unused)) static T squares_##T(const T *v, int64_t m, T mean) {              \
    T lanes[LANES(T)] = {0};                                                                 \
    int64_t k = 0;                                                                           \
    for (; k + LANES(T) <= m; k += LANES(T))                                                 \
      for (int w = 0; w < LANES(T); ++w) lanes[w] += (v[k + w] - mean) * (v[k + w] - mean);  \
    for (int w = 0; k < m; ++k, ++w) lanes[w] += (v[k] - mean) * (v[k] - mean);              \
    return total_##T(lanes);                                                                 \
  }
SQUARES(float)
SQUARES(double)

/* A sum of blocks, with what its additions round away. */
typedef struct { double sum, lost; } Sum;
__attribute__((unused)) static void add_to(Sum *s, double x) {
  const double sum = s->sum + x, part = sum - s->sum;
  s->lost += (s->sum - (sum - part)) + (x - part);
  s->sum = sum;
}
__attribute__((unused)) static double sum_of(const Sum *s) {
  return isfinite(s->sum) ? s->sum + s->lost : s->sum;
}

/* Count, mean and squared distances from it, merged block by block (Chan's rule). */
typedef struct { double n, mean, m2; } Moments;
__attribute__((unused)) static void join(Moments *s, double n, double mean, double m2) {
  const double both = s->n + n, delta = mean - s->mean;
  s->mean += delta * (n / both);
  s->m2 += m2 + delta * delta * (s->n / both * n);
  s->n = both;
}

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
