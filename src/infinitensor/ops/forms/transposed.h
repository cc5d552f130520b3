/* Tables transposed in registers, blocks of 16 bytes a row: to[i][k] = from[k][i], where neighbours in memory are
   neighbours in a row of either; steps are bytes from row to row, backwards where negative.

   Interleaving row k of a block with the row that is half a block behind moves the first bit of its number to the end of
   the places in a row, so that as many rounds as a number has bits transpose it. Of fewer rows than a vector has lanes,
   each vector gets several rows of the result. */
#ifdef __clang__
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){__VA_ARGS__})
#endif

#define LOWER_8 0, 2
#define UPPER_8 1, 3
#define LOWER_4 0, 4, 1, 5
#define UPPER_4 2, 6, 3, 7
#define LOWER_2 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER_2 4, 12, 5, 13, 6, 14, 7, 15
#define LOWER_1 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define UPPER_1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* A block of `rows` rows of 16 bytes. */
#define TRANSPOSED_BLOCK(size, rows)                                                                 \
  static inline void transpose_##rows##_of_##size(char *to, int64_t to_step, const char *from,       \
                                                  int64_t from_step) {                               \
    Lanes_##size x[rows], y[rows];                                                                   \
    _Pragma("GCC unroll 16") for (int k = 0; k < rows; ++k) memcpy(&x[k], from + k * from_step, 16); \
    _Pragma("GCC unroll 4") for (int round = 1; round < rows; round *= 2) {                          \
      _Pragma("GCC unroll 8") for (int k = 0; k < rows / 2; ++k) {                                   \
        y[2 * k] = SHUFFLED(x[k], x[k + rows / 2], LOWER_##size);                                    \
        y[2 * k + 1] = SHUFFLED(x[k], x[k + rows / 2], UPPER_##size);                                \
      }                                                                                              \
      _Pragma("GCC unroll 16") for (int k = 0; k < rows; ++k) x[k] = y[k];                           \
    }                                                                                                \
    _Pragma("GCC unroll 16") for (int k = 0; k < 16 / size; ++k)                                     \
      memcpy(to + k * to_step, (char *)x + k * rows * size, rows * size);                            \
  }

/* Whole blocks; the last of a side may have been done in part by the one before. */
#define TRANSPOSED_BLOCKS(size, rows)                                                                \
  if (n_from >= rows) {                                                                              \
    for (int64_t k = 0; k < n_from; k += rows) {                                                     \
      k = k < n_from - rows ? k : n_from - rows;                                                     \
      for (int64_t i = 0; i < n; i += lanes) {                                                       \
        i = i < n - lanes ? i : n - lanes;                                                           \
        transpose_##rows##_of_##size(to + i * to_step + k * size, to_step,                           \
                                     from + k * from_step + i * size, from_step);                    \
      }                                                                                              \
    }                                                                                                \
    return 1;                                                                                        \
  }

/* Whether `n_from` rows of n elements were transposed: not fewer than fill a vector. */
#define TRANSPOSED(size, ...)                                                                        \
  __attribute__((unused, noinline)) static int transposed_##size(                                    \
      char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n_from, int64_t n) {   \
    const int64_t lanes = 16 / size;                                                                 \
    if (n < lanes) return 0;                                                                         \
    __VA_ARGS__                                                                                      \
    return 0;                                                                                        \
  }

typedef uint8_t Lanes_1 __attribute__((vector_size(16)));
typedef uint16_t Lanes_2 __attribute__((vector_size(16)));
typedef uint32_t Lanes_4 __attribute__((vector_size(16)));
typedef uint64_t Lanes_8 __attribute__((vector_size(16)));
TRANSPOSED_BLOCK(1, 2)
TRANSPOSED_BLOCK(1, 4)
TRANSPOSED_BLOCK(1, 8)
TRANSPOSED_BLOCK(1, 16)
TRANSPOSED_BLOCK(2, 2)
TRANSPOSED_BLOCK(2, 4)
TRANSPOSED_BLOCK(2, 8)
TRANSPOSED_BLOCK(4, 2)
TRANSPOSED_BLOCK(4, 4)
TRANSPOSED_BLOCK(8, 2)
TRANSPOSED(1, TRANSPOSED_BLOCKS(1, 16) TRANSPOSED_BLOCKS(1, 8) TRANSPOSED_BLOCKS(1, 4) TRANSPOSED_BLOCKS(1, 2))
TRANSPOSED(2, TRANSPOSED_BLOCKS(2, 8) TRANSPOSED_BLOCKS(2, 4) TRANSPOSED_BLOCKS(2, 2))
TRANSPOSED(4, TRANSPOSED_BLOCKS(4, 4) TRANSPOSED_BLOCKS(4, 2))
TRANSPOSED(8, TRANSPOSED_BLOCKS(8, 2))

/* As above, of elements of any size that a number has. */
__attribute__((unused)) static inline int transposed(int64_t size, char *to, int64_t to_step, const char *from,
                                                     int64_t from_step, int64_t n_from, int64_t n) {
  switch (size) {
    case 1: return transposed_1(to, to_step, from, from_step, n_from, n);
    case 2: return transposed_2(to, to_step, from, from_step, n_from, n);
    case 4: return transposed_4(to, to_step, from, from_step, n_from, n);
    case 8: return transposed_8(to, to_step, from, from_step, n_from, n);
    default: return 0;
  }
}
