/* A wall clock that a test can shift while the program runs.
 *
 * Preloaded into redis-server. The file named by RATEKEEPER_SKEW_FILE holds one signed 64-bit integer in the
 * machine's byte order: the microseconds to add to every reading of the wall clock. It is mapped, so a write by
 * the test is seen by the next reading. Monotonic clocks stay as they are, as they do when an operator or NTP
 * steps the clock of a real machine.
 *
 * The readings come from the system call and not from the function below this one in the chain of libraries:
 * an allocator may ask for the time before that chain can be searched.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define US_PER_S 1000000LL

static const volatile int64_t *shift_us;

__attribute__((constructor)) static void open_shift(void) {
    const char *path = getenv("RATEKEEPER_SKEW_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) shift_us = page;
}

/* Adds the shift; the fraction stays within one second, also for a shift backwards. */
static void move(struct timespec *at) {
    int64_t shift = shift_us ? *shift_us : 0;
    int64_t us = at->tv_nsec / 1000 + shift % US_PER_S;
    int64_t s = shift / US_PER_S;
    if (us < 0) { us += US_PER_S; s -= 1; }
    if (us >= US_PER_S) { us -= US_PER_S; s += 1; }
    at->tv_sec += s;
    at->tv_nsec = us * 1000 + at->tv_nsec % 1000;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = (int)syscall(SYS_clock_gettime, clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(at);
    return result;
}

int gettimeofday(struct timeval *at, void *zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
