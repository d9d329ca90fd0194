/* race_lane.c -- a lane between threads, as a server uses it, under the thread
 * sanitizer.
 * Workers take turns at polling and reply at once with one another, some of
 * them outside the lane; a thief takes whoever idles out of the lane; both he
 * and the main thread bring such connections back; the main thread sweeps, owns
 * bodies that come late, stops listening and closes the lane while workers are
 * still at it; clients come over TCP or a unix socket, send whole requests,
 * halves, several at once, urgent data or a descriptor in the middle, and
 * leave politely or not.
 * Promises: a client gets the responses to its own requests, in their order,
 * and nothing else.  One that stays gets all of them, unless the server closes
 * for its own reasons (wild rounds).  In the end no connection and no
 * descriptor is left, and other processes are told so (shared rounds). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "lane.h"
#include "racing.h"

enum {
    WORKERS = 3,
    CLIENTS = 4,
    CONNS = 256,
    READ_CAP = 512,
    INPUT_CAP = 8 * READ_CAP,
    MAX_HEAD = 256,
    VARS_CAP = 8 * MAX_HEAD,
    ARRIVALS = 6,
    PATH_CAP = 32,
    QUEUE_CAP = CONNS,
    ROUND_MS = 400
};

typedef struct {
    int fd;
    int is_last;
    char path[PATH_CAP];
} request;

typedef struct {
    int fd;
    uint32_t listener;
} outsider;

static lane set;
static lane_listener listeners[2]; /* TCP, unix */
static lane_conn conns[CONNS];
static lane_arrival arrivals[ARRIVALS];
static char input[INPUT_CAP], vars[VARS_CAP];
static uint64_t words[2]; /* ours, and of a process that may be anywhere */
static load_wait waits[2];
static load_board board;
static in_flight_entry entries[CONNS];
static uint64_t entries_used;
static struct sockaddr_in address;
static struct sockaddr_un unix_address; /* abstract: the kernel names it */
static socklen_t unix_len;

static pthread_mutex_t leadership = PTHREAD_MUTEX_INITIALIZER;
static request begun[CONNS]; /* by descriptor; the leadership's */
/* Of the two below; and for what lane.h asks of one thread. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static request queue[QUEUE_CAP];
static unsigned queue_len;
static outsider outsiders[QUEUE_CAP]; /* idle, to be taken back */
static unsigned noutsiders;

static int is_wild;   /* this round: the server closes when it likes */
static int is_narrow; /* and does not let in everybody at once */
static int is_shared; /* and leaves some of them to another process */
static int clients_stop, workers_stop; /* atomic */
static int nclients;                   /* that have not ended; atomic */
static unsigned ntaken[1 + CLIENTS];   /* requests seen; atomic */
static unsigned long noctets;          /* received; atomic */
static unsigned long nstolen;          /* connections that idled */

/* Workers */

static void push(const request *job)
{
    pthread_mutex_lock(&queue_lock);
    require(queue_len < QUEUE_CAP, "a connection has one request at a time");
    queue[queue_len++] = *job;
    pthread_mutex_unlock(&queue_lock);
}

static int pop(request *job)
{
    int found;

    pthread_mutex_lock(&queue_lock);
    found = queue_len > 0;
    if (found)
        *job = queue[--queue_len];
    pthread_mutex_unlock(&queue_lock);
    return found;
}

/* The connection is the caller's now: it closes. */
static void leave(int fd, const char *octets, size_t len)
{
    if (len > 0 && send(fd, octets, len, MSG_NOSIGNAL) < 0)
        require(errno != EBADF, "a descriptor that was released is open");
    shutdown(fd, SHUT_WR);
    require(close(fd) == 0, "a descriptor that was released is open");
    lane_left(&set);
}

/* A connection that idles outside the lane will come back; perhaps with another
 * descriptor, as from a transport, which closes its own, or from elsewhere. */
static void put_outside(outsider conn, unsigned *seed)
{
    if (roll(seed, 2)) {
        int fd = conn.fd;

        conn.fd = dup(fd);
        require(conn.fd >= 0 && close(fd) == 0,
                "a descriptor that was released is open");
    }
    pthread_mutex_lock(&queue_lock);
    require(noutsiders < QUEUE_CAP, "a connection is outside once");
    outsiders[noutsiders++] = conn;
    pthread_mutex_unlock(&queue_lock);
}

/* Answer outside the lane, as an event loop does. */
static void answer_outside(const request *job, unsigned *seed)
{
    outsider conn = {job->fd, conns[job->fd].listener};

    if (!lane_release(&set, job->fd))
        return;
    lane_left(&set);
    if (send(conn.fd, job->path, strlen(job->path), MSG_NOSIGNAL) < 0)
        require(errno != EBADF, "a descriptor that was released is open");
    put_outside(conn, seed);
}

static void answer(const request *job, unsigned *seed)
{
    size_t len = strlen(job->path);
    size_t half = roll(seed, 2) ? len : len / 2;
    int keep = !job->is_last;
    int took;

    if (roll(seed, 8) == 0)
        nap(roll(seed, 400));
    if (keep && roll(seed, 8) == 0) {
        answer_outside(job, seed);
        return;
    }
    if (is_wild && roll(seed, 16) == 0)
        keep = 0;
    took = lane_reply(&set, job->fd, job->path, (uint32_t)half,
                      job->path + half, (uint32_t)(len - half), keep);
    if (took == (int)len || took == -2) /* -2: it is closed already */
        return;
    if (took < 0)
        took = 0;
    if (lane_release(&set, job->fd))
        leave(job->fd, job->path + took, len - (size_t)took);
}

/* What the path of a request is: the value of PATH_INFO. */
static void copy_path(const lane_arrival *arrival, request *job)
{
    const char *p = vars + arrival->vars_off;
    const char *end = p + arrival->vars_len;
    unsigned number, count;

    while (p < end && strcmp(p, "PATH_INFO") != 0)
        p += strlen(p) + 1;
    require(p < end, "every request has a path");
    p += strlen(p) + 1;
    snprintf(job->path, sizeof job->path, "%s\n", p);
    job->fd = arrival->fd;
    job->is_last = !(arrival->flags & HTTP1_KEEP_ALIVE);
    require(sscanf(p, "/%u-%u", &number, &count) == 2 && number <= CLIENTS,
            "a path is as it was sent");
    __atomic_store_n(&ntaken[number], count, __ATOMIC_RELEASE);
}

/* A body that cannot be kept: whatever else is done to connections meanwhile,
 * the leader gets this one. */
static void refuse(int fd)
{
    require(lane_own(&set, fd), "a body that is awaited is the leader's");
    require(lane_release(&set, fd), "a lane that is polled is open");
    leave(fd, NULL, 0);
}

static void take(const lane_arrival *arrival, unsigned *seed)
{
    request *job;

    if (arrival->kind == LANE_LEFT) {
        leave(arrival->fd, NULL, 0);
        return;
    }
    require(arrival->fd < CONNS, "what is in the lane is in its table");
    job = &begun[arrival->fd];
    if (arrival->kind == LANE_WHOLE || arrival->kind == LANE_BEGUN)
        copy_path(arrival, job);
    if (arrival->kind == LANE_WHOLE || arrival->kind == LANE_DONE)
        push(job);
    else if (arrival->kind != LANE_GONE && is_wild && roll(seed, 16) == 0)
        refuse(arrival->fd);
}

static void *work(void *argument)
{
    unsigned seed = *(unsigned *)argument;
    request job;

    while (!is_set(&workers_stop)) {
        if (pop(&job)) {
            answer(&job, &seed);
        } else if (pthread_mutex_trylock(&leadership) == 0) {
            int n = set.is_closed ? 0 : lane_poll(&set, 2);
            for (int i = 0; i < n; i++)
                take(&arrivals[i], &seed);
            pthread_mutex_unlock(&leadership);
            if (n == 0)
                nap(100);
        } else {
            nap(100);
        }
    }
    while (pop(&job))
        answer(&job, &seed);
    return NULL;
}

/* Clients */

typedef struct {
    unsigned number;
    unsigned seed;
    unsigned nsent; /* requests */
    int fd;
    int is_unix;
    int has_interrupted; /* once a connection: a second mark makes the first
                          * urgent octet one of the stream */
    char octets[4 * READ_CAP]; /* to be sent */
    size_t len;
    char expected[64 * PATH_CAP]; /* responses that have not come */
    size_t expected_len;
} client;

static int connect_to_lane(int is_unix)
{
    const int yes = 1;
    struct timeval patience = {5, 0};
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

    require(fd >= 0, "there are descriptors");
    if (is_unix ? connect(fd, (struct sockaddr *)&unix_address, unix_len)
                : connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    if (!is_unix)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

/* Receive until all is there (1), or the server has closed (0). */
static int receive(client *self)
{
    char got[sizeof self->expected];

    while (self->expected_len > 0) {
        ssize_t n = recv(self->fd, got, sizeof got, 0);

        require(!(n < 0 && errno == EAGAIN), "every request is answered");
        if (n <= 0)
            return 0;
        require((size_t)n <= self->expected_len &&
                    memcmp(got, self->expected, (size_t)n) == 0,
                "a client gets the responses to its own requests");
        self->expected_len -= (size_t)n;
        memmove(self->expected, self->expected + n, self->expected_len);
        __atomic_add_fetch(&noctets, (unsigned long)n, __ATOMIC_RELAXED);
    }
    return 1;
}

/* End the server's next recv() early: by urgent data, or by a descriptor that
 * is passed with the octet. */
static ssize_t interrupt(client *self, const char *octet)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)octet, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *passed = CMSG_FIRSTHDR(&message);

    self->has_interrupted = 1;
    if (!self->is_unix) /* an octet of its own, no part of the stream */
        return send(self->fd, "!", 1, MSG_OOB | MSG_NOSIGNAL) == 1 ? 0 : -1;
    passed->cmsg_level = SOL_SOCKET;
    passed->cmsg_type = SCM_RIGHTS;
    passed->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(passed), &self->fd, sizeof(int));
    return sendmsg(self->fd, &message, MSG_NOSIGNAL);
}

/* Send the first `len` octets of what is to be sent.  Returns 0 when the
 * server has closed. */
static int send_some(client *self, size_t len)
{
    ssize_t sent = 0;

    if (is_wild && !self->has_interrupted && roll(&self->seed, 16) == 0)
        sent = interrupt(self, self->octets);
    if (sent < 0 || send(self->fd, self->octets + sent, len - (size_t)sent,
                         MSG_NOSIGNAL) != (ssize_t)len - sent)
        return 0;
    self->len -= len;
    memmove(self->octets, self->octets + len, self->len);
    return 1;
}

/* Wait until the lane has read the last head: what is sent from now on is not
 * read together with it, which would make the connection leave the lane. */
static int wait_until_taken(client *self)
{
    for (int i = 0; i < 50000; i++) {
        if (__atomic_load_n(&ntaken[self->number], __ATOMIC_ACQUIRE) ==
            self->nsent)
            return 1;
        if (is_wild && i > 20)
            return 0;
        nap(50);
    }
    require(0, "every head is read");
    return 0;
}

/* Add a request to what is to be sent; return the length of its body. */
static unsigned add_request(client *self, int is_last)
{
    char path[PATH_CAP];
    unsigned body = roll(&self->seed, 3) ? 0 : roll(&self->seed, READ_CAP);
    size_t len;

    snprintf(path, sizeof path, "/%u-%u", self->number, ++self->nsent);
    do { /* what fills a read exactly would leave the lane */
        len = (size_t)snprintf(
            self->octets + self->len, sizeof self->octets - self->len,
            "POST %s HTTP/1.1\r\nHost: a\r\n"
            "Content-Length: %u\r\n%s\r\n%*s",
            path, body, is_last ? "Connection: close\r\n" : "", (int)body, "");
    } while (len == READ_CAP && body++ < READ_CAP);
    self->len += len;
    self->expected_len +=
        (size_t)sprintf(self->expected + self->expected_len, "%s\n", path);
    return body;
}

/* Send a request at once or in parts; of its body, the last part perhaps only
 * together with the next request.  Returns 0 when the server has closed. */
static int ask(client *self, int is_last)
{
    int has_rest = self->len > 0;
    unsigned body = add_request(self, is_last);

    if (has_rest || body < 2 || roll(&self->seed, 2))
        return send_some(self, self->len);
    if (!send_some(self, self->len - 1 - roll(&self->seed, body)))
        return 0;
    if (!is_last && roll(&self->seed, 2) && wait_until_taken(self))
        return 1;
    while (self->len > 0) {
        if (is_wild && roll(&self->seed, 64) == 0)
            return 0;
        nap(roll(&self->seed, 100));
        if (!send_some(self, 1 + roll(&self->seed, (unsigned)self->len)))
            return 0;
    }
    return 1;
}

/* One connection of a client. */
static void converse(client *self)
{
    unsigned count = 1 + roll(&self->seed, 12);
    int is_open = 1;

    self->expected_len = self->len = 0;
    self->has_interrupted = 0;
    if (roll(&self->seed, 8) == 0)
        nap(roll(&self->seed, 1000)); /* what is accepted has sent nothing */
    for (unsigned i = 0; i < count && is_open; i++) {
        int is_last = i + 1 == count && roll(&self->seed, 2);

        is_open = ask(self, is_last);
        if (is_open && self->len > 0 && i + 1 < count)
            continue;
        if (is_open && self->len > 0)
            is_open = send_some(self, self->len);
        /* The next one while this is with a worker. */
        if (is_open && !is_last && roll(&self->seed, 4) == 0 &&
            wait_until_taken(self))
            continue;
        if (is_open && is_wild && roll(&self->seed, 16) == 0)
            break;
        is_open = is_open && receive(self);
        require(is_open || is_wild, "who stays is answered");
    }
}

static void end_connection(client *self)
{
    const struct linger reset = {1, 0};

    if (roll(&self->seed, 2)) {
        shutdown(self->fd, SHUT_WR);
        receive(self);
    } else if (roll(&self->seed, 2)) {
        setsockopt(self->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    close(self->fd);
}

static void *be_client(void *argument)
{
    client self = {.number = *(unsigned *)argument};

    self.seed = self.number * 7919 + (unsigned)now_ms();
    while (!is_set(&clients_stop)) {
        self.is_unix = roll(&self.seed, 2) != 0;
        self.fd = connect_to_lane(self.is_unix);
        if (self.fd < 0)
            break;
        converse(&self);
        end_connection(&self);
    }
    __atomic_sub_fetch(&nclients, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The main thread, which does what a server's event loop does */

static void open_listener(lane_listener *listener, struct sockaddr *at,
                          socklen_t *len)
{
    socklen_t cap = sizeof unix_address;

    memset(listener, 0, sizeof *listener);
    listener->is_tcp = at->sa_family == AF_INET;
    listener->fd = socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    listener->protocol = LANE_HTTP;
    require(bind(listener->fd, at, *len) == 0 &&
                listen(listener->fd, 64) == 0 &&
                getsockname(listener->fd, at, &cap) == 0,
            "there is a place to listen");
    *len = cap;
}

static void share_lane(void)
{
    memset(waits, 0, sizeof waits);
    memset(&board, 0, sizeof board);
    board.words = words;
    board.waits = waits;
    board.stride = 1;
    board.count = 2;
    board.threads = WORKERS;
    set.board = &board;
    set.entries = entries;
    set.entries_used = &entries_used;
}

/* The other process has something to do, or nothing, or is gone. */
static void show_other(unsigned *seed)
{
    uint64_t word = roll(seed, 4) == 0
                        ? UINT64_MAX
                        : (uint64_t)roll(seed, 3) << LOAD_REQUEST_SHIFT |
                              roll(seed, CLIENTS);

    __atomic_store_n(&words[1], word, __ATOMIC_RELAXED);
}

static void open_lane(void)
{
    socklen_t len = sizeof address;

    memset(&set, 0, sizeof set);
    memset(conns, 0, sizeof conns);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_listener(&listeners[0], (struct sockaddr *)&address, &len);
    memset(&unix_address, 0, sizeof unix_address);
    unix_address.sun_family = AF_UNIX;
    unix_len = sizeof unix_address.sun_family;
    open_listener(&listeners[1], (struct sockaddr *)&unix_address, &unix_len);
    set.listeners = listeners;
    set.nlisteners = 2;
    set.conns = conns;
    set.conns_cap = CONNS;
    set.input = input;
    set.input_cap = INPUT_CAP;
    set.read_cap = READ_CAP;
    set.vars = vars;
    set.vars_cap = VARS_CAP;
    set.max_head_len = set.max_line_len = MAX_HEAD;
    set.max_fields = 16;
    set.max_body_len = 1 << 20;
    set.stall_us = 1000;
    /* In some rounds clients must wait for one another to be let in. */
    set.max_conns = is_narrow ? CLIENTS - 1 : CONNS;
    set.arrivals = arrivals;
    set.arrivals_cap = ARRIVALS;
    if (is_shared)
        share_lane();
    require(lane_open(&set) == 0, "a lane opens");
}

static void close_listeners(void)
{
    close(listeners[0].fd);
    close(listeners[1].fd);
}

/* Only while nobody polls: see lane.h. */
static int own(int fd)
{
    int is_owned;

    pthread_mutex_lock(&leadership);
    is_owned = lane_own(&set, fd);
    pthread_mutex_unlock(&leadership);
    return is_owned;
}

/* Take back who was answered outside the lane, or close them when it is. */
static void bring_back(void)
{
    pthread_mutex_lock(&queue_lock);
    while (noutsiders > 0) {
        const outsider *conn = &outsiders[--noutsiders];

        if (lane_adopt(&set, conn->fd, conn->listener, NULL, 1))
            continue;
        require(is_wild, "a lane that is open takes a connection back");
        require(close(conn->fd) == 0, "a descriptor that is refused is open");
    }
    pthread_mutex_unlock(&queue_lock);
}

/* Take who idles out of the lane, and bring them back, all the time. */
static void *steal(void *argument)
{
    unsigned seed = 104729 + *(unsigned *)argument;
    lane_released idle[CLIENTS];

    while (!is_set(&workers_stop)) {
        int n = lane_release_idle(&set, idle, 1 + roll(&seed, CLIENTS));

        for (int i = 0; i < n; i++) {
            outsider conn = {idle[i].fd, idle[i].listener};

            put_outside(conn, &seed);
        }
        nstolen += (unsigned long)n;
        if (roll(&seed, 2))
            nap(roll(&seed, 200));
        bring_back();
    }
    return NULL;
}

/* Sweep, own and wake for a while. */
static void tend(unsigned *seed)
{
    long end = now_ms() + ROUND_MS;

    while (now_ms() < end) {
        int fd = (int)roll(seed, CONNS);

        __atomic_add_fetch(&set.now, 1, __ATOMIC_RELAXED);
        if (is_wild && roll(seed, 4) == 0)
            lane_sweep(&set, (int)roll(seed, 4) - 1, (int)roll(seed, 4) - 1);
        else
            lane_sweep(&set, 100000, 100000);
        if (is_wild && own(fd) && lane_release(&set, fd))
            leave(fd, NULL, 0);
        if (is_wild && roll(seed, 8) == 0)
            lane_evict_idle(&set);
        bring_back();
        show_other(seed);
        lane_wake(&set);
        nap(200);
    }
}

/* A wild round ends as a server does whose drain has taken too long. */
static void run_round(unsigned *seed)
{
    pthread_t workers[WORKERS], clients[CLIENTS], thief;
    unsigned worker_numbers[WORKERS], client_numbers[CLIENTS], thief_number;

    open_lane();
    clients_stop = workers_stop = 0;
    nclients = CLIENTS;
    memset(ntaken, 0, sizeof ntaken);
    start(workers, worker_numbers, WORKERS, work);
    start(clients, client_numbers, CLIENTS, be_client);
    start(&thief, &thief_number, 1, steal);
    tend(seed);
    if (is_wild) {
        pthread_mutex_lock(&queue_lock);
        lane_unlisten(&set, 0);
        lane_unlisten(&set, 1);
        pthread_mutex_unlock(&queue_lock);
        pthread_mutex_lock(&leadership);
        pthread_mutex_lock(&queue_lock);
        lane_close(&set);
        pthread_mutex_unlock(&queue_lock);
        pthread_mutex_unlock(&leadership);
    }
    set_flag(&clients_stop);
    if (is_wild)
        close_listeners();
    while (__atomic_load_n(&nclients, __ATOMIC_ACQUIRE) > 0) {
        bring_back();
        nap(200);
    }
    join(clients, CLIENTS);
    set_flag(&workers_stop);
    join(workers, WORKERS);
    join(&thief, 1);
    bring_back();
    if (!is_wild) {
        lane_close(&set);
        close_listeners();
    }
    require(set.nconns == 0, "no connection is left");
    for (int fd = 0; fd < CONNS; fd++) {
        require(conns[fd].state == LANE_FREE, "no connection is left");
        require(entries[fd].since == 0, "no request is left");
    }
    require(board.own << (64 - LOAD_TURN_SHIFT) == 0,
            "other processes see nothing that is left");
}

int main(int argc, char **argv)
{
    long end = now_ms() + 1000 * (argc > 1 ? atol(argv[1]) : 3);
    unsigned seed = (unsigned)now_ms();
    int before = count_descriptors();

    for (unsigned i = 0; now_ms() < end; i++) {
        is_wild = i % 2;
        is_narrow = i % 4 == 3;
        is_shared = i % 3 > 0;
        run_round(&seed);
    }
    require(count_descriptors() == before, "no descriptor is left");
    require(noctets > 0, "somebody is answered");
    require(nstolen > 0, "somebody idles");
    printf("%lu octets of answers, %lu connections stolen, and every promise "
           "kept\n",
           noctets, nstolen);
    return 0;
}
