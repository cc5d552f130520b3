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
  __attribute__((unused)) static inline C div_##C(C x, C y) {                           \
    const T a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;             \
    if (fabs(c) >= fabs(d)) {                                                           \
      if (c == 0 && d == 0) return __builtin_complex(a / fabs(c), b / fabs(c));         \
      const T ratio = d / c, scale = 1 / (c + d * ratio);                               \
      return __builtin_complex((a + b * ratio) * scale, (b - a * ratio) * scale);       \
    }                                                                                   \
    const T ratio = c / d, scale = 1 / (d + c * ratio);                                 \
    return __builtin_complex((a * ratio + b) * scale, (b * ratio - a) * scale);         \
  }
COMPLEX(complex64, float, fmaf, fabsf)
COMPLEX(complex128, double, fma, fabs)
