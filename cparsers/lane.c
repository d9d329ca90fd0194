/* lane.c -- the functions of a lane: wait, reply, end.  Reading a request is in
 * lane_read.c, accepting in lane_accept.c, the rules of the states in
 * lane_states.h.  Long: replies, releases and ends change one state. */
#define _GNU_SOURCE /* epoll, eventfd, POSIX beside C99 */
#include "lane.h"

#ifdef __linux__
#include "lane_states.h"
#include "waking.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

enum {
    MAX_EVENTS = 64,      /* taken by one epoll_wait */
    MOST_BODIES = 16,     /* turns of bodies in a poll that must not wait */
    MOST_SHAKES = 8,      /* steps of handshakes in a poll: 0.3 ms each */
    SEND_PARTS = 4,       /* taken by one lane_send */
    REPLIES_TO_A_LOOK = 8 /* at the clock; a batch of fewer has none */
};

int lane_available(void)
{
    return 1;
}

/* Waiting */

/* Let stall_fd signal when stall_us are over, but not before.  A timer that is
 * late enough stays: each change is a trap of a virtual machine, and made for
 * each request they were a fifth of its price (2026-11-21, 1 connection).
 * Two threads at once, each with its own time, could leave stall_at later
 * than the timer, which then would never be set again: the second does
 * nothing, and the timer may signal too early. */
void arm_stall_timer(lane *set)
{
    uint64_t soonest = waking_clock_us() + set->stall_us;
    uint64_t latest = soonest + set->stall_us;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(latest / 1000000),
                     .tv_nsec = (long)(latest % 1000000) * 1000}};

    if (__atomic_load_n(&set->stall_at, __ATOMIC_RELAXED) >= soonest ||
        __atomic_exchange_n(&set->is_arming, 1, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&set->stall_at, latest, __ATOMIC_RELAXED);
    timerfd_settime(set->stall_fd, TFD_TIMER_ABSTIME, &when, NULL);
    __atomic_store_n(&set->is_arming, 0, __ATOMIC_RELEASE);
}

/* A request was answered: as long as they are, nothing stalls.  Of a few one
 * looks at the clock; that two threads may count as one does no harm. */
void tell_progress(lane *set)
{
    uint32_t n = __atomic_load_n(&set->nreplies, __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&set->nreplies, n, __ATOMIC_RELAXED);
    if (n % REPLIES_TO_A_LOOK == 0 && set->stall_us > 0)
        arm_stall_timer(set);
}

/* Make a connection BUSY that has an event.  Returns 0 when it has an owner
 * already, for which it is marked as MORE, or is closed. */
static int own_or_mark(lane_conn *conn)
{
    uint8_t state;

    do {
        if (own_waiting(conn))
            return 1;
        if (change_state(conn, LANE_BUSY, LANE_MORE))
            return 0;
        state = state_of(conn);
    } while (state != LANE_FREE && state != LANE_MORE &&
             state != LANE_ENDING); /* it has changed just now */
    return 0;
}

/* Read from a connection on which something has come.  The event may be of an
 * earlier connection with this number: then nothing has come. */
static uint32_t read_ready(lane *set, const struct epoll_event *event,
                           uint32_t n, uint32_t *input_len, int *nshakes)
{
    int fd = event->data.fd;
    lane_conn *conn = &set->conns[fd];

    if (!own_or_mark(conn))
        return n;
    if (carrier_at(set, fd) != 0) {
        n = read_carrier(set, fd,
                         (event->events & (EPOLLRDHUP | EPOLLHUP)) != 0, n,
                         input_len);
    } else if (!has_batch_room(set, n, *input_len) ||
               (is_shaking(conn) && (*nshakes)-- <= 0)) {
        set->is_shake_due |= (uint32_t)is_shaking(conn);
        await_octets(set, fd, 1);
    } else if (is_shaking(conn)) {
        n += (uint32_t)shake(set, fd, &set->arrivals[n]);
    } else if (read_arrival(set, fd, (event->events & EPOLLPRI) != 0,
                            input_len, &set->arrivals[n])) {
        n++;
        /* The end has come already, and no further edge will come. */
        if (event->events & (EPOLLRDHUP | EPOLLHUP) && own_or_mark(conn))
            await_octets(set, fd, 1);
    }
    return n;
}

/* Read from connections with an event; first from the one that had no room in
 * the last full batch, or the same ones could fill each batch. */
static uint32_t read_all(lane *set, const struct epoll_event *events,
                         int count, uint32_t n, uint32_t *input_len,
                         int *nshakes)
{
    int first = 0, is_full = 0;

    while (first < count && events[first].data.fd != set->next_conn)
        first++;
    for (int i = 0; i < count; i++) {
        const struct epoll_event *event = &events[(first + i) % count];

        if (!is_full && !has_batch_room(set, n, *input_len)) {
            is_full = 1;
            set->next_conn = event->data.fd;
        }
        n = read_ready(set, event, n, input_len, nshakes);
    }
    return n;
}

/* Returns the number of arrivals. */
static uint32_t poll_once(lane *set, int timeout_ms, int nshakes,
                          int *is_woken)
{
    struct epoll_event events[MAX_EVENTS];
    uint32_t n = 0, input_len = 0, ready[MAX_EVENTS], nready = 0;
    uint32_t is_accept_due = set->is_accept_due;
    uint64_t ignored;
    int nevents, nconns = 0;

    set->vars_len = 0;
    if (set->is_paused)
        resume_accepting(set);
    if (set->is_resting && load_board_is_due(set->board))
        end_rest(set);
    __atomic_store_n(&set->is_waiting, 1, __ATOMIC_RELAXED);
    if (set->h2 != NULL)
        flush_carriers(set);
    nevents = epoll_wait(set->epoll_fd, events, MAX_EVENTS,
                         has_ended(set) ? 0 : timeout_ms);
    *is_woken = nevents < 0; /* a signal: the caller looks for its work */
    for (int i = 0; i < nevents; i++) {
        int key = events[i].data.fd;

        if (key & LISTENER)
            ready[nready++] = (uint32_t)(key & ~LISTENER);
        else if (key & WAKE) /* it may have been read by an earlier call */
            *is_woken = !set->is_looking && /* or lane_poll would sleep */
                        read(set->wake_fd, &ignored, sizeof ignored) > 0;
        else if (key & REST)
            end_rest(set);
        else
            events[nconns++] = events[i];
    }
    if (has_ended(set)) /* those that a full batch has left */
        n = add_ended(set, n);
    /* Connections first: they have waited longer.  But busy ones must not keep
     * out new ones for ever. */
    if (is_accept_due && nready > 0)
        n = accept_ready(set, ready, nready, n, &input_len);
    n = read_all(set, events, nconns, n, &input_len, &nshakes);
    if (!is_accept_due && nready > 0)
        n = accept_ready(set, ready, nready, n, &input_len);
    if (nready > 0)
        set->is_accept_due =
            !is_accept_due && !has_batch_room(set, n, input_len);
    begin_requests(set, n,
                   set->entries != NULL && n > 0 ? waking_clock_us() : 0);
    if (has_ended(set))
        n = add_ended(set, n);
    if ((n > 0 || *is_woken) && set->stall_us > 0)
        arm_stall_timer(set);
    return n;
}

int lane_poll(lane *set, int timeout_ms)
{
    uint32_t n;
    int is_woken = 0, nbodies = 0;

    /* With a board it comes to nothing time and again: another process was
     * quicker, or should be; so does a handshake.  The caller need not hear of
     * that.  While all workers are busy, a poll each 20 ms must do for bodies. */
    set->is_shake_due = 0;
    do {
        set->is_body_due = 0;
        n = poll_once(set, timeout_ms, MOST_SHAKES, &is_woken);
    } while (n == 0 && !is_woken &&
             (timeout_ms < 0 ? set->board != NULL || set->sessions != NULL
                             : set->is_body_due && ++nbodies < MOST_BODIES));
    __atomic_store_n(&set->is_waiting, 0, __ATOMIC_RELAXED);
    return (int)n;
}

int lane_look(lane *set)
{
    int is_woken = 0;
    uint32_t n;

    set->is_looking = 1;
    n = poll_once(set, 0, 0, &is_woken);
    set->is_looking = 0;
    __atomic_store_n(&set->is_waiting, 0, __ATOMIC_RELAXED);
    return (int)n;
}

void lane_watch(lane *set)
{
    if (set->stall_us > 0)
        arm_stall_timer(set);
}

void lane_wake(lane *set)
{
    waking_wake(set->wake_fd);
}

/* Replying */

/* For how many seconds the lane's clock has stood still, as the app holds up
 * the loop that moves it; 0 where threads run the app. */
static uint32_t standstill(const lane *set)
{
    struct timespec at;
    int32_t seconds;

    if (set->stall_us > 0 || clock_gettime(CLOCK_MONOTONIC, &at) != 0)
        return 0;
    seconds = (int32_t)((uint32_t)at.tv_sec - set->now_at);
    return seconds > 1 ? (uint32_t)seconds - 1 : 0; /* both are rounded */
}

/* Of a unix socket that closes, a send tells; and one that is half closed
 * still reads. */
int lane_has_left(lane *set, int fd)
{
    struct pollfd at = {.fd = fd, .events = POLLRDHUP};
    int domain = AF_UNIX;
    socklen_t size = sizeof domain;

    if (!is_in_table(set, fd))
        return 0;
    if (is_stream(set, fd))
        return has_stream_left(set, fd);
    return set->leaving_seconds > 0 &&
           seconds_since(set, &set->conns[fd]) + standstill(set) >=
               set->leaving_seconds &&
           poll(&at, 1, 0) == 1 && (at.revents & POLLRDHUP) != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
           domain != AF_UNIX;
}

ssize_t send_parts(lane *set, int fd, const struct iovec *parts, size_t count,
                   int is_last)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = count};
    tls_session *session = session_of(set, fd);

    if (session != NULL)
        return tls_send(session, fd, parts, (int)count, is_last);
    if (count == 1)
        return send(fd, parts->iov_base, parts->iov_len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int lane_holds(lane *set, int fd)
{
    const tls_session *session = session_of(set, fd);

    return session != NULL && tls_out_len(session) > 0;
}

int64_t lane_send(lane *set, int fd, const lane_part *parts, uint32_t count)
{
    struct iovec pieces[SEND_PARTS];
    uint64_t whole = 0;
    ssize_t took;

    count = count < SEND_PARTS ? count : SEND_PARTS;
    for (uint32_t i = 0; i < count; i++) {
        pieces[i].iov_base = (void *)(uintptr_t)parts[i].at;
        pieces[i].iov_len = (size_t)parts[i].size;
        whole += parts[i].size;
    }
    if (is_stream(set, fd))
        return send_stream(set, fd, pieces, (int)count);
    took = send_parts(set, fd, pieces, count, 0);
    return took == (ssize_t)whole && lane_holds(set, fd) ? LANE_HELD : took;
}

int lane_reply(lane *set, int fd, const char *head, uint32_t head_len,
               const char *body, uint32_t body_len, int keep)
{
    uint32_t len = head_len + body_len;
    struct iovec parts[2] = {{(void *)(uintptr_t)head, head_len},
                             {(void *)(uintptr_t)body, body_len}};
    lane_conn *conn;
    ssize_t took;
    int is_lost, sent = (int)len;

    if ((uint64_t)head_len + body_len > INT32_MAX)
        return LANE_UNSENT; /* no result could say how many were sent */
    if (!is_in_table(set, fd) || is_unowned(&set->conns[fd]))
        return sent; /* no reply is due */
    if (is_stream(set, fd))
        return reply_stream(set, fd, parts, body_len > 0 ? 2 : 1);
    conn = &set->conns[fd];
    if (len > 0 && lane_has_left(set, fd))
        sent = LANE_LATE;
    /* RFC 9112 9.6: a close with octets unread would reset the connection.  Of
     * TLS the client's closure alert comes behind ours. */
    if (!keep &&
        (!conn->last || (state_of(conn) == LANE_MORE && has_octets(set, fd))))
        return LANE_UNSENT;
    took =
        len > 0 ? send_parts(set, fd, parts, body_len > 0 ? 2 : 1, !keep) : 0;
    is_lost = took < 0 && errno != EAGAIN && errno != EINTR;
    if (took != (ssize_t)len && !is_lost)
        return took > 0 ? (int)took : 0;
    if (!is_lost && lane_holds(set, fd))
        return LANE_HELD;
    tell_progress(set); /* now: while the request is here, so is the timer */
    end_request(set, fd);
    if (is_lost || !keep) {
        close_conn(set, fd);
        return is_lost ? LANE_LOST : sent;
    }
    set_since(set, conn);
    if (!make_idle(set, fd)) {
        close_conn(set, fd);
        return sent;
    }
    /* Either this thread sees is_closed, or lane_close sees IDLE. */
    if (__atomic_load_n(&set->is_closed, __ATOMIC_SEQ_CST) &&
        change_state(conn, LANE_IDLE, LANE_BUSY))
        close_conn(set, fd);
    return sent;
}

void take_out(lane *set, int fd)
{
    if (set->conns[fd].listed)
        control_epoll(set, EPOLL_CTL_DEL, fd, 0, fd);
    leave_busy(&set->conns[fd], LANE_FREE);
}

/* Take a BUSY connection without a request out of the lane.  Returns 0 when
 * the lane was closed, and the connection with it. */
static int release(lane *set, int fd)
{
    if (__atomic_load_n(&set->is_closed, __ATOMIC_SEQ_CST)) {
        close_conn(set, fd);
        return 0;
    }
    take_out(set, fd);
    return 1;
}

tls_session *lane_session(const lane *set, int fd)
{
    return session_of(set, fd);
}

tls_session *lane_take_session(lane *set, int fd)
{
    return is_in_table(set, fd) ? take_session(set, fd) : NULL;
}

int lane_release(lane *set, int fd)
{
    if (!is_in_table(set, fd) || is_unowned(&set->conns[fd]))
        return 0;
    end_request(set, fd);
    if (is_stream(set, fd))
        return release_stream(set, fd);
    return release(set, fd);
}

int lane_own(lane *set, int fd)
{
    if (!is_in_table(set, fd) ||
        !change_state(&set->conns[fd], LANE_BODY, LANE_BUSY))
        return 0;
    tell(set, LOAD_REQUEST_SHIFT, 1); /* lane_release takes it back */
    return 1;
}

/* Whether a connection has a state that a descriptor alone does not move. */
static int has_state(lane *set, lane_conn *conn)
{
    return set->listeners[__atomic_load_n(&conn->listener, __ATOMIC_RELAXED)]
               .is_tls ||
           __atomic_load_n(&conn->carrier, __ATOMIC_RELAXED) != 0;
}

/* Another function that wants one of these, as lane_poll with an event for it,
 * is first, and it is not IDLE here; or finds it BUSY, and then FREE. */
int lane_release_idle(lane *set, lane_released *out, uint32_t cap)
{
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);
    uint32_t n = 0;

    for (uint32_t fd = 0; fd < top && n < cap; fd++) {
        lane_conn *conn = &set->conns[fd];

        if (state_of(conn) != LANE_IDLE || has_state(set, conn) ||
            !change_state(conn, LANE_IDLE, LANE_BUSY))
            continue;
        if (has_state(set, conn)) { /* another connection by now */
            close_idle(set, (int)fd, 0);
            continue;
        }
        out[n].fd = (int32_t)fd;
        out[n].listener = conn->listener;
        out[n].is_used = conn->used; /* set only when made BUSY */
        if (release(set, (int)fd)) {
            lane_left(set);
            n++;
        }
    }
    return (int)n;
}

/* Count one user less; close the lane's own descriptors with the last. */
static void uncount_user(lane *set)
{
    if (__atomic_sub_fetch(&set->nusers, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    waking_close(&set->rest_fd);
    waking_close(&set->stall_fd);
    waking_close(&set->wake_fd);
    waking_close(&set->epoll_fd);
}

void lane_left(lane *set)
{
    tell(set, LOAD_CONN_SHIFT, -1);
    __atomic_sub_fetch(&set->nconns, 1, __ATOMIC_SEQ_CST);
    /* Either this thread sees is_paused, or resume_accepting sees the lower
     * count. */
    if (__atomic_load_n(&set->is_paused, __ATOMIC_SEQ_CST))
        lane_wake(set);
    uncount_user(set);
}

static int is_overdue(lane *set, lane_conn *conn, int used_seconds,
                      int new_seconds)
{
    int seconds = __atomic_load_n(&conn->used, __ATOMIC_RELAXED) ? used_seconds
                                                                 : new_seconds;

    return seconds < 0 || seconds_since(set, conn) > (uint32_t)seconds;
}

int lane_sweep(lane *set, int used_seconds, int new_seconds)
{
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);
    int count = 0;

    for (uint32_t fd = 0; fd < top; fd++) {
        lane_conn *conn = &set->conns[fd];

        if (state_of(conn) != LANE_IDLE || is_shaking(conn) ||
            carrier_at(set, (int)fd) != 0 ||
            !is_overdue(set, conn, used_seconds, new_seconds) ||
            !change_state(conn, LANE_IDLE, LANE_BUSY))
            continue;
        /* Once more: it may have carried a request since the line above. */
        count += close_idle(set, (int)fd,
                            is_overdue(set, conn, used_seconds, new_seconds));
    }
    return count;
}

/* Beginning and end */

int lane_open(lane *set)
{
    const int yes = 1;

    set->is_closed = 0;
    set->nusers = 1; /* until lane_close */
    set->wake_fd = set->stall_fd = set->rest_fd = -1;
    set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll_fd < 0)
        return errno;
    set->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (set->wake_fd < 0)
        return errno;
    set->stall_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (set->stall_fd < 0)
        return errno;
    if (control_epoll(set, EPOLL_CTL_ADD, set->wake_fd, EPOLLIN, WAKE) != 0)
        return errno;
    if (set->board != NULL) {
        set->rest_fd =
            timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        /* Edge-triggered: it need not be read. */
        if (set->rest_fd < 0 || control_epoll(set, EPOLL_CTL_ADD, set->rest_fd,
                                              EPOLLIN | EPOLLET, REST) != 0)
            return errno;
    }
    for (uint32_t i = 0; i < set->nlisteners; i++) {
        /* Accepted connections inherit it. */
        if (set->listeners[i].is_tcp)
            setsockopt(set->listeners[i].fd, IPPROTO_TCP, TCP_NODELAY, &yes,
                       sizeof yes);
        if ((!set->listeners[i].is_tls || set->listeners[i].shakes) &&
            control_epoll(set, EPOLL_CTL_ADD, set->listeners[i].fd, EPOLLIN,
                          LISTENER | (int)i) != 0)
            return errno;
    }
    return 0;
}

/* Close a connection, or show its client the end: then its owner closes. */
static void end_conn(lane *set, int fd)
{
    lane_conn *conn = &set->conns[fd];

    while (state_of(conn) != LANE_FREE) {
        if (own_waiting(conn)) {
            close_conn(set, fd);
        } else if (change_state(conn, LANE_BUSY, LANE_ENDING) ||
                   change_state(conn, LANE_MORE, LANE_ENDING)) {
            shutdown(fd, SHUT_RDWR);
            set_state(conn, LANE_MORE);
            return;
        }
    }
}

void lane_close(lane *set)
{
    if (set->is_closed)
        return;
    __atomic_store_n(&set->is_closed, 1, __ATOMIC_SEQ_CST);
    for (uint32_t fd = 0; fd < set->top; fd++)
        end_conn(set, (int)fd);
    lane_flush(set); /* nobody else will */
    drop_contexts(set);
    uncount_user(set);
}

#endif
