/* kept_load.c -- clients that keep their connections and ask again and again,
 * and others that connect anew each time, until SIGTERM: what became of each
 * request, and of each connection.
 * Usage: kept_load PORT KEPT FRESH PAUSE_MS TARGET
 *
 * KEPT clients send a request for TARGET, read the response, pause for
 * PAUSE_MS, and ask again on the same connection as long as the server lets
 * them.  FRESH clients do the same with a connection for each request.  None
 * asks again for what has failed: it pauses, and sends its next request.
 * After SIGTERM no request is begun; those under way are waited for, at most
 * TIMEOUT_US.
 *
 * Prints a line of names and numbers.  Of requests: good (status 200); 5xx,
 * other (statuses); reset and closed (before the response was whole), refused
 * (nobody listens), timeout.  worst_us, the longest that a good one took, and
 * gap_us, the longest time without a good one.  Of connections that are kept:
 * stayed, those of clients that have needed only one; idle, those that ended
 * while nothing was under way, after a response that had not said so. */
#define _GNU_SOURCE /* SOCK_NONBLOCK, memmem, strcasestr */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <arpa/inet.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_CLIENTS = 1024,
    MAX_REPLY_LEN = 1 << 16,
    MAX_REQUEST_LEN = 4096,
    TIMEOUT_US = 20000000,
    EVENTS_PER_WAIT = 256
};

struct client {
    int is_kept;
    int fd; /* -1: none */
    int is_under_way;
    unsigned connections;
    int64_t due_us; /* when the next request is to be sent */
    int64_t began_us;
    size_t sent, received;
    char reply[MAX_REPLY_LEN + 1];
};

static struct {
    unsigned long long good, status_5xx, other, reset, closed, refused,
        timeout, idle;
    int64_t worst_us, gap_us, good_at_us;
} counts;

static struct client clients[MAX_CLIENTS];
static struct sockaddr_in address;
static char requests[2][MAX_REQUEST_LEN]; /* fresh, kept */
static int poll_fd, nclients;
static int64_t pause_us;
static volatile sig_atomic_t is_over;

static void end_soon(int number)
{
    (void)number;
    is_over = 1;
}

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

static void drop(struct client *client)
{
    close(client->fd);
    client->fd = -1;
}

/* The request is over in this way, and so is the connection. */
static void fail(struct client *client, unsigned long long *count)
{
    drop(client);
    client->is_under_way = 0;
    client->due_us = now_us() + pause_us;
    ++*count;
}

static void note_good(int64_t took_us)
{
    int64_t now = now_us();

    counts.good++;
    if (took_us > counts.worst_us)
        counts.worst_us = took_us;
    if (now - counts.good_at_us > counts.gap_us)
        counts.gap_us = now - counts.good_at_us;
    counts.good_at_us = now;
}

/* The length of the whole reply once its head is there; 0: not yet;
 * SIZE_MAX: it ends with the connection. */
static size_t reply_len(const struct client *client)
{
    const char *end = memmem(client->reply, client->received, "\r\n\r\n", 4);
    const char *field;

    if (!end)
        return 0;
    field = strcasestr(client->reply, "\r\nContent-Length:");
    if (!field || field > end)
        return (size_t)-1;
    return (size_t)(end + 4 - client->reply) +
           strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
}

static int says_close(const struct client *client)
{
    const char *end = strstr(client->reply, "\r\n\r\n");
    const char *field = strcasestr(client->reply, "\r\nConnection: close");

    return field && field < end;
}

static void finish(struct client *client, int has_ended)
{
    int status = atoi(client->reply + strlen("HTTP/1.1 "));

    if (status == 200)
        note_good(now_us() - client->began_us);
    else
        ++*(status >= 500 ? &counts.status_5xx : &counts.other);
    client->is_under_way = 0;
    client->due_us = now_us() + pause_us;
    if (has_ended || !client->is_kept || says_close(client))
        drop(client);
}

static void send_rest(struct client *client)
{
    const char *request = requests[client->is_kept];
    ssize_t n = send(client->fd, request + client->sent,
                     strlen(request) - client->sent, MSG_NOSIGNAL);

    if (n >= 0)
        client->sent += (size_t)n;
    else if (errno != EAGAIN)
        fail(client, errno == ECONNREFUSED ? &counts.refused : &counts.reset);
}

static void open_connection(struct client *client)
{
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {client}};

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (client->fd < 0 ||
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, client->fd, &event))
        die("socket");
    client->connections++;
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address) &&
        errno != EINPROGRESS)
        fail(client, &counts.refused);
}

/* What has come while nothing was asked for: the end, or what nobody wants. */
static void look_at_idle(struct client *client)
{
    char octet;

    if (recv(client->fd, &octet, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN) {
        counts.idle++;
        drop(client);
    }
}

static void begin(struct client *client)
{
    client->began_us = now_us();
    client->sent = client->received = 0;
    client->is_under_way = 1;
    if (client->fd >= 0)
        look_at_idle(client);
    if (client->fd < 0)
        open_connection(client);
    if (client->fd >= 0)
        send_rest(client);
}

static void receive(struct client *client)
{
    for (;;) {
        size_t len;
        ssize_t n = recv(client->fd, client->reply + client->received,
                         MAX_REPLY_LEN - client->received, 0);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            fail(client,
                 errno == ECONNREFUSED ? &counts.refused : &counts.reset);
            return;
        }
        client->received += (size_t)n;
        client->reply[client->received] = '\0';
        len = reply_len(client);
        if (n == 0 && len != (size_t)-1) {
            fail(client, &counts.closed);
            return;
        }
        if (n == 0 || (len && len <= client->received)) {
            finish(client, n == 0);
            return;
        }
    }
}

static void go_on(struct client *client)
{
    if (client->fd < 0)
        return;
    if (!client->is_under_way) {
        look_at_idle(client);
        return;
    }
    if (client->sent < strlen(requests[client->is_kept]))
        send_rest(client);
    if (client->fd >= 0)
        receive(client);
}

/* Begin what is due, give up what takes too long; return what is under way. */
static int look_at_all(void)
{
    int under_way = 0;
    int64_t now = now_us();

    for (struct client *c = clients; c < clients + nclients; c++) {
        if (c->is_under_way && now - c->began_us > TIMEOUT_US)
            fail(c, &counts.timeout);
        if (!c->is_under_way && !is_over && c->due_us <= now)
            begin(c);
        under_way += c->is_under_way;
    }
    return under_way;
}

static void print_counts(void)
{
    unsigned stayed = 0, kept = 0;
    int64_t since_good_us = now_us() - counts.good_at_us;

    if (since_good_us > counts.gap_us)
        counts.gap_us = since_good_us;
    for (struct client *c = clients; c < clients + nclients; c++) {
        kept += (unsigned)c->is_kept;
        stayed += c->is_kept && c->connections == 1;
    }
    printf("good %llu 5xx %llu other %llu reset %llu closed %llu "
           "refused %llu timeout %llu idle %llu worst_us %lld gap_us %lld "
           "kept %u stayed %u\n",
           counts.good, counts.status_5xx, counts.other, counts.reset,
           counts.closed, counts.refused, counts.timeout, counts.idle,
           (long long)counts.worst_us, (long long)counts.gap_us, kept, stayed);
}

static void set_up(char **argv)
{
    struct sigaction action;
    int kept = atoi(argv[2]);

    nclients = kept + atoi(argv[3]);
    pause_us = (int64_t)atoi(argv[4]) * 1000;
    if (kept < 0 || nclients < 1 || nclients > MAX_CLIENTS) {
        fputs("kept_load: too few or too many clients\n", stderr);
        exit(2);
    }
    for (int is_kept = 0; is_kept < 2; is_kept++)
        snprintf(requests[is_kept], MAX_REQUEST_LEN,
                 "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", argv[5],
                 is_kept ? "" : "Connection: close\r\n");
    memset(&action, 0, sizeof action);
    action.sa_handler = end_soon;
    sigaction(SIGTERM, &action, NULL);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    poll_fd = epoll_create1(0);
    if (poll_fd < 0)
        die("epoll_create1");
    counts.good_at_us = now_us();
    for (int i = 0; i < nclients; i++) {
        clients[i].fd = -1;
        clients[i].is_kept = i < kept;
        clients[i].due_us = now_us() + pause_us * i / nclients;
    }
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_PER_WAIT];

    if (argc != 6) {
        fputs("usage: kept_load PORT KEPT FRESH PAUSE_MS TARGET\n", stderr);
        return 2;
    }
    set_up(argv);
    while (look_at_all() || !is_over) {
        int n = epoll_wait(poll_fd, events, EVENTS_PER_WAIT, 1);

        for (int i = 0; i < n; i++)
            go_on(events[i].data.ptr);
    }
    print_counts();
    return 0;
}
