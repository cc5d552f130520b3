/* Runs tasks that are calls of compiled functions: in one thread by their order, in several as they
   become ready, the first of the order first. Nothing here touches Python. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "threads.h"

typedef void (*Kernel)(int64_t, int64_t, int64_t, const int64_t *, char **, const int64_t *,
                       const char *, const int64_t *, int64_t);

typedef void *(*Offer)(void (*)(void *), void *, int64_t); /* of `threads.c`: let others in */
typedef void (*Withdraw)(void *);                           /* wait until they are out */
typedef int64_t (*Help)(void);                              /* do what is offered */
typedef int64_t (*Number)(void);                            /* of this thread */

enum { MOST_ARRAYS = 64, MOST_WORDS = 4096, MOST_AXES = 64, WINDOW = 4, SPIN_NS = 20000, MOST_WAIT_NS = 1000000 };
enum { BY_ROWS = 1, BY_LINES = 2, BY_ITSELF = 3 };
enum { LEAST_ELEMENTS = 4096, LINE_ELEMENTS = 1024, SHORT_LINE = 16, PIECES_EACH = 2, LOOKS = 64 };

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
  const int64_t *level_order, *levels; /* tasks none of which waits for another, level by level; their borders */
  int64_t n_levels;                    /* 0: whoever is free takes what is ready */
} Job;

/* Those who run a job together. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  Offer offer_job;
  Withdraw withdraw;
  Help help_others;
  Number thread_number;
  int64_t n_others, n_sleeping;
  Job *job;
  void *offered;
  char *room; /* for pieces of levels */
  int64_t n_room;
} Team;

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
  const int64_t begun = now_ns();
  for (;;) {
    const int64_t from = __atomic_fetch_add(&s->next, s->each, __ATOMIC_RELAXED);
    if (from >= s->length) break;
    run_piece(s, from, s->length - from < s->each ? s->length - from : s->each);
  }
  __atomic_fetch_add(&s->work_ns, now_ns() - begun, __ATOMIC_RELAXED);
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

/* Pieces of a call of about so many elements each: rows, or elements of lines. */
static int64_t length_of_pieces(const Form *f, int64_t length, int64_t n_pieces) {
  int64_t each = (length + n_pieces - 1) / n_pieces, whole = LINE_ELEMENTS;
  if (f->shared_by != BY_LINES) return each;
  while (whole > SHORT_LINE && whole * f->n_rows > LEAST_ELEMENTS) whole /= 2; /* many short rows, as of a table */
  return (each + whole - 1) / whole * whole;
}

/* By up to so many threads; 0: by nobody, for it is too little, or cannot be shared. */
static int64_t share_call(const Job *j, const Form *f, char **arrays, const int64_t *words,
                          int64_t n_threads) {
  if (!f->shared_by || f->shared_by == BY_ITSELF || f->n_outer > MOST_AXES) return 0;
  const int64_t n_elements = f->n_rows * f->n;
  if (n_threads > n_elements / LEAST_ELEMENTS) n_threads = n_elements / LEAST_ELEMENTS;
  Shared s = {f, arrays, words, f->shared_by == BY_ROWS ? f->shape[0] : f->n, 1, 0, 0};
  if (n_threads < 2 || is_in_order(f, arrays)) return 0;
  s.each = length_of_pieces(f, s.length, PIECES_EACH * n_threads);
  if (s.each >= s.length) return 0;
  void *offered = j->offer(run_pieces, &s, n_threads - 1);
  run_pieces(&s);
  if (offered) j->withdraw(offered);
  return s.work_ns;
}

/* What a call works on. */
static const Form *read_call(const Job *j, int64_t c, char **arrays, int64_t *words) {
  const Form *f = j->forms + j->form_of[c];
  const int64_t a = j->array_of[c], w = j->word_of[c];
  for (int64_t k = 0; k < f->n_arrays; ++k) arrays[k] = j->memories[j->bases[a + k]] + j->offsets[a + k];
  for (int64_t k = 0; k < f->n_words; ++k) words[k] = j->scalars[j->words[w + k]];
  return f;
}

static void run_numbered(void *given, int64_t number) {
  const Shared *s = given;
  const int64_t from = number < 0 ? 0 : number * s->each, left = s->length - from;
  run_piece(s, from, number < 0 || left < s->each ? left : s->each);
}

/* A call that no program makes: by up to so many threads, where that takes less time of late. */
void call_shared(ShareParts share_parts, const Form *f, char **arrays, const int64_t *words, int64_t n_threads,
                 Times *times) {
  const int64_t n_elements = f->n_rows * f->n, most = n_elements / LEAST_ELEMENTS;
  if (n_threads > most) n_threads = most;
  Shared s = {f, arrays, words, f->shared_by == BY_ROWS ? f->shape[0] : f->n, 0, 0, 0};
  s.each = s.length;
  if (n_threads > 1 && f->n_outer <= MOST_AXES && !is_in_order(f, arrays))
    s.each = length_of_pieces(f, s.length, PIECES_EACH * n_threads);
  const int64_t n_pieces = (s.length + s.each - 1) / s.each;
  share_parts(run_numbered, &s, n_pieces, n_threads, n_elements, times);
}

/* Run the calls of a task, with others if there are any; how long all took together. */
static int64_t run_task(const Job *j, int64_t task, int64_t n_threads) {
  int64_t work_ns = 0, begun = now_ns();
  for (int64_t c = j->calls_of[task]; c < j->calls_of[task + 1]; ++c) {
    char *arrays[MOST_ARRAYS];
    int64_t words[MOST_WORDS];
    const Form *f = read_call(j, c, arrays, words);
    const int64_t shared_ns = n_threads > 1 ? share_call(j, f, arrays, words, n_threads) : 0;
    if (shared_ns) {
      const int64_t time = now_ns();
      work_ns += shared_ns;
      begun = time; /* that was counted by those who did it */
      continue;
    }
    const int is_by_itself = f->shared_by == BY_ITSELF && n_threads > 1;
    f->function(is_by_itself ? n_threads : f->n_rows, f->n, f->n_outer, f->shape, arrays, f->steps,
                (const char *)words, f->folded, f->n_same);
    const int64_t time = now_ns();
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
  const int64_t end = now_ns() + slice_ns;
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
    if (now_ns() > end) break;
  }
  return j->at == j->n_order || is_stopped(j) ? OVER : LATER;
}

/* With the lock; others read such counts without. */
static void add_to(int64_t *count, int64_t n) { __atomic_store_n(count, *count + n, __ATOMIC_RELAXED); }

static void push(Job *j, int32_t task) {
  const int32_t place = j->places ? j->places[task] : task;
  int64_t at = j->n_ready;
  add_to(&j->n_ready, 1);
  while (at) {
    const int64_t up = (at - 1) / 2;
    if (j->heap[up] <= place) break;
    j->heap[at] = j->heap[up];
    at = up;
  }
  j->heap[at] = place;
}

static int32_t pop(Job *j) {
  add_to(&j->n_ready, -1);
  const int32_t first = j->heap[0], last = j->heap[j->n_ready];
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

/* Without the lock: whether to look with it. */
static int has_news(Job *j) {
  return __atomic_load_n(&j->n_ready, __ATOMIC_RELAXED) || !__atomic_load_n(&j->n_running, __ATOMIC_RELAXED) ||
         is_stopped(j);
}

/* With the lock: until something is ready, all is over, or it is `end` (0: never). Who waits helps those
   whose task is shared meanwhile: it looks for such work at once, then after longer and longer sleeps. */
static int wait_for_tasks(Team *t, Job *j, int64_t end) {
  int64_t begun = now_ns(), each = SPIN_NS;
  while (!j->n_ready && !has_ended(j)) {
    pthread_mutex_unlock(&t->lock); /* nobody who has something to say waits for those who listen */
    for (int64_t until = now_ns() + SPIN_NS; !has_news(j) && now_ns() < until;) {
      if (t->help_others()) begun = now_ns(), each = SPIN_NS;
      for (int k = 0; k < LOOKS && !has_news(j); ++k) pause_briefly();
    }
    pthread_mutex_lock(&t->lock);
    const int64_t time = now_ns();
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
  add_to(&j->n_running, -1);
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
    add_to(&j->n_running, n);
    const int64_t n_each = j->n_threads / (j->n_running + j->n_ready);
    for (int k = 0; k < n; ++k) {
      if (is_stopped(j)) {
        add_to(&j->n_running, -1);
        push(j, taken[k]);
        continue;
      }
      pthread_mutex_unlock(&t->lock);
      const int64_t work_ns = run_task(j, taken[k], n_each);
      pthread_mutex_lock(&t->lock);
      j->work_ns += work_ns;
      finish(t, j, taken[k]);
    }
    if (end && now_ns() > end) return has_ended(j);
  }
  return 0;
}

static void help(void *given) {
  Team *t = given;
  pthread_mutex_lock(&t->lock);
  work(t, t->job, 0);
  pthread_mutex_unlock(&t->lock);
}

Team *open_team(Offer offer_job, Withdraw withdraw, Help help_others, Number thread_number, int64_t n_others) {
  Team *t = calloc(1, sizeof(Team));
  if (!t) return 0;
  t->offer_job = offer_job;
  t->withdraw = withdraw;
  t->help_others = help_others;
  t->thread_number = thread_number;
  t->n_others = n_others;
  pthread_mutex_init(&t->lock, 0);
  pthread_cond_init(&t->wake, 0);
  return t;
}

void close_team(Team *t) {
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->wake);
  free(t->room);
  free(t);
}

/* --- levels ------------------------------------------------------------------------------------- */

/* A program of little work, level by level: the calls of all tasks of a level are cut into pieces, which all threads
   run together; then they wait for each other. No lock, one offer, and as many cores for one task as for twenty. Each
   thread begins with the pieces that were its own in the level before, and the last time, and goes on with others'. */
enum { LINE_BYTES = 64, PATIENCE_NS = 200000, NAP_NS = 50000 };

typedef struct {
  int64_t task, from, n; /* rows or elements of lines; n is 0: all of the task */
} Piece;

typedef struct {
  int64_t next, end; /* of the pieces that one thread begins with */
} __attribute__((aligned(LINE_BYTES))) Range;

typedef struct {
  int64_t n_done, n_pieces, n_each; /* n_each: threads for a task that shares its work itself */
} __attribute__((aligned(LINE_BYTES))) Level;

typedef struct {
  Team *team;
  Job *job;
  int64_t n_threads;
  Level *levels;
  Range *ranges; /* of each thread, for each level */
  Piece *pieces;
} Levels;

static void run_piece_of(const Levels *s, const Piece *p, int64_t n_each) {
  if (!p->n) {
    run_task(s->job, p->task, n_each);
    return;
  }
  char *arrays[MOST_ARRAYS];
  int64_t words[MOST_WORDS];
  const Form *f = read_call(s->job, s->job->calls_of[p->task], arrays, words);
  const Shared call = {f, arrays, words, 0, 0, 0, 0};
  run_piece(&call, p->from, p->n);
}

static int64_t run_own_pieces(const Levels *s, int64_t level, int64_t first) {
  int64_t n_done = 0;
  for (int64_t k = 0; k < s->n_threads; ++k) {
    Range *r = s->ranges + level * s->n_threads + (first + k) % s->n_threads;
    while (__atomic_load_n(&r->next, __ATOMIC_RELAXED) < r->end) {
      const int64_t p = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
      if (p >= r->end) break;
      run_piece_of(s, s->pieces + p, s->levels[level].n_each);
      ++n_done;
    }
  }
  return n_done;
}

static int is_level_done(Level *l) { return __atomic_load_n(&l->n_done, __ATOMIC_ACQUIRE) >= l->n_pieces; }

static void wait_for_level(const Levels *s, Level *l) {
  int64_t begun = 0;
  for (;;) {
    for (int k = 0; k < LOOKS; ++k) {
      if (is_level_done(l)) return;
      pause_briefly();
    }
    if (s->team->help_others()) continue;
    sched_yield(); /* others go first */
    const int64_t time = now_ns();
    if (!begun) begun = time;
    if (time - begun > PATIENCE_NS) nanosleep(&(struct timespec){0, NAP_NS}, 0); /* one task is long */
  }
}

static void run_levels(void *given) {
  Levels *s = given;
  const int64_t own = s->team->thread_number() % s->n_threads;
  int64_t work_ns = 0;
  for (int64_t k = 0; k < s->job->n_levels; ++k) {
    Level *l = s->levels + k;
    if (is_level_done(l)) continue;
    const int64_t begun = now_ns(), n_done = run_own_pieces(s, k, own);
    if (n_done) {
      work_ns += now_ns() - begun;
      __atomic_fetch_add(&l->n_done, n_done, __ATOMIC_ACQ_REL);
    }
    wait_for_level(s, l);
  }
  __atomic_fetch_add(&s->job->work_ns, work_ns, __ATOMIC_RELAXED);
}

/* The elements of a task that is one call, and can be shared; else 0. */
static int64_t elements_to_share(const Job *j, int64_t task) {
  const int64_t c = j->calls_of[task];
  if (j->calls_of[task + 1] - c != 1) return 0;
  char *arrays[MOST_ARRAYS];
  int64_t words[MOST_WORDS];
  const Form *f = read_call(j, c, arrays, words);
  if (!f->shared_by || f->shared_by == BY_ITSELF || f->n_outer > MOST_AXES) return 0;
  const int64_t n_elements = f->n_rows * f->n;
  return n_elements < 2 * LEAST_ELEMENTS || is_in_order(f, arrays) ? 0 : n_elements;
}

/* Cut the tasks of a level; the number of the piece after them. */
static int64_t cut_level(Levels *s, int64_t level, int64_t first) {
  const Job *j = s->job;
  const int64_t *tasks = j->level_order + j->levels[level], n_tasks = j->levels[level + 1] - j->levels[level];
  const int64_t n_wanted = PIECES_EACH * s->n_threads;
  int64_t total = 0, at = first;
  for (int64_t k = 0; k < n_tasks && n_tasks < n_wanted; ++k) total += elements_to_share(j, tasks[k]);
  for (int64_t k = 0; k < n_tasks; ++k) {
    const int64_t own = n_tasks < n_wanted ? elements_to_share(j, tasks[k]) : 0;
    int64_t n = own ? own * n_wanted / total : 0, most = own / LEAST_ELEMENTS;
    if (n > most) n = most;
    if (n < 2) {
      s->pieces[at++] = (Piece){tasks[k], 0, 0};
      continue;
    }
    const Form *f = j->forms + j->form_of[j->calls_of[tasks[k]]];
    const int64_t length = f->shared_by == BY_ROWS ? f->shape[0] : f->n, each = length_of_pieces(f, length, n);
    for (int64_t from = 0; from < length; from += each)
      s->pieces[at++] = (Piece){tasks[k], from, length - from < each ? length - from : each};
  }
  const int64_t n_pieces = at - first;
  s->levels[level] = (Level){0, n_pieces, s->n_threads / (n_tasks ? n_tasks : 1)};
  for (int64_t r = 0; r < s->n_threads; ++r)
    s->ranges[level * s->n_threads + r] =
        (Range){first + n_pieces * r / s->n_threads, first + n_pieces * (r + 1) / s->n_threads};
  return at;
}

/* Room for a team's pieces; 0: there is none. */
static char *room_of(Team *t, int64_t n_bytes) {
  if (t->n_room < n_bytes) {
    free(t->room);
    t->n_room = 0;
    t->room = aligned_alloc(LINE_BYTES, (n_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
    if (t->room) t->n_room = n_bytes;
  }
  return t->room;
}

/* In this thread and others; whether it was done. */
static int by_levels(Team *t, Job *j, int64_t n_threads) {
  const int64_t n_ranges = j->n_levels * n_threads, n_pieces = j->n_order + PIECES_EACH * n_ranges;
  char *room = room_of(t, j->n_levels * sizeof(Level) + n_ranges * sizeof(Range) + n_pieces * sizeof(Piece));
  if (!room) return 0;
  Levels s = {t, j, n_threads, (Level *)room, 0, 0};
  s.ranges = (Range *)(s.levels + j->n_levels);
  s.pieces = (Piece *)(s.ranges + n_ranges);
  int64_t widest = 0;
  for (int64_t k = 0, at = 0; k < j->n_levels; ++k) {
    at = cut_level(&s, k, at);
    if (s.levels[k].n_pieces > widest) widest = s.levels[k].n_pieces;
  }
  if (widest > n_threads) widest = n_threads;
  void *offered = widest > 1 ? t->offer_job(run_levels, &s, widest - 1) : 0;
  run_levels(&s);
  if (offered) t->withdraw(offered);
  j->n_done = j->n_order;
  return 1;
}

/* In this thread and up to so many others (-1: all), for about so long (they go on meanwhile): OVER or
   LATER. When it is over nobody looks at the job any more. */
int64_t together(Team *t, Job *j, int64_t n_others, int64_t slice_ns) {
  if (n_others < 0 || n_others > t->n_others) n_others = t->n_others;
  if (j->n_levels && n_others > 0 && by_levels(t, j, n_others + 1)) return OVER;
  if (n_others >= j->n_order) n_others = j->n_order - 1;
  const int64_t end = now_ns() + slice_ns;
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
    add_to(&j->n_running, 1);
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
  add_to(&j->n_running, -1);
  __atomic_store_n(&j->is_stopped, 1, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
}
