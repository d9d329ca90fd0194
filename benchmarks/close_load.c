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
 * Prints the line of load.h; a duration includes connecting. */
#include "load.h"

struct call {
    int fd; /* -1: none is under way */
    size_t sent;
    size_t received;
    int is_wrong;
    struct tail tail;
    int64_t began_us;
};

static struct call calls[MAX_CONNECTIONS];
static struct part request, reply_begin, reply_end;

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
    call->sent = call->received = call->tail.len = 0;
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

static void check(struct call *call, const char *data, size_t n)
{
    if (!begins_so(&reply_begin, call->received, data, n))
        call->is_wrong = 1;
    keep_tail(&call->tail, reply_end.len, data, n);
    call->received += n;
}

static int is_good(const struct call *call)
{
    return !call->is_wrong && call->received >= reply_begin.len &&
           ends_so(&reply_end, &call->tail);
}

static void finish(struct call *call)
{
    if (!is_good(call)) {
        drop(call, &wrong);
        return;
    }
    note(call->began_us, 1);
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
    aim(argv[1]);
    for (int i = 0; i < connections; i++)
        calls[i].fd = -1;
    began_us = now_us();
    run(connections, began_us + (int64_t)(atof(argv[3]) * 1e6));
    print_result(began_us);
    return 0;
}
