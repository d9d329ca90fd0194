/* racing.h -- what programs with racing threads share: chance, time, flags,
 * threads. */
#ifndef RACING_H
#define RACING_H
#include <dirent.h>
#include <pthread.h>
#include <time.h>
#include "invariants.h"

static inline unsigned roll(unsigned *seed, unsigned sides)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % sides;
}

static inline void nap(unsigned microseconds)
{
    struct timespec time = {0, (long)microseconds * 1000};

    nanosleep(&time, NULL);
}

static inline int is_set(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void set_flag(int *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static inline long now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static inline int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    require(folder != NULL, "there is /proc");
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Start threads that get their numbers, from 1 on. */
static inline void start(pthread_t *threads, unsigned *numbers, unsigned count,
                         void *(*run)(void *))
{
    for (unsigned i = 0; i < count; i++) {
        numbers[i] = i + 1;
        require(pthread_create(&threads[i], NULL, run, &numbers[i]) == 0,
                "there are threads");
    }
}

static inline void join(pthread_t *threads, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

#endif
