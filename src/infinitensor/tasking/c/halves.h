/* Numbers of 16 bits. They are computed as floats that have only values of theirs: each result is rounded, to nearest,
   ties to even, as where a processor converts it. All by arithmetic on floats and their bits, which every processor
   has for several at a time. */
typedef uint16_t float16;
typedef uint16_t bfloat16;
LINES(float16)
LINES(bfloat16)

__attribute__((unused)) static inline float of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
__attribute__((unused)) static inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

/* Where this processor computes them itself: of x86 only loops in which they do not become floats, since compilers
   convert them one by one there. */
#if defined(__AVX512FP16__) && !defined(BECOME_FLOATS)
#define HAS_HALVES
#elif defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define HAS_HALVES
#endif

#if defined(HAS_HALVES) && !defined(HALVES_AS_FLOATS)
/* Sums, products, quotients and roots are those of floats, rounded: a float has more than twice their digits. */
typedef _Float16 half;
__attribute__((unused)) static inline half read_float16(float16 x) {
  half number;
  memcpy(&number, &x, 2);
  return number;
}
__attribute__((unused)) static inline float16 written_float16(half x) {
  float16 bits;
  memcpy(&bits, &x, 2);
  return bits;
}
__attribute__((unused)) static inline half rounded_float16(half x) { return x; }
#define fabshalf __builtin_fabsf16
#define copysignhalf __builtin_copysignf16
#define sqrthalf __builtin_sqrtf16
#define floorhalf __builtin_floorf16
#define ceilhalf __builtin_ceilf16
#define trunchalf __builtin_truncf16
#define rinthalf __builtin_rintf16
#else
typedef float half;
/* The exponent of a float16 is 112 less: a product has what is left of it, also below the least normal number; where
   it comes to 2^16, it is none. */
__attribute__((unused)) static inline float read_float16(float16 x) {
  const float number = of_bits((uint32_t)((int32_t)(int16_t)x * 8192) & 0x8fffe000) * 0x1p112f;
  return of_bits(bits_of(number) | (fabsf(number) >= 0x1p16f ? 0x7f800000 : 0));
}
__attribute__((unused)) static inline float16 written_float16(float x) {
  const uint32_t size = bits_of(fabsf(x)), number = bits_of(fabsf(x) * 0x1p-112f);
  const uint32_t none = size > 0x7f800000 ? size & 0x007fe000 : 0;
  return (float16)((number < 0x0f800000 ? number : 0x0f800000) >> 13 | none >> 13 | (bits_of(x) >> 16 & 0x8000));
}
/* A power of two whose last place is that of x in float16 takes up what is below it; 2^16 times 2^112 is infinite. */
__attribute__((unused)) static inline float rounded_float16(float x) {
  uint32_t power = bits_of(x) & 0x7f800000;
  power = power < 0x38800000 ? 0x38800000 : power;
  power = power > 0x47800000 ? 0x47800000 : power;
  const float above = of_bits(power + (13 << 23)), near = (fabsf(x) + above) - above;
  return copysignf(near * 0x1p112f * 0x1p-112f, x);
}
#if defined(__F16C__)
#include <immintrin.h>
/* This processor converts several, and a NaN to a NaN: loops in generated code are over so many (`half_lanes.py`). */
#define CONVERTS_HALVES
enum { HALVES_AT_ONCE = 16 };
#define EACH_HALF _Pragma("GCC ivdep") for (int w = 0; w < HALVES_AT_ONCE; ++w)
#ifdef IS_WIDE /* in vectors as wide as those of the loops: what is stored in two is not read in one without waiting */
__attribute__((unused, always_inline)) static inline void read_halves(const float16 *from, float *to) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from)));
}
__attribute__((unused, always_inline)) static inline void write_halves(const float *from, float16 *to) {
  _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((unused, always_inline)) static inline void round_halves(const float *from, float *to) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT)));
}
#else
#define EIGHT_HALVES for (int w = 0; w < HALVES_AT_ONCE; w += 8)
__attribute__((unused, always_inline)) static inline void read_halves(const float16 *from, float *to) {
  EIGHT_HALVES _mm256_storeu_ps(to + w, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + w))));
}
__attribute__((unused, always_inline)) static inline void write_halves(const float *from, float16 *to) {
  EIGHT_HALVES _mm_storeu_si128((__m128i *)(to + w), _mm256_cvtps_ph(_mm256_loadu_ps(from + w), _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((unused, always_inline)) static inline void round_halves(const float *from, float *to) {
  EIGHT_HALVES _mm256_storeu_ps(to + w, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(from + w), _MM_FROUND_TO_NEAREST_INT)));
}
#endif
#endif
#define fabshalf fabsf
#define copysignhalf copysignf
#define sqrthalf sqrtf
#define floorhalf floorf
#define ceilhalf ceilf
#define trunchalf truncf
#define rinthalf rintf
#endif

__attribute__((unused)) static inline float read_bfloat16(bfloat16 x) { return of_bits((uint32_t)x << 16); }
__attribute__((unused)) static inline bfloat16 written_bfloat16(float x) { return (bfloat16)(bits_of(x) >> 16); }
__attribute__((unused)) static inline float rounded_bfloat16(float x) {
  const uint32_t bits = bits_of(x), near = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return of_bits(x != x ? (bits & 0x80000000) | 0x7fc00000 : near);
}

/* A line of floats as numbers of 16 bits. */
__attribute__((unused)) static void write_line_float16(const float *from, float16 *to, int64_t n) {
  int64_t i = 0;
#ifdef CONVERTS_HALVES
  for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE) write_halves(from + i, to + i);
#endif
  for (; i < n; ++i) to[i] = written_float16(rounded_float16((half)from[i]));
}
__attribute__((unused)) static void write_line_bfloat16(const float *from, bfloat16 *to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = written_bfloat16(rounded_bfloat16(from[i]));
}
