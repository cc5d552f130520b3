/* Functions over blocks, written without branches so that the compiler vectorises their loops.

   Within 2 units in the last place of the true value; NaN, infinities, zeros of either sign and
   subnormal numbers as the C standard has them. They need fused multiply-adds: where the processor
   has none, all are calls of the C library. Here is what they compute, and how a loop is written; `blocks.h` has them. */

#define OVER_BLOCK(name, T, value)                                                         \
  BLOCK_FUNCTION(name)(const T *a, T *r, int64_t n) {                                    \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                                 \
      const T x = a[i];                                                                    \
      r[i] = value;                                                                        \
    }                                                                                      \
  }
#define OVER_BLOCK2(name, T, value)                                              \
  BLOCK_FUNCTION(name)(const T *a, const T *b, T *r, int64_t n) {                        \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                       \
      const T x = a[i], y = b[i];                                                \
      r[i] = value;                                                              \
    }                                                                            \
  }
/* As BLOCK; where x is odd, the C library's function afterwards. */
#define BLOCK_BUT(name, T, value, odd, libm)                                               \
  BLOCK_FUNCTION(name)(const T *a, T *r, int64_t n) {                                    \
    int32_t any = 0;                                                                       \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                                 \
      const T x = a[i];                                                                    \
      any |= odd;                                                                          \
      r[i] = value;                                                                        \
    }                                                                                      \
    if (any)                                                                               \
      for (int64_t i = 0; i < n; ++i) {                                                    \
        const T x = a[i];                                                                  \
        if (odd) r[i] = libm(x);                                                           \
      }                                                                                    \
  }

/* `near` where all of a block is less than `most`, else `far`: the same bits by fewer steps. */
#define BLOCK_NEAR(name, T, U, near, most, far)                                            \
  BLOCK_FUNCTION(name)(const T *a, T *r, int64_t n) {                                    \
    const T limit = most;                                                                  \
    U worst = 0, bound;                                                                    \
    memcpy(&bound, &limit, sizeof bound);                                                  \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                                 \
      const T x = a[i];                                                                    \
      U size;                                                                              \
      memcpy(&size, &x, sizeof size);                                                      \
      size &= (U)-1 >> 1;                                                                  \
      worst = size > worst ? size : worst;                                                 \
      r[i] = near;                                                                         \
    }                                                                                      \
    if (worst >= bound)                                                                    \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                               \
        const T x = a[i];                                                                  \
        r[i] = far;                                                                        \
      }                                                                                    \
  }

#define BLOCK2_BUT(name, T, value, odd, libm)                                              \
  BLOCK_FUNCTION(name)(const T *a, const T *b, T *r, int64_t n) {                        \
    int32_t any = 0;                                                                       \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                                 \
      const T x = a[i], y = b[i];                                                          \
      any |= odd;                                                                          \
      r[i] = value;                                                                        \
    }                                                                                      \
    if (any)                                                                               \
      for (int64_t i = 0; i < n; ++i) {                                                    \
        const T x = a[i], y = b[i];                                                        \
        if (odd) r[i] = libm(x, y);                                                        \
      }                                                                                    \
  }

#if defined(__FP_FAST_FMA) || defined(__FMA__) /* clang says it so */

#define INLINE __attribute__((always_inline, unused)) static inline

INLINE uint64_t bits_f64(double x) { uint64_t b; memcpy(&b, &x, 8); return b; }
INLINE uint32_t bits_f32(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }
INLINE double of_bits_f64(uint64_t b) { double x; memcpy(&x, &b, 8); return x; }
INLINE float of_bits_f32(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }

/* Added to a small number, its integer is in the low bits. */
#define INTEGER_f64 0x1.8p52
#define INTEGER_f32 0x1.8p23f

/* x within limits, and any number for NaN; written as what processors do in one instruction */
#ifdef __aarch64__
#define WITHIN_f64(x, low, high) fmin(fmax(x, low), high)
#define WITHIN_f32(x, low, high) fminf(fmaxf(x, low), high)
#else
#define NOT_BELOW(x, low) ((x) > (low) ? (x) : (low))
#define WITHIN_f64(x, low, high) (NOT_BELOW(x, low) < (high) ? NOT_BELOW(x, low) : (high))
#define WITHIN_f32 WITHIN_f64
#endif

/* 2**k of an integer in the range of exponents */
INLINE double power_f64(double k) {
  return of_bits_f64((bits_f64(k + INTEGER_f64) << 52) + 0x3ff0000000000000u);
}
INLINE float power_f32(float k) {
  return of_bits_f32((bits_f32(k + INTEGER_f32) << 23) + 0x3f800000u);
}

/* m * 2**k in two steps, so that it rounds once, into subnormals too */
INLINE double scaled_f64(double m, double k) {
  const double half = rint(k * 0.5);
  return m * power_f64(half) * power_f64(k - half);
}
INLINE float scaled_f32(float m, float k) {
  const float half = rintf(k * 0.5f);
  return m * power_f32(half) * power_f32(k - half);
}

/* c = k * log(2) + r; P = exp(r) - 1 */
#define EXPONENT_f64(c)                                                  \
  const double k = rint((c) * LOG2_E_f64_1);                             \
  const double r = fma(-k, LN2_f64_2, fma(-k, LN2_f64_1, c));            \
  const double p = fma(r * r, EXP_f64(r), r);
#define EXPONENT_f32(c)                                                  \
  const float k = rintf((c) * LOG2_E_f32_1);                             \
  const float r = fmaf(-k, LN2_f32_2, fmaf(-k, LN2_f32_1, c));           \
  const float p = fmaf(r * r, EXP_f32(r), r);

/* exp(x) * 2**shift */
INLINE double exp_f64(double x, double shift) {
  const double c = WITHIN_f64(x, -747.0, 712.0);
  EXPONENT_f64(c)
  const double made = scaled_f64(1 + p, k + shift);
  return x == x ? made : x;
}
INLINE float exp_f32(float x) {
  const float c = WITHIN_f32(x, -105.0f, 90.0f);
  EXPONENT_f32(c)
  const float made = scaled_f32(1 + p, k);
  return x == x ? made : x;
}

/* of numbers whose result is normal */
INLINE double exp_near_f64(double x) {
  EXPONENT_f64(x)
  return (1 + p) * power_f64(k);
}
INLINE float exp_near_f32(float x) {
  EXPONENT_f32(x)
  return (1 + p) * power_f32(k);
}

INLINE double exp2_f64(double x) {
  const double c = WITHIN_f64(x, -1077.0, 1025.0), k = rint(c), r = c - k;
  const double made = scaled_f64(fma(r, EXP2_f64(r), 1), k);
  return x == x ? made : x;
}
INLINE float exp2_f32(float x) {
  const float c = WITHIN_f32(x, -152.0f, 130.0f), k = rintf(c), r = c - k;
  const float made = scaled_f32(fmaf(r, EXP2_f32(r), 1), k);
  return x == x ? made : x;
}

/* 2**k * (exp(r) - 1) + (2**k - 1); by halves, so that 2**1024 is in range */
INLINE double expm1_f64(double x) {
  const double c = WITHIN_f64(x, -50.0, 710.0);
  EXPONENT_f64(c)
  const double half = power_f64(k - 1), made = k == 0 ? p : 2 * fma(half, p, half - 0.5);
  return x == x ? copysign(made, x) : x;
}
INLINE float expm1_f32(float x) {
  const float c = WITHIN_f32(x, -25.0f, 89.0f);
  EXPONENT_f32(c)
  const float half = power_f32(k - 1), made = k == 0 ? p : 2 * fmaf(half, p, half - 0.5f);
  return x == x ? copysignf(made, x) : x;
}

/* positive normal numbers are not odd for log: x = (1 + f) * 2**k, 1 + f from sqrt(1/2) to sqrt(2) */
#define ODD_f64(x) (bits_f64(x) - 0x0010000000000000u >= 0x7fe0000000000000u)
#define ODD_f32(x) (bits_f32(x) - 0x00800000u >= 0x7f000000u)
#define ROOT_HALF_f64 0x3fe6a09e667f3bcdu
#define ROOT_HALF_f32 0x3f3504f3u
#define SPLIT_f64(x)                                                                          \
  const uint64_t raised = bits_f64(x) + (0x3ff0000000000000u - ROOT_HALF_f64);                \
  const double k = of_bits_f64((raised >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);       \
  const double f = of_bits_f64((raised & 0xfffffffffffffu) + ROOT_HALF_f64) - 1;
#define SPLIT_f32(x)                                                                          \
  const uint32_t raised = bits_f32(x) + (0x3f800000u - ROOT_HALF_f32);                        \
  const float k = (float)((int32_t)(raised >> 23) - 127);                                     \
  const float f = of_bits_f32((raised & 0x7fffffu) + ROOT_HALF_f32) - 1;

/* log(x) + more */
INLINE double log_f64(double x, double more) {
  SPLIT_f64(x)
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  const double low = fma(s, fma(z, LOG_f64(z), half), fma(k, LN2_f64_2, more));
  return fma(k, LN2_f64_1, f - (half - low));
}
INLINE float log_f32(float x, float more) {
  SPLIT_f32(x)
  const float low = fmaf(f * f, fmaf(f, LOG1_f32(f), -0.5f), fmaf(k, LN2_f32_2, more));
  return fmaf(k, LN2_f32_1, f + low);
}

/* log(x) / log(base) from the parts of 1 / log(base) and of log(2) / log(base) */
INLINE double log_base_f64(double x, double e1, double e2, double two1, double two2) {
  SPLIT_f64(x)
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f, high = f - half;
  const double low = (f - high) - half + fma(s, fma(z, LOG_f64(z), half), fma(-0.5 * f, f, half));
  const double top = high * e1, rest = fma(high, e1, -top) + fma(high, e2, low * e1);
  const double whole = k * two1, sum = whole + top;
  return sum + (((whole - sum) + top) + fma(k, two2, rest));
}

/* log(1 + x): what 1 + x rounds away is added at the end */
INLINE double log1p_f64(double x) {
  const double u = 1 + x, away = (x > 1 ? 1 - (u - x) : x - (u - 1)) / u;
  return copysign(log_f64(u, away), x);
}
INLINE float log1p_f32(float x) {
  const float u = 1 + x, away = (x > 1 ? 1 - (u - x) : x - (u - 1)) / u;
  return copysignf(log_f32(u, away), x);
}

/* of a float32, in float64: k * two + log(1 + f) * e */
INLINE double log_short(double x, double e, double two) {
  SPLIT_f64(x)
  return fma(k, two, e * fma(f * f, fma(f, LOG1_short(f), -0.5), f));
}

/* exp(x) where it is a float32, in float64 */
INLINE double exp_short(double x) {
  const double c = WITHIN_f64(x, -200.0, 200.0), k = rint(c * LOG2_E_f64_1);
  const double r = fma(-k, LN2_f64_1, c), two = power_f64(k);
  return fma(two, fma(r * r, EXP_short(r), r), two);
}

/* x - k * pi / 2 in two numbers: the first, and what it rounds away */
#define REDUCE_f64(x)                                                     \
  const double shifted = fma(x, 0x1.45f306dc9c883p-1, INTEGER_f64);        \
  const double k = shifted - INTEGER_f64;                                  \
  const uint64_t quarter = bits_f64(shifted);                              \
  const double r1 = fma(-k, PI_2_f64_1, x), next = k * PI_2_f64_2, r = r1 - next;      \
  const double lost = (r1 - r) - next - fma(k, PI_2_f64_2, -next);                    \
  const double away = fma(-k, PI_2_f64_3, lost);
#define REDUCE_f32(x)                                                     \
  const float shifted = fmaf(x, 0x1.45f306p-1f, INTEGER_f32);              \
  const float k = shifted - INTEGER_f32;                                   \
  const uint32_t quarter = bits_f32(shifted);                              \
  const float r1 = fmaf(-k, PI_2_f32_1, x), next = k * PI_2_f32_2, r = r1 - next;      \
  const float lost = (r1 - r) - next - fmaf(k, PI_2_f32_2, -next);                    \
  const float away = fmaf(-k, PI_2_f32_3, lost);

INLINE double sine_f64(double r, double away) {
  const double z = r * r;
  return r + fma(r * z, SIN_f64(z), away);
}
INLINE double cosine_f64(double r, double away) {
  const double z = r * r, half = 0.5 * z, w = 1 - half;
  return w + (((1 - w) - half) + fma(z * z, COS_f64(z), -r * away));
}
INLINE float sine_f32(float r, float away) {
  const float z = r * r;
  return r + fmaf(r * z, SIN_f32(z), away);
}
INLINE float cosine_f32(float r, float away) {
  const float z = r * r, half = 0.5f * z, w = 1 - half;
  return w + (((1 - w) - half) + fmaf(z * z, COS_f32(z), -r * away));
}

INLINE double sin_f64(double x) {
  REDUCE_f64(x)
  const double made = quarter & 1 ? cosine_f64(r, away) : sine_f64(r, away);
  return x == 0 ? x : of_bits_f64(bits_f64(made) ^ ((quarter & 2) << 62));
}
INLINE double cos_f64(double x) {
  REDUCE_f64(x)
  const double made = quarter & 1 ? sine_f64(r, away) : cosine_f64(r, away);
  return of_bits_f64(bits_f64(made) ^ (((quarter + 1) & 2) << 62));
}
INLINE float sin_f32(float x) {
  REDUCE_f32(x)
  const float made = quarter & 1 ? cosine_f32(r, away) : sine_f32(r, away);
  return x == 0 ? x : of_bits_f32(bits_f32(made) ^ ((quarter & 2) << 30));
}
INLINE float cos_f32(float x) {
  REDUCE_f32(x)
  const float made = quarter & 1 ? sine_f32(r, away) : cosine_f32(r, away);
  return of_bits_f32(bits_f32(made) ^ (((quarter + 1) & 2) << 30));
}
/* s / c, corrected by what s and c round away */
INLINE double tan_f64(double x) {
  REDUCE_f64(x)
  const double z = r * r, t = fma(r * z, SIN_f64(z), away), s = r + t, s_lost = (r - s) + t;
  const double half = 0.5 * z, w = 1 - half, u = ((1 - w) - half) + fma(z * z, COS_f64(z), -r * away);
  const double c = w + u, c_lost = (w - c) + u;
  const int odd = quarter & 1;
  const double up = odd ? -c : s, up_lost = odd ? -c_lost : s_lost;
  const double down = odd ? s : c, down_lost = odd ? s_lost : c_lost;
  const double q = up / down, rest = fma(-q, down, up) + (up_lost - q * down_lost);
  return x == 0 ? x : q + rest / down;
}

INLINE double sinh_f64(double x) {
  const double a = fabs(x), z = x * x, e = exp_f64(a, -1);
  const double made = a < 1 ? fma(a * z, SINH_f64(z), a) : e - 0.25 / e;
  return copysign(made, x);
}
INLINE double cosh_f64(double x) {
  const double e = exp_f64(fabs(x), -1);
  return e + 0.25 / e;
}
INLINE double tanh_f64(double x) {
  const double a = fabs(x), z = x * x, c = WITHIN_f64(2 * a, 0.0, 40.0);
  EXPONENT_f64(c)
  const double two = power_f64(k), far = 1 - 2 / (fma(two, p, two) + 1);
  return copysign(a >= 0.625 ? far : fma(a * z, TANH_f64(z), a), x);
}
INLINE float tanh_f32(float x) {
  const float a = fabsf(x), z = x * x, c = WITHIN_f32(2 * a, 0.0f, 20.0f);
  EXPONENT_f32(c)
  const float two = power_f32(k), far = 1 - 2 / (fmaf(two, p, two) + 1);
  return copysignf(a >= 0.625f ? far : fmaf(a * z, TANH_f32(z), a), x);
}

/* atan(y / x) of positive numbers, between 0 and pi / 2; the angle of (x, y) */
INLINE double angle_f64(double y, double x) {
  const int high = y > 0x1.3504f333f9de6p+1 * x, low = y < 0x1.a827999fcef32p-2 * x;
  const double up = high ? -x : (low ? y : y - x), down = high ? y : (low ? x : y + x);
  const double t = up / down, z = t * t;
  const double base = high ? PI_2_f64_1 : (low ? 0 : PI_2_f64_1 / 2);
  const double rest = high ? PI_2_f64_2 : (low ? 0 : PI_2_f64_2 / 2);
  return base + (fma(t * z, ATAN_f64(z), rest) + t);
}
/* The angle of (x, y) in all quadrants, of what is finite and not both 0. */
INLINE double direction_f64(double y, double x) {
  const double t = angle_f64(fabs(y), fabs(x));
  return copysign(x < 0 ? 2 * PI_2_f64_1 - (t - 2 * PI_2_f64_2) : t, y);
}
INLINE float atan_f32(float x) {
  const float a = fabsf(x);
  const int high = a > 0x1.3504f4p+1f, low = a < 0x1.a8279ap-2f;
  const float t = high ? -1 / a : (low ? a : (a - 1) / (a + 1)), z = t * t;
  const float base = high ? PI_2_f32_1 : (low ? 0 : PI_2_f32_1 / 2);
  const float rest = high ? PI_2_f32_2 : (low ? 0 : PI_2_f32_2 / 2);
  return copysignf(x != x ? x : base + (fmaf(t * z, ATAN_f32(z), rest) + t), x);
}
INLINE double atan_f64(double x) {
  const double a = fabs(x);
  return copysign(a < INFINITY ? angle_f64(a, 1) : (x != x ? x : PI_2_f64_1), x);
}
INLINE double asin_f64(double x) {
  const double a = fabs(x), wide = 0.5 * (1 - a), z = a < 0.5 ? x * x : wide, s = a < 0.5 ? a : sqrt(wide);
  const double rest = s * z * ASIN_f64(z);
  return copysign(a < 0.5 ? s + rest : (PI_2_f64_1 - 2 * s) - (2 * rest - PI_2_f64_2), x);
}
INLINE double acos_f64(double x) {
  const double a = fabs(x), wide = 0.5 * (1 - a), z = a < 0.5 ? x * x : wide, s = a < 0.5 ? x : sqrt(wide);
  const double rest = s * z * ASIN_f64(z);
  const double near = PI_2_f64_1 - (s - (PI_2_f64_2 - rest));
  const double low = x < 0 ? 2 * (PI_2_f64_1 - (s - (PI_2_f64_2 - rest))) : 2 * (s + rest);
  return a < 0.5 ? near : low;
}

/* sin(x) and cos(x) of what is in range, of one reduction */
INLINE void circle_f64(double x, double *s, double *c) {
  REDUCE_f64(x)
  const double sine = sine_f64(r, away), cosine = cosine_f64(r, away);
  *s = of_bits_f64(bits_f64(quarter & 1 ? cosine : sine) ^ ((quarter & 2) << 62));
  *c = of_bits_f64(bits_f64(quarter & 1 ? sine : cosine) ^ (((quarter + 1) & 2) << 62));
}
INLINE void circle_f32(float x, float *s, float *c) {
  REDUCE_f32(x)
  const float sine = sine_f32(r, away), cosine = cosine_f32(r, away);
  *s = of_bits_f32(bits_f32(quarter & 1 ? cosine : sine) ^ ((quarter & 2) << 30));
  *c = of_bits_f32(bits_f32(quarter & 1 ? sine : cosine) ^ (((quarter + 1) & 2) << 30));
}

/* exp(x + iy); of large parts, and of what is not finite, the C library's afterwards */
#define BLOCK_EXP(name, T, circle, exp_near, fabs, most, widest, libm)                     \
  BLOCK_FUNCTION(exp_##name)(const T _Complex *a, T _Complex *r, int64_t n) {            \
    int32_t any = 0;                                                                       \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                                 \
      const T x = __real__ a[i], y = __imag__ a[i];                                        \
      T s, c;                                                                              \
      circle(y, &s, &c);                                                                   \
      const T e = exp_near(x);                                                             \
      any |= !(fabs(x) < most) | !(fabs(y) <= widest);                                     \
      r[i] = __builtin_complex(e * c, y == 0 ? y : e * s);                                 \
    }                                                                                      \
    if (any)                                                                               \
      for (int64_t i = 0; i < n; ++i)                                                      \
        if (!(fabs(__real__ a[i]) < most) | !(fabs(__imag__ a[i]) <= widest)) r[i] = libm(a[i]); \
  }

/* x**y of float32 in float64 */
#define POWER_f32(x, y) (float)exp_short((double)(y) * log_short((double)(x), 1, LN2_f64_1))
/* where squares leave the range */
INLINE int32_t is_far_f64(double x, double y) {
  const double p = fabs(x), q = fabs(y), most = p > q ? p : q;
  return !((most > 0x1p-400 || most == 0) && most < 0x1p500);
}
INLINE int32_t is_far_f32(float x, float y) {
  const float p = fabsf(x), q = fabsf(y), most = p > q ? p : q;
  return !((most > 0x1p-45f || most == 0) && most < 0x1p62f);
}

#endif
