/* The two steps between and behind the short transforms that a long one is made of. T is a real element; complex
   ones are pairs of them. */

/* out = x * exp(2 pi i (row * column) / n) for whole rows from `row` on; the factor is that of a low and that of a
   high part of the product, which are in tables. */
int64_t twiddle(const T *x, T *out, int64_t n_rows, int64_t n_columns, int64_t row, int64_t n, const double *low, const double *high, int64_t shift) {
    for (int64_t end = row + n_rows; row < end; row++) {
        int64_t turn = 0;
        for (int64_t c = 0; c < n_columns; c++, x += 2, out += 2) {
            const double *a = low + 2 * (turn & (((int64_t)1 << shift) - 1)), *b = high + 2 * (turn >> shift);
            double re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];
            out[0] = (T)(x[0] * re - x[1] * im);
            out[1] = (T)(x[0] * im + x[1] * re);
            turn += row;
            turn -= turn >= n ? n : 0;
        }
    }
    return 0;
}

#define SIDE 8 /* columns at a time: a row has them side by side */

/* The terms first..last of a long transform from (n_rows, width) of them: term r + step * c is in row r, column c, of
   which `x` has those from `column` on. Rows from n_rows on are conjugates of others: `mirror` has as many columns
   for them, in the opposite order. Strides are those of rows. */
int64_t unfold(const T *x, int64_t stride, const T *mirror, int64_t mirror_stride, T *out, int64_t n_rows, int64_t width, int64_t step, int64_t column, int64_t first, int64_t last) {
    for (int64_t c = 0; c < width; c += SIDE) {
        int64_t here = width - c < SIDE ? width - c : SIDE;
        for (int64_t r = 0; r < step; r++) {
            int conjugate = r >= n_rows;
            const T *from = conjugate ? mirror + 2 * ((step - r) * mirror_stride + width - 1 - c) : x + 2 * (r * stride + c);
            for (int64_t k = 0; k < here; k++) {
                int64_t term = r + step * (column + c + k) - first;
                if (term < 0 || term >= last - first) continue;
                const T *one = conjugate ? from - 2 * k : from + 2 * k;
                out[2 * term] = one[0];
                out[2 * term + 1] = conjugate ? -one[1] : one[1];
            }
        }
    }
    return 0;
}
