/* Quotients and remainders of integers, downwards, as NumPy has them: 0 by 0, the least by -1 is itself. A quotient of
   numbers of 52 bits or fewer is one of doubles: it is never rounded up to the next integer, takes a tenth of the
   time, and processors have it for several at a time. */
#define ALWAYS(x, by) 1
#define BITS_52 ((int64_t)1 << 52)
#define IF_SHORT(x, by) ((x) < BITS_52 && (x) > -BITS_52 && (by) < BITS_52 && (by) > -BITS_52)
#define IF_SHORT_U(x, by) ((x) < (uint64_t)BITS_52 && (by) < (uint64_t)BITS_52)

#define DIVISION(I, U, IS_SHORT, IS_SHORT_U)                                               \
  __attribute__((unused)) static inline I floor_divide_##I(I x, I y) {                     \
    const I by = y == 0 || y == -1 ? 1 : y;                                                \
    const I q = IS_SHORT(x, by)                                                        \
                    ? (I)__builtin_floor((double)x / (double)by)                           \
                    : x / by - (x % by != 0 && (x < 0) != (by < 0));                       \
    return y == 0 ? 0 : y == -1 ? (I)((U)0 - (U)x) : q;                                    \
  }                                                                                        \
  __attribute__((unused)) static inline I floor_remainder_##I(I x, I y) {                  \
    const I by = y == 0 || y == -1 ? 1 : y;                                                \
    return (I)((U)x - (U)floor_divide_##I(x, by) * (U)by);                                 \
  }                                                                                        \
  __attribute__((unused)) static inline U floor_divide_##U(U x, U y) {                     \
    const U by = y == 0 ? 1 : y;                                                           \
    const U q = IS_SHORT_U(x, by) ? (U)(int64_t)((double)x / (double)by) : x / by;         \
    return y == 0 ? 0 : q;                                                                 \
  }                                                                                        \
  __attribute__((unused)) static inline U floor_remainder_##U(U x, U y) {                  \
    return y == 0 ? 0 : (U)(x - (U)(floor_divide_##U(x, y) * y));                          \
  }
DIVISION(int8_t, uint8_t, ALWAYS, ALWAYS)
DIVISION(int16_t, uint16_t, ALWAYS, ALWAYS)
DIVISION(int32_t, uint32_t, ALWAYS, ALWAYS)
DIVISION(int64_t, uint64_t, IF_SHORT, IF_SHORT_U)
