/* waking.h -- for a thread that waits in an epoll set: the clock, the eventfd
 * by which other threads wake it, closing its descriptors.  Linux only. */
#ifndef ASERVE_WAKING_H
#define ASERVE_WAKING_H

#include <stdint.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t waking_clock_us(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000 + (uint64_t)at.tv_nsec / 1000;
}

static inline void waking_wake(int wake_fd)
{
    const uint64_t one = 1;

    if (write(wake_fd, &one, sizeof one) < 0)
        return; /* it is full of wakes already */
}

static inline void waking_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

#endif
