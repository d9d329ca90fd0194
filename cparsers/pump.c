/* pump.c -- turns, and sending to a socket in one of them.  Long: bodies of
 * memory, of files and of TLS share the turns. */
#define _GNU_SOURCE /* epoll, eventfd, sendfile, POSIX beside C99 */
#include "pump.h"

#include <errno.h>

#ifdef __linux__
#include "waking.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MAX_EVENTS = 64,
    WAKE = -1, /* the key of wake_fd; else it is a body's number */
    /* Bodies that have a turn at once, while clients are quick.  With a
     * prototype (2026-11) 100 at once cost the kernel 1.3 times as much as 4,
     * and one at a time as much as 4. */
    LEAST_WIDTH = 4,
    /* The most that one call sends, so that other bodies wait no longer than
     * about a millisecond.  Guess. */
    MOST_BYTES = 1 << 22,
    /* The same of a session of TLS, and the most that it sends at once. */
    MOST_PIECES = 16,
    PIECE_BYTES = 3 << 14, /* as tls.c */
    /* A turn: so long, and as much longer for each MiB.  Guess: a client on
     * this machine needs a fourth of it, one behind a gigabit twice as much. */
    TURN_US = 2000,
    TURN_US_MIB = 4000,
    LOOK_US = 5000 /* between two looks at whose turn is over */
};

/* Beginning and end of the pump */

int pump_open(pump *set)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = WAKE}};

    set->first_waiting = set->last_waiting = set->first_begun = -1;
    set->width = LEAST_WIDTH;
    set->wake_fd = -1;
    set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll_fd < 0)
        return errno;
    set->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (set->wake_fd < 0 ||
        epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, set->wake_fd, &event) != 0)
        return errno;
    return 0;
}

void pump_close(pump *set)
{
    waking_close(&set->wake_fd);
    waking_close(&set->epoll_fd);
}

void pump_wake(pump *set)
{
    waking_wake(set->wake_fd);
}

/* Lists */

void pump_add(pump *set, int32_t i, int fd, tls_session *session,
              const char *head, uint32_t head_len, const char *body,
              int file_fd, uint64_t offset, uint64_t count,
              uint32_t unsent_before)
{
    set->bodies[i] = (pump_body){.head = head,
                                 .body = body,
                                 .session = session,
                                 .head_left = head_len,
                                 .left = count,
                                 .offset = offset,
                                 .fd = fd,
                                 .file_fd = file_fd,
                                 .unsent_before = unsent_before,
                                 .next = -1,
                                 .previous = -1};
    if (set->last_waiting < 0)
        set->first_waiting = i;
    else
        set->bodies[set->last_waiting].next = i;
    set->last_waiting = i;
}

static int32_t take_waiting(pump *set)
{
    int32_t i = set->first_waiting;

    set->first_waiting = set->bodies[i].next;
    if (set->first_waiting < 0)
        set->last_waiting = -1;
    return i;
}

static void link_begun(pump *set, int32_t i)
{
    pump_body *body = &set->bodies[i];

    body->previous = -1;
    body->next = set->first_begun;
    if (body->next >= 0)
        set->bodies[body->next].previous = i;
    set->first_begun = i;
}

static void unlink_begun(pump *set, int32_t i)
{
    const pump_body *body = &set->bodies[i];

    if (body->previous >= 0)
        set->bodies[body->previous].next = body->next;
    else
        set->first_begun = body->next;
    if (body->next >= 0)
        set->bodies[body->next].previous = body->previous;
}

/* Sending */

/* Limit the octets that the kernel keeps before it can send them; 0: its own
 * limit.  Only TCP sockets have this option. */
static void limit_unsent(int fd, uint32_t most_bytes)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_bytes,
               sizeof most_bytes);
}

static ssize_t send_memory(pump_body *body, size_t count)
{
    struct iovec parts[2] = {
        {(void *)(uintptr_t)body->head, body->head_left},
        {(void *)(uintptr_t)(body->body + body->offset), count}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    return sendmsg(body->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t send_head(pump_body *body)
{
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (body->left > 0 ? MSG_MORE : 0);

    return send(body->fd, body->head, body->head_left, flags);
}

static void count_sent(pump_body *body, size_t sent)
{
    uint64_t of_head = sent < body->head_left ? sent : body->head_left;

    body->head += of_head;
    body->head_left -= of_head;
    body->offset += sent - of_head;
    body->left -= sent - of_head;
}

/* Errors of the socket, as _CLIENT_ERRORS of connections/loop/sender.py; any other
 * is the file's. */
static int is_of_socket(int error)
{
    return error == EPIPE || error == ECONNRESET || error == ETIMEDOUT ||
           error == EHOSTUNREACH || error == ENETUNREACH || error == ENOTCONN;
}

/* One call: head and body from memory; of a file the head, then the body. */
static ssize_t send_once(pump_body *body, size_t *asked)
{
    size_t count = body->left < MOST_BYTES ? body->left : MOST_BYTES;
    off_t at = (off_t)body->offset;

    *asked = body->head_left + count;
    if (body->body != NULL)
        return send_memory(body, count);
    if (body->head_left == 0)
        return sendfile(body->fd, body->file_fd, &at, count);
    *asked = body->head_left;
    return send_head(body);
}

/* Encrypt and send a piece, with the head if that is left.  Returns as
 * send_part. */
static int send_piece(pump_body *body)
{
    char piece[PIECE_BYTES];
    size_t count = body->left < PIECE_BYTES ? body->left : PIECE_BYTES;
    struct iovec parts[2] = {
        {(void *)(uintptr_t)body->head, body->head_left},
        {(void *)(uintptr_t)(body->body + body->offset), count}};
    ssize_t done = (ssize_t)count;

    if (body->body == NULL) {
        done = pread(body->file_fd, piece, count, (off_t)body->offset);
        parts[1] = (struct iovec){piece, done > 0 ? (size_t)done : 0};
    }
    body->error = done < 0 ? errno : 0;
    if (done <= 0 && count > 0)
        return PUMP_SHORT;
    done = tls_send(body->session, body->fd, parts, 2, 0);
    if (done < 0) {
        body->error = errno;
        return PUMP_GONE;
    }
    count_sent(body, (size_t)done);
    return body->head_left + body->left + tls_out_len(body->session) == 0
               ? PUMP_SENT
               : -1;
}

static int send_pieces(pump_body *body)
{
    int outcome = -1, n = 0;

    do
        outcome = send_piece(body);
    while (outcome < 0 && tls_out_len(body->session) == 0 &&
           ++n < MOST_PIECES);
    return outcome;
}

/* Returns an outcome; or -1: the rest goes when there is room. */
static int send_part(pump_body *body)
{
    int is_file = body->body == NULL, had_head = body->head_left > 0;
    size_t asked;
    ssize_t sent;

    if (body->session != NULL)
        return send_pieces(body);
    sent = send_once(body, &asked);
    if (sent < 0) {
        body->error = errno;
        if (errno == EAGAIN || errno == EINTR)
            return -1;
        return is_file && !had_head && !is_of_socket(errno) ? PUMP_SHORT
                                                            : PUMP_GONE;
    }
    if (sent == 0 && asked > 0) {
        body->error = 0;
        return PUMP_SHORT;
    }
    count_sent(body, (size_t)sent);
    if (body->head_left == 0 && body->left == 0)
        return PUMP_SENT;
    return is_file && had_head && body->head_left == 0 ? send_part(body) : -1;
}

static void end_turn(pump *set, pump_body *body, int is_over)
{
    if (!body->has_turn)
        return;
    set->nturns--;
    body->has_turn = 0;
    if (is_over) /* clients are slow: let more of them have a turn */
        set->width = set->width < set->cap ? 2 * set->width : set->width;
    else if (set->width > LEAST_WIDTH)
        set->width--;
}

static void end_body(pump *set, int32_t i, int outcome, int is_watched)
{
    pump_body *body = &set->bodies[i];

    end_turn(set, body, outcome == PUMP_LATE);
    if (is_watched) {
        epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, body->fd, NULL);
        unlink_begun(set, i);
    }
    limit_unsent(body->fd, body->unsent_before);
    body->outcome = outcome;
    set->ended[set->nended++] = i;
}

/* Begin a turn. */
static void begin(pump *set, int32_t i, uint64_t at)
{
    pump_body *body = &set->bodies[i];
    struct epoll_event event = {.events = EPOLLOUT, .data = {.fd = i}};
    int outcome;

    body->has_turn = 1;
    set->nturns++;
    limit_unsent(body->fd, 0);
    outcome = send_part(body);
    if (outcome < 0 &&
        epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, body->fd, &event) != 0)
        outcome = PUMP_LATE; /* no memory: the caller has other means */
    if (outcome >= 0) {
        end_body(set, i, outcome, 0);
        return;
    }
    body->turn_until = at + TURN_US + (body->left >> 20) * TURN_US_MIB;
    body->until = at + set->late_us;
    link_begun(set, i);
}

static void look_for_late(pump *set, uint64_t at)
{
    for (int32_t i = set->first_begun, next; i >= 0; i = next) {
        pump_body *body = &set->bodies[i];

        next = body->next;
        if (at >= body->turn_until)
            end_turn(set, body, 1);
        if (at >= body->until)
            end_body(set, i, PUMP_LATE, 1);
    }
    set->look_at = at + LOOK_US;
}

/* Returns 1 when pump_wake was called. */
static int wait_and_send(pump *set)
{
    struct epoll_event events[MAX_EVENTS];
    int timeout = set->first_begun < 0 ? -1 : LOOK_US / 1000;
    int n = epoll_wait(set->epoll_fd, events, MAX_EVENTS, timeout), woken = 0;
    uint64_t ignored;

    for (int k = 0; k < n; k++) {
        int32_t i = events[k].data.fd;
        int outcome;

        if (i == WAKE) {
            woken = read(set->wake_fd, &ignored, sizeof ignored) > 0;
            continue;
        }
        outcome = send_part(&set->bodies[i]);
        if (outcome >= 0)
            end_body(set, i, outcome, 1);
    }
    return woken || n < 0;
}

int pump_run(pump *set)
{
    int is_woken = 0;
    uint64_t at;

    set->nended = 0;
    do {
        at = waking_clock_us();
        while (set->first_waiting >= 0 && set->nturns < set->width)
            begin(set, take_waiting(set), at);
        if (set->nended == 0)
            is_woken = wait_and_send(set);
        at = waking_clock_us();
        if (at >= set->look_at)
            look_for_late(set, at);
    } while (set->nended == 0 && !is_woken);
    return (int)set->nended;
}

#else

int pump_open(pump *set)
{
    (void)set;
    return ENOSYS;
}

void pump_close(pump *set)
{
    (void)set;
}

void pump_add(pump *set, int32_t i, int fd, tls_session *session,
              const char *head, uint32_t head_len, const char *body,
              int file_fd, uint64_t offset, uint64_t count,
              uint32_t unsent_before)
{
    (void)set;
    (void)i;
    (void)fd;
    (void)session;
    (void)head;
    (void)head_len;
    (void)body;
    (void)file_fd;
    (void)offset;
    (void)count;
    (void)unsent_before;
}

int pump_run(pump *set)
{
    (void)set;
    return 0;
}

void pump_wake(pump *set)
{
    (void)set;
}

#endif
