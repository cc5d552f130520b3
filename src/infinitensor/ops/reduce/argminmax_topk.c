/* The best value of each column and its row. T is the element; rows are numbered by integers as wide as it is, so
   that both fit the same vectors. */

#define INLINE static inline __attribute__((always_inline))
#if IS_FLOAT
#define IS_NUMBER(x) ((x) == (x))
#else
#define IS_NUMBER(x) 1
#endif

#if BITS == 8
typedef int8_t I;
#elif BITS == 16
typedef int16_t I;
#elif BITS == 32
typedef int32_t I;
#else
typedef int64_t I;
#endif

/* NaN is better than every number; of equal ones the first stays. */
INLINE void best_of(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, int largest, T *value, I *where) {
    for (int64_t outer = 0; outer < n_outer; outer++, value += n_inner, where += n_inner) {
        for (int64_t j = 0; j < n_inner; j++) {
            value[j] = x[j];
            where[j] = 0;
        }
        x += n_inner;
        for (int64_t i = 1; i < n; i++, x += n_inner)
            for (int64_t j = 0; j < n_inner; j++) {
                T new = x[j], old = value[j];
                I better = (largest ? !(new <= old) : !(new >= old)) & IS_NUMBER(old);
                value[j] = better ? new : old;
                where[j] = better ? (I)i : where[j];
            }
    }
}

int64_t best_rows(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, int64_t largest, T *value, I *where) {
    if (largest) best_of(x, n_outer, n, n_inner, 1, value, where);
    else best_of(x, n_outer, n, n_inner, 0, value, where);
    return 0;
}
