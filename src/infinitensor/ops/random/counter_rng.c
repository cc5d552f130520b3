/* Random numbers of consecutive elements, from the seed and the element's index alone: the hash of ops/random/counter_rng.py.
   T is the element that is made. */

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

typedef struct {
    uint64_t first, second;
} Key;

INLINE Key key_of(uint64_t seed, int64_t stream) {
    uint64_t key = mix(seed + (uint64_t)(stream + 1) * 0xD1B54A32D192ED03u);
    return (Key){key, mix(key)};
}

INLINE uint64_t word(Key key, uint64_t index) { return mix(mix(index * 0x9E3779B97F4A7C15u + key.first) + key.second); }

/* In (0, 1): 52 bits and a half keep it off both ends. */
INLINE double open_unit(uint64_t bits) { return (bits >> 12) * 0x1p-52 + 0x1p-53; }

#if IS_FLOAT
int64_t uniform(uint64_t seed, uint64_t start, int64_t n, int64_t n_bits, double span, double low, T *out) {
    Key key = key_of(seed, 0);
    double unit = 1.0 / (double)((uint64_t)1 << n_bits);
    for (int64_t i = 0; i < n; i++) out[i] = (T)((double)(word(key, start + i) >> (64 - n_bits)) * unit * span + low);
    return 0;
}

int64_t fractions(uint64_t seed, uint64_t start, int64_t n, T *out) {
    Key key = key_of(seed, 0);
    for (int64_t i = 0; i < n; i++) out[i] = open_unit(word(key, start + i));
    return 0;
}

/* The inverse of the normal distribution function (Wichura's PPND16), in the middle and at its ends. */
/* Rounded twice on every machine: a seed gives the same numbers whether or not it has a fused step. */
#define STEP(x, r, c) ((x) * (r) + (c))
#define HORNER(r, a, b, c, d, e, f, g, h) STEP(STEP(STEP(STEP(STEP(STEP(STEP(h, r, g), r, f), r, e), r, d), r, c), r, b), r, a)

INLINE double normal_middle(double p) {
    double q = p - 0.5, r = 0.180625 - q * q;
    return q *
           HORNER(r, 3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                  4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3) /
           HORNER(r, 1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
                  3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3);
}

/* log(x) of a normal number, by the series of the area tangent; a loop over it is vectorised. */
INLINE double log_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, 8);
    int64_t power = (bits - 0x3FE6A09E667F3BCD) >> 52; /* the rest is around 1, from sqrt(1/2) to sqrt(2) */
    bits -= power * ((int64_t)1 << 52);
    double m, sum = 1.0 / 23;
    memcpy(&m, &bits, 8);
    double s = (m - 1) / (m + 1), square = s * s;
    for (int k = 21; k > 0; k -= 2) sum = STEP(sum, square, 1.0 / k);
    return STEP((double)power, 0.693147180559945309417, 2 * s * sum);
}

/* r is the root of -log(p) less 1.6; as far as r <= 5 - 1.6. */
INLINE double near_end(double r) {
    return HORNER(r, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
                  1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4) /
           HORNER(r, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
                  1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9);
}

static double far_end(double p) {
    double r = sqrt(-log(p)) - 5;
    return HORNER(r, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
                  2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7) /
           HORNER(r, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
                  1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15);
}

INLINE int is_middle(double p) { return p >= 0.075 && p <= 0.925; }

#define BLOCK 256

/* At most BLOCK normal numbers: all as if in the middle, then those at the ends again. */
static void normal_block(Key key, uint64_t start, int64_t n, double *x) {
    double p[BLOCK], end[BLOCK], found[BLOCK];
    int64_t at[BLOCK], n_ends = 0;
    for (int64_t i = 0; i < n; i++) p[i] = open_unit(word(key, start + i));
    for (int64_t i = 0; i < n; i++) x[i] = normal_middle(p[i]);
    for (int64_t i = 0; i < n; i++) {
        at[n_ends] = i;
        n_ends += !is_middle(p[i]);
    }
    for (int64_t k = 0; k < n_ends; k++) end[k] = p[at[k]] < 0.5 ? p[at[k]] : 1 - p[at[k]];
    for (int64_t k = 0; k < n_ends; k++) end[k] = sqrt(-log_of(end[k])) - 1.6;
    for (int64_t k = 0; k < n_ends; k++) found[k] = near_end(end[k]);
    for (int64_t k = 0; k < n_ends; k++) {
        double q = p[at[k]];
        if (end[k] > 5 - 1.6) found[k] = far_end(q < 0.5 ? q : 1 - q);
        x[at[k]] = q < 0.5 ? -found[k] : found[k];
    }
}

int64_t normal(uint64_t seed, uint64_t start, int64_t n, double scale, double loc, T *out) {
    Key key = key_of(seed, 0);
    double x[BLOCK];
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t here = n - first < BLOCK ? n - first : BLOCK;
        normal_block(key, start + first, here, x);
        for (int64_t i = 0; i < here; i++) out[first + i] = (T)(x[i] * scale + loc);
    }
    return 0;
}

/* Marsaglia and Tsang: whether the normal number x and the fraction of a word are accepted. */
INLINE int is_accepted(double x, uint64_t bits, double d, double root) {
    double v = open_unit(bits), square = x * x;
    if (!(root > 0)) return 0;
    if (v < 1 - 0.0331 * square * square) return 1;
    return log(v) < square / 2 + d - d * root * root * root + d * 3 * log(root);
}

/* Gamma numbers of one shape, or their logarithms; round r takes streams 2 r and 2 r + 1. */
int64_t gamma_numbers(uint64_t seed, uint64_t start, int64_t n, double shape, int64_t as_log, T *out) {
    double lifted = shape < 1 ? shape + 1 : shape, d = lifted - 1.0 / 3, c = 1 / sqrt(9 * d), x[BLOCK];
    Key power = key_of(seed, -2), key_u = key_of(seed, 0), key_v = key_of(seed, 1);
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t here = n - first < BLOCK ? n - first : BLOCK;
        normal_block(key_u, start + first, here, x);
        for (int64_t i = 0; i < here; i++) {
            uint64_t at = start + first + i;
            double tried = x[i], root = 1 + tried * c;
            uint64_t bits = word(key_v, at);
            for (int64_t round = 1; lifted < INFINITY && !is_accepted(tried, bits, d, root); round++) {
                normal_block(key_of(seed, 2 * round), at, 1, &tried);
                root = 1 + tried * c;
                bits = word(key_of(seed, 2 * round + 1), at);
            }
            double value = as_log ? log(d) + 3 * log(root) : d * root * root * root;
            if (shape < 1) {
                double less = log(open_unit(word(power, at))) / shape;
                value = as_log ? value + less : value * exp(less);
            }
            out[first + i] = value;
        }
    }
    return 0;
}
#else
/* low + floor(span * u) for a span of at most 2**32. */
int64_t integers(uint64_t seed, uint64_t start, int64_t n, uint64_t span, int64_t low, T *out) {
    Key key = key_of(seed, 0);
    for (int64_t i = 0; i < n; i++)
        out[i] = (T)(low + (int64_t)(((unsigned __int128)word(key, start + i) * span) >> 64));
    return 0;
}
#endif
