/* out += a.T @ b for a block of rows: a has N columns of type A, b has M of type B; steps are those
   of a and b, of rows and then of columns; out is contiguous. */
#if N < ROWS
#define AT_A_TIME N
typedef const T *Several;
#define SEVERAL(x) (x)
#else
#define AT_A_TIME ROWS
typedef Four Several;
#define SEVERAL(x) (*(const Four *)(x))
#endif
#define HIGH PADDED(N, AT_A_TIME)
#define TILES (PADDED(M, WIDTH) / WIDTH)
#define TILES_AT_A_TIME (TILES < 4 ? TILES : 4)
#define PADDED_TILES PADDED(TILES, TILES_AT_A_TIME)
#define WIDE (PADDED_TILES * WIDTH)
void run(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *shape, char **p,
         const int64_t *steps, const char *scalars, const int64_t *folded, int64_t n_same) {
  (void)n, (void)n_outer, (void)shape, (void)scalars, (void)folded, (void)n_same;
  T sums[HIGH][WIDE] = {{0}}, a[CHUNK * HIGH], lines[CHUNK * WIDE];
  const int is_direct = IS_SAME && M == WIDE && steps[3] == sizeof(T) && steps[2] % sizeof(T) == 0;
  for (int64_t first = 0; first < n_rows; first += CHUNK) {
    const int here = n_rows - first < CHUNK ? (int)(n_rows - first) : CHUNK;
    const char *left = p[0] + first * steps[0], *right = p[1] + first * steps[2];
    if (HIGH == N && steps[1] == sizeof(A) && steps[0] == N * sizeof(A))
      for (int k = 0; k < here * N; ++k) a[k] = (T)((const A *)left)[k];
    else
      for (int r = 0; r < here; ++r) READ_A(a + r * HIGH, left + r * steps[0], steps[1], N, HIGH);
    if (!is_direct)
      for (int r = 0; r < here; ++r) READ_B(lines + r * WIDE, right + r * steps[2], steps[3], M, WIDE);
    const T *b = is_direct ? (const T *)right : lines;
    const int64_t step = is_direct ? steps[2] / (int64_t)sizeof(T) : WIDE;
    for (int k = 0; k < HIGH; k += AT_A_TIME)
      for (int t = 0; t < PADDED_TILES; t += TILES_AT_A_TIME) {
        V sum[AT_A_TIME][TILES_AT_A_TIME];
        for (int i = 0; i < AT_A_TIME; ++i)
          for (int v = 0; v < TILES_AT_A_TIME; ++v) sum[i][v] = *(V *)(sums[k + i] + (t + v) * WIDTH);
        for (int r = 0; r < here; ++r) {
          const Several x = SEVERAL(a + r * HIGH + k);
          for (int v = 0; v < TILES_AT_A_TIME; ++v) {
            const V other = *(const V *)(b + r * step + (t + v) * WIDTH);
#pragma GCC unroll 4
            for (int i = 0; i < AT_A_TIME; ++i) sum[i][v] += other * x[i];
          }
        }
        for (int i = 0; i < AT_A_TIME; ++i)
          for (int v = 0; v < TILES_AT_A_TIME; ++v) *(V *)(sums[k + i] + (t + v) * WIDTH) = sum[i][v];
      }
  }
  T *out = (T *)p[2];
  for (int k = 0; k < N; ++k)
    for (int c = 0; c < M; ++c) out[k * M + c] += sums[k][c];
}
