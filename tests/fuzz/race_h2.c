/* race_h2.c -- TLS and HTTP/2 in a lane between threads, as a server uses them,
 * under the thread sanitizer.
 * Workers take turns at polling, where handshakes go on, and answer the streams
 * of one connection at once; the main thread, as an event loop, takes
 * connections that speak HTTP/2 into the lane, goes on with those that leave,
 * sweeps, flushes, renews the certificate, drains, and in wild rounds closes
 * the lane while workers are still at it; in some of these memory is refused at
 * random; clients begin many streams at once, reset some, send bodies, make room
 * for responses beyond their windows, and leave politely or not.
 * Promises: a client gets the responses to its own requests, each on its
 * stream, and one that stays gets all of them (rounds that are not wild).  In
 * the end no connection, number or descriptor is left. */
#define _GNU_SOURCE
#include "lane_h2.h"
#include "pump.h"
#include "racing.h"
#include "tls_client.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORKERS = 3,
    CLIENTS = 4,
    FDS = 256, /* descriptors; streams have the numbers above */
    CONNS = FDS + LANE_STREAMS,
    READ_CAP = 4096,
    PATH_CAP = 32,
    ARRIVALS = 16,
    SECTION = 1024,
    MAX_STREAMS = 16,
    MOST_STREAMS = 14, /* of a client, at once */
    QUEUE_CAP = CONNS,
    FRAMES_CAP = 1 << 15,
    LARGE = 100000, /* octets of a response beyond a window */
    ROUND_MS = 400,
    WANT_READ = 2, /* SSL_ERROR_... */
    ZERO_RETURN = 6
};

/* Of an answer whose head is not sent. */
#define WHOLE SIZE_MAX

/* A request for a worker; or for the main thread: with a path one that a worker
 * could not answer in the lane, without one a connection that has left. */
typedef struct {
    int number;
    uint32_t carrier;
    char path[PATH_CAP];
    size_t left; /* of a body whose head, or beginning, is sent; or WHOLE */
} job;

typedef struct {
    job jobs[QUEUE_CAP];
    unsigned len;
    pthread_mutex_t lock;
} job_queue;

/* A connection of HTTP/2 on the event loop. */
typedef struct {
    int number; /* 0: none */
    int fd;
    int is_over;
    tls_session *session;
    h2_connection h2;
    char paths[64][PATH_CAP]; /* of requests whose bodies come, by id */
    size_t nbody[64];         /* how much of them has come */
    struct {
        uint32_t id;
        char path[PATH_CAP];
        size_t left; /* octets of the body */
    } answers[256];  /* more than a client asks for */
} outsider;

static lane set;
static lane_listener listener;
static lane_conn conns[CONNS];
static lane_arrival arrivals[ARRIVALS];
static tls_session *sessions[CONNS];
static char input[ARRIVALS * READ_CAP], vars[1 << 16];
static struct sockaddr_in address;
static pthread_mutex_t leadership = PTHREAD_MUTEX_INITIALIZER;
static job_queue for_workers = {.lock = PTHREAD_MUTEX_INITIALIZER};
static job_queue for_main = {.lock = PTHREAD_MUTEX_INITIALIZER};
static char large[LARGE];
static int kept[CONNS];         /* numbers whose bodies the lane has; atomic */
static outsider outsiders[FDS]; /* the main thread's */
static int is_short;            /* this round: of memory */
static int is_wild;             /* this round */
static int clients_stop, workers_stop, is_closing; /* atomic */
static int nclients; /* that have not ended; atomic */
static unsigned long nanswers, nleft, nshaken, nbodies; /* nanswers: atomic */
static void *client_ctx;

static int is_large(const char *path)
{
    return path[1] == 'l';
}

static void push(job_queue *queue, int number, uint32_t of, const char *path,
                 size_t left)
{
    pthread_mutex_lock(&queue->lock);
    require(queue->len < QUEUE_CAP, "a number has one request at a time");
    queue->jobs[queue->len].number = number;
    queue->jobs[queue->len].carrier = of;
    queue->jobs[queue->len].left = left;
    snprintf(queue->jobs[queue->len++].path, PATH_CAP, "%s", path);
    pthread_mutex_unlock(&queue->lock);
}

static int pop(job_queue *queue, job *found)
{
    int has_one;

    pthread_mutex_lock(&queue->lock);
    has_one = queue->len > 0;
    if (has_one)
        *found = queue->jobs[--queue->len];
    pthread_mutex_unlock(&queue->lock);
    return has_one;
}

/* Workers */

static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";

/* Returns whether it is answered, or will be. */
static int keep_large(int number)
{
    int result;

    __atomic_store_n(&kept[number], 1, __ATOMIC_RELAXED); /* first */
    result = lane_keep(&set, number, head, sizeof head - 1, large, LARGE);
    if (result == 0)
        return 1;
    __atomic_store_n(&kept[number], 0, __ATOMIC_RELAXED);
    if (result == LANE_UNSENT)
        return 0;
    lane_reply(&set, number, NULL, 0, NULL, 0, 1);
    return 1;
}

static void end_large(const lane_arrival *arrival)
{
    uint32_t of = (uint32_t)lane_carrier_of(&set, arrival->fd);

    __atomic_store_n(&kept[arrival->fd], 0, __ATOMIC_RELAXED);
    if (arrival->consumed != PUMP_LATE)
        lane_reply(&set, arrival->fd, NULL, 0, NULL, 0, 1);
    else if (lane_release(&set, arrival->fd))
        push(&for_main, arrival->fd, of, "/l", arrival->content_length);
}

/* Answer as an app does that makes its body piece by piece.  Returns 1 when it
 * is answered; 0: *left octets of the body are not, or neither is the head. */
static int answer_in_pieces(const job *request, uint32_t len, size_t first,
                            size_t *left)
{
    lane_part parts[2] = {{head, sizeof head - 1}, {request->path, first}};

    if (lane_send(&set, request->number, parts, 2) < 0)
        return 0;
    require(lane_taken(&set, request->number) == (int64_t)first,
            "a stream knows what is taken");
    *left = len - first;
    return lane_reply(&set, request->number, request->path + first,
                      (uint32_t)*left, NULL, 0, 1) != LANE_UNSENT;
}

static void answer(const job *request, unsigned *seed)
{
    uint32_t len = (uint32_t)strlen(request->path);
    int whole = (int)(sizeof head - 1 + len), took;
    size_t left = WHOLE;

    if (roll(seed, 8) == 0)
        nap(roll(seed, 400));
    if (roll(seed, 8) == 0)
        lane_has_left(&set, request->number);
    if (is_large(request->path)) {
        if (keep_large(request->number))
            return;
    } else if (request->carrier != 0 && roll(seed, 4) == 0) {
        if (answer_in_pieces(request, len, roll(seed, len + 1), &left))
            return;
    } else if (request->carrier == 0 || roll(seed, 16) > 0) {
        took = lane_reply(&set, request->number, head, sizeof head - 1,
                          request->path, len, 1);
        if (took == whole || took == LANE_LOST)
            return;
    }
    /* Now and then also one that the lane would take. */
    if (lane_release(&set, request->number))
        push(&for_main, request->number, request->carrier,
             request->carrier != 0 ? request->path : "", left);
}

/* A body is its request's path, again and again. */
static void check_body(const char *path, const char *body, size_t len)
{
    for (size_t i = 0, n = strlen(path); i < len; i++)
        require(body[i] == path[i % n], "a stream has its own body");
}

static void take(const lane_arrival *arrival)
{
    const char *p = vars + arrival->vars_off;

    if (arrival->kind == LANE_SHAKEN) {
        nshaken++;
        lane_begin(&set, arrival->fd, 1);
    } else if (arrival->kind == LANE_LEFT) {
        push(&for_main, arrival->fd, arrival->carrier, "", 0);
    } else if (arrival->kind == LANE_ENDED) {
        end_large(arrival);
    } else {
        require(arrival->kind == LANE_WHOLE, "a body comes with its head");
        while (strcmp(p, "PATH_INFO") != 0)
            p += strlen(p) + 1;
        p += strlen(p) + 1;
        check_body(p, input + arrival->input_off + arrival->consumed,
                   (size_t)arrival->content_length);
        nbodies += arrival->content_length > 0;
        push(&for_workers, arrival->fd, arrival->carrier, p, 0);
    }
}

/* In a round that is short of memory: soon an allocation gets none. */
static void refuse(unsigned *seed)
{
    if (is_short && roll(seed, 4) == 0)
        refused_call = 1 + (int)roll(seed, 16);
}

static void *work(void *argument)
{
    unsigned seed = *(unsigned *)argument;
    job request;

    while (!is_set(&workers_stop)) {
        if (pop(&for_workers, &request)) {
            refuse(&seed);
            answer(&request, &seed);
        } else if (pthread_mutex_trylock(&leadership) == 0) {
            int n;

            refuse(&seed);
            n = set.is_closed ? 0 : lane_poll(&set, 2);
            for (int i = 0; i < n; i++)
                take(&arrivals[i]);
            pthread_mutex_unlock(&leadership);
            if (n == 0)
                nap(100);
        } else {
            nap(100);
        }
    }
    while (pop(&for_workers, &request))
        answer(&request, &seed);
    return NULL;
}

/* Clients */

typedef struct {
    unsigned number, seed, nsent;
    int fd, is_h2, is_ending; /* is_ending: a GOAWAY has come */
    void *ssl;
    unsigned char out[FRAMES_CAP], in[FRAMES_CAP];
    size_t out_len, in_len;
    uint32_t next_id;
    struct {
        uint32_t id; /* 0: none */
        char path[PATH_CAP];
        size_t sent, len; /* of the body; sent: or more */
        size_t got;       /* of a large response */
    } open[MOST_STREAMS];
} client;

static void put_frame(client *self, unsigned type, unsigned flags, uint32_t id,
                      const void *payload, size_t len)
{
    unsigned char *at = self->out + self->out_len;

    require(len < 256 && self->out_len + 9 + len <= FRAMES_CAP,
            "there is room for a client's frames");
    memset(at, 0, 9);
    at[2] = (unsigned char)len;
    at[3] = (unsigned char)type;
    at[4] = (unsigned char)flags;
    at[7] = (unsigned char)(id >> 8);
    at[8] = (unsigned char)id;
    if (len > 0)
        memcpy(at + 9, payload, len);
    self->out_len += 9 + len;
}

static void put_reset(client *self, unsigned i)
{
    put_frame(self, 3, 0, self->open[i].id, "\0\0\0\x08", 4);
    self->open[i].id = 0;
}

/* RFC 7541: of the static table, and a path without an index. */
static void put_request(client *self, unsigned i)
{
    unsigned char block[PATH_CAP + 8] = {0x82, 0x87, 0x01, 1, 'a', 0x04};
    int has_body = roll(&self->seed, 3) == 0;
    int len = snprintf((char *)block + 7, PATH_CAP, "/%s%u-%u",
                       roll(&self->seed, 8) == 0 ? "l" : "", self->number,
                       ++self->nsent);

    block[6] = (unsigned char)len;
    self->open[i].id = self->next_id;
    self->open[i].got = 0;
    memcpy(self->open[i].path, block + 7, (size_t)len + 1);
    block[0] = has_body ? 0x83 : 0x82;
    put_frame(self, 1, has_body ? 4 : 5, self->next_id, block,
              7 + (size_t)len);
    self->open[i].sent = has_body ? 0 : 1;
    self->open[i].len = 1;
    if (has_body) /* now and then more than the lane keeps */
        self->open[i].len += roll(&self->seed, 64) ? 600 : 2 * READ_CAP;
    else if (roll(&self->seed, 16) == 0)
        put_reset(self, i);
    self->next_id += 2;
}

/* Go on with each body that has not all been sent, or end its stream. */
static int put_bodies(client *self)
{
    char part[200];
    int count = 0;

    for (unsigned i = 0; i < MOST_STREAMS; i++) {
        size_t at = self->open[i].sent, n = self->open[i].len - at;

        if (self->open[i].id == 0 || at >= self->open[i].len)
            continue;
        count++;
        if (roll(&self->seed, 64) == 0) {
            put_reset(self, i);
            continue;
        }
        n = n < sizeof part ? n : 1 + roll(&self->seed, sizeof part);
        for (size_t k = 0; k < n; k++)
            part[k] =
                self->open[i].path[(at + k) % strlen(self->open[i].path)];
        self->open[i].sent += n;
        put_frame(self, 0, self->open[i].sent == self->open[i].len,
                  self->open[i].id, part, n);
    }
    return count;
}

/* Returns 0 when the server has closed. */
static int send_out(client *self)
{
    size_t at = 0;

    while (at < self->out_len) {
        size_t n = roll(&self->seed, 2)
                       ? self->out_len - at
                       : 1 + roll(&self->seed, (unsigned)(self->out_len - at));

        tls_lib.ERR_clear_error();
        if (tls_lib.SSL_write(self->ssl, self->out + at, (int)n) <= 0)
            return 0;
        at += n;
    }
    self->out_len = 0;
    return 1;
}

static int count_open(const client *self)
{
    int count = 0;

    for (unsigned i = 0; i < MOST_STREAMS; i++)
        count += self->open[i].id != 0;
    return count;
}

/* RFC 9113 6.9: room for as much again. */
static void give_room(client *self, uint32_t id, size_t len)
{
    unsigned char count[4] = {0, 0, (unsigned char)(len >> 8),
                              (unsigned char)len};

    if (len > 0)
        put_frame(self, 8, 0, id, count, 4);
}

/* The body of the response to a request for this path. */
static const char *body_of(const char *path, size_t *len)
{
    *len = is_large(path) ? LARGE : strlen(path);
    return is_large(path) ? large : path;
}

/* Returns whether the response is over. */
static int take_data(client *self, unsigned i, const unsigned char *at,
                     size_t len)
{
    size_t got = self->open[i].got, whole;
    const char *body = body_of(self->open[i].path, &whole);
    int is_end = at[4] & 1; /* perhaps without an octet, behind the last */

    require(got + len <= whole && memcmp(at + 9, body + got, len) == 0 &&
                (!is_end || got + len == whole),
            "a stream gets its own response");
    self->open[i].got += len;
    if (!is_end)
        give_room(self, self->open[i].id, len);
    return is_end;
}

static void take_frame(client *self, const unsigned char *at, size_t len)
{
    uint32_t id = (uint32_t)at[7] << 8 | at[8];

    require((at[3] != 3 || is_short) && (at[3] != 7 || is_wild),
            "nobody is sent away");
    if (at[3] == 4 && (at[4] & 1) == 0)
        put_frame(self, 4, 1, 0, NULL, 0);
    self->is_ending |= at[3] == 7;
    if (at[3] == 0)
        give_room(self, 0, len);
    for (unsigned i = 0; i < MOST_STREAMS; i++) {
        if (at[3] == 7 && at[9] == 0 &&
            self->open[i].id > ((uint32_t)at[11] << 8 | at[12])) {
            self->open[i].id = 0; /* the server will not answer it */
        } else if (at[3] == 0 && self->open[i].id == id &&
                   take_data(self, i, at, len)) {
            self->open[i].id = 0;
            __atomic_add_fetch(&nanswers, 1, __ATOMIC_RELAXED);
        }
    }
}

/* Returns 0 when the server has closed. */
static int receive_some(client *self)
{
    size_t at = 0, len;
    int n, error;

    tls_lib.ERR_clear_error();
    n = tls_lib.SSL_read(self->ssl, self->in + self->in_len,
                         (int)(FRAMES_CAP - self->in_len));
    if (n <= 0) {
        error = tls_lib.SSL_get_error(self->ssl, n);
        require(error != WANT_READ, "every request is answered");
        require(error != ZERO_RETURN || is_set(&is_closing) || is_short ||
                    count_open(self) == 0,
                "what a GOAWAY does not exclude is answered");
        return 0;
    }
    self->in_len += (size_t)n;
    while (self->in_len - at >= 9 &&
           self->in_len - at >=
               9 + (len = (size_t)self->in[at + 1] << 8 | self->in[at + 2])) {
        take_frame(self, self->in + at, len);
        at += 9 + len;
    }
    self->in_len -= at;
    memmove(self->in, self->in + at, self->in_len);
    return (self->is_ending && count_open(self) == 0) || send_out(self);
}

/* One connection of HTTP/2. */
static void converse(client *self)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    unsigned count = 1 + roll(&self->seed, 12);
    int is_open = 1;

    memset(self->open, 0, sizeof self->open);
    self->in_len = 0;
    self->next_id = 1;
    self->is_ending = 0;
    memcpy(self->out, preface, self->out_len = sizeof preface - 1);
    put_frame(self, 4, 0, 0, NULL, 0);
    for (unsigned i = 0; i < count && is_open && !self->is_ending; i++) {
        unsigned most = 1 + roll(&self->seed, MOST_STREAMS);

        for (unsigned k = 0; k < most; k++)
            if (self->open[k].id == 0)
                put_request(self, k);
        is_open = send_out(self);
        while (is_open && put_bodies(self) > 0) {
            if (is_wild && roll(&self->seed, 32) == 0)
                return;
            is_open = send_out(self);
        }
        if (is_wild && roll(&self->seed, 16) == 0)
            return;
        while (is_open && count_open(self) > (int)roll(&self->seed, 3))
            is_open = receive_some(self);
        require(is_open || is_wild, "who stays is answered");
    }
    while (is_open && count_open(self) > 0)
        is_open = receive_some(self);
    require(is_open || is_wild, "who stays is answered");
}

static void converse_http1(client *self)
{
    unsigned count = 1 + roll(&self->seed, 6);
    char text[128];

    for (unsigned i = 0; i < count; i++) {
        int len = snprintf(text, sizeof text,
                           "GET /%u-%u HTTP/1.1\r\nHost: a\r\n\r\n",
                           self->number, ++self->nsent);
        int n = 0, got = 0;

        tls_lib.ERR_clear_error();
        if (tls_lib.SSL_write(self->ssl, text, len) != len)
            break;
        /* A reply is one record. */
        n = tls_lib.SSL_read(self->ssl, self->in, FRAMES_CAP);
        if (n > (int)sizeof head) {
            self->in[n] = '\0';
            len = snprintf(text, sizeof text, "\r\n\r\n/%u-%u", self->number,
                           self->nsent);
            got = strcmp((char *)self->in + n - len, text) == 0;
            require(got, "a client gets its own response");
        }
        require(got || is_wild, "who stays is answered");
        if (!got)
            break;
        __atomic_add_fetch(&nanswers, 1, __ATOMIC_RELAXED);
    }
}

static int connect_to_lane(void)
{
    const struct timeval patience = {20, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    require(fd >= 0, "there are descriptors");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void *be_client(void *argument)
{
    static const unsigned char names[] = "\x08http/1.1\x02h2";
    const struct linger reset = {1, 0};
    client *self = calloc(1, sizeof *self);

    require(self != NULL, "there is memory");
    self->number = *(unsigned *)argument;
    self->seed = self->number * 7919 + (unsigned)now_ms();
    while (!is_set(&clients_stop) && (self->fd = connect_to_lane()) >= 0) {
        self->is_h2 = roll(&self->seed, 4) > 0;
        self->ssl = tls_lib.SSL_new(client_ctx);
        require(self->ssl != NULL &&
                    client_lib.SSL_set_fd(self->ssl, self->fd),
                "there is memory");
        client_lib.SSL_set_alpn_protos(
            self->ssl, self->is_h2 ? names + 9 : names, self->is_h2 ? 3 : 9);
        client_lib.SSL_set_connect_state(self->ssl);
        tls_lib.ERR_clear_error();
        if (is_wild && roll(&self->seed, 16) == 0)
            require(write(self->fd, "\x16\x03\x01", 3) != 0, "sent, or not");
        else if (tls_lib.SSL_do_handshake(self->ssl) == 1)
            (self->is_h2 ? converse : converse_http1)(self);
        else
            require(is_wild, "a handshake goes well");
        if (roll(&self->seed, 2))
            tls_lib.SSL_shutdown(self->ssl);
        else if (roll(&self->seed, 2))
            setsockopt(self->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        tls_lib.SSL_free(self->ssl);
        close(self->fd);
    }
    free(self);
    __atomic_sub_fetch(&nclients, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The main thread, which does what a server's event loop does */

static void send_all(outsider *at)
{
    struct iovec part = {at->h2.out, at->h2.out_len};
    ssize_t took = tls_send(at->session, at->fd, &part, 1, 0);

    if (took == (ssize_t)part.iov_len) {
        h2_sent(&at->h2);
    } else if (took > 0) {
        at->h2.out_len -= (size_t)took;
        memmove(at->h2.out, at->h2.out + took, at->h2.out_len);
    } else if (took < 0 && errno != EAGAIN) {
        at->is_over = 1;
    }
}

static void send_body(outsider *at, unsigned i)
{
    size_t whole, left = at->answers[i].left;
    const char *body = body_of(at->answers[i].path, &whole);
    long n = h2_send(&at->h2, at->answers[i].id, NULL, 0, body + whole - left,
                     left, H2_END_STREAM);

    at->answers[i].left = n < 0 ? 0 : left - (size_t)n;
}

/* left: see job. */
static void send_answer(outsider *at, uint32_t id, const char *path,
                        size_t left)
{
    unsigned i = id / 2 % 256;

    if (left == WHOLE) {
        body_of(path, &left);
        h2_send(&at->h2, id, head, sizeof head - 1, NULL, 0, 0);
    }
    at->answers[i].id = id;
    at->answers[i].left = left;
    snprintf(at->answers[i].path, PATH_CAP, "%s", path);
    send_body(at, i);
}

static void act(outsider *at, const h2_event *event, const char *text)
{
    char *path = at->paths[event->stream / 2 % 64];
    size_t *nbody = &at->nbody[event->stream / 2 % 64];

    if (event->kind == H2_REQUEST) {
        sscanf(text + event->text.off, "%*s %31s", path);
        *nbody = 0;
    }
    for (uint32_t i = 0; event->kind == H2_DATA && i < event->text.len; i++)
        require(text[event->text.off + i] == path[(*nbody)++ % strlen(path)],
                "a stream has its own body");
    if ((event->kind == H2_REQUEST || event->kind == H2_DATA) &&
        event->flags & H2_END_STREAM)
        send_answer(at, event->stream, path, WHOLE);
    at->is_over |= event->kind == H2_FAILED;
}

static void receive_octets(outsider *at, const char *octets, size_t len)
{
    static h2_found found;
    static char text[H2_FRAME_BYTES + 2 * H2_HEAD_ROOM], section[SECTION];
    static hpack_field fields[SECTION / HPACK_OVERHEAD + 1];

    found.max_frames = H2_FRAMES;
    found.text = text;
    found.text_cap = sizeof text;
    found.fields = fields;
    found.section = section;
    for (size_t done = 0; done < len;) {
        done = h2_receive(&at->h2, octets, done, len, &found);
        for (uint32_t i = 0; i < found.count; i++)
            act(at, &found.events[i], text);
    }
}

static void close_outsider(outsider *at)
{
    h2_goaway(&at->h2, at->h2.last_served, H2_NO_ERROR);
    send_all(at);
    tls_shut(at->session);
    tls_flush(at->session, at->fd);
    tls_end(at->session);
    close(at->fd);
    h2_end(&at->h2);
    lane_drop_carrier(&set, at->number);
    at->number = 0;
}

static void serve_outsiders(void)
{
    static char octets[1 << 15];
    int is_full;

    for (unsigned i = 0; i < FDS; i++) {
        outsider *at = &outsiders[i];
        ssize_t got;

        if (at->number == 0)
            continue;
        while ((got = tls_receive(at->session, at->fd, octets, sizeof octets,
                                  &is_full)) > 0)
            receive_octets(at, octets, (size_t)got);
        at->is_over |= got == 0 || errno != EAGAIN;
        at->is_over |= at->h2.state == H2_OVER; /* no memory */
        for (unsigned k = 0; k < 256 && at->h2.out_len < LARGE; k++)
            if (at->answers[k].left > 0)
                send_body(at, k);
        if (at->h2.out_len > 0 || tls_out_len(at->session) > 0)
            send_all(at);
        if (at->is_over)
            close_outsider(at);
    }
}

/* The connection with this number, which leaves the lane if it is there; NULL:
 * it is closed. */
static outsider *outsider_at(int number)
{
    outsider *at = outsiders;
    lane_remains remains;
    int fd, has_more;

    while (at < outsiders + FDS && at->number != number)
        at++;
    if (at < outsiders + FDS)
        return at;
    fd = lane_release_carrier(&set, number);
    if (fd < 0)
        return NULL;
    for (at = outsiders; at->number != 0;)
        at++;
    memset(at, 0, sizeof *at);
    at->number = number;
    at->fd = fd;
    at->session = lane_take_session(&set, fd);
    require(at->session != NULL, "HTTP/2 comes over TLS");
    lane_left(&set);
    lane_take_carrier(&set, number, &at->h2);
    do {
        has_more = lane_next_remains(&set, number, &remains);
        for (uint32_t i = 0; i < remains.count; i++)
            act(at, &remains.events[i], remains.text);
    } while (has_more);
    receive_octets(at, remains.left, remains.left_len);
    nleft++;
    return at;
}

static void take_into_lane(int fd)
{
    const h2_limits limits = {MAX_STREAMS, SECTION, 0};
    tls_session *session = lane_take_session(&set, fd);
    h2_connection h2;
    char name[3] = "";
    int number = -1;

    lane_left(&set);
    if (session != NULL && tls_alpn(session, name, 2) == 2 &&
        strcmp(name, "h2") == 0 && tls_shake(session) == 1)
        number = lane_new_carrier(&set);
    h2_begin(&h2, &limits);
    if (number >= 0) {
        if (lane_adopt_carrier(&set, number, fd, 0, session, 0, &h2))
            return;
        require(is_wild, "a lane that is open takes a connection");
        lane_drop_carrier(&set, number);
    }
    h2_end(&h2);
    if (session != NULL)
        tls_end(session);
    close(fd);
}

static void take_jobs(void)
{
    job found;

    while (pop(&for_main, &found)) {
        if (found.carrier == 0) {
            take_into_lane(found.number);
        } else if (found.path[0] == '\0') {
            outsider_at((int)found.carrier);
            lane_let_go(&set, (int)found.carrier);
        } else {
            outsider *at = outsider_at((int)found.carrier);
            uint32_t id = lane_take_stream(&set, found.number);

            if (at != NULL)
                send_answer(at, id, found.path, found.left);
        }
    }
}

static void let_due_leave(int seconds)
{
    static int32_t numbers[LANE_STREAMS];
    int n = lane_due_carriers(&set, seconds, seconds, numbers, LANE_STREAMS);

    for (int i = 0; i < n; i++) {
        outsider_at(numbers[i]);
        lane_let_go(&set, numbers[i]);
    }
}

static void renew(void)
{
    tls_context *made;

    refused_call = 0; /* a server.pem that cannot be read is a fault */
    made = new_server(0x303, "\x02h2\x08http/1.1", 12);
    lane_renew(&set, 0, made);
    tls_context_free(made);
}

/* One turn of the event loop. */
static void turn(unsigned *seed)
{
    lane_released shaking[4];

    __atomic_add_fetch(&set.now, 1, __ATOMIC_RELAXED);
    refuse(seed);
    take_jobs();
    serve_outsiders();
    lane_sweep(&set, 100000, 100000);
    if (roll(seed, 4) == 0)
        lane_flush(&set);
    if (roll(seed, 64) == 0)
        renew();
    let_due_leave(is_wild && roll(seed, 64) == 0 ? -1 : 100000);
    if (is_wild && roll(seed, 8) == 0)
        lane_evict_idle(&set);
    if (is_wild && roll(seed, 32) == 0) {
        int n = lane_release_shaking(&set, 0, shaking, 4);

        for (int i = 0; i < n; i++)
            take_into_lane(shaking[i].fd);
    }
    if (is_wild && roll(seed, 64) == 0)
        lane_renew(&set, 0, NULL);
    nap(200);
}

static void open_lane(void)
{
    socklen_t len = sizeof address;

    memset(&set, 0, sizeof set);
    memset(conns, 0, sizeof conns);
    memset(&listener, 0, sizeof listener);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    listener.is_tcp = listener.is_tls = listener.shakes = 1;
    require(bind(listener.fd, (struct sockaddr *)&address, len) == 0 &&
                listen(listener.fd, 64) == 0 &&
                getsockname(listener.fd, (struct sockaddr *)&address, &len) ==
                    0,
            "there is a place to listen");
    set.listeners = &listener;
    set.nlisteners = 1;
    set.conns = conns;
    set.conns_cap = CONNS;
    set.sessions = sessions;
    set.first_stream = FDS;
    set.h2 = lane_h2_new(SECTION);
    set.input = input;
    set.input_cap = sizeof input;
    set.read_cap = set.body_cap = READ_CAP;
    set.vars = vars;
    set.vars_cap = sizeof vars;
    set.max_head_len = set.max_line_len = SECTION;
    set.max_fields = 16;
    set.max_body_len = READ_CAP;
    set.stall_us = 1000;
    set.max_conns = CONNS;
    set.arrivals = arrivals;
    set.arrivals_cap = ARRIVALS;
    require(set.h2 != NULL && lane_open(&set) == 0, "a lane opens");
    renew();
}

static void check_end(void)
{
    for (unsigned i = 0; i < FDS; i++)
        if (outsiders[i].number != 0)
            close_outsider(&outsiders[i]);
    require(set.nconns == 0, "no connection is left");
    for (int fd = 0; fd < CONNS; fd++)
        require(conns[fd].state == LANE_FREE && sessions[fd] == NULL,
                "no connection is left");
    for (int i = 0; i < LANE_STREAMS; i++)
        require(set.h2->places[i].carrier == NULL, "no number is left");
    require(set.h2->kept == 0, "no body is left");
    lane_h2_free(set.h2);
}

/* A wild round ends as a server does whose drain has taken too long. */
static void run_round(unsigned *seed)
{
    pthread_t workers[WORKERS], clients[CLIENTS];
    unsigned worker_numbers[WORKERS], client_numbers[CLIENTS];
    long end = now_ms() + ROUND_MS;

    refused_call = 0; /* of the round before */
    open_lane();
    clients_stop = workers_stop = is_closing = 0;
    nclients = CLIENTS;
    start(workers, worker_numbers, WORKERS, work);
    start(clients, client_numbers, CLIENTS, be_client);
    while (now_ms() < end)
        turn(seed);
    if (is_wild) {
        set_flag(&is_closing);
        lane_unlisten(&set, 0);
        pthread_mutex_lock(&leadership);
        lane_close(&set);
        pthread_mutex_unlock(&leadership);
        close(listener.fd);
    }
    set_flag(&clients_stop);
    while (__atomic_load_n(&nclients, __ATOMIC_ACQUIRE) > 0) {
        take_jobs();
        serve_outsiders();
        nap(200);
    }
    join(clients, CLIENTS);
    set_flag(&workers_stop);
    join(workers, WORKERS);
    take_jobs();
    if (!is_wild) {
        lane_close(&set);
        close(listener.fd);
    }
    for (int number = 0; number < CONNS; number++) {
        if (kept[number])
            lane_reply(&set, number, NULL, 0, NULL, 0, 1);
        kept[number] = 0;
    }
    check_end();
}

int main(int argc, char **argv)
{
    long end = now_ms() + 1000 * (argc > 1 ? atol(argv[1]) : 3);
    unsigned seed = (unsigned)now_ms();
    int before;

    signal(SIGPIPE, SIG_IGN); /* OpenSSL's clients write() */
    if (!open_openssl()) {
        printf("no OpenSSL is here, and nothing was done\n");
        return 0;
    }
    open_server();
    for (unsigned i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + (i >> 8));
    client_ctx = tls_lib.SSL_CTX_new(client_lib.TLS_client_method());
    require(client_ctx != NULL, "there is memory");
    before = count_descriptors();
    for (unsigned i = 0; now_ms() < end || i < 3; i++) {
        is_wild = i % 3 > 0;
        is_short = i % 3 == 2;
        run_round(&seed);
    }
    tls_lib.SSL_CTX_free(client_ctx);
    require(count_descriptors() == before, "no descriptor is left");
    require(nanswers > 0 && nleft > 0 && nshaken > 0 && nbodies > 0,
            "clients are answered in the lane and outside");
    printf("%lu answers, %lu connections left the lane, and every promise "
           "kept\n",
           nanswers, nleft);
    return 0;
}
