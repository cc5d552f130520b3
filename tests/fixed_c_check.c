/* Calls the C libraries that are built with the package without Python, on any machine: tests/test_fixed_c.py. */
#include "runtime/native/c_program.c"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *offer(void (*)(void *), void *, int64_t);
void withdraw(void *);
int64_t help_others(void);
int64_t thread_number(void);
void share(void (*)(void *), void *, int64_t);
void end_threads(void);
int has_instruction(void);
void crc32c_blocks(const uint8_t *, size_t, size_t, uint32_t, uint32_t *);
int64_t read_runs(int, int64_t, int64_t, int64_t, int64_t, char *, int64_t, int64_t);

enum { N = 300 };
static int64_t next_part, parts[N];

static void take_parts(void *given) {
  (void)given;
  for (int64_t k; (k = __atomic_fetch_add(&next_part, 1, __ATOMIC_SEQ_CST)) < N;) parts[k]++;
}

static int shares(void) {
  for (int round = 0; round < 200; ++round) {
    next_part = 0;
    share(take_parts, 0, 4);
    for (int k = 0; k < N; ++k)
      if (parts[k] != round + 1) return 0;
  }
  return 1;
}

/* A task adds to its number the one of the task before it. */
static void add_one(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *shape, char **arrays,
                    const int64_t *steps, const char *words, const int64_t *folded, int64_t n_same) {
  (void)n_rows, (void)n, (void)n_outer, (void)shape, (void)steps, (void)folded, (void)n_same;
  ((int64_t *)arrays[0])[1] = *(int64_t *)arrays[0] + *(const int64_t *)words;
}

static int runs_programs(void) {
  static int64_t calls_of[N + 1], array_of[N], word_of[N], offsets[N], order[N], borders[N + 1], sums[N + 1];
  static int32_t form_of[N], bases[N], words[N], after[N], waits[N], heap[N];
  static uint8_t done[N];
  char *memories[1] = {(char *)sums};
  const int64_t scalars[1] = {3};
  const Form form = {add_one, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0};
  for (int k = 0; k < N; ++k) {
    calls_of[k + 1] = k + 1, array_of[k] = word_of[k] = order[k] = k, offsets[k] = 8 * k;
    borders[k + 1] = k < N - 1 ? k + 1 : N - 1, after[k] = k + 1, waits[k] = k > 0;
  }
  Job job = {.calls_of = calls_of, .form_of = form_of, .array_of = array_of, .word_of = word_of, .forms = &form,
             .bases = bases, .offsets = offsets, .words = words, .memories = memories, .scalars = scalars,
             .order = order, .n_order = N, .borders = borders, .after = after, .waits = waits, .heap = heap,
             .done = done, .n_ready = 1};
  Team *team = open_team(offer, withdraw, help_others, thread_number, 3);
  while (together(team, &job, -1, 100000) != OVER)
    ;
  close_team(team);
  return job.n_done == N && sums[N] == 3 * N;
}

static int sums_bytes(void) {
  uint32_t sum;
  if (!has_instruction()) return 1;
  crc32c_blocks((const uint8_t *)"123456789", 9, 9, 0, &sum);
  return sum == 0xE3069283;
}

static int reads(void) {
  char read[8] = {0};
  FILE *file = tmpfile();
  if (!file || fwrite("0123456789abcdef", 1, 16, file) != 16 || fflush(file)) return 0;
  const int64_t n = read_runs(fileno(file), 1, 4, 4, 2, read, 2, 3);
  fclose(file);
  return n == 4 && !memcmp(read, "12569ade", 8);
}

int main(void) {
  const int ok[] = {shares(), runs_programs(), sums_bytes(), reads()};
  end_threads();
  printf("%d %d %d %d\n", ok[0], ok[1], ok[2], ok[3]);
  return 0;
}
