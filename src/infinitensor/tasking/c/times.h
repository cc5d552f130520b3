/* out = a @ b for a block of rows: a has N columns of type A, b has M of type B; steps are those of
   a, b and out, of rows and then of columns. */
#define TILES (PADDED(M, WIDTH) / WIDTH)
#define TILES_AT_A_TIME (TILES < 2 ? TILES : 2)
#define PADDED_TILES PADDED(TILES, TILES_AT_A_TIME)
void run(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *shape, char **p,
         const int64_t *steps, const char *scalars, const int64_t *folded, int64_t n_same) {
  (void)n, (void)n_outer, (void)shape, (void)scalars, (void)folded, (void)n_same;
  T b[N][PADDED_TILES * WIDTH], lines[ROWS * N] = {0};
  for (int k = 0; k < N; ++k) READ_B(b[k], p[1] + k * steps[2], steps[3], M, PADDED_TILES * WIDTH);
  const int is_direct = IS_SAME && steps[1] == sizeof(T) && steps[0] % sizeof(T) == 0;
  const int is_side = steps[5] == sizeof(T);
  for (int64_t row = 0; row < n_rows; row += ROWS) {
    const int here = n_rows - row < ROWS ? (int)(n_rows - row) : ROWS;
    const char *from = p[0] + row * steps[0];
    const T *a = (const T *)from;
    int64_t step = steps[0] / (int64_t)sizeof(T);
    if (!is_direct || here < ROWS) {
      for (int i = 0; i < here; ++i) READ_A(lines + i * N, from + i * steps[0], steps[1], N, N);
      a = lines, step = N;
    }
    for (int t = 0; t < PADDED_TILES; t += TILES_AT_A_TIME) {
      V sum[ROWS][TILES_AT_A_TIME];
      for (int i = 0; i < ROWS; ++i)
        for (int v = 0; v < TILES_AT_A_TIME; ++v) sum[i][v] = (V){0};
      int k = 0;
      for (; k + 4 <= N; k += 4) {
        Four x[ROWS];
        for (int i = 0; i < ROWS; ++i) x[i] = *(const Four *)(a + i * step + k);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
          for (int v = 0; v < TILES_AT_A_TIME; ++v) {
            const V other = *(const V *)(b[k + q] + (t + v) * WIDTH);
            for (int i = 0; i < ROWS; ++i) sum[i][v] += other * x[i][q];
          }
      }
      for (; k < N; ++k)
        for (int v = 0; v < TILES_AT_A_TIME; ++v) {
          const V other = *(const V *)(b[k] + (t + v) * WIDTH);
          for (int i = 0; i < ROWS; ++i) sum[i][v] += other * a[i * step + k];
        }
      for (int i = 0; i < here; ++i)
        for (int v = 0; v < TILES_AT_A_TIME; ++v) {
          char *to = p[2] + (row + i) * steps[4] + (t + v) * WIDTH * steps[5];
          if (is_side && (t + v + 1) * WIDTH <= M) *(V *)to = sum[i][v];
          else
            for (int c = 0; c < WIDTH && (t + v) * WIDTH + c < M; ++c)
              *(T *)(to + c * steps[5]) = sum[i][v][c];
        }
    }
  }
}
