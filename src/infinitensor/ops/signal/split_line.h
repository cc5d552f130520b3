/* The pieces of a long line for one kind of real element: T, and NAME(x) names what is here for it. Numbers of a line
   are complex, but where they are read or made by the library. See `fft_lines.c`. */

typedef struct {
    T re, im;
} NAME(Complex);
#define C NAME(Complex)

static inline C NAME(signed)(C x, T sign) { return (C){x.re, sign * x.im}; }

/* out = x * (start * steps), whose real parts are before their imaginary ones. */
static void NAME(rotate)(const C *restrict x, C *restrict out, C start, const T *restrict steps) {
    T re[SIDE], im[SIDE];
    for (int i = 0; i < SIDE; i++) {
        re[i] = start.re * steps[i] - start.im * steps[SIDE + i];
        im[i] = start.re * steps[SIDE + i] + start.im * steps[i];
    }
    for (int i = 0; i < SIDE; i++) {
        out[i].re = x[i].re * re[i] - x[i].im * im[i];
        out[i].im = x[i].re * im[i] + x[i].im * re[i];
    }
}

/* Between both passes the matrix is stored by blocks of SIDE columns; here its rows from `first` on come from there, or
   go there, and are rotated. */
static void NAME(rotate_rows)(const Work *work, C *rows, int64_t first, int64_t n, int is_from) {
    const Split *split = work->split;
    const int64_t n_starts = (split->n_columns + SIDE - 1) / SIDE;
    for (int64_t c = 0; c < n_starts; c++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = first + i;
            C *block = (C *)work->between + (c * split->n_made + row) * SIDE, *own = rows + i * split->row + c * SIDE;
            const C start = ((const C *)split->starts)[row * n_starts + c];
            const T *steps = (const T *)split->steps + 2 * row * SIDE;
            NAME(rotate)(is_from ? block : own, is_from ? own : block, start, steps);
        }
}

/* The second pass of most transforms: some rows, whose elements are terms `n_rows` apart. Rows that were not made are
   the conjugates of others, from the end. */
static int NAME(end_rows)(const Work *work, int64_t first, int64_t n, void *plan, void *room) {
    const Split *split = work->split;
    const int64_t step = split->n_rows, length = split->row, n_terms = split->n_terms;
    const T sign = split->mirror == MIRROR_BACKWARD ? -1 : 1;
    C *given = room, *made = given + SIDE * length, *out = (C *)work->out;
    NAME(rotate_rows)(work, given, first, n, 1);
    if (split->compute(plan, given, made)) return 1;
    for (int64_t c = 0; c < split->n_columns; c++) {
        const int64_t term = first + c * step, left = n_terms - term;
        if (split->mirror == MIRROR_NONE && n == SIDE && left >= n) {
            for (int64_t i = 0; i < SIDE; i++) out[term + i] = made[i * length + c];
            continue;
        }
        for (int64_t i = 0; i < n && i < left; i++) out[term + i] = NAME(signed)(made[i * length + c], sign);
        if (split->mirror == MIRROR_NONE) continue;
        for (int64_t i = first ? 0 : 1; i < n && first + i <= (step - 1) / 2; i++) {
            const int64_t other = split->n - term - i;
            if (other < n_terms) out[other] = NAME(signed)(made[i * length + c], -sign);
        }
    }
    return 0;
}

/* The first pass where the result is real: rows of a line of which half of the terms are there. */
static int NAME(begin_rows)(const Work *work, int64_t first, int64_t n, void *plan, void *room) {
    const Split *split = work->split;
    const int64_t step = split->n_rows, length = split->row, n_terms = split->n_terms;
    const C *x = (const C *)work->x;
    C *given = room, *made = given + SIDE * length;
    for (int64_t c = 0; c < split->n_columns; c++)
        for (int64_t i = 0, term = first + c * step; i < n; i++, term++)
            given[i * length + c] = term < n_terms ? x[term] : NAME(signed)(x[split->n - term], -1);
    if (split->compute(plan, given, made)) return 1;
    for (int64_t i = 0; i < n; i++) /* columns beyond the last are paired with that */
        memset(made + i * length + split->n_columns, 0, (length - split->n_columns) * sizeof(C));
    NAME(rotate_rows)(work, made, first, n, 0);
    return 0;
}
/* The first pass over columns of real values: two are one of complex values, with the second as imaginary parts. */
static int NAME(begin_real_columns)(const Work *work, int64_t first, int64_t n, void *plan, void *room) {
    const Split *split = work->split;
    const int64_t n_rows = split->n_rows;
    T *given = room;
    C *made = (C *)(given + SIDE * n_rows), *block = (C *)work->between + first * split->n_made;
    memset(given, 0, n < SIDE ? SIDE * n_rows * sizeof(T) : 0);
    for (int64_t k = 0; k < n_rows; k++)
        memcpy(given + k * SIDE, (const T *)work->x + k * split->n_columns + first, (n < SIDE ? n : SIDE) * sizeof(T));
    if (split->compute(plan, given, made)) return 1;
    for (int64_t k = 0; k < split->n_made; k++, block += SIDE) {
        const C *a = made + k * (SIDE / 2), *b = made + (k ? n_rows - k : 0) * (SIDE / 2);
        for (int i = 0; i < SIDE / 2; i++) {
            block[2 * i] = (C){(a[i].re + b[i].re) / 2, (a[i].im - b[i].im) / 2};
            block[2 * i + 1] = (C){(a[i].im + b[i].im) / 2, (b[i].re - a[i].re) / 2};
        }
    }
    return 0;
}

/* The last pass over columns, whose result is real: as above. Terms that are real by the symmetry are taken as such. */
static int NAME(end_real_columns)(const Work *work, int64_t first, int64_t n, void *plan, void *room) {
    const Split *split = work->split;
    const int64_t n_rows = split->n_rows;
    C *given = room, *made = given + SIDE / 2 * n_rows;
    const C *block = (const C *)work->between + first * split->n_made;
    for (int64_t k = 0; k < split->n_made; k++, block += SIDE) {
        const T own = k && 2 * k < n_rows ? 1 : 0;
        C *a = given + k * (SIDE / 2), *b = given + (k ? n_rows - k : 0) * (SIDE / 2);
        for (int i = 0; i < SIDE / 2; i++) {
            const C x = NAME(signed)(block[2 * i], own), y = NAME(signed)(block[2 * i + 1], own);
            a[i] = (C){x.re - y.im, x.im + y.re};
            if (own) b[i] = (C){x.re + y.im, y.re - x.im};
        }
    }
    if (split->compute(plan, given, made)) return 1;
    for (int64_t k = 0; k < n_rows; k++)
        memcpy((T *)work->out + k * split->n_columns + first, (const T *)made + k * SIDE, n * sizeof(T));
    return 0;
}
#undef C
