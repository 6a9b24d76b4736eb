/* Adds FLUSH_DELAY_MICROS to every flush of a file: a slower disk, for measurements (docs/performance.md). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

static void delay(void) {
    const char *text = getenv("FLUSH_DELAY_MICROS");
    long micros = text == NULL ? 0 : strtol(text, NULL, 10);
    struct timespec left = {micros / 1000000, (micros % 1000000) * 1000};
    while (micros > 0 && nanosleep(&left, &left) != 0) {
    }
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    delay();
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    delay();
    return real(fd);
}

int sync_file_range(int fd, off64_t offset, off64_t count, unsigned int flags) {
    int (*real)(int, off64_t, off64_t, unsigned int) =
        (int (*)(int, off64_t, off64_t, unsigned int))dlsym(RTLD_NEXT, "sync_file_range");
    delay();
    return real(fd, offset, count, flags);
}
