/* The functions over blocks that `vector.h` describes, each `BLOCK_NAME(name)` for a width of registers: unless one is
   given, the widest there are, where compilers take half of one on their own. They compute much for what they load,
   and bits do not depend on the width. */
#ifndef BLOCK_NAME
#define BLOCK_NAME(name) block_##name
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && !defined(__clang__)
#define BLOCK_WIDTH __attribute__((target("prefer-vector-width=512")))
#else
#define BLOCK_WIDTH
#endif
#endif
#define BLOCK_FUNCTION(name) __attribute__((noinline, unused)) BLOCK_WIDTH static void BLOCK_NAME(name)

#if defined(__FP_FAST_FMA) || defined(__FMA__)

BLOCK_EXP(c128, double, circle_f64, exp_near_f64, fabs, 708.0, 0x1p30, __builtin_cexp)
BLOCK_EXP(c64, float, circle_f32, exp_near_f32, fabsf, 87.0f, 0x1p15f, __builtin_cexpf)
BLOCK_NEAR(exp_f64, double, uint64_t, exp_near_f64(x), 708.0, exp_f64(x, 0))
BLOCK_NEAR(exp_f32, float, uint32_t, exp_near_f32(x), 87.0f, exp_f32(x))
OVER_BLOCK(exp2_f64, double, exp2_f64(x))
OVER_BLOCK(exp2_f32, float, exp2_f32(x))
OVER_BLOCK(expm1_f64, double, expm1_f64(x))
OVER_BLOCK(expm1_f32, float, expm1_f32(x))
BLOCK_BUT(log_f64, double, log_f64(x, 0), ODD_f64(x), log)
BLOCK_BUT(log_f32, float, log_f32(x, 0), ODD_f32(x), logf)
BLOCK_BUT(log2_f64, double, log_base_f64(x, LOG2_E_f64_1, LOG2_E_f64_2, 1, 0), ODD_f64(x), log2)
BLOCK_BUT(log2_f32, float, (float)log_short((double)x, LOG2_E_f64_1, 1), ODD_f32(x), log2f)
BLOCK_BUT(log10_f64, double, log_base_f64(x, LOG10_E_f64_1, LOG10_E_f64_2, LOG10_2_f64_1, LOG10_2_f64_2),
          ODD_f64(x), log10)
BLOCK_BUT(log10_f32, float, (float)log_short((double)x, LOG10_E_f64_1, LOG10_2_f64_1 + LOG10_2_f64_2),
          ODD_f32(x), log10f)
BLOCK_BUT(log1p_f64, double, log1p_f64(x), ODD_f64(1 + x), log1p)
BLOCK_BUT(log1p_f32, float, log1p_f32(x), ODD_f32(1 + x), log1pf)
BLOCK_BUT(sin_f64, double, sin_f64(x), !(fabs(x) <= 0x1p30), sin)
BLOCK_BUT(sin_f32, float, sin_f32(x), !(fabsf(x) <= 0x1p15f), sinf)
BLOCK_BUT(cos_f64, double, cos_f64(x), !(fabs(x) <= 0x1p30), cos)
BLOCK_BUT(cos_f32, float, cos_f32(x), !(fabsf(x) <= 0x1p15f), cosf)
BLOCK_BUT(tan_f64, double, tan_f64(x), !(fabs(x) <= 0x1p30), tan)
BLOCK_BUT(tan_f32, float, (float)tan_f64((double)x), !(fabsf(x) <= 0x1p30f), tanf)
OVER_BLOCK(sinh_f64, double, sinh_f64(x))
OVER_BLOCK(sinh_f32, float, (float)sinh_f64((double)x))
OVER_BLOCK(cosh_f64, double, cosh_f64(x))
OVER_BLOCK(cosh_f32, float, (float)cosh_f64((double)x))
OVER_BLOCK(tanh_f64, double, tanh_f64(x))
OVER_BLOCK(tanh_f32, float, tanh_f32(x))
OVER_BLOCK(atan_f64, double, atan_f64(x))
OVER_BLOCK(atan_f32, float, atan_f32(x))
OVER_BLOCK(asin_f64, double, asin_f64(x))
OVER_BLOCK(asin_f32, float, (float)asin_f64((double)x))
OVER_BLOCK(acos_f64, double, acos_f64(x))
OVER_BLOCK(acos_f32, float, (float)acos_f64((double)x))
/* where x is not positive and normal, or y not finite, as the C library */
BLOCK2_BUT(pow_f32, float, POWER_f32(x, y), ODD_f32(x) || !(fabsf(y) < INFINITY), powf)
OVER_BLOCK2(hypot_f32, float, (isinf(x) || isinf(y)) ? INFINITY : (float)sqrt((double)x * x + (double)y * y))
/* where squares leave the range, the C library's */
BLOCK2_BUT(hypot_f64, double, sqrt(fma(x, x, y * y)), is_far_f64(x, y), hypot)
/* sizes of complex numbers */
BLOCK2_BUT(size_f32, float, sqrtf(fmaf(x, x, y * y)), is_far_f32(x, y), hypotf)
BLOCK2_BUT(size_f64, double, sqrt(fma(x, x, y * y)), is_far_f64(x, y), hypot)
BLOCK2_BUT(atan2_f64, double, direction_f64(x, y), is_far_f64(x, y) || (x == 0 && y == 0), atan2)
BLOCK2_BUT(atan2_f32, float, (float)direction_f64((double)x, (double)y),
           !(fabsf(x) < INFINITY && fabsf(y) < INFINITY) || (x == 0 && y == 0), atan2f)
BLOCK_BUT(cbrt_f32, float, copysignf((float)exp_short(log_short((double)fabsf(x), 1, LN2_f64_1) / 3), x),
          ODD_f32(fabsf(x)), cbrtf)

#else

OVER_BLOCK(exp_c64, float _Complex, __builtin_cexpf(x))
OVER_BLOCK(exp_c128, double _Complex, __builtin_cexp(x))
#define LIBM(name) OVER_BLOCK(name##_f64, double, name(x)) OVER_BLOCK(name##_f32, float, name##f(x))
LIBM(exp) LIBM(exp2) LIBM(expm1) LIBM(log) LIBM(log2) LIBM(log10) LIBM(log1p) LIBM(sin) LIBM(cos)
LIBM(tan) LIBM(sinh) LIBM(cosh) LIBM(tanh) LIBM(atan) LIBM(asin) LIBM(acos)
OVER_BLOCK2(hypot_f32, float, hypotf(x, y))
OVER_BLOCK2(hypot_f64, double, hypot(x, y))
OVER_BLOCK2(size_f32, float, hypotf(x, y))
OVER_BLOCK2(size_f64, double, hypot(x, y))
OVER_BLOCK2(pow_f32, float, powf(x, y))
OVER_BLOCK2(atan2_f64, double, atan2(x, y))
OVER_BLOCK2(atan2_f32, float, atan2f(x, y))
OVER_BLOCK(cbrt_f32, float, cbrtf(x))

#endif

OVER_BLOCK(asinh_f64, double, asinh(x))
OVER_BLOCK(asinh_f32, float, asinhf(x))
OVER_BLOCK(acosh_f64, double, acosh(x))
OVER_BLOCK(acosh_f32, float, acoshf(x))
OVER_BLOCK(atanh_f64, double, atanh(x))
OVER_BLOCK(atanh_f32, float, atanhf(x))
OVER_BLOCK(cbrt_f64, double, cbrt(x))
OVER_BLOCK2(pow_f64, double, y == 2 ? x * x : pow(x, y))
#undef BLOCK_FUNCTION
