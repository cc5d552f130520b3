/* Quotients and remainders of integers, downwards, as NumPy has them: 0 by 0, the least by -1 is itself. A quotient of
   numbers of 52 bits or fewer is one of doubles, of 16 or fewer one of floats: it is never rounded up to the next
   integer, takes a tenth of the time, and processors have it for several at a time. */
#define ALWAYS(x, by) 1
#define BITS_52 ((int64_t)1 << 52)
#define IF_SHORT(x, by) ((x) < BITS_52 && (x) > -BITS_52 && (by) < BITS_52 && (by) > -BITS_52)
#define IF_SHORT_U(x, by) ((x) < (uint64_t)BITS_52 && (by) < (uint64_t)BITS_52)

#define DIVISION(I, U, R, FLOOR, IS_SHORT, IS_SHORT_U)                                     \
  __attribute__((unused)) static inline I floor_divide_##I(I x, I y) {                     \
    const I by = y == 0 || y == -1 ? 1 : y;                                                \
    const I q = IS_SHORT(x, by)                                                        \
                    ? (I)FLOOR((R)x / (R)by)                                               \
                    : x / by - (x % by != 0 && (x < 0) != (by < 0));                       \
    return y == 0 ? 0 : y == -1 ? (I)((U)0 - (U)x) : q;                                    \
  }                                                                                        \
  __attribute__((unused)) static inline I floor_remainder_##I(I x, I y) {                  \
    const I by = y == 0 || y == -1 ? 1 : y;                                                \
    return (I)((U)x - (U)floor_divide_##I(x, by) * (U)by);                                 \
  }                                                                                        \
  __attribute__((unused)) static inline U floor_divide_##U(U x, U y) {                     \
    const U by = y == 0 ? 1 : y;                                                           \
    const U q = IS_SHORT_U(x, by) ? (U)(int64_t)((R)x / (R)by) : x / by;                   \
    return y == 0 ? 0 : q;                                                                 \
  }                                                                                        \
  __attribute__((unused)) static inline U floor_remainder_##U(U x, U y) {                  \
    return y == 0 ? 0 : (U)(x - (U)(floor_divide_##U(x, y) * y));                          \
  }
DIVISION(int8_t, uint8_t, float, __builtin_floorf, ALWAYS, ALWAYS)
DIVISION(int16_t, uint16_t, float, __builtin_floorf, ALWAYS, ALWAYS)
DIVISION(int32_t, uint32_t, double, __builtin_floor, ALWAYS, ALWAYS)
DIVISION(int64_t, uint64_t, double, __builtin_floor, IF_SHORT, IF_SHORT_U)

/* A divisor of many numbers is inverted once, and they are multiplied. Of 8 and 16 bits in twice as many, where 2^2n / y,
   rounded up, is exact enough for every x; 1, whose inverse has a bit too many, keeps x. */
#define INVERSE_TWICE(U, W, P, BITS)                                                       \
  typedef struct { W times; U keeps, y; } inverse_##U;                                     \
  __attribute__((unused)) static inline inverse_##U inverse_of_##U(U y) {                  \
    const W times = (W)(y < 2 ? 0 : ((P)1 << 2 * BITS) / y + 1);                           \
    const inverse_##U made = {times, (U)(y == 1 ? -1 : 0), y};                             \
    return made;                                                                           \
  }                                                                                        \
  __attribute__((unused)) static inline U floor_divide_by_##U(U x, inverse_##U by) {       \
    return (U)((U)((P)(W)x * by.times >> 2 * BITS) + (x & by.keeps));                      \
  }
INVERSE_TWICE(uint8_t, uint16_t, uint32_t, 8)
INVERSE_TWICE(uint16_t, uint32_t, uint64_t, 16)

/* Of 32 bits in doubles. x / y + 1 / 2|y| is at least 1 / 2|y| away from every integer, which is more than doubles round
   of numbers of 49 bits and fewer: less a half, the integer that is nearest is the quotient downwards. Added to
   NEAREST, it is in the low bits. */
#define NEAREST 0x1.8p52
#define SHORT_BITS 49
typedef struct { double times, more, y; } Reciprocal;
__attribute__((unused)) static inline Reciprocal reciprocal_of(double y) {
  const Reciprocal made = {y == 0 ? 0 : 1 / y, y == 0 ? 0 : 0.5 / __builtin_fabs(y) - 0.5, y};
  return made;
}
__attribute__((unused)) static inline double near_quotient(double x, Reciprocal by) {
  return x * by.times + by.more + NEAREST;
}
__attribute__((unused)) static inline uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}
__attribute__((unused)) static inline double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}
#define INVERSE_32(I)                                                                      \
  typedef struct { Reciprocal times; I y, counts; } inverse_##I;                           \
  __attribute__((unused)) static inline inverse_##I inverse_of_##I(I y) {                  \
    const inverse_##I made = {reciprocal_of((double)y), y, (I)(y == 0 ? 0 : -1)};          \
    return made;                                                                           \
  }                                                                                        \
  __attribute__((unused)) static inline I floor_divide_by_##I(I x, inverse_##I by) {       \
    return (I)(uint32_t)bits_of_double(near_quotient((double)x, by.times));                \
  }                                                                                        \
  __attribute__((unused)) static inline I floor_remainder_by_##I(I x, inverse_##I by) {    \
    const uint32_t whole = (uint32_t)floor_divide_by_##I(x, by) * (uint32_t)by.y;          \
    return (I)(((uint32_t)x - whole) & (uint32_t)by.counts);                               \
  }
INVERSE_32(int32_t)
INVERSE_32(uint32_t)

/* Of 64 bits by an inverse of 65, whose highest is added apart (Granlund and Montgomery, 1994). */
typedef struct { uint64_t times, keeps, y; int first, second; } inverse_uint64_t;
__attribute__((unused)) static inline inverse_uint64_t inverse_of_uint64_t(uint64_t y) {
  const uint64_t by = y == 0 ? 1 : y;
  const int n = by == 1 ? 0 : 64 - __builtin_clzll(by - 1);
  const uint64_t times = (uint64_t)(((((unsigned __int128)1 << n) - by) << 64) / by + 1);
  const inverse_uint64_t made = {times, y == 0 ? 0 : (uint64_t)-1, y, n > 0, n > 1 ? n - 1 : 0};
  return made;
}
__attribute__((unused)) static inline uint64_t floor_divide_by_uint64_t(uint64_t x, inverse_uint64_t by) {
  const uint64_t high = (uint64_t)((unsigned __int128)x * by.times >> 64);
  return (high + ((x - high) >> by.first)) >> by.second & by.keeps;
}

/* With signs: x is negated where y is negative, and a quotient below zero is the complement of one that is not. */
#define INVERSE_SIGNED(I, U)                                                               \
  typedef struct { inverse_##U size; I turns, counts, y; } inverse_##I;                    \
  __attribute__((unused)) static inline inverse_##I inverse_of_##I(I y) {                  \
    const U size = (U)(y < 0 ? (U)0 - (U)y : (U)y);                                        \
    const inverse_##I made = {inverse_of_##U(size), (I)(y < 0 ? -1 : 0), (I)(y == 0 ? 0 : -1), y}; \
    return made;                                                                           \
  }                                                                                        \
  __attribute__((unused)) static inline I floor_divide_by_##I(I x, inverse_##I by) {       \
    const I above = (I)(x > 0 ? by.turns : 0), under = (I)(x < 0 ? ~by.turns : 0);         \
    const I below = (I)((above | under) & by.counts);                                      \
    const U size = (U)((((U)x ^ (U)by.turns) - (U)by.turns) ^ (U)below);                   \
    return (I)((I)floor_divide_by_##U(size, by.size) ^ below);                             \
  }                                                                                        \
  __attribute__((unused)) static inline I floor_remainder_by_##I(I x, inverse_##I by) {    \
    return (I)(((U)x - (U)floor_divide_by_##I(x, by) * (U)by.y) & (U)by.counts);           \
  }                                                                                        \
  __attribute__((unused)) static inline U floor_remainder_by_##U(U x, inverse_##U by) {    \
    return (U)((U)(x - (U)(floor_divide_by_##U(x, by) * by.y)) & (U)(by.y == 0 ? 0 : -1)); \
  }
INVERSE_SIGNED(int8_t, uint8_t)
INVERSE_SIGNED(int16_t, uint16_t)
INVERSE_SIGNED(int64_t, uint64_t)

/* Blocks of 64 bits, whose highest half of a product processors have for one at a time: in doubles, as above, if all of
   a block are short, else again one by one. */
#define IS_LONG_int64_t(x) (((uint64_t)(x) + ((uint64_t)1 << SHORT_BITS)) >> (SHORT_BITS + 1))
#define IS_LONG_uint64_t(x) ((x) >> SHORT_BITS)
#define DIVIDED_BLOCK(name, I, near)                                                       \
  __attribute__((unused, noinline)) static void block_##name##_by_##I(                     \
      const I *a, inverse_##I with, I *r, int64_t n) {                                     \
    const Reciprocal by = reciprocal_of((double)with.y);                                   \
    uint64_t is_long = with.y == 0 || IS_LONG_##I(with.y);                                 \
    if (!is_long)                                                                          \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                               \
        const uint64_t number = (uint64_t)a[i];                                            \
        const double x = double_of_bits(number + bits_of_double(NEAREST)) - NEAREST;       \
        is_long |= IS_LONG_##I(number);                                                    \
        r[i] = (I)(bits_of_double(near) - bits_of_double(NEAREST));                        \
      }                                                                                    \
    if (is_long)                                                                           \
      for (int64_t i = 0; i < n; ++i) r[i] = name##_by_##I(a[i], with);                    \
  }
#define NEAR_REMAINDER (x - (near_quotient(x, by) - NEAREST) * by.y + NEAREST)
DIVIDED_BLOCK(floor_divide, int64_t, near_quotient(x, by))
DIVIDED_BLOCK(floor_divide, uint64_t, near_quotient(x, by))
DIVIDED_BLOCK(floor_remainder, int64_t, NEAR_REMAINDER)
DIVIDED_BLOCK(floor_remainder, uint64_t, NEAR_REMAINDER)
