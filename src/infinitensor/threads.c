/* The threads of C of this process: they help whoever has work that several can do.

   Work is a function that any number of threads may run at the same time: each does what it finds left to do, and
   returns when there is no more. Who has some offers it, and does it too; threads that have nothing to do look through
   the offers. Nobody waits for a thread to begin: where all are busy, work is done by who offered it. A thread that has
   begun and then has to give its core to another process is waited for: who has parts of little work keeps them while
   that happens. Nothing here touches Python. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include "threads.h"

enum { N_OFFERS = 16, AWAKE_NS = 100000, MOST_AWAKE_NS = 1000000, TAKEN_NS = 100000, WAKES = 4, LOOKS = 128, WOKEN_EACH = 2 };
#define CLOSED ((int64_t)1 << 32)
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define ADD(x, n) __atomic_add_fetch(&(x), n, __ATOMIC_SEQ_CST)
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define SET(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)

typedef struct {
    int64_t gate; /* threads inside; less by CLOSED while nothing is offered */
    int64_t is_used, n_wanted, is_job;
    void (*work)(void *);
    void *given;
} __attribute__((aligned(64))) Offer;

static Offer offers[N_OFFERS];
static int64_t n_made; /* offers, ever */
static int64_t n_asleep, n_waiting, n_to_wake;
static int64_t n_open, idle_since; /* offers that are made and not withdrawn; when the last was */
static int64_t wake_ns, called_at; /* from a call until who slept has begun, of late; the last call */
static int64_t awake_ns = AWAKE_NS; /* how long who has nothing to do looks for more */
static __thread int64_t own_number; /* of a thread of ours, from 1; others have 0 */
static int64_t n_threads, n_kept; /* with the lock; so many may stay */
static pthread_mutex_t lock;
static pthread_cond_t wake, out;
static void forget_places(void);

/* At the beginning, and in the child of a fork, which has no threads. */
static void forget(void) {
    forget_places();
    for (int k = 0; k < N_OFFERS; k++) offers[k].gate = -CLOSED, offers[k].is_used = 0;
    n_asleep = n_waiting = n_threads = n_kept = n_to_wake = n_open = own_number = 0;
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&wake, 0);
    pthread_cond_init(&out, 0);
}

static __attribute__((constructor)) void begin(void) {
    forget();
    pthread_atfork(0, 0, forget);
}

/* --- cores ------------------------------------------------------------------------------------ */

#ifdef __linux__
/* A thread that is woken may be put on the core of who wakes it, where it waits until that has done all of the work: some
   schedulers fill a core before they use another. So threads may run on every core but that of the last who had work. */
enum { MOST_PLACED = 256, PLACED_NS = 1000000 };
static pid_t placed[MOST_PLACED]; /* threads, with the lock; 0: none */
static cpu_set_t allowed, given;  /* cores of who started the first of them; those that they were given last */
static int64_t avoided = -1, placed_at;

static void enter_places(void) {
    if (own_number <= MOST_PLACED) placed[own_number - 1] = (pid_t)syscall(SYS_gettid);
    STORE(avoided, -1);
}

static void leave_places(void) {
    if (own_number <= MOST_PLACED) placed[own_number - 1] = 0;
}

static void forget_places(void) {
    for (int k = 0; k < MOST_PLACED; k++) placed[k] = 0;
}

static void look_at_cores(void) {
    if (sched_getaffinity(0, sizeof allowed, &allowed)) CPU_ZERO(&allowed);
}

/* Whether nobody else has said where a thread may run. */
static int is_ours_to_place(pid_t thread) {
    cpu_set_t now;
    return thread && !sched_getaffinity(thread, sizeof now, &now) && (CPU_EQUAL(&now, &allowed) || CPU_EQUAL(&now, &given));
}

/* The caller has work; it is none of these threads. */
static void leave_core_alone(void) {
    const int core = sched_getcpu();
    if (core < 0 || core == LOAD(avoided) || now_ns() < LOAD(placed_at) + PLACED_NS || pthread_mutex_trylock(&lock)) return;
    cpu_set_t others = allowed;
    CPU_CLR(core, &others);
    for (int k = 0; CPU_COUNT(&others) && k < MOST_PLACED; k++)
        if (is_ours_to_place(placed[k])) sched_setaffinity(placed[k], sizeof others, &others);
    given = others;
    STORE(avoided, core);
    STORE(placed_at, now_ns());
    pthread_mutex_unlock(&lock);
}
#else
static void enter_places(void) {}
static void leave_places(void) {}
static void forget_places(void) {}
static void look_at_cores(void) {}
static void leave_core_alone(void) {}
#endif

/* --- threads ---------------------------------------------------------------------------------- */

/* Each who is woken wakes others: where waking takes as long as the work itself, nobody does it for all. */
static void wake_some(void) {
    if (LOAD(n_to_wake) < 1) return;
    pthread_mutex_lock(&lock); /* who was about to sleep does */
    pthread_mutex_unlock(&lock);
    for (int k = 0; k < WOKEN_EACH && ADD(n_to_wake, -1) >= 0; k++) pthread_cond_signal(&wake);
}

/* Do what is offered, if there is room for one more and it is no job, or these are done here too; whether it was done.
   Only who is inside knows what is offered: the place may have been given to another before. */
static int take(Offer *offer, int does_jobs) {
    if (LOAD(offer->gate) < 0 || LOAD(offer->n_wanted) < 1) return 0;
    int is_in = 0;
    if (ADD(offer->gate, 1) > 0 && (does_jobs || !offer->is_job) && ADD(offer->n_wanted, -1) >= 0) {
        is_in = 1;
        wake_some(); /* who offers it may have counted on that */
        offer->work(offer->given);
    }
    if (ADD(offer->gate, -1) == -CLOSED && LOAD(n_waiting)) {
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&out);
        pthread_mutex_unlock(&lock);
    }
    return is_in;
}

/* Until there is another offer than those seen; whether this thread may stay. */
static int sleep_until_offered(int64_t seen) {
    pthread_mutex_lock(&lock);
    ADD(n_asleep, 1);
    while (LOAD(n_made) == seen && LOAD(n_threads) <= LOAD(n_kept)) pthread_cond_wait(&wake, &lock);
    ADD(n_asleep, -1);
    const int may_stay = LOAD(n_threads) <= LOAD(n_kept);
    if (!may_stay) ADD(n_threads, -1), leave_places();
    pthread_mutex_unlock(&lock);
    wake_some();
    if (LOAD(n_made) != seen) STORE(wake_ns, LOAD(wake_ns) + (now_ns() - LOAD(called_at) - LOAD(wake_ns)) / 8);
    return may_stay;
}

static void *serve(void *given) {
    own_number = (intptr_t)given;
    pthread_mutex_lock(&lock);
    enter_places();
    pthread_mutex_unlock(&lock);
    int64_t seen, busy_until;
    do {
        busy_until = now_ns();
        for (;;) {
            int n_taken = 0;
            seen = LOAD(n_made);
            wake_some();
            for (int k = 0; k < N_OFFERS; k++) n_taken += take(offers + k, 1);
            if (n_taken) {
                busy_until = now_ns();
                continue;
            }
            /* more often follows soon: to wake takes several times as long as what a thread is woken for */
            for (int64_t now = 0; LOAD(n_made) == seen && now < busy_until + LOAD(awake_ns); now = now_ns()) {
                for (int k = 0; k < LOOKS && LOAD(n_made) == seen; k++) pause_briefly();
                now = now_ns();
                sched_yield(); /* others go first */
                if (now_ns() - now > TAKEN_NS) break; /* and there are some */
            }
            if (LOAD(n_made) == seen) break;
        }
    } while (sleep_until_offered(seen));
    return 0;
}

/* 0 in a thread that is not one of these, else its number: who has done a part finds it in its caches again. */
int64_t thread_number(void) { return own_number; }

/* So many threads at least; they take no signals. */
static void start(int64_t n) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_lock(&lock);
    if (n_kept < n) STORE(n_kept, n);
    if (!n_threads) look_at_cores();
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; n_threads < n; ADD(n_threads, 1)) {
        if (pthread_create(&thread, 0, serve, (void *)(intptr_t)(n_threads + 1))) break;
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_mutex_unlock(&lock);
}

/* Threads end: those that have nothing to do now, the others after what they do. The next offer starts new ones. */
void end_threads(void) {
    pthread_mutex_lock(&lock);
    STORE(n_kept, 0);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
}

int64_t count_threads(void) { return LOAD(n_threads); }

/* --- offers ----------------------------------------------------------------------------------- */

/* Threads look for more for some times as long as it takes to wake one, or as it took of late until there was more, but
   not where that is long. */
static void note_gap(void) {
    const int64_t gap = now_ns() - LOAD(idle_since), before = LOAD(awake_ns), wakes = WAKES * LOAD(wake_ns);
    const int64_t least = wakes < AWAKE_NS ? AWAKE_NS : wakes < MOST_AWAKE_NS ? wakes : MOST_AWAKE_NS;
    const int64_t wanted = 2 * gap < MOST_AWAKE_NS ? 2 * gap : gap < MOST_AWAKE_NS ? MOST_AWAKE_NS : least;
    const int64_t next = wanted > before ? wanted : before - (before - wanted) / 8;
    if (next != before) STORE(awake_ns, next < least ? least : next);
}

static void *make_offer(void (*work)(void *), void *given, int64_t n, int64_t is_job) {
    Offer *made = offers, *end = n < 1 ? offers : offers + N_OFFERS;
    for (; made < end; made++)
        if (!LOAD(made->is_used) && !__atomic_exchange_n(&made->is_used, 1, __ATOMIC_SEQ_CST)) break;
    if (made == end) return 0;
    if (!own_number) leave_core_alone();
    if (ADD(n_open, 1) == 1) note_gap();
    made->work = work;
    made->given = given;
    made->is_job = is_job;
    STORE(made->n_wanted, n);
    ADD(made->gate, CLOSED);
    ADD(n_made, 1);
    if (LOAD(n_threads) < n || LOAD(n_kept) < n) start(n);
    const int64_t asleep = LOAD(n_asleep), missing = n - (LOAD(n_threads) - asleep);
    if (asleep && missing > 0) {
        STORE(called_at, now_ns());
        STORE(n_to_wake, missing < asleep ? missing : asleep);
        /* else one of those who come does, but who came before this was counted */
        if (2 * missing > n || LOAD(made->n_wanted) < n) wake_some();
    }
    return made;
}

/* Let up to n threads do some work; 0, and nobody will, if there are too many offers. To be withdrawn. */
void *offer(void (*work)(void *), void *given, int64_t n) { return make_offer(work, given, n, 0); }

/* The same of a job: who takes part stays until it is over, and may wait there. */
void *offer_job(void (*work)(void *), void *given, int64_t n) { return make_offer(work, given, n, 1); }

/* For who waits within a job: do what is offered, but no other job; whether there was something. */
int64_t help_others(void) {
    int64_t n_taken = 0;
    for (int k = 0; k < N_OFFERS; k++) n_taken += take(offers + k, 0);
    return n_taken;
}

/* Nobody begins any more; wait for those who have. */
void withdraw(void *offered) {
    Offer *made = offered;
    if (!LOAD(made->is_used)) return; /* another process's: a fork came between */
    ADD(made->gate, -CLOSED);
    const int64_t until = now_ns() + AWAKE_NS;
    while (LOAD(made->gate) != -CLOSED && now_ns() < until) {
        for (int k = 0; k < LOOKS && LOAD(made->gate) != -CLOSED; k++) pause_briefly();
        sched_yield();
    }
    if (LOAD(made->gate) != -CLOSED) {
        pthread_mutex_lock(&lock);
        ADD(n_waiting, 1);
        while (LOAD(made->gate) != -CLOSED) pthread_cond_wait(&out, &lock);
        ADD(n_waiting, -1);
        pthread_mutex_unlock(&lock);
    }
    STORE(made->is_used, 0);
    if (!ADD(n_open, -1)) STORE(idle_since, now_ns());
}

/* Do some work here and with n - 1 threads, or as many as have nothing to do. */
void share(void (*work)(void *), void *given, int64_t n) {
    void *made = offer(work, given, n - 1);
    work(given);
    if (made) withdraw(made);
}

/* --- parts ------------------------------------------------------------------------------------ */

enum { WORTH_NS = 6000, TRIES = 3, LARGE = 1 << 17, TRIAL = 32, COLD = 8, MUCH = 4 };
enum { ALONE_AGAIN = 256, SHARED_AGAIN = 1024 };
static int64_t n_called;    /* calls with parts, ever */
int64_t trial_end;          /* the last of those in which a way is tried */
static int64_t is_trial_of; /* that way: 1: shared */

typedef struct {
    void (*run)(void *, int64_t);
    void *given;
    int64_t n_parts, next;
} Parts;

static void run_parts(void *given) {
    Parts *parts = given;
    for (int64_t part; (part = ADD(parts->next, 1) - 1) < parts->n_parts;) parts->run(parts->given, part);
}

/* Whether to share a call of so many elements: as it took much less time of late, for threads slow down what is beside
   them. They may find their cores busy, or the data in another's cache, or they sleep. So the other way is tried now and
   then, more seldom where it took much longer, and in a row of calls of all kinds, since what one gains depends on where
   the others are done; the first of these, for which threads are woken and data moves, do not count. */
static int is_to_share(Times *times, int64_t size, int *counts) {
    const int64_t alone = GET(times->alone_ps), shared = GET(times->shared_ps), own = GET(times->n_calls);
    const int64_t call = ADD(n_called, 1), left = GET(trial_end) - call;
    SET(times->n_calls, own + 1);
    *counts = 1;
    if (GET(times->n_alone) < TRIES) return size >= LARGE && GET(times->n_shared) < TRIES;
    if (alone * size / 1000 < WORTH_NS) return 0;
    const int is_known = GET(times->n_shared) >= TRIES, is_better = is_known && 4 * shared < 3 * alone;
    const int64_t loss = is_better ? alone / (shared + 1) : shared / (alone + 1);
    if (left > 0) {
        if (is_known && loss >= MUCH) return is_better;
        *counts = left < TRIAL - COLD;
        return GET(is_trial_of);
    }
    if (is_known && own % ((is_better ? ALONE_AGAIN : SHARED_AGAIN) * (loss + 1))) return is_better;
    SET(is_trial_of, !is_better);
    SET(trial_end, call + TRIAL);
    *counts = 0;
    return !is_better;
}

/* One call that lost its core meanwhile says little; of the first ones the least counts. */
static void note_time(int64_t *own, int64_t *n, int64_t ps) {
    const int64_t before = GET(*own);
    int64_t next = before + ((ps > 2 * before ? 2 * before : ps) - before) / 4;
    if (GET(*n) < TRIES) {
        next = before && before < ps ? before : ps;
        SET(*n, GET(*n) + 1);
    }
    SET(*own, next + !next);
}

enum { ALL = -1 };

/* Run numbered parts of a call of so many elements here and in n - 1 other threads, or ALL at once here, as is quicker. */
void share_parts(void (*run)(void *, int64_t), void *given, int64_t n_parts, int64_t n, int64_t size, Times *times) {
    Parts parts = {run, given, n_parts, 0};
    if (n > n_parts) n = n_parts;
    if (n < 2) {
        run(given, ALL);
        return;
    }
    int counts;
    const int is_shared = is_to_share(times, size, &counts);
    const int64_t begun = now_ns();
    if (is_shared) share(run_parts, &parts, n);
    else run(given, ALL);
    if (!counts) return;
    const int64_t ps = (now_ns() - begun) * 1000 / (size + !size);
    if (is_shared) note_time(&times->shared_ps, &times->n_shared, ps);
    else note_time(&times->alone_ps, &times->n_alone, ps);
}
