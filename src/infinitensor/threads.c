/* The threads of C of this process: they help whoever has work that several can do.

   Work is a function that any number of threads may run at the same time: each does what it finds left to do, and
   returns when there is no more. Who has some offers it, and does it too; threads that have nothing to do look through
   the offers. Nobody waits for a thread to begin: where all are busy, work is done by who offered it. A thread that has
   begun and then has to give its core to another process is waited for: who has parts of little work keeps them while
   that happens. Nothing here touches Python. */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

enum { N_OFFERS = 16, AWAKE_NS = 100000, LOOKS = 64 };
#define CLOSED ((int64_t)1 << 32)
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define ADD(x, n) __atomic_add_fetch(&(x), n, __ATOMIC_SEQ_CST)

typedef struct {
    int64_t gate; /* threads inside; less by CLOSED while nothing is offered */
    int64_t is_used, n_wanted, is_job;
    void (*work)(void *);
    void *given;
} __attribute__((aligned(64))) Offer;

static Offer offers[N_OFFERS];
static int64_t n_made; /* offers, ever */
static int64_t n_asleep, n_waiting;
static int64_t n_threads, n_kept; /* with the lock; so many may stay */
static pthread_mutex_t lock;
static pthread_cond_t wake, out;

/* At the beginning, and in the child of a fork, which has no threads. */
static void forget(void) {
    for (int k = 0; k < N_OFFERS; k++) offers[k].gate = -CLOSED, offers[k].is_used = 0;
    n_asleep = n_waiting = n_threads = n_kept = 0;
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&wake, 0);
    pthread_cond_init(&out, 0);
}

static __attribute__((constructor)) void begin(void) {
    forget();
    pthread_atfork(0, 0, forget);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Let the other thread of a core go first. */
static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* --- threads ---------------------------------------------------------------------------------- */

/* Do what is offered, if there is room for one more and it is no job, or these are done here too; whether it was done.
   Only who is inside knows what is offered: the place may have been given to another before. */
static int take(Offer *offer, int does_jobs) {
    if (LOAD(offer->gate) < 0 || LOAD(offer->n_wanted) < 1) return 0;
    int is_in = 0;
    if (ADD(offer->gate, 1) > 0 && (does_jobs || !offer->is_job) && ADD(offer->n_wanted, -1) >= 0) {
        is_in = 1;
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
    if (!may_stay) ADD(n_threads, -1);
    pthread_mutex_unlock(&lock);
    return may_stay;
}

static void *serve(void *given) {
    (void)given;
    int64_t seen;
    do {
        int n_taken;
        do {
            seen = LOAD(n_made);
            n_taken = 0;
            for (int k = 0; k < N_OFFERS; k++) n_taken += take(offers + k, 1);
        } while (n_taken);
        /* more often follows soon: to wake takes several times as long as what a thread is woken for */
        const int64_t until = now_ns() + AWAKE_NS;
        while (LOAD(n_made) == seen && now_ns() < until) {
            for (int k = 0; k < LOOKS && LOAD(n_made) == seen; k++) pause_briefly();
            sched_yield(); /* others go first */
        }
    } while (LOAD(n_made) != seen || sleep_until_offered(seen));
    return 0;
}

/* So many threads at least; they take no signals. */
static void start(int64_t n) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_lock(&lock);
    if (n_kept < n) STORE(n_kept, n);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; n_threads < n && !pthread_create(&thread, 0, serve, 0); ADD(n_threads, 1))
        pthread_detach(thread);
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

static void *make_offer(void (*work)(void *), void *given, int64_t n, int64_t is_job) {
    Offer *made = offers, *end = n < 1 ? offers : offers + N_OFFERS;
    for (; made < end; made++)
        if (!LOAD(made->is_used) && !__atomic_exchange_n(&made->is_used, 1, __ATOMIC_SEQ_CST)) break;
    if (made == end) return 0;
    made->work = work;
    made->given = given;
    made->is_job = is_job;
    STORE(made->n_wanted, n);
    ADD(made->gate, CLOSED);
    ADD(n_made, 1);
    if (LOAD(n_threads) < n || LOAD(n_kept) < n) start(n);
    if (LOAD(n_asleep)) {
        pthread_mutex_lock(&lock);
        if (n >= LOAD(n_asleep)) pthread_cond_broadcast(&wake);
        else for (int64_t k = 0; k < n; k++) pthread_cond_signal(&wake);
        pthread_mutex_unlock(&lock);
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
}

/* Do some work here and with n - 1 threads, or as many as have nothing to do. */
void share(void (*work)(void *), void *given, int64_t n) {
    void *made = offer(work, given, n - 1);
    work(given);
    if (made) withdraw(made);
}

/* --- parts ------------------------------------------------------------------------------------ */

enum { WAKE_NS = 5000, SLOWNESS = 2, MEMORY = 1024 };
int64_t late_ns; /* that others were later with their parts than who offered them, as it was of late */

typedef struct {
    void (*run)(void *, int64_t);
    void *given;
    int64_t n_parts, next;
} Parts;

static int64_t run_parts(Parts *parts) {
    int64_t n = 0;
    for (int64_t part; (part = ADD(parts->next, 1) - 1) < parts->n_parts; n++) parts->run(parts->given, part);
    return n;
}

static void help_with_parts(void *given) { run_parts(given); }

/* Run numbered parts here and in n - 1 other threads; how long one took here. All are done here where that is expected
   to take so little time (0: nobody knows) that others would come, or end, too late for it. */
int64_t share_parts(void (*run)(void *, int64_t), void *given, int64_t n_parts, int64_t n, int64_t expected_ns) {
    Parts parts = {run, given, n_parts, 0};
    const int64_t late = LOAD(late_ns), begun = now_ns();
    void *made = 0;
    if (n > n_parts) n = n_parts;
    if (n > 1) {
        if (!expected_ns || expected_ns - expected_ns / n > WAKE_NS + late) made = offer(help_with_parts, &parts, n - 1);
        else STORE(late_ns, late - late / MEMORY);
    }
    const int64_t n_own = run_parts(&parts), ended = now_ns(), each = n_own ? (ended - begun) / n_own : 0;
    if (!made) return each;
    withdraw(made);
    const int64_t waited = now_ns() - ended - each;
    STORE(late_ns, late + ((waited > 0 ? waited : 0) - late) / SLOWNESS);
    return each;
}
