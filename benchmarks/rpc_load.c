/* rpc_load.c -- calls over the uwsgi protocol, one connection each, as fast as they are answered.
 * Usage: rpc_load PORT CONNECTIONS SECONDS PACKET REPLY
 *
 * PACKET and REPLY are in hexadecimal.  CONNECTIONS calls are under way at
 * any time; each connects, sends the packet, reads to the end, and compares.
 * Prints one line: good calls, bad calls, seconds, median and 99th
 * percentile of a call's duration in microseconds. */
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

enum { MAX_CONNECTIONS = 4096, MAX_LEN = 65536, SLOT_US = 10, SLOTS = 100000 };

struct call {
    int fd;
    int is_sent;
    size_t received;
    int is_wrong;
    int64_t began_us;
};

static struct sockaddr_in address;
static struct call calls[MAX_CONNECTIONS];
static unsigned char packet[MAX_LEN], reply[MAX_LEN];
static size_t packet_len, reply_len;
static uint32_t
    durations[SLOTS]; /* of SLOT_US each; the last takes the rest */
static uint64_t good, bad;

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

static size_t decode(const char *text, unsigned char *octets)
{
    size_t n = strlen(text) / 2;
    unsigned int value;

    for (size_t i = 0; i < n && i < MAX_LEN; i++) {
        if (sscanf(text + 2 * i, "%2x", &value) != 1) {
            fprintf(stderr, "rpc_load: %s is not hexadecimal\n", text);
            exit(2);
        }
        octets[i] = (unsigned char)value;
    }
    return n;
}

static void begin(int poll_fd, struct call *call)
{
    struct epoll_event event;

    call->began_us = now_us();
    call->is_sent = call->is_wrong = 0;
    call->received = 0;
    call->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (call->fd < 0)
        die("socket");
    if (connect(call->fd, (struct sockaddr *)&address, sizeof address) &&
        errno != EINPROGRESS)
        die("connect");
    event.events = EPOLLOUT;
    event.data.ptr = call;
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, call->fd, &event))
        die("epoll_ctl");
}

static void end(int poll_fd, struct call *call, int is_good)
{
    int64_t slot = (now_us() - call->began_us) / SLOT_US;

    close(call->fd);
    if (is_good) {
        good++;
        durations[slot < SLOTS ? slot : SLOTS - 1]++;
    } else {
        bad++;
    }
    begin(poll_fd, call);
}

static void go_on(int poll_fd, struct call *call)
{
    struct epoll_event event;
    unsigned char data[MAX_LEN];
    ssize_t n;

    if (!call->is_sent) {
        if (send(call->fd, packet, packet_len, MSG_NOSIGNAL) !=
            (ssize_t)packet_len) {
            end(poll_fd, call, 0);
            return;
        }
        call->is_sent = 1;
        event.events = EPOLLIN;
        event.data.ptr = call;
        if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, call->fd, &event))
            die("epoll_ctl");
        return;
    }
    n = recv(call->fd, data, sizeof data, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        end(poll_fd, call,
            n == 0 && !call->is_wrong && call->received == reply_len);
        return;
    }
    if (call->received + (size_t)n > reply_len ||
        memcmp(data, reply + call->received, (size_t)n))
        call->is_wrong = 1;
    call->received += (size_t)n;
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
    struct epoll_event events[256];
    int64_t began_us, end_us;
    int connections, poll_fd;

    if (argc != 6) {
        fprintf(stderr,
                "usage: rpc_load PORT CONNECTIONS SECONDS PACKET REPLY\n");
        return 2;
    }
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connections = atoi(argv[2]);
    if (connections < 1 || connections > MAX_CONNECTIONS)
        return 2;
    packet_len = decode(argv[4], packet);
    reply_len = decode(argv[5], reply);
    poll_fd = epoll_create1(0);
    began_us = now_us();
    end_us = began_us + (int64_t)(atof(argv[3]) * 1e6);
    for (int i = 0; i < connections; i++)
        begin(poll_fd, &calls[i]);
    while (now_us() < end_us) {
        int n = epoll_wait(poll_fd, events, 256, 100);

        for (int i = 0; i < n; i++)
            go_on(poll_fd, events[i].data.ptr);
    }
    printf("%llu %llu %.3f %lld %lld\n", (unsigned long long)good,
           (unsigned long long)bad, (double)(now_us() - began_us) / 1e6,
           (long long)percentile_us(0.50), (long long)percentile_us(0.99));
    return 0;
}
