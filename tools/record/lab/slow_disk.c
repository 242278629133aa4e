/* Makes a disk slow: each write to a file whose path has a word in it waits.
 *
 * Preloaded into a broker. The file that SLOW_DISK names has the milliseconds and the word while the
 * disk is slow, and is not there otherwise. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_for_disk(int descriptor) {
    char word[128], link[64], path[4096];
    unsigned ms;
    const char *name = getenv("SLOW_DISK");
    FILE *told = name ? fopen(name, "r") : NULL;
    if (!told) return;
    int fields = fscanf(told, "%u %127s", &ms, word);
    fclose(told);
    if (fields != 2) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    if (path[0] == '/' && strstr(path, word)) usleep(ms * 1000);
}

#define SLOW(name, parameters, ...)                                        \
    ssize_t name parameters {                                              \
        static ssize_t (*own) parameters;                                  \
        if (!own) own = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);    \
        wait_for_disk(descriptor);                                         \
        return own(__VA_ARGS__);                                           \
    }

SLOW(write, (int descriptor, const void *from, size_t bytes), descriptor, from, bytes)
SLOW(pwrite64, (int descriptor, const void *from, size_t bytes, off64_t at), descriptor, from, bytes, at)
SLOW(writev, (int descriptor, const struct iovec *from, int parts), descriptor, from, parts)
