/* mixed_load.c -- kept connections, each with the same sequence of requests
 * again and again, as fast as they are answered.
 * Usage: mixed_load PORT CONNECTIONS SECONDS FILE
 *
 * FILE is the sequence, made by mix.py: the number of steps, and each step as
 * a line of four numbers (the lengths of three parts, and how many requests it
 * completes) with the parts behind it: what is sent, how the reply begins, and
 * how it ends.  A step is over when what has come ends so.  The connections
 * begin at different steps.  One that is closed, or has a reply that begins
 * otherwise, is an error, and is opened anew.  After SECONDS no request is
 * begun, and those under way are waited for, as in close_load.c.
 *
 * Prints the line of load.h; a duration is that of a request, or of several
 * that were sent together. */
#include "load.h"

#include <netinet/tcp.h>

enum { MAX_STEPS = 65536 };

struct step {
    struct part request, begin, end;
    unsigned nrequests; /* 0: the next step belongs to the same request */
};

struct conn {
    int fd;     /* -1: closed */
    size_t at;  /* the step that is under way, or next */
    int is_due; /* a reply is */
    size_t received;
    struct tail tail;
    int64_t began_us;
};

static struct conn conns[MAX_CONNECTIONS];
static struct step *steps;
static size_t nsteps;

/* The sequence */

static struct part read_part(FILE *file, size_t len, size_t max_len)
{
    struct part part = {malloc(len + 1), len};

    if (len > max_len || !part.octets ||
        fread(part.octets, 1, len, file) != len) {
        fputs("mixed_load: the sequence is not whole\n", stderr);
        exit(2);
    }
    return part;
}

static void read_steps(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file)
        die(path);
    if (fscanf(file, "%zu", &nsteps) != 1 || nsteps < 1 || nsteps > MAX_STEPS)
        die("mixed_load: the number of steps");
    steps = calloc(nsteps, sizeof *steps);
    if (!steps)
        die("calloc");
    for (size_t i = 0; i < nsteps; i++) {
        size_t lengths[3] = {0, 0, 0};

        if (fscanf(file, "%zu %zu %zu %u", &lengths[0], &lengths[1],
                   &lengths[2], &steps[i].nrequests) != 4 ||
            fgetc(file) != '\n')
            die("mixed_load: a step");
        steps[i].request = read_part(file, lengths[0], MAX_PART_LEN);
        steps[i].begin = read_part(file, lengths[1], MAX_END_LEN);
        steps[i].end = read_part(file, lengths[2], MAX_END_LEN);
    }
    fclose(file);
}

/* Whether a request begins with this step. */
static int is_begin(size_t at)
{
    return steps[(at + nsteps - 1) % nsteps].nrequests > 0;
}

/* Connections */

static void drop(struct conn *conn, uint64_t *count)
{
    close(conn->fd);
    conn->fd = -1;
    under_way -= conn->is_due;
    conn->is_due = 0;
    ++*count;
    do
        conn->at = (conn->at + 1) % nsteps;
    while (!is_begin(conn->at));
}

static void ask(struct conn *conn)
{
    const struct part *request = &steps[conn->at].request;

    if (is_begin(conn->at))
        conn->began_us = now_us();
    conn->received = conn->tail.len = 0;
    conn->is_due = 1;
    under_way++;
    /* A step is small beside the buffers of a socket that has been read. */
    if (send(conn->fd, request->octets, request->len, MSG_NOSIGNAL) !=
        (ssize_t)request->len)
        drop(conn, &resets);
}

static void open_conn(struct conn *conn)
{
    const int yes = 1;
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = conn}};

    conn->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (conn->fd < 0)
        die("socket");
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address)) {
        drop(conn, &connect_errors);
        return;
    }
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, conn->fd, &event))
        die("epoll_ctl");
}

/* Replies */

/* Returns 0 when the reply does not begin as it must. */
static int check(struct conn *conn, const char *data, size_t n)
{
    const struct step *step = &steps[conn->at];
    size_t at = conn->received;

    conn->received += n;
    keep_tail(&conn->tail, step->end.len, data, n);
    return begins_so(&step->begin, at, data, n);
}

static int is_whole(const struct conn *conn)
{
    const struct step *step = &steps[conn->at];

    return conn->received >= step->begin.len &&
           ends_so(&step->end, &conn->tail);
}

static void finish(struct conn *conn)
{
    unsigned nrequests = steps[conn->at].nrequests;

    if (nrequests > 0) {
        note(conn->began_us, nrequests);
        good += nrequests;
    }
    under_way--;
    conn->is_due = 0;
    conn->at = (conn->at + 1) % nsteps;
}

/* Take what has come; when the reply is whole and it is not the end yet, or
 * the request is not, go on. */
static void go_on(struct conn *conn, int is_end)
{
    static char data[1 << 16];
    ssize_t n = recv(conn->fd, data, sizeof data, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(conn, &resets);
    } else if (!conn->is_due || !check(conn, data, (size_t)n)) {
        drop(conn, &wrong);
    } else if (is_whole(conn)) {
        finish(conn);
        if (!is_end || !is_begin(conn->at))
            ask(conn);
    }
}

static void run(int connections, int64_t end_us)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    int64_t now;

    while ((now = now_us()) < end_us + DRAIN_US &&
           (under_way || now < end_us)) {
        int n;

        for (int i = 0; i < connections && now < end_us; i++) {
            if (conns[i].fd >= 0)
                continue;
            open_conn(&conns[i]);
            if (conns[i].fd >= 0)
                ask(&conns[i]);
        }
        n = epoll_wait(poll_fd, events, EVENTS_PER_WAIT, 10);
        for (int i = 0; i < n; i++)
            go_on(events[i].data.ptr, now >= end_us);
    }
}

int main(int argc, char **argv)
{
    int connections = argc == 5 ? atoi(argv[2]) : 0;
    int64_t began_us;

    if (connections < 1 || connections > MAX_CONNECTIONS) {
        fputs("usage: mixed_load PORT CONNECTIONS SECONDS FILE\n", stderr);
        return 2;
    }
    read_steps(argv[4]);
    aim(argv[1]);
    for (size_t i = 0; i < (size_t)connections; i++) {
        conns[i].fd = -1;
        conns[i].at = i * nsteps / (size_t)connections;
        while (!is_begin(conns[i].at))
            conns[i].at = (conns[i].at + 1) % nsteps;
    }
    began_us = now_us();
    run(connections, began_us + (int64_t)(atof(argv[3]) * 1e6));
    print_result(began_us);
    return 0;
}
