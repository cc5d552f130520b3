/* Complex numbers as NumPy computes with them: by their parts, with no second look at NaN. */
typedef float _Complex complex64;
typedef double _Complex complex128;
LINES(complex64)
LINES(complex128)

#ifdef __FP_FAST_FMA
#define PRODUCT(fma, a, b, c) fma(a, b, c)
#else
#define PRODUCT(fma, a, b, c) ((a) * (b) + (c))
#endif

#define COMPLEX(C, T, fma, fabs)                                                        \
  __attribute__((unused)) static inline C mul_##C(C x, C y) {                           \
    const T a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;             \
    return __builtin_complex(PRODUCT(fma, a, c, -(b * d)), PRODUCT(fma, a, d, b * c));  \
  }                                                                                     \
  /* without branches, so that loops are vectorised */                                  \
  __attribute__((unused)) static inline C div_##C(C x, C y) {                           \
    const T a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;             \
    const int is_real = fabs(c) >= fabs(d), is_zero = c == 0 && d == 0;                 \
    const T most = is_real ? c : d, least = is_real ? d : c, ratio = least / most;      \
    const T up = is_real ? a : b, down = is_real ? b : a, part = up * ratio;            \
    const T real = up + down * ratio, imag = is_real ? down - part : part - down;       \
    const T scale = 1 / (is_zero ? fabs(c) : most + least * ratio);                     \
    return __builtin_complex((is_zero ? a : real) * scale, (is_zero ? b : imag) * scale); \
  }
COMPLEX(complex64, float, fmaf, fabsf)
COMPLEX(complex128, double, fma, fabs)
