/* Sums of blocks. Many lanes, then a tree of neighbours, as partial results are merged: a fixed order that vectorises as
   it stands, whatever the vectors. */

#define MOST_LANES 16
#define LANES(T) ((int)(64 / sizeof(T)))
#define SUMMED(T)                                                                            \
  __attribute__((unused)) static inline T total_##T(const T *lanes) {                        \
    enum { FOURS = LANES(T) / 4 };                                                           \
    T two[LANES(T) / 2], four[FOURS];                                                        \
    for (int w = 0; w < LANES(T) / 2; ++w) two[w] = lanes[2 * w] + lanes[2 * w + 1];         \
    for (int w = 0; w < FOURS; ++w) four[w] = two[2 * w] + two[2 * w + 1];                   \
    const T eight = four[0] + four[1];                                                       \
    return FOURS == 2 ? eight : eight + (four[2 % FOURS] + four[3 % FOURS]);                 \
  }                                                                                          \
  __attribute__((unused)) static T sum_##T(const T *v, int64_t m) {                          \
    T lanes[LANES(T)] = {0};                                                                 \
    int64_t k = 0;                                                                           \
    for (; k + LANES(T) <= m; k += LANES(T))                                                 \
      for (int w = 0; w < LANES(T); ++w) lanes[w] += v[k + w];                               \
    for (int w = 0; k < m; ++k, ++w) lanes[w] += v[k];                                       \
    return total_##T(lanes);                                                                 \
  }
SUMMED(float)
SUMMED(double)
SUMMED(int32_t)
SUMMED(int64_t)
SUMMED(uint64_t)

/* Lanes in vectors of one register: compilers split longer ones by way of memory. */
#ifdef __AVX512F__
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
enum { N_VECTORS = 64 / VECTOR_BYTES };
#define EACH_VECTOR for (int p = 0; p < N_VECTORS; ++p)
#define VECTORS(T, I)                                                                        \
  typedef T vector_##T __attribute__((vector_size(VECTOR_BYTES)));                           \
  typedef I bits_##T __attribute__((vector_size(VECTOR_BYTES)));
VECTORS(float, int32_t)
VECTORS(double, int64_t)
VECTORS(int32_t, int32_t)
VECTORS(int64_t, int64_t)
VECTORS(uint64_t, int64_t)
#define READ_VECTOR(T, x, from) memcpy(&x, (from) + p * (VECTOR_BYTES / (int)sizeof(T)), VECTOR_BYTES)
#define ADD_LANES(T, lanes, from)                                                            \
  EACH_VECTOR {                                                                              \
    vector_##T x;                                                                            \
    READ_VECTOR(T, x, from);                                                                 \
    lanes[p] += x;                                                                           \
  }

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

/* Count, mean and squared distances from it, merged block by block (Chan's rule). The first is taken as it is: the
   square of its mean may be infinite. */
typedef struct { double n, mean, m2; } Moments;
__attribute__((unused)) static void join(Moments *s, double n, double mean, double m2) {
  if (s->n == 0) {
    *s = (Moments){n, mean, m2};
    return;
  }
  const double both = s->n + n, delta = mean - s->mean;
  s->mean += delta * (n / both);
  s->m2 += m2 + delta * delta * (s->n / both * n);
  s->n = both;
}
