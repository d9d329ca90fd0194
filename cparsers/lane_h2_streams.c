/* lane_h2_streams.c -- replies to the streams of a lane.  Those to one
 * connection go out together: they are sent when none of its requests waits any
 * more, or there are enough for a record, or the leader waits; else the leader
 * sends them before it waits, or the stall timer does. */
#define _GNU_SOURCE /* memmem; POSIX beside C99 */
#include "lane_h2.h"

#ifdef __linux__
#include "lane_states.h"

#include <errno.h>
#include <string.h>

enum {
    RECORD = 14000, /* octets that are sent at once */
    /* Of a body, made at once; lane_keep has longer ones.  As REPLY_BYTES. */
    MOST_AT_ONCE = 1 << 17
};

void count_stream(lane *set, carrier *c)
{
    /* Without a stream the carrier is counted, else its streams are. */
    if (__atomic_fetch_add(&c->nrunning, 1, __ATOMIC_RELAXED) > 0)
        count_conn(set);
    set_used(&set->conns[c->fd], 0); /* not idle: see lane_evict_idle */
}

/* A carrier waits for a further request. */
static void rest(lane *set, lane_conn *conn)
{
    set_since(set, conn);
    set_used(conn, 1);
}

void uncount_stream(lane *set, carrier *c)
{
    if (__atomic_sub_fetch(&c->nrunning, 1, __ATOMIC_RELAXED) > 0)
        lane_left(set);
    else if (c->where == IN_LANE)
        rest(set, &set->conns[c->fd]);
}

void end_stream(lane *set, carrier *c, int number)
{
    set_state(&set->conns[number], LANE_FREE);
    forget_body(set, c, number);
    free_number(set, number);
    uncount_stream(set, c);
}

size_t count_unsent(const lane *set, const carrier *c)
{
    const tls_session *session = session_of(set, c->fd);

    return c->h2.out_len + (session != NULL ? tls_out_len(session) : 0);
}

void send_frames(lane *set, carrier *c)
{
    struct iovec part = {c->h2.out, c->h2.out_len};
    int was_behind = (int)c->is_behind;
    ssize_t took;

    if (c->where != IN_LANE) /* the descriptor may be another connection's */
        return;
    took = part.iov_len > 0 ? send_parts(set, c->fd, &part, 1, 0) : 0;
    if (took < 0 && errno != EAGAIN) {
        shutdown(c->fd, SHUT_RDWR); /* the leader finds the end */
        took = (ssize_t)part.iov_len;
    }
    if (took == (ssize_t)part.iov_len) {
        if (c->waiting != 0)
            c->h2.out_len = 0; /* its memory is needed at once */
        else
            h2_sent(&c->h2);
    } else if (took > 0) {
        c->h2.out_len -= (size_t)took;
        memmove(c->h2.out, c->h2.out + took, c->h2.out_len);
    }
    c->is_behind = took < (ssize_t)part.iov_len || lane_holds(set, c->fd);
    if (c->is_behind == (uint32_t)was_behind)
        return;
    c->behind_at = now(set);
    rearm(set, c->fd); /* with EPOLLOUT, or without */
}

void send_or_list(lane *set, carrier *c)
{
    lane_h2 *h2 = set->h2;
    int is_first;

    if (c->is_behind) /* bodies that wait, too, go on with the socket's edge */
        return;
    if (c->nrunning == 0 || c->h2.out_len >= RECORD) {
        send_frames(set, c);
        return;
    }
    pthread_mutex_lock(&h2->lock);
    is_first = !c->is_listed;
    if (is_first) {
        c->is_listed = 1;
        c->next = h2->unsent;
        __atomic_store_n(&h2->unsent, c, __ATOMIC_RELAXED);
        hold(c);
    }
    pthread_mutex_unlock(&h2->lock);
    /* Either this thread sees that the leader waits, or that sees the list. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&set->is_waiting, __ATOMIC_RELAXED))
        send_frames(set, c);
    else if (is_first && set->stall_us > 0)
        arm_stall_timer(set);
}

void unlock_carrier(lane *set, carrier *c)
{
    /* A worker had no memory for frames: the leader ends the connection. */
    if (c->where == IN_LANE && c->h2.is_failure_due)
        shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&c->lock);
    let_go(set, c);
}

void flush_carriers(lane *set)
{
    lane_h2 *h2 = set->h2;
    carrier *c;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (__atomic_load_n(&h2->unsent, __ATOMIC_RELAXED) != NULL) {
        pthread_mutex_lock(&h2->lock);
        c = h2->unsent;
        if (c != NULL) {
            __atomic_store_n(&h2->unsent, c->next, __ATOMIC_RELAXED);
            c->is_listed = 0;
        }
        pthread_mutex_unlock(&h2->lock);
        if (c == NULL)
            return;
        pthread_mutex_lock(&c->lock);
        if (c->h2.out_len > 0 && !c->is_behind)
            send_frames(set, c);
        unlock_carrier(set, c);
    }
}

void lane_flush(lane *set)
{
    if (set->h2 != NULL)
        flush_carriers(set);
}

int has_stream_left(lane *set, int number)
{
    carrier *c = held_carrier(set, number);
    uint32_t stream = place_at(set, number)->stream;
    int has_left = 0;

    if (c == NULL)
        return 0;
    pthread_mutex_lock(&c->lock);
    if (c->where != LEFT)
        has_left = c->where == CLOSED || h2_room(&c->h2, stream) == H2_GONE;
    unlock_carrier(set, c);
    return has_left;
}

/* Send octets of a body, for which there is room. */
static void send_body(h2_connection *h2, uint32_t id, const char *body,
                      size_t len, int is_end)
{
    while (len > 0) {
        long n =
            h2_send(h2, id, NULL, 0, body, len, is_end ? H2_END_STREAM : 0u);

        if (n <= 0)
            return; /* no memory */
        body += n;
        len -= (size_t)n;
    }
}

/* The length of a final head; 0: it is none, or it has no end. */
static size_t head_len_of(const struct iovec *part)
{
    const char *head = part->iov_base, *end;

    if (part->iov_len < 10 || head[9] == '1') /* RFC 9110 15.2: 1xx */
        return 0;
    end = memmem(head, part->iov_len, "\r\n\r\n", 4);
    return end != NULL ? (size_t)(end - head) + 4 : 0;
}

static size_t len_of(const struct iovec *parts, int count)
{
    size_t len = 0;

    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    return len;
}

/* Make the frames of a response, or of a part: the first begins with the head.
 * Returns 1; 0: there is no room for all; -1: the client has reset the
 * stream. */
static int put_parts(const lane *set, carrier *c, place *at,
                     const struct iovec *parts, int count, int is_last)
{
    size_t head_len = at->taken < 0 ? head_len_of(parts) : 0;
    size_t left = len_of(parts, count) - head_len, skipped = head_len;
    long window = h2_room(&c->h2, at->stream), sent = 0;

    if (window == H2_GONE)
        return -1;
    if ((at->taken < 0 && head_len == 0) || left > (size_t)window ||
        left > MOST_AT_ONCE ||
        (c->is_behind && count_unsent(set, c) + left > MOST_UNSENT))
        return 0;
    if (head_len > 0 || left == 0)
        sent = h2_send(&c->h2, at->stream, parts->iov_base, head_len, "", 0,
                       is_last && left == 0 ? H2_END_STREAM : 0u);
    if (sent == H2_MALFORMED)
        h2_reset(&c->h2, at->stream, H2_INTERNAL_ERROR);
    if (sent < 0)
        return -1;
    at->taken = (at->taken < 0 ? 0 : at->taken) + (int64_t)left;
    for (int i = 0; i < count; i++) {
        const char *octets = parts[i].iov_base;
        size_t len = parts[i].iov_len - skipped;

        left -= len;
        if (len > 0)
            send_body(&c->h2, at->stream, octets + skipped, len,
                      is_last && left == 0);
        skipped = 0;
    }
    return c->h2.is_failure_due ? -1 : 1; /* without memory it is over */
}

int64_t send_stream(lane *set, int number, const struct iovec *parts,
                    int count)
{
    place *at = place_at(set, number);
    carrier *c = at->carrier;
    int is_put = -1;

    hold(c);
    pthread_mutex_lock(&c->lock);
    if (c->where == IN_LANE)
        is_put = put_parts(set, c, at, parts, count, 0);
    if (is_put == 1)
        send_or_list(set, c);
    unlock_carrier(set, c);
    return is_put == 1 ? (int64_t)len_of(parts, count) : -1;
}

int64_t lane_taken(lane *set, int number)
{
    carrier *c = is_in_table(set, number) ? held_carrier(set, number) : NULL;
    int64_t taken;

    if (c == NULL)
        return -1;
    pthread_mutex_lock(&c->lock);
    taken = place_at(set, number)->taken;
    unlock_carrier(set, c);
    return taken;
}

int reply_stream(lane *set, int number, const struct iovec *parts, int count)
{
    place *at = place_at(set, number);
    carrier *c = at->carrier;
    size_t len = len_of(parts, count);
    int is_owed, is_put = -1;

    hold(c);
    pthread_mutex_lock(&c->lock);
    is_owed = len > 0 || at->taken >= 0; /* else lane_keep has sent all */
    if (c->where == IN_LANE && is_owed)
        is_put = put_parts(set, c, at, parts, count, 1);
    if (is_owed && (is_put == 0 || c->where == LEFT)) {
        unlock_carrier(set, c);
        return LANE_UNSENT;
    }
    if (c->where == IN_LANE) /* else the lane may have closed its timer */
        tell_progress(set);
    end_request(set, number);
    end_stream(set, c, number);
    if (c->where == IN_LANE && c->h2.out_len > 0)
        send_or_list(set, c);
    unlock_carrier(set, c);
    return is_put == 1 || !is_owed ? (int)len : LANE_LOST;
}

/* Returns 0 when its client is gone, and the number is free. */
int release_stream(lane *set, int number)
{
    carrier *c = place_at(set, number)->carrier;
    int is_closed;

    hold(c);
    pthread_mutex_lock(&c->lock);
    is_closed = c->where == CLOSED;
    forget_body(set, c, number);
    if (is_closed)
        end_stream(set, c, number);
    else /* until lane_take_stream, as no connection */
        set_state(&set->conns[number], LANE_FREE);
    unlock_carrier(set, c);
    return !is_closed;
}

uint32_t lane_take_stream(lane *set, int number)
{
    place *at = place_at(set, number);
    carrier *c = at->carrier;
    uint32_t stream = at->stream;

    hold(c);
    pthread_mutex_lock(&c->lock);
    end_stream(set, c, number);
    if (c->where == IN_LANE) { /* nobody will answer it */
        h2_reset(&c->h2, stream, H2_INTERNAL_ERROR);
        send_or_list(set, c);
    }
    unlock_carrier(set, c);
    return stream;
}

#endif
