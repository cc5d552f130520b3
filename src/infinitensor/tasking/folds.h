/* Reductions of blocks. Many accumulators, then a tree: a fixed order that vectorises as it stands. */

#define ACCUMULATED(T, of)                                                                   \
  {                                                                                          \
    V_##T a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, a4 = {0}, a5 = {0}, a6 = {0}, a7 = {0};    \
    const int64_t width = sizeof(V_##T) / sizeof(T);                                         \
    int64_t k = 0;                                                                           \
    for (; k + 8 * width <= m; k += 8 * width) {                                             \
      const V_##T *u = (const V_##T *)(v + k);                                               \
      a0 += of(u[0]), a1 += of(u[1]), a2 += of(u[2]), a3 += of(u[3]);                        \
      a4 += of(u[4]), a5 += of(u[5]), a6 += of(u[6]), a7 += of(u[7]);                        \
    }                                                                                        \
    a0 = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7));                                  \
    T sum = 0, rest = 0;                                                                     \
    for (int64_t w = 0; w < width; ++w) sum += a0[w];                                        \
    for (; k < m; ++k) rest += of(v[k]);                                                     \
    return sum + rest;                                                                       \
  }
#define ITSELF(x) (x)
#define SQUARED(x) (((x) - mean) * ((x) - mean))
#define FLOATING(T)                                                                          \
  typedef T V_##T __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));           \
  __attribute__((unused)) static T sum_##T(const T *v, int64_t m) ACCUMULATED(T, ITSELF)     \
  __attribute__((unused)) static T squares_##T(const T *v, int64_t m, T mean) ACCUMULATED(T, SQUARED)
FLOATING(float)
FLOATING(double)

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
#define WHOLE(T)                                                             \
  __attribute__((unused)) static T sum_##T(const T *v, int64_t m) {          \
    T sum = 0;                                                               \
    for (int64_t i = 0; i < m; ++i) sum += v[i];                             \
    return sum;                                                              \
  }
WHOLE(int64_t)
WHOLE(uint64_t)
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
