/* Fourier transforms of lines, by several threads, through functions of a library that are given.

   Lines stand in planes; a block of the lines of a plane is one call of the library, with a plan of its own for the
   block that is left over. What a block is does not depend on who computes it. */

#include <stdint.h>

typedef long (*Compute)(void *, void *, ...);

/* What is transformed, as `fft_mkl.py` fills it. Steps are in bytes, but for those of mirrored terms. */
typedef struct {
    Compute compute;
    void *whole, *rest; /* plans of a block, and of the last one of each plane */
    int64_t n_planes, n_blocks, n_lines, n_rest; /* blocks of a plane; lines of a block, and of the last one */
    int64_t x_plane, x_block, out_plane, out_block;
    int64_t mirror, n, step, line; /* how terms beyond the half are made: MIRROR_…; their number and steps in terms */
    int64_t is_double;
} How;

enum { MIRROR_NONE, MIRROR_FORWARD, MIRROR_BACKWARD };
#define SIGN ((uint64_t)1 << 63)

typedef struct {
    const How *how;
    char *x, *out;
    int64_t n_taken, failed;
} Work;

/* The conjugate of a term, of 64 or 128 bits: with the other sign of its second number. */
static inline void conjugate_float(const uint64_t *from, uint64_t *to) { *to = *from ^ SIGN; }

static inline void conjugate_double(const uint64_t *from, uint64_t *to) {
    to[0] = from[0];
    to[1] = from[1] ^ SIGN;
}

/* Of lines of real values half the terms are there: term n - k is the conjugate of term k. Backward all are conjugates
   of what the library made. Either lines or terms stand side by side. */
#define MIRRORED(T, WORDS)                                                                                             \
    static void mirror_##T(uint64_t *out, const How *how, int64_t n_lines) {                                           \
        const int64_t n = how->n, step = how->step * WORDS, line = how->line * WORDS;                                  \
        const int is_backward = how->mirror == MIRROR_BACKWARD, along = how->step == 1;                                \
        const int64_t n_outer = along ? n_lines : 1, n_inner = along ? 1 : n_lines;                                    \
        for (int64_t o = 0; o < n_outer; o++, out += line) {                                                           \
            if (along)                                                                                                 \
                for (int64_t k = n / 2 + 1; k < n; k++) conjugate_##T(out + (n - k) * WORDS, out + k * WORDS);         \
            else                                                                                                       \
                for (int64_t k = n / 2 + 1; k < n; k++)                                                                \
                    for (int64_t i = 0; i < n_inner; i++)                                                              \
                        conjugate_##T(out + (n - k) * step + i * WORDS, out + k * step + i * WORDS);                   \
            for (int64_t k = 0; is_backward && k < n; k++)                                                             \
                for (int64_t i = 0; i < n_inner; i++)                                                                  \
                    conjugate_##T(out + k * step + i * WORDS, out + k * step + i * WORDS);                             \
        }                                                                                                              \
    }

MIRRORED(float, 1)
MIRRORED(double, 2)

static void transform_blocks(void *given) {
    Work *work = given;
    const How *how = work->how;
    for (;;) {
        const int64_t at = __atomic_fetch_add(&work->n_taken, 1, __ATOMIC_RELAXED);
        if (at >= how->n_planes * how->n_blocks) return;
        const int64_t plane = at / how->n_blocks, block = at % how->n_blocks;
        const int is_rest = block == how->n_blocks - 1;
        char *x = work->x + plane * how->x_plane + block * how->x_block;
        char *out = work->out + plane * how->out_plane + block * how->out_block;
        if (how->compute(is_rest ? how->rest : how->whole, x, out))
            __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
        const int64_t n_lines = is_rest ? how->n_rest : how->n_lines;
        if (how->mirror == MIRROR_NONE) continue;
        if (how->is_double) mirror_double((uint64_t *)out, how, n_lines);
        else mirror_float((uint64_t *)out, how, n_lines);
    }
}

static void (*share)(void (*)(void *), void *, int64_t); /* of `threads.c` */
static const int64_t *n_threads;

void use(void (*given)(void (*)(void *), void *, int64_t), const int64_t *number) {
    share = given;
    n_threads = number;
}

/* By all threads, or by this one alone; whether the library failed. */
int64_t transform_lines(const How *how, void *x, void *out, int64_t is_alone) {
    Work work = {how, x, out, 0, 0};
    const int64_t n_all = how->n_planes * how->n_blocks, n = *n_threads < n_all ? *n_threads : n_all;
    if (share && !is_alone && n > 1) share(transform_blocks, &work, n);
    else transform_blocks(&work);
    return work.failed;
}
