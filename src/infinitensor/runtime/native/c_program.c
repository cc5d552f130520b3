/* Runs tasks that are calls of compiled functions: in one thread by their order, in several as they
   become ready, the first of the order first. Nothing here touches Python. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef void (*Kernel)(int64_t, int64_t, int64_t, const int64_t *, char **, const int64_t *,
                       const char *, const int64_t *, int64_t);

typedef void *(*Offer)(void (*)(void *), void *, int64_t); /* of `threads.c`: let others in */
typedef void (*Withdraw)(void *);                           /* wait until they are out */
typedef int64_t (*Help)(void);                              /* do what is offered */

enum { MOST_ARRAYS = 64, MOST_WORDS = 256, MOST_AXES = 64, WINDOW = 4, SPIN_NS = 20000, MOST_WAIT_NS = 1000000 };
enum { BY_ROWS = 1, BY_LINES = 2, BY_ITSELF = 3 };
enum { LEAST_ELEMENTS = 4096, LINE_ELEMENTS = 1024, PIECES_EACH = 2 };

typedef struct {
  Kernel function;
  int64_t n_rows, n, n_outer;
  const int64_t *shape, *steps, *folded;
  int64_t n_same, n_arrays, n_words;
  int64_t shared_by; /* along what threads may share a call; 0: it is one thread's; BY_ITSELF: it is given how many */
  int64_t n_read;    /* arrays that are read; the others are written */
} Form;

typedef struct {
  const int64_t *calls_of; /* the calls of task t: from calls_of[t] to calls_of[t + 1] */
  const int32_t *form_of;
  const int64_t *array_of, *word_of; /* where those of a call begin */
  const Form *forms;
  const int32_t *bases;
  const int64_t *offsets;
  const int32_t *words;
  char *const *memories;
  const int64_t *scalars;
  const int64_t *order; /* the tasks that run */
  int64_t n_order;
  const int32_t *places; /* of each task in that order; none: tasks are in the order of numbers */
  const int64_t *borders; /* who waits for task t: after[borders[t]] to after[borders[t + 1]] */
  const int32_t *after;
  const uint8_t *in_python; /* tasks that are no calls, if there are any */
  int32_t *waits, *heap;
  uint8_t *done;
  int64_t n_ready, n_running, n_done, at, is_stopped;
  int64_t work_ns; /* of all tasks that are done */
  int64_t n_threads; /* that may share its calls, and how these are had */
  Offer offer;
  Withdraw withdraw;
} Job;

/* Those who run a job together. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  Offer offer_job;
  Withdraw withdraw;
  Help help_others;
  int64_t n_others, n_sleeping;
  Job *job;
  void *offered;
} Team;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* --- calls that several threads share ----------------------------------------------------------- */

typedef struct {
  const Form *form;
  char **arrays;
  const int64_t *words;
  int64_t length, each; /* rows or elements of lines in all, and of a piece */
  int64_t next, work_ns;
} Shared;

static void run_piece(const Shared *s, int64_t from, int64_t n) {
  const Form *f = s->form;
  const int by_rows = f->shared_by == BY_ROWS;
  const int64_t *steps = by_rows ? f->steps : f->steps + f->n_outer * f->n_arrays;
  char *arrays[MOST_ARRAYS];
  for (int64_t k = 0; k < f->n_arrays; ++k) arrays[k] = s->arrays[k] + from * steps[k];
  int64_t shape[MOST_AXES + 1], n_rows = f->n_rows, line = n;
  for (int64_t k = 0; k <= f->n_outer; ++k) shape[k] = f->shape[k];
  if (by_rows) {
    n_rows = n_rows / shape[0] * n;
    shape[0] = n;
    line = f->n;
  }
  f->function(n_rows, line, f->n_outer, shape, arrays, f->steps, (const char *)s->words, f->folded,
              f->n_same);
}

static void run_pieces(void *given) {
  Shared *s = given;
  const int64_t begun = now();
  for (;;) {
    const int64_t from = __atomic_fetch_add(&s->next, s->each, __ATOMIC_RELAXED);
    if (from >= s->length) break;
    run_piece(s, from, s->length - from < s->each ? s->length - from : s->each);
  }
  __atomic_fetch_add(&s->work_ns, now() - begun, __ATOMIC_RELAXED);
}

/* The first byte of an array, and how many there are up to the beginning of the last element. */
static char *extent(const Form *f, char *const *arrays, int64_t k, int64_t *n_bytes) {
  int64_t low = 0, high = 0;
  for (int64_t a = 0; a <= f->n_outer; ++a) {
    const int64_t reach = ((a < f->n_outer ? f->shape[a] : f->n) - 1) * f->steps[a * f->n_arrays + k];
    if (reach < 0) low += reach;
    else high += reach;
  }
  *n_bytes = high - low;
  return arrays[k] + low;
}

/* Whether an array that is written is, in part, one that is read elsewhere: then order counts. */
static int is_in_order(const Form *f, char *const *arrays) {
  for (int64_t w = f->n_read; w < f->n_arrays; ++w) {
    int64_t n_written;
    char *const written = extent(f, arrays, w, &n_written);
    for (int64_t k = 0; k < f->n_arrays; ++k) {
      if (k == w) continue;
      int is_same = arrays[k] == arrays[w];
      for (int64_t a = 0; a <= f->n_outer; ++a)
        is_same &= f->steps[a * f->n_arrays + k] == f->steps[a * f->n_arrays + w];
      int64_t n;
      char *const other = extent(f, arrays, k, &n);
      if (!is_same && written <= other + n && other <= written + n_written) return 1;
    }
  }
  return 0;
}

/* By up to so many threads; 0: by nobody, for it is too little, or cannot be shared. */
static int64_t share_call(const Job *j, const Form *f, char **arrays, const int64_t *words,
                          int64_t n_threads) {
  if (!f->shared_by || f->shared_by == BY_ITSELF || f->n_outer > MOST_AXES) return 0;
  const int64_t n_elements = f->n_rows * f->n;
  if (n_threads > n_elements / LEAST_ELEMENTS) n_threads = n_elements / LEAST_ELEMENTS;
  Shared s = {f, arrays, words, f->shared_by == BY_ROWS ? f->shape[0] : f->n, 1, 0, 0};
  if (n_threads < 2 || is_in_order(f, arrays)) return 0;
  s.each = (s.length + PIECES_EACH * n_threads - 1) / (PIECES_EACH * n_threads);
  if (f->shared_by == BY_LINES) s.each = (s.each + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
  if (s.each >= s.length) return 0;
  void *offered = j->offer(run_pieces, &s, n_threads - 1);
  run_pieces(&s);
  if (offered) j->withdraw(offered);
  return s.work_ns;
}

/* Run the calls of a task, with others if there are any; how long all took together. */
static int64_t run_task(const Job *j, int64_t task, int64_t n_threads) {
  int64_t work_ns = 0, begun = now();
  for (int64_t c = j->calls_of[task]; c < j->calls_of[task + 1]; ++c) {
    const Form *f = j->forms + j->form_of[c];
    char *arrays[MOST_ARRAYS];
    int64_t words[MOST_WORDS];
    const int64_t a = j->array_of[c], w = j->word_of[c];
    for (int64_t k = 0; k < f->n_arrays; ++k)
      arrays[k] = j->memories[j->bases[a + k]] + j->offsets[a + k];
    for (int64_t k = 0; k < f->n_words; ++k) words[k] = j->scalars[j->words[w + k]];
    const int64_t shared_ns = n_threads > 1 ? share_call(j, f, arrays, words, n_threads) : 0;
    if (shared_ns) {
      const int64_t time = now();
      work_ns += shared_ns;
      begun = time; /* that was counted by those who did it */
      continue;
    }
    const int is_by_itself = f->shared_by == BY_ITSELF && n_threads > 1;
    f->function(is_by_itself ? n_threads : f->n_rows, f->n, f->n_outer, f->shape, arrays, f->steps,
                (const char *)words, f->folded, f->n_same);
    const int64_t time = now();
    work_ns += (time - begun) * (is_by_itself ? n_threads : 1);
    begun = time;
  }
  return work_ns;
}

/* --- tasks -------------------------------------------------------------------------------------- */

static int is_stopped(Job *j) { return __atomic_load_n(&j->is_stopped, __ATOMIC_RELAXED) != 0; }

enum { OVER = -1, LATER = -2 };

/* In this thread, in order, for about so long: OVER if there is no more to do, LATER if there is, or
   a task that is Python's; that one is done when it is given back here (-1: none). */
int64_t alone(Job *j, int64_t given, int64_t slice_ns) {
  const int64_t end = now() + slice_ns;
  if (given >= 0) {
    j->done[given] = 1;
    j->n_done++;
  }
  while (j->at < j->n_order && !is_stopped(j)) {
    const int64_t task = j->order[j->at++];
    if (j->in_python && j->in_python[task]) return task;
    j->work_ns += run_task(j, task, j->n_threads);
    j->done[task] = 1;
    j->n_done++;
    if (now() > end) break;
  }
  return j->at == j->n_order || is_stopped(j) ? OVER : LATER;
}

static void push(Job *j, int32_t task) {
  const int32_t place = j->places ? j->places[task] : task;
  int64_t at = j->n_ready++;
  while (at) {
    const int64_t up = (at - 1) / 2;
    if (j->heap[up] <= place) break;
    j->heap[at] = j->heap[up];
    at = up;
  }
  j->heap[at] = place;
}

static int32_t pop(Job *j) {
  const int32_t first = j->heap[0], last = j->heap[--j->n_ready];
  int64_t at = 0;
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= j->n_ready) break;
    if (child + 1 < j->n_ready && j->heap[child + 1] < j->heap[child]) ++child;
    if (last <= j->heap[child]) break;
    j->heap[at] = j->heap[child];
    at = child;
  }
  j->heap[at] = last;
  return j->places ? (int32_t)j->order[first] : first;
}

static int has_ended(Job *j) { return is_stopped(j) || (!j->n_ready && !j->n_running); }

/* With the lock: until something is ready, all is over, or it is `end` (0: never). Who waits helps those
   whose task is shared meanwhile: it looks for such work at once, then after longer and longer sleeps. */
static int wait_for_tasks(Team *t, Job *j, int64_t end) {
  int64_t begun = now(), each = SPIN_NS;
  while (!j->n_ready && !has_ended(j)) {
    pthread_mutex_unlock(&t->lock);
    if (t->help_others()) begun = now(), each = SPIN_NS;
    for (int k = 0; k < 100 && !__atomic_load_n(&j->n_ready, __ATOMIC_RELAXED); ++k)
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
    pthread_mutex_lock(&t->lock);
    const int64_t time = now();
    if (end && time > end) return j->n_ready || has_ended(j);
    if (time - begun < SPIN_NS || j->n_ready || has_ended(j)) continue; /* waking takes longer than most tasks */
    t->n_sleeping++;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (until.tv_nsec + each) / 1000000000LL;
    until.tv_nsec = (until.tv_nsec + each) % 1000000000LL;
    pthread_cond_timedwait(&t->wake, &t->lock, &until);
    t->n_sleeping--;
    if (each < MOST_WAIT_NS) each *= 2;
  }
  return 1;
}

static void finish(Team *t, Job *j, int64_t task) {
  j->n_running--;
  j->done[task] = 1;
  j->n_done++;
  for (int64_t k = j->borders[task]; k < j->borders[task + 1]; ++k)
    if (!--j->waits[j->after[k]]) push(j, j->after[k]);
  if (t->n_sleeping && (j->n_ready > 1 || has_ended(j))) pthread_cond_broadcast(&t->wake);
}

/* With the lock, until all is over or it is `end` (0: never); whether it is over. */
static int work(Team *t, Job *j, int64_t end) {
  while (wait_for_tasks(t, j, end)) {
    if (has_ended(j)) {
      if (t->n_sleeping) pthread_cond_broadcast(&t->wake);
      return 1;
    }
    int32_t taken[WINDOW];
    int n = 1 + j->n_ready / 8;
    if (n > WINDOW) n = WINDOW;
    for (int k = 0; k < n; ++k) taken[k] = pop(j);
    j->n_running += n;
    const int64_t n_each = j->n_threads / (j->n_running + j->n_ready);
    for (int k = 0; k < n; ++k) {
      if (is_stopped(j)) {
        j->n_running--;
        push(j, taken[k]);
        continue;
      }
      pthread_mutex_unlock(&t->lock);
      const int64_t work_ns = run_task(j, taken[k], n_each);
      pthread_mutex_lock(&t->lock);
      j->work_ns += work_ns;
      finish(t, j, taken[k]);
    }
    if (end && now() > end) return has_ended(j);
  }
  return 0;
}

static void help(void *given) {
  Team *t = given;
  pthread_mutex_lock(&t->lock);
  work(t, t->job, 0);
  pthread_mutex_unlock(&t->lock);
}

Team *open_team(Offer offer_job, Withdraw withdraw, Help help_others, int64_t n_others) {
  Team *t = calloc(1, sizeof(Team));
  if (!t) return 0;
  t->offer_job = offer_job;
  t->withdraw = withdraw;
  t->help_others = help_others;
  t->n_others = n_others;
  pthread_mutex_init(&t->lock, 0);
  pthread_cond_init(&t->wake, 0);
  return t;
}

void close_team(Team *t) {
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->wake);
  free(t);
}

/* In this thread and up to so many others (-1: all), for about so long (they go on meanwhile): OVER or
   LATER. When it is over nobody looks at the job any more. */
int64_t together(Team *t, Job *j, int64_t n_others, int64_t slice_ns) {
  if (n_others < 0 || n_others > t->n_others) n_others = t->n_others;
  if (n_others >= j->n_order) n_others = j->n_order - 1;
  const int64_t end = now() + slice_ns;
  pthread_mutex_lock(&t->lock); /* this thread goes first */
  if (t->job != j) {
    t->job = j;
    t->offered = t->offer_job(help, t, n_others);
  }
  const int is_over = work(t, j, end);
  pthread_mutex_unlock(&t->lock);
  if (!is_over) return LATER;
  if (t->offered) t->withdraw(t->offered);
  t->job = 0;
  return OVER;
}

/* For a thread of Python's: what it was given is done (-1: it was given nothing); it runs calls until
   there is a task that is no call, or no more to do (OVER). */
int64_t next_of_python(Team *t, Job *j, int64_t given) {
  int64_t found = OVER;
  pthread_mutex_lock(&t->lock);
  if (given >= 0) finish(t, j, given);
  while (found < 0 && wait_for_tasks(t, j, 0) && !has_ended(j)) {
    const int32_t task = pop(j);
    j->n_running++;
    if (j->in_python[task])
      found = task;
    else {
      pthread_mutex_unlock(&t->lock);
      run_task(j, task, 1);
      pthread_mutex_lock(&t->lock);
      finish(t, j, task);
    }
  }
  if (found < 0 && t->n_sleeping) pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
  return found;
}

/* A thread of Python's leaves what it was given: it failed. */
void leave(Team *t, Job *j) {
  pthread_mutex_lock(&t->lock);
  j->n_running--;
  j->is_stopped = 1;
  pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
}
