/* out += every row of a block, one after another, as NumPy adds rows up: a has N columns; steps are those of a. */
void run(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *shape, char **p,
         const int64_t *steps, const char *scalars, const int64_t *folded, int64_t n_same) {
  (void)n, (void)n_outer, (void)shape, (void)scalars, (void)folded, (void)n_same;
  T sums[N], line[N], *out = (T *)p[1];
  for (int k = 0; k < N; ++k) sums[k] = out[k];
  for (int64_t row = 0; row < n_rows; ++row) {
    READ_A(line, p[0] + row * steps[0], steps[1], N, N);
    for (int k = 0; k < N; ++k) sums[k] += line[k];
  }
  for (int k = 0; k < N; ++k) out[k] = sums[k];
}
