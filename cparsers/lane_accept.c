/* lane_accept.c -- accepting into the lane, paused at the limits and resumed;
 * and connections that come back. */
#define _GNU_SOURCE /* accept4 */
#include "lane.h"

#ifdef __linux__
#include "lane_states.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>

enum {
    EVICT_COUNT = 32, /* connections closed at once */
    ASKED_COUNT = 4,  /* see is_waited_for */
    REST_NS = 1000000 /* how long a listener is left to other processes */
};

/* Why a listener is paused. */
enum {
    LIMIT = 1, /* of connections, or of descriptors */
    OTHERS = 2 /* processes, which have less to do */
};

/* Pausing: the limit of connections, and of descriptors */

/* Take a listener out of the epoll set; accepting may go on. */
static void unlist_listener(lane *set, uint32_t i)
{
    control_epoll(set, EPOLL_CTL_DEL, set->listeners[i].fd, 0, 0);
}

static uint32_t count_conns(lane *set)
{
    return __atomic_load_n(&set->nconns, __ATOMIC_SEQ_CST) +
           __atomic_load_n(&set->nothers, __ATOMIC_RELAXED);
}

int has_no_place(lane *set)
{
    return count_conns(set) >=
           __atomic_load_n(&set->max_conns, __ATOMIC_RELAXED);
}

/* Leave new clients in the kernel's queue for a while; count that in *count. */
static void pause_accepting(lane *set, uint32_t i, uint32_t *count)
{
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    unlist_listener(set, i);
    set->listeners[i].pause = LIMIT;
    set->paused_conns = count_conns(set);
    set->paused_at = now(set);
    /* Before the next look at nconns: see lane_left. */
    __atomic_store_n(&set->is_paused, 1, __ATOMIC_SEQ_CST);
}

/* Put the listeners back that were taken out for this. */
static void list_paused(lane *set, uint32_t why)
{
    /* As in lane_poll: is_off is looked at only where lane_unlisten waits. */
    __atomic_store_n(&set->is_accepting, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < set->nlisteners; i++) {
        lane_listener *listener = &set->listeners[i];

        if (listener->pause != why)
            continue;
        listener->pause = 0;
        if (!__atomic_load_n(&listener->is_off, __ATOMIC_SEQ_CST))
            control_epoll(set, EPOLL_CTL_ADD, listener->fd, EPOLLIN,
                          LISTENER | (int)i);
    }
    __atomic_store_n(&set->is_accepting, 0, __ATOMIC_SEQ_CST);
}

void resume_accepting(lane *set)
{
    if (count_conns(set) >= set->paused_conns && now(set) == set->paused_at)
        return;
    __atomic_store_n(&set->is_paused, 0, __ATOMIC_SEQ_CST);
    list_paused(set, LIMIT);
}

/* Resting: another process has less to do */

static void rest_listener(lane *set, uint32_t i)
{
    static const struct itimerspec when = {.it_value = {.tv_nsec = REST_NS}};

    unlist_listener(set, i);
    set->listeners[i].pause = OTHERS;
    if (!set->is_resting)
        timerfd_settime(set->rest_fd, 0, &when, NULL);
    set->is_resting = 1;
}

void end_rest(lane *set)
{
    set->is_resting = 0;
    list_paused(set, OTHERS);
}

/* Evicting: connections that have idled the longest go */

/* For how many seconds a connection has waited for another request. */
static uint32_t idle_seconds(lane *set, lane_conn *conn)
{
    if (state_of(conn) != LANE_IDLE ||
        !__atomic_load_n(&conn->used, __ATOMIC_RELAXED))
        return 0;
    return seconds_since(set, conn);
}

int lane_evict_idle(lane *set)
{
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);
    uint32_t longest = 0;
    int count = 0;

    for (uint32_t fd = 0; fd < top; fd++) {
        uint32_t seconds = idle_seconds(set, &set->conns[fd]);

        if (seconds > longest)
            longest = seconds;
    }
    if (longest < 2) /* two ticks: a second at least */
        return 0;
    for (uint32_t fd = 0; fd < top && count < EVICT_COUNT; fd++) {
        lane_conn *conn = &set->conns[fd];

        if (idle_seconds(set, conn) < longest ||
            !change_state(conn, LANE_IDLE, LANE_BUSY))
            continue;
        /* Once more, as in lane_sweep. */
        count += close_idle(set, (int)fd, seconds_since(set, conn) >= longest);
    }
    return count;
}

/* The same, but look in vain at most once a second. */
static int evict_if_any(lane *set)
{
    if (set->none_idle_at == now(set))
        return 0;
    if (lane_evict_idle(set))
        return 1;
    set->none_idle_at = now(set);
    return 0;
}

/* Accepting */

/* Count one more connection, until lane_left. */
void count_conn(lane *set)
{
    tell(set, LOAD_CONN_SHIFT, 1);
    __atomic_add_fetch(&set->nconns, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&set->nusers, 1, __ATOMIC_RELAXED);
}

/* Begin the entry of a connection that this thread has just made BUSY. */
static void init_conn(lane *set, int fd, uint32_t listener, uint8_t used)
{
    lane_conn *conn = &set->conns[fd];
    uint32_t top = __atomic_load_n(&set->top, __ATOMIC_RELAXED);

    __atomic_store_n(&conn->listener, (uint16_t)listener, __ATOMIC_RELAXED);
    conn->listed = 0;
    __atomic_store_n(&conn->carrier, 0, __ATOMIC_RELAXED);
    set_used(conn, used);
    set_shaking(conn, 0);
    conn->body_left = 0;
    set_since(set, conn);
    /* lane_poll's thread and lane_adopt's may both raise it. */
    while ((uint32_t)fd >= top &&
           !__atomic_compare_exchange_n(&set->top, &top, (uint32_t)fd + 1, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* How many connections to accept at most: no more than a batch, though they
 * may have sent nothing yet: others wait, too. */
static uint32_t quota(lane *set)
{
    uint32_t most = set->board != NULL ? (uint32_t)load_board_quota(set->board)
                                       : set->arrivals_cap;

    return most < set->arrivals_cap ? most : set->arrivals_cap;
}

/* Whether a client waits, after `count` connections of this batch.  accept4()
 * takes a descriptor, and makes a socket and a file, before it looks: called in
 * vain, it was 8 % of a request's price (2026-11-26, perf, uwsgi on a unix
 * socket, 1 connection).  Of more than ASKED_COUNT connections only the last
 * accept4() is in vain: that is cheaper than to ask before each. */
static int is_waited_for(int fd, uint32_t count)
{
    struct pollfd asked = {.fd = fd, .events = POLLIN};

    return count == 0 || count > ASKED_COUNT || poll(&asked, 1, 0) != 0;
}

/* Return a copy of a standard descriptor's number that is above those, and
 * close it.  The app has closed 0, 1 or 2 a moment ago: what it prints would
 * reach the client, and libuv aborts the process when it closes such a number. */
static int above_standard(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    close(fd);
    return copy;
}

/* Accept until the queue is empty, or no room is left; read each at once. */
static uint32_t accept_from(lane *set, uint32_t i, uint32_t n,
                            uint32_t *input_len)
{
    uint32_t most = quota(set);
    int is_awaited = 1; /* the epoll set has reported it */

    if (most == 0)
        rest_listener(set, i);
    for (uint32_t count = 0;
         count < most && has_batch_room(set, n, *input_len) &&
         is_waited_for(set->listeners[i].fd, count);
         count++) {
        int fd;

        if (has_no_place(set) && (!is_awaited || !evict_if_any(set))) {
            if (is_awaited)
                pause_accepting(set, i, &set->nfull);
            break;
        }
        is_awaited = 0;
        fd = accept4(set->listeners[i].fd, NULL, NULL,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && fd <= 2)
            fd = above_standard(fd);
        if (fd < 0) {
            /* accept(2); it would be reported again at once, and in vain. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                errno == ENOMEM)
                pause_accepting(set, i, &set->nshort);
            break;
        }
        count_conn(set);
        tell(set, LOAD_TURN_SHIFT, 1);
        if (!is_in_table(set, fd) || is_stream(set, fd)) {
            /* More than the table holds: the caller's, unread. */
            lane_arrival *arrival = &set->arrivals[n++];
            memset(arrival, 0, sizeof *arrival);
            arrival->fd = fd;
            arrival->listener = i;
            arrival->input_off = *input_len;
            arrival->consumed = ASERVE_INCOMPLETE;
            arrival->is_first = 1;
            continue;
        }
        __atomic_exchange_n(&set->conns[fd].state, LANE_BUSY,
                            __ATOMIC_ACQ_REL);
        init_conn(set, fd, i, 0);
        if (set->listeners[i].is_tls) { /* its turn comes with others' */
            set_shaking(&set->conns[fd], 1);
            if (!await_octets(set, fd, 0))
                close_conn(set, fd);
            continue;
        }
        /* Not in the epoll set yet, which reports octets left by a read. */
        if (read_arrival(set, fd, 0, input_len, &set->arrivals[n]))
            n++;
    }
    return n;
}

uint32_t accept_ready(lane *set, const uint32_t *ready, uint32_t nready,
                      uint32_t n, uint32_t *input_len)
{
    uint32_t first = 0, is_full = 0;

    while (first < nready && ready[first] != set->next_listener)
        first++;
    /* Either this thread sees is_off, or lane_unlisten sees this. */
    __atomic_store_n(&set->is_accepting, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < nready; i++) {
        uint32_t next = ready[(first + i) % nready];

        if (!is_full && !has_batch_room(set, n, *input_len)) {
            is_full = 1;
            set->next_listener = next;
        }
        if (!__atomic_load_n(&set->listeners[next].is_off, __ATOMIC_SEQ_CST))
            n = accept_from(set, next, n, input_len);
    }
    __atomic_store_n(&set->is_accepting, 0, __ATOMIC_SEQ_CST);
    return n;
}

void lane_unlisten(lane *set, uint32_t i)
{
    __atomic_store_n(&set->listeners[i].is_off, 1, __ATOMIC_SEQ_CST);
    unlist_listener(set, i);
    while (__atomic_load_n(&set->is_accepting, __ATOMIC_SEQ_CST))
        sched_yield(); /* at most one batch: about a millisecond */
    unlist_listener(set,
                    i); /* resume_accepting may have listed it meanwhile */
}

int adopt(lane *set, int fd, uint32_t i, tls_session *session, int is_used,
          int carrier)
{
    if (!is_in_table(set, fd) || is_stream(set, fd) || i >= set->nlisteners ||
        set->is_closed || set->listeners[i].is_off ||
        set->listeners[i].protocol != LANE_HTTP ||
        (session != NULL && tls_flush(session, fd) != 1) ||
        !change_state(&set->conns[fd], LANE_FREE, LANE_BUSY))
        return 0;
    count_conn(set);
    init_conn(set, fd, i, (uint8_t)is_used);
    __atomic_store_n(&set->conns[fd].carrier, (uint32_t)carrier,
                     __ATOMIC_RELAXED);
    if (session != NULL)
        set->sessions[fd] = session;
    /* The set reports octets that are there already when it gets a descriptor. */
    if (make_idle(set, fd))
        return 1;
    take_session(set, fd);
    leave_busy(&set->conns[fd], LANE_FREE);
    lane_left(set);
    return 0;
}

int lane_adopt(lane *set, int fd, uint32_t i, tls_session *session,
               int is_used)
{
    return adopt(set, fd, i, session, is_used, 0);
}

#endif
