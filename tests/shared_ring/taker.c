/* A taker of a shared ring, written from docs/host-rings.md alone: its names and operations are those of the page.
 *
 * taker MEMORY OWNER COUNT WANTED: takes COUNT uids by these descriptors, WANTED at a time, and writes them to stdout. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef _Atomic uint64_t word;
enum error { OK, CLOSED, TIME_EXHAUSTED, LEASE_LOST, OWNER_ENDED, EMPTY, LOST_RACES };
struct futex { word sequence, waiting; };
struct slot { word flag, first, end, before, unused[4]; };
struct run { bool is_there; uint64_t index, first, end; };
struct range { uint64_t first, end; };

static char *memory;
static int owner;
/* The taker's copies of the header. */
static uint64_t SLOTS, RUN_BITS, SPACED, THRESHOLD, MARK;

#define WORD(at) ((word *)(memory + (at)))
#define NEXT WORD(256)
#define LIMIT WORD(384)
#define CURSOR WORD(392)
#define FRESHNESS WORD(512)
#define LIFE WORD(520)
#define TAIL WORD(640)
#define CLOSED_WORD WORD(648)
#define PAUSED WORD(656)
#define FORECAST WORD(664)
#define SKIPPED WORD(768)
#define DROPPED WORD(776)
#define DRIED WORD(792)
#define LAST_DRY WORD(800)
#define PUBLISHED ((struct futex *)(memory + 896))
#define DEMAND ((struct futex *)(memory + 912))

#define load(at, order) atomic_load_explicit(at, memory_order_##order)
#define add(at, value, order) atomic_fetch_add_explicit(at, value, memory_order_##order)
#define fence(order) atomic_thread_fence(memory_order_##order)

static uint64_t mark(void)
{
    return atomic_load_explicit((_Atomic uint32_t *)(memory + 400), memory_order_relaxed);
}

static bool replace(word *at, uint64_t old, uint64_t new)
{
    return atomic_compare_exchange_strong_explicit(at, &old, new, memory_order_relaxed, memory_order_relaxed);
}

/* fetch_min and fetch_max, sequentially consistent. They write even if the value stays the same. */
static uint64_t fetch_min(word *at, uint64_t value)
{
    uint64_t old = load(at, relaxed);
    while (!atomic_compare_exchange_weak(at, &old, old < value ? old : value)) {}
    return old;
}

static uint64_t fetch_max(word *at, uint64_t value)
{
    uint64_t old = load(at, relaxed);
    while (!atomic_compare_exchange_weak(at, &old, old > value ? old : value)) {}
    return old;
}

static uint64_t lim(uint64_t end)
{
    return end < INT64_MAX ? end : INT64_MAX;
}

static enum error check_owner(void)
{
    struct pollfd process = { .fd = owner, .events = POLLIN };
    if (mark() & 0x40000000)
        return OWNER_ENDED;
    return poll(&process, 1, 0) == 1 && process.revents & POLLIN ? OWNER_ENDED : OK;
}

static enum error why_closed(void)
{
    uint64_t closed = load(CLOSED_WORD, acquire);
    if (load(LIFE, relaxed) == 0)
        return CLOSED;
    return closed == 0 ? OK : closed == 2 ? TIME_EXHAUSTED : closed == 3 ? LEASE_LOST : CLOSED;
}

static struct run read_run(uint64_t index)
{
    struct slot *slot = (struct slot *)(memory + 1024) + index % SLOTS;
    struct run run = { .index = index };
    if (index == 0 || load(&slot->flag, acquire) != index)
        return run;
    run.first = load(&slot->first, acquire);
    run.end = load(&slot->end, acquire);
    run.is_there = load(&slot->flag, acquire) == index && run.first <= run.end && run.end <= 1ull << 63;
    return run;
}

static enum error open_run(uint64_t passed, struct run *open)
{
    for (;;) {
        if (load(LIFE, relaxed) == 0)
            return CLOSED;
        uint64_t index = load(CURSOR, acquire);
        if (index <= passed)
            return CLOSED;
        *open = read_run(index);
        if (open->is_there)
            return OK;
        passed = index;
    }
}

static bool is_stale(uint64_t number)
{
    return number + load(FRESHNESS, relaxed) < 1ull << 63;
}

static void notify(struct futex *futex, int count)
{
    fence(seq_cst);
    uint64_t waiting = load(&futex->waiting, relaxed);
    if (waiting == 0)
        return;
    add(&futex->sequence, 1, release);
    if (syscall(SYS_futex, &futex->sequence, FUTEX_WAKE, count, NULL, NULL, 0) == 0)
        replace(&futex->waiting, waiting, 0);
}

static void wake_owner(void)
{
    fence(seq_cst);
    uint64_t cursor = load(CURSOR, acquire), tail = load(TAIL, relaxed);
    uint64_t threshold = load(FORECAST, relaxed) ? THRESHOLD >> 1 : THRESHOLD;
    if ((tail > cursor ? tail - cursor : 0) <= threshold && load(PAUSED, relaxed) == 0)
        notify(DEMAND, INT32_MAX);
}

static bool open_after(struct run run)
{
    if (load(TAIL, acquire) <= run.index + 1)
        return false;
    struct run next = read_run(run.index + 1);
    if (next.is_there) {
        uint64_t old = ~fetch_min(NEXT, ~next.first);
        if (old < next.first)
            add(SKIPPED, next.first - old, release);
        fetch_max(CURSOR, next.index);
        if (SPACED)
            fetch_max(LIMIT, 2 * lim(next.end) - 1);
    }
    return true;
}

static enum error open_next(struct run open)
{
    enum error why = why_closed();
    if (open_after(open)) {
        wake_owner();
        return OK;
    }
    fetch_max(LIMIT, 2 * lim(open.end));
    if (fetch_max(LAST_DRY, open.index) < open.index)
        add(DRIED, 1, relaxed);
    wake_owner();
    return why ? why : EMPTY;
}

static void drawn_to(struct run run, uint64_t number)
{
    if (number < run.end) {
        if (SPACED && load(LIMIT, relaxed) < 2 * lim(run.end) - 1)
            fetch_max(LIMIT, 2 * lim(run.end) - 1);
        return;
    }
    if (!open_after(run))
        fetch_max(LIMIT, 2 * lim(run.end));
    wake_owner();
}

static enum error claim(uint64_t wanted, struct range *claimed)
{
    struct run open;
    enum error error;
    for (uint64_t passed = 0, attempts = 0; attempts < 4;) {
        if ((error = open_run(passed, &open)))
            return error;
        uint64_t next = ~load(NEXT, relaxed);
        if (next >= open.end) {
            if ((error = open_next(open)))
                return error;
            passed = open.index;
            continue;
        }
        uint64_t end = next + (wanted < open.end - next ? wanted : open.end - next);
        if (replace(NEXT, ~next, ~end)) {
            drawn_to(open, end);
            *claimed = (struct range){ next, end };
            return OK;
        }
        attempts++;
    }
    return LOST_RACES;
}

/* Whether a number that was drawn may be issued. */
static enum error resolve(uint64_t number, uint64_t last, bool *may_be)
{
    struct run open, run;
    enum error error;
    for (uint64_t passed = 0;; passed = open.index) {
        if ((error = open_run(passed, &open)))
            break;
        if (number < open.end || number == last) {
            for (run = open; run.is_there && number < run.first;)
                run = read_run(run.index - 1);
            run.is_there = run.is_there && number < run.end;
            *may_be = !is_stale(number) && (run.is_there || number == last);
            if (!*may_be)
                break;
            if (run.is_there)
                drawn_to(run, number + 1);
            return OK;
        }
        if ((error = open_next(open)))
            break;
    }
    add(DROPPED, 1, relaxed);
    return error;
}

static enum error take_slowly(bool was_drawn, uint64_t number, uint64_t last, struct range *taken)
{
    bool may_be = false;
    enum error error = check_owner();
    if (!error && was_drawn) {
        fence(acquire);
        error = resolve(number, last, &may_be);
        if (may_be)
            *taken = (struct range){ number, number + 1 };
    }
    while (!error && !may_be) {
        error = claim(1, taken);
        if (error != LOST_RACES)
            return error;
        error = OK;
    }
    return error;
}

static enum error take(struct range *taken)
{
    enum error error = mark() == MARK ? OK : check_owner();
    if (error)
        return error;
    uint64_t limit = load(LIMIT, acquire);
    if (limit % 2 == 0)
        return take_slowly(false, 0, 0, taken);
    uint64_t number = ~atomic_fetch_sub_explicit(NEXT, 1, memory_order_relaxed);
    if (number >= limit >> 1)
        return take_slowly(true, number, limit >> 1, taken);
    *taken = (struct range){ number, number + 1 };
    return OK;
}

static enum error take_many(uint64_t wanted, struct range *taken)
{
    enum error error = mark() == MARK ? OK : check_owner();
    if (wanted == 1 || error)
        return error ? error : take(taken);
    error = claim(wanted, taken);
    if (error == LOST_RACES)
        return take(taken);
    return error == EMPTY && check_owner() ? OWNER_ENDED : error;
}

static bool has_next(void)
{
    struct run run = read_run(load(TAIL, acquire) - 1);
    return !run.is_there || ~load(NEXT, relaxed) < run.end;
}

static void wait_for_runs(void)
{
    struct timespec limit = { .tv_nsec = 50 * 1000 * 1000 };
    uint64_t sequence = load(&PUBLISHED->sequence, acquire);
    fetch_max(&PUBLISHED->waiting, sequence + 1);
    fence(seq_cst);
    if (!why_closed() && !has_next())
        syscall(SYS_futex, &PUBLISHED->sequence, FUTEX_WAIT, (uint32_t)sequence, &limit, NULL, 0);
}

static enum error take_waiting(uint64_t wanted, struct range *taken)
{
    for (int tries = 1;; tries++) {
        enum error error = take_many(wanted, taken);
        if (error != EMPTY) {
            if (tries > 3 && has_next())
                notify(PUBLISHED, 1);
            return error;
        }
        if (tries >= 3)
            wait_for_runs();
    }
}

static bool attach(int file)
{
    int seals = fcntl(file, F_GET_SEALS), needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct stat status;
    if (seals < 0 || (seals & needed) != needed || fstat(file, &status) || status.st_size < 1024)
        return false;
    memory = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return false;
    uint64_t *header = (uint64_t *)memory;
    SLOTS = header[5], RUN_BITS = header[6], SPACED = header[7], THRESHOLD = header[8], MARK = header[15];
    return header[0] == 0x00676E6972646975 && header[1] == 1 && header[2] == 1024 + 64 * SLOTS
        && header[2] == (uint64_t)status.st_size && header[3] == 256 && header[4] == 1024 && SLOTS >= 2
        && (SLOTS & (SLOTS - 1)) == 0 && RUN_BITS + __builtin_ctzll(SLOTS) <= 29 && THRESHOLD >= 1
        && THRESHOLD < SLOTS && SPACED <= 1 && MARK <= UINT32_MAX;
}

int main(int count, char **args)
{
    if (count != 5 || !attach(atoi(args[1])))
        return 100;
    owner = atoi(args[2]);
    for (uint64_t left = strtoull(args[3], NULL, 10), wanted = strtoull(args[4], NULL, 10); left > 0;) {
        struct range taken;
        enum error error = take_waiting(wanted < left ? wanted : left, &taken);
        if (error)
            return error;
        left -= taken.end - taken.first;
        for (; taken.first < taken.end; taken.first++)
            fwrite(&taken.first, sizeof taken.first, 1, stdout);
    }
    return fflush(stdout) == 0 ? OK : 101;
}
