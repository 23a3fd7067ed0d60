/* A wall clock that can be moved while the server that looks at it runs.
 *
 * Preloaded, it stands before the functions of libc that tell the time of day, and adds what a small file says.
 * The file is mapped, so a change of it is seen by every process at once; without it, time is real. Whoever writes it
 * (infra/cluster/clock_skew.py) fills the slot that nobody reads and then turns to it by adding 1 to the first byte; in
 * place, since a mapping neither follows a rename nor survives that the file gets shorter (SIGBUS).
 *
 * Monotonic clocks stay as they are, and so do timers and absolute waits, which are the kernel's. Nothing here
 * allocates or looks up symbols: jemalloc asks for the time while it initialises itself, and libfaketime, which then
 * does both, hangs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef SETTING
#define SETTING "/var/lib/fencepost/clock"
#endif
#define SECOND INT64_C(1000000000)
#define MOST 8 /* skews at the same time */

/* One of several errors that add up; infra/cluster/clock_skew.py packs it. Times in ns. */
struct skew {
    int64_t offset;
    double gain;         /* ns more than real ones per ns, ... */
    int64_t since;       /* ... since this moment of the real wall clock */
    int64_t amplitude;   /* that much ahead and that much behind by turns, ... */
    int64_t half_period; /* ... for so long each; 0: no strobe */
};

struct setting {
    uint8_t turn; /* its last bit tells the slot that holds */
    uint8_t unused[63];
    struct {
        int64_t count;
        struct skew skews[MOST];
    } slots[2];
};

_Static_assert(sizeof(long) == 8, "the system calls' own struct timespec is ours");

static const struct setting *setting;

__attribute__((constructor)) static void map_setting(void) {
    /* For writing, although we never do: on an overlay the first write makes a copy of the image's file, and whoever
     * had only opened it for reading goes on seeing the old one. */
    int file = open(SETTING, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    if (lseek(file, 0, SEEK_END) >= (off_t)sizeof *setting) {
        void *mapped = mmap(NULL, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
        setting = mapped == MAP_FAILED ? NULL : mapped;
    }
    close(file);
}

/* How far we are ahead at a moment of the real wall clock. */
static int64_t ahead(int64_t real) {
    int64_t sum;
    uint8_t turn;
    do {
        turn = __atomic_load_n(&setting->turn, __ATOMIC_ACQUIRE);
        int64_t count = setting->slots[turn & 1].count;
        sum = 0;
        for (int64_t i = 0; i < count && i < MOST; i++) {
            struct skew skew = setting->slots[turn & 1].skews[i];
            int64_t passed = real - skew.since;
            sum += skew.offset + (int64_t)(skew.gain * (double)passed);
            if (skew.half_period > 0)
                sum += passed / skew.half_period % 2 ? -skew.amplitude : skew.amplitude;
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (turn != __atomic_load_n(&setting->turn, __ATOMIC_RELAXED)); /* set meanwhile: maybe half of each */
    return sum;
}

int clock_gettime(clockid_t clock, struct timespec *told) {
    struct timespec real;
    int failed = (int)syscall(SYS_clock_gettime, clock, told);
    if (failed || !setting || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_TAI))
        return failed;
    real = *told;
    if (clock == CLOCK_TAI) /* some 37 s ahead of the wall clock, by which drifts are reckoned */
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    int64_t shifted = told->tv_sec * SECOND + told->tv_nsec + ahead(real.tv_sec * SECOND + real.tv_nsec);
    told->tv_sec = shifted / SECOND;
    told->tv_nsec = shifted % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    told->tv_sec = now.tv_sec;
    told->tv_usec = now.tv_nsec / 1000;
    if (zone)
        *(struct timezone *)zone = (struct timezone){0};
    return 0;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (told)
        *told = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *told, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, told) == 0 ? base : 0;
}
