/* close_load.c -- requests with one connection each, as fast as they are
 * answered.
 * Usage: close_load PORT CONNECTIONS SECONDS FOLDER
 *
 * FOLDER holds the files `request`, `begin` and `end`.  CONNECTIONS requests
 * are under way at any time; each connects, sends `request` and reads until
 * the server closes.  A good reply begins with `begin` and ends with `end`,
 * which may be the same octets.  After SECONDS no request is begun, and those
 * under way are waited for: whoever counts the server's CPU time finds each
 * in it counted here, too.
 *
 * The server closes first, so that the ports of this side are free at once,
 * and do not run out.
 *
 * Prints one line of names and numbers: good replies; errors (connect, reset,
 * wrong, timeout); seconds; median and 99th percentile of the duration of a
 * good request, connecting included, in microseconds. */
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
    MAX_PART_LEN = 1 << 20, /* of each of the three files */
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

struct call {
    int fd; /* -1: none is under way */
    size_t sent;
    size_t received;
    int is_wrong;
    size_t tail_len;
    char tail[MAX_END_LEN]; /* the last octets received */
    int64_t began_us;
};

static struct sockaddr_in address;
static struct call calls[MAX_CONNECTIONS];
static struct part request, reply_begin, reply_end;
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

static struct part read_part(const char *folder, const char *name)
{
    struct part part = {malloc(MAX_PART_LEN), 0};
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file || !part.octets)
        die(path);
    part.len = fread(part.octets, 1, MAX_PART_LEN, file);
    fclose(file);
    return part;
}

static void watch(struct call *call, int operation, uint32_t events)
{
    struct epoll_event event;

    event.events = events;
    event.data.ptr = call;
    if (epoll_ctl(poll_fd, operation, call->fd, &event))
        die("epoll_ctl");
}

static void drop(struct call *call, uint64_t *count)
{
    close(call->fd);
    call->fd = -1;
    under_way--;
    ++*count;
}

/* Send what is left; returns whether all of it went, -1: the call failed. */
static int send_rest(struct call *call)
{
    ssize_t n = send(call->fd, request.octets + call->sent,
                     request.len - call->sent, MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN) {
        drop(call, errno == ECONNREFUSED ? &connect_errors : &resets);
        return -1;
    }
    call->sent += n > 0 ? (size_t)n : 0;
    return call->sent == request.len;
}

static void begin(struct call *call)
{
    int is_sent;

    call->began_us = now_us();
    call->sent = call->received = call->tail_len = 0;
    call->is_wrong = 0;
    call->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (call->fd < 0)
        die("socket");
    under_way++;
    if (connect(call->fd, (struct sockaddr *)&address, sizeof address) &&
        errno != EINPROGRESS) {
        drop(call, &connect_errors);
        return;
    }
    /* On loopback the connection stands by now: that saves waiting for it. */
    is_sent = send_rest(call);
    if (is_sent >= 0)
        watch(call, EPOLL_CTL_ADD, is_sent ? EPOLLIN : EPOLLOUT);
}

static void keep_tail(struct call *call, const char *data, size_t n)
{
    size_t want = reply_end.len, keep;

    if (n >= want) {
        memcpy(call->tail, data + n - want, want);
        call->tail_len = want;
        return;
    }
    keep = call->tail_len + n > want ? want - n : call->tail_len;
    memmove(call->tail, call->tail + call->tail_len - keep, keep);
    memcpy(call->tail + keep, data, n);
    call->tail_len = keep + n;
}

static void check(struct call *call, const char *data, size_t n)
{
    size_t at = call->received;

    if (at < reply_begin.len) {
        size_t len = reply_begin.len - at < n ? reply_begin.len - at : n;

        if (memcmp(reply_begin.octets + at, data, len))
            call->is_wrong = 1;
    }
    keep_tail(call, data, n);
    call->received += n;
}

static int is_good(const struct call *call)
{
    return !call->is_wrong && call->received >= reply_begin.len &&
           call->tail_len == reply_end.len &&
           !memcmp(call->tail, reply_end.octets, reply_end.len);
}

static void finish(struct call *call)
{
    int64_t slot = (now_us() - call->began_us) / SLOT_US;

    if (!is_good(call)) {
        drop(call, &wrong);
        return;
    }
    durations[slot < SLOTS ? slot : SLOTS - 1]++;
    drop(call, &good);
}

static void go_on(struct call *call)
{
    static char data[1 << 16];
    ssize_t n;

    if (call->sent < request.len) {
        if (send_rest(call) == 1)
            watch(call, EPOLL_CTL_MOD, EPOLLIN);
        return;
    }
    while ((n = recv(call->fd, data, sizeof data, 0)) > 0)
        check(call, data, (size_t)n);
    if (n == 0)
        finish(call);
    else if (errno != EAGAIN)
        drop(call, &resets);
}

static void begin_all(int connections)
{
    for (int i = 0; i < connections; i++) {
        if (calls[i].fd < 0)
            begin(&calls[i]);
    }
}

static void run(int connections, int64_t end_us)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    int64_t now;

    begin_all(connections);
    while ((now = now_us()) < end_us + DRAIN_US &&
           (under_way || now < end_us)) {
        int n = epoll_wait(poll_fd, events, EVENTS_PER_WAIT, 10);

        for (int i = 0; i < n; i++) {
            struct call *call = events[i].data.ptr;

            go_on(call);
            if (call->fd < 0 && now < end_us)
                begin(call);
        }
        if (now < end_us && under_way < connections)
            begin_all(connections); /* those that could not connect */
    }
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

int main(int argc, char **argv)
{
    int connections = argc == 5 ? atoi(argv[2]) : 0;
    int64_t began_us;

    if (connections < 1 || connections > MAX_CONNECTIONS) {
        fputs("usage: close_load PORT CONNECTIONS SECONDS FOLDER\n", stderr);
        return 2;
    }
    request = read_part(argv[4], "request");
    reply_begin = read_part(argv[4], "begin");
    reply_end = read_part(argv[4], "end");
    if (reply_end.len > MAX_END_LEN) {
        fputs("close_load: `end` is too long\n", stderr);
        return 2;
    }
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < connections; i++)
        calls[i].fd = -1;
    poll_fd = epoll_create1(0);
    if (poll_fd < 0)
        die("epoll_create1");
    began_us = now_us();
    run(connections, began_us + (int64_t)(atof(argv[3]) * 1e6));
    printf("good %llu connect %llu reset %llu wrong %llu timeout %d "
           "seconds %.6f p50_us %lld p99_us %lld\n",
           (unsigned long long)good, (unsigned long long)connect_errors,
           (unsigned long long)resets, (unsigned long long)wrong, under_way,
           (double)(now_us() - began_us) / 1e6, (long long)percentile_us(0.50),
           (long long)percentile_us(0.99));
    return 0;
}
