/* load.h -- what close_load.c and mixed_load.c have in common: where they send,
 * the end of a reply, what they count, and the line that they print.
 *
 * That line has names and numbers: good replies; errors (connect, reset, wrong,
 * timeout); seconds; median and 99th percentile of the duration of a good
 * request, in microseconds. */
#ifndef LOAD_H
#define LOAD_H
#define _GNU_SOURCE /* SOCK_NONBLOCK */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_CONNECTIONS = 4096,
    MAX_PART_LEN = 1 << 20, /* of a request; and of the end of a reply: */
    MAX_END_LEN = 1024,
    EVENTS_PER_WAIT = 256,
    SLOT_US = 10,
    SLOTS = 100000,
    DRAIN_US = 5000000
};

struct part {
    char *octets;
    size_t len;
};

/* The last octets received of a reply. */
struct tail {
    size_t len;
    char octets[MAX_END_LEN];
};

static struct sockaddr_in address;
/* Of SLOT_US each; the last takes the rest. */
static uint32_t durations[SLOTS];
static uint64_t good, connect_errors, resets, wrong;
static int poll_fd, under_way;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Send to this port of the loopback address. */
static void aim(const char *port)
{
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    poll_fd = epoll_create1(0);
    if (poll_fd < 0)
        die("epoll_create1");
}

/* Whether octets that came after `received` others are as a reply begins. */
static int begins_so(const struct part *begin, size_t received,
                     const char *data, size_t n)
{
    if (received >= begin->len)
        return 1;
    return !memcmp(begin->octets + received, data,
                   begin->len - received < n ? begin->len - received : n);
}

/* Keep the last `want` octets of all that has come. */
static void keep_tail(struct tail *tail, size_t want, const char *data,
                      size_t n)
{
    size_t keep;

    if (n >= want) {
        memcpy(tail->octets, data + n - want, want);
        tail->len = want;
        return;
    }
    keep = tail->len + n > want ? want - n : tail->len;
    memmove(tail->octets, tail->octets + tail->len - keep, keep);
    memcpy(tail->octets + keep, data, n);
    tail->len = keep + n;
}

static int ends_so(const struct part *end, const struct tail *tail)
{
    return tail->len == end->len &&
           !memcmp(tail->octets, end->octets, end->len);
}

/* Note the duration of so many requests that are over now. */
static void note(int64_t began_us, unsigned nrequests)
{
    int64_t slot = (now_us() - began_us) / SLOT_US;

    durations[slot < SLOTS ? slot : SLOTS - 1] += nrequests;
}

static int64_t percentile_us(double share)
{
    uint64_t seen = 0;

    for (int slot = 0; slot < SLOTS; slot++) {
        seen += durations[slot];
        if ((double)seen >= share * (double)good)
            return (int64_t)slot * SLOT_US;
    }
    return 0;
}

static void print_result(int64_t began_us)
{
    printf("good %llu connect %llu reset %llu wrong %llu timeout %d "
           "seconds %.6f p50_us %lld p99_us %lld\n",
           (unsigned long long)good, (unsigned long long)connect_errors,
           (unsigned long long)resets, (unsigned long long)wrong, under_way,
           (double)(now_us() - began_us) / 1e6, (long long)percentile_us(0.50),
           (long long)percentile_us(0.99));
}
#endif
