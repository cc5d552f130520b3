/* Runs tasks that are calls of compiled functions: in one thread by their order, in several as they
   become ready, the first of the order first. Nothing here touches Python. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef void (*Kernel)(int64_t, int64_t, int64_t, const int64_t *, char **, const int64_t *,
                       const char *, const int64_t *, int64_t);

enum { MOST_ARRAYS = 64, MOST_WORDS = 64, WINDOW = 4, SPIN_NS = 20000 };

typedef struct {
  Kernel function;
  int64_t n_rows, n, n_outer;
  const int64_t *shape, *steps, *folded;
  int64_t n_same, n_arrays, n_words;
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
} Job;

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t wake, rest;
  pthread_t *threads;
  int64_t n_threads, n_inside, n_sleeping, generation, is_closed;
  Job *job;
} Pool;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void run_task(const Job *j, int64_t task) {
  for (int64_t c = j->calls_of[task]; c < j->calls_of[task + 1]; ++c) {
    const Form *f = j->forms + j->form_of[c];
    char *arrays[MOST_ARRAYS];
    int64_t words[MOST_WORDS];
    const int64_t a = j->array_of[c], w = j->word_of[c];
    for (int64_t k = 0; k < f->n_arrays; ++k)
      arrays[k] = j->memories[j->bases[a + k]] + j->offsets[a + k];
    for (int64_t k = 0; k < f->n_words; ++k) words[k] = j->scalars[j->words[w + k]];
    f->function(f->n_rows, f->n, f->n_outer, f->shape, arrays, f->steps, (const char *)words,
                f->folded, f->n_same);
  }
}

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
    run_task(j, task);
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

/* With the lock: until something is ready, all is over, or it is `end` (0: never). */
static int wait_for_tasks(Pool *p, Job *j, int64_t end) {
  const int64_t begun = now();
  while (!j->n_ready && !has_ended(j)) {
    const int64_t time = now();
    if (end && time > end) return 0;
    if (time - begun < SPIN_NS) { /* waking takes longer than most tasks */
      pthread_mutex_unlock(&p->lock);
      for (int k = 0; k < 100 && !__atomic_load_n(&j->n_ready, __ATOMIC_RELAXED); ++k)
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
      pthread_mutex_lock(&p->lock);
      continue;
    }
    p->n_sleeping++;
    if (end) {
      struct timespec until;
      clock_gettime(CLOCK_REALTIME, &until);
      const int64_t ns = until.tv_nsec + (end - time) + 1;
      until.tv_sec += ns / 1000000000LL;
      until.tv_nsec = ns % 1000000000LL;
      pthread_cond_timedwait(&p->wake, &p->lock, &until);
    } else
      pthread_cond_wait(&p->wake, &p->lock);
    p->n_sleeping--;
  }
  return 1;
}

static void finish(Pool *p, Job *j, int64_t task) {
  j->n_running--;
  j->done[task] = 1;
  j->n_done++;
  for (int64_t k = j->borders[task]; k < j->borders[task + 1]; ++k)
    if (!--j->waits[j->after[k]]) push(j, j->after[k]);
  if (p->n_sleeping && (j->n_ready > 1 || has_ended(j))) pthread_cond_broadcast(&p->wake);
}

/* With the lock, until all is over or it is `end` (0: never); whether it is over. */
static int work(Pool *p, Job *j, int64_t end) {
  while (wait_for_tasks(p, j, end)) {
    if (has_ended(j)) {
      if (p->n_sleeping) pthread_cond_broadcast(&p->wake);
      return 1;
    }
    int32_t taken[WINDOW];
    int n = 1 + j->n_ready / 8;
    if (n > WINDOW) n = WINDOW;
    for (int k = 0; k < n; ++k) taken[k] = pop(j);
    j->n_running += n;
    for (int k = 0; k < n; ++k) {
      if (is_stopped(j)) {
        j->n_running--;
        push(j, taken[k]);
        continue;
      }
      pthread_mutex_unlock(&p->lock);
      run_task(j, taken[k]);
      pthread_mutex_lock(&p->lock);
      finish(p, j, taken[k]);
    }
    if (end && now() > end) return has_ended(j);
  }
  return 0;
}

static void *serve(void *given) {
  Pool *p = given;
  int64_t seen = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->is_closed && (p->generation == seen || !p->job)) pthread_cond_wait(&p->rest, &p->lock);
    if (p->is_closed) break;
    seen = p->generation;
    p->n_inside++;
    work(p, p->job, 0);
    if (!--p->n_inside) pthread_cond_broadcast(&p->wake);
  }
  pthread_mutex_unlock(&p->lock);
  return 0;
}

/* Threads that help whoever calls `together`; they take no signals. */
Pool *open_pool(int64_t n_threads) {
  Pool *p = calloc(1, sizeof(Pool));
  if (!p) return 0;
  p->threads = calloc(n_threads ? n_threads : 1, sizeof(pthread_t));
  pthread_mutex_init(&p->lock, 0);
  pthread_cond_init(&p->wake, 0);
  pthread_cond_init(&p->rest, 0);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int64_t k = 0; p->threads && k < n_threads; ++k)
    if (!pthread_create(p->threads + p->n_threads, 0, serve, p)) p->n_threads++;
  pthread_sigmask(SIG_SETMASK, &before, 0);
  return p;
}

void close_pool(Pool *p) {
  pthread_mutex_lock(&p->lock);
  p->is_closed = 1;
  pthread_cond_broadcast(&p->rest);
  pthread_mutex_unlock(&p->lock);
  for (int64_t k = 0; k < p->n_threads; ++k) pthread_join(p->threads[k], 0);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->rest);
  free(p->threads);
  free(p);
}

/* In this thread and those of the pool, for about so long (they go on meanwhile): OVER or LATER.
   When it is over nobody looks at the job any more. Nothing is given. */
int64_t together(Pool *p, Job *j, int64_t given, int64_t slice_ns) {
  (void)given;
  const int64_t end = now() + slice_ns;
  pthread_mutex_lock(&p->lock);
  if (p->job != j) {
    p->job = j;
    p->generation++;
    pthread_cond_broadcast(&p->rest);
  }
  int is_over = work(p, j, end);
  if (is_over) {
    p->job = 0; /* who has not come yet stays away */
    while (p->n_inside) pthread_cond_wait(&p->wake, &p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return is_over ? OVER : LATER;
}

/* For a thread of Python's: what it was given is done (-1: it was given nothing); it runs calls until
   there is a task that is no call, or no more to do (OVER). */
int64_t next_of_python(Pool *p, Job *j, int64_t given) {
  int64_t found = OVER;
  pthread_mutex_lock(&p->lock);
  if (given >= 0) finish(p, j, given);
  while (found < 0 && wait_for_tasks(p, j, 0) && !has_ended(j)) {
    const int32_t task = pop(j);
    j->n_running++;
    if (j->in_python[task])
      found = task;
    else {
      pthread_mutex_unlock(&p->lock);
      run_task(j, task);
      pthread_mutex_lock(&p->lock);
      finish(p, j, task);
    }
  }
  if (found < 0 && p->n_sleeping) pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  return found;
}

/* A thread of Python's leaves what it was given: it failed. */
void leave(Pool *p, Job *j) {
  pthread_mutex_lock(&p->lock);
  j->n_running--;
  j->is_stopped = 1;
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}
