/* Products of many rows and a few columns, in registers: T is the element. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#if defined(__AVX__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
#define WIDTH ((int)(VECTOR / sizeof(T)))
#define ROWS 4   /* that are multiplied at once: `Four` */
#define CHUNK 64 /* rows that are read before they are added up */
#define PADDED(n, to) (((n) + (to)-1) / (to) * (to))
typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef T V __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

/* A row of n elements of type S as elements side by side, zeros behind them. */
#define READS(S)                                                                              \
  __attribute__((unused, always_inline)) static inline void read_##S(                         \
      T *line, const char *row, int64_t step, int n, int padded) {                            \
    if (step == sizeof(S))                                                                    \
      for (int k = 0; k < n; ++k) line[k] = (T)((const S *)row)[k];                           \
    else                                                                                      \
      for (int k = 0; k < n; ++k) line[k] = (T) * (const S *)(row + k * step);                \
    for (int k = n; k < padded; ++k) line[k] = 0;                                             \
  }
