/* lane_h2_read.c -- from a connection of HTTP/2 with an event to arrivals: each
 * request that is plain is one, when its body has come. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "lane_h2.h"
#include "pump.h"

#ifdef __linux__
#include "lane_states.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUIET_SECONDS = H2_BURST / H2_EACH_SECOND,
    PART = 4096,    /* of a body: has memory before it has come.  Guess */
    LENGTH_VAR = 32 /* octets of CONTENT_LENGTH and its value */
};

/* Keep the octets from data[at] on for the next batch.  Returns 0: no memory. */
static int keep_left(carrier *c, const char *data, size_t at, size_t len)
{
    char *kept = NULL;

    if (data == c->left && at < len) {
        c->left_at = at;
        return 1;
    }
    if (at < len) {
        kept = malloc(len - at);
        if (kept == NULL)
            return 0;
        memcpy(kept, data + at, len - at);
    }
    if (data == c->left || kept != NULL) {
        free(c->left);
        c->left = kept;
        c->left_at = 0;
        c->left_len = kept != NULL ? len - at : 0;
    }
    return 1;
}

/* The place of the request whose body comes on a stream; else the end. */
static half **half_of(carrier *c, uint32_t stream)
{
    half **at = &c->halves;

    while (*at != NULL && (*at)->stream != stream)
        at = &(*at)->next;
    return at;
}

/* Make room for so many octets.  Returns 0: they are not kept here. */
static int grow_half(lane *set, carrier *c, half **at, uint32_t len)
{
    uint32_t more, size = (uint32_t)sizeof **at + len;
    half *grown;

    more = *at == NULL ? size : size - (*at)->size;
    if (c->kept + more > HALVES_OF_ONE ||
        __atomic_load_n(&set->h2->kept, __ATOMIC_RELAXED) + more > HALVES_KEPT)
        return 0;
    grown = realloc(*at, size);
    if (grown == NULL)
        return 0;
    if (*at == NULL)
        memset(grown, 0, sizeof *grown);
    grown->size = size;
    *at = grown;
    c->kept += more;
    __atomic_add_fetch(&set->h2->kept, more, __ATOMIC_RELAXED);
    return 1;
}

/* Keep a request until its body has come.  Returns 0: it is not for the lane. */
static int keep_request(lane *set, carrier *c, const h2_event *event,
                        const lane_arrival *arrival)
{
    const char *head = set->h2->found.text + event->text.off;
    uint32_t vars_len = arrival->vars_len, head_len = event->text.len;
    uint64_t length = arrival->content_length;
    half **at = half_of(c, event->stream), *made;

    if (head_len + length > set->body_cap ||
        !grow_half(set, c, at,
                   vars_len + head_len +
                       (uint32_t)(length < PART ? length : PART)))
        return 0;
    made = *at;
    made->arrival = *arrival;
    made->stream = event->stream;
    made->flags = event->flags;
    made->since = now(set);
    made->len = vars_len + head_len;
    memcpy(made->octets, set->vars + arrival->vars_off, vars_len);
    memcpy(made->octets + vars_len, head, head_len);
    count_stream(set, c);
    return 1;
}

/* Give the request of an arrival to the caller, with head and body.  Returns 0:
 * there is no number for it, or no room in this batch. */
static int hand_in(lane *set, carrier *c, uint32_t stream, const char *octets,
                   uint32_t len, lane_arrival *arrival, uint32_t *input_len)
{
    int number;
    lane_conn *conn;

    if (set->input_cap - *input_len < len ||
        (number = new_number(set, c, stream)) < 0)
        return 0;
    memcpy(set->input + *input_len, octets, len);
    arrival->fd = number;
    arrival->input_off = *input_len;
    arrival->input_len = len;
    *input_len += len;
    conn = &set->conns[number];
    conn->listener = set->conns[c->fd].listener;
    conn->body_left = 0;
    set_used(conn, 1);
    set_since(set, conn);
    __atomic_store_n(&conn->carrier, (uint32_t)c->number, __ATOMIC_RELAXED);
    set_state(conn, LANE_BUSY);
    return 1;
}

/* Make an arrival of a request, or keep it until it is one.  Returns how many
 * arrivals were made; -1: it is not plain. */
static int add_request(lane *set, carrier *c, const h2_event *event,
                       lane_arrival *arrival, uint32_t *input_len)
{
    const char *head = set->h2->found.text + event->text.off;
    uint32_t before = set->vars_len, len = event->text.len;
    int is_whole = (event->flags & H2_END_STREAM) != 0, is_taken;

    is_taken = c->nrunning < c->h2.limits.max_streams &&
               begin_stream(set, c->fd, head, len, arrival);
    if (is_taken && is_whole)
        is_taken =
            hand_in(set, c, event->stream, head, len, arrival, input_len);
    else if (is_taken)
        is_taken = keep_request(set, c, event, arrival);
    if (is_taken && is_whole)
        count_stream(set, c);
    else
        set->vars_len = before;
    return is_taken ? is_whole : -1;
}

/* Make an arrival of a request whose body has come.  Returns 0: it cannot be. */
static int end_body(lane *set, carrier *c, const half *each, uint32_t len,
                    lane_arrival *arrival, uint32_t *input_len)
{
    uint32_t before = set->vars_len, vars_len = each->arrival.vars_len;
    char *vars = set->vars + before;

    if (vars_len + LENGTH_VAR > set->vars_cap - before)
        return 0;
    memcpy(vars, each->octets, vars_len);
    *arrival = each->arrival;
    arrival->vars_off = before;
    arrival->content_length =
        len - vars_len - (uint32_t)each->arrival.consumed;
    if (!(arrival->flags & HTTP1_LENGTH)) /* it was not announced */
        arrival->vars_len += (uint32_t)snprintf(
            vars + vars_len, LENGTH_VAR, "%cCONTENT_LENGTH%c%u", 0, 0,
            (unsigned)arrival->content_length);
    set->vars_len = before + arrival->vars_len;
    set->vars[set->vars_len++] = '\0';
    if (hand_in(set, c, each->stream, each->octets + vars_len, len - vars_len,
                arrival, input_len))
        return 1;
    set->vars_len = before;
    return 0;
}

/* Let the client send as much of a body again as is kept. */
static void give_room(carrier *c, half *each)
{
    if (each->counted - each->given < H2_STREAM_WINDOW / 2)
        return;
    h2_give_room(&c->h2, each->stream, each->counted - each->given);
    each->given = each->counted;
}

/* Add octets to a request that is kept.  Returns how many arrivals were made;
 * -1: it is not for the lane, and kept as it was. */
static int add_data(lane *set, carrier *c, const h2_event *event,
                    lane_arrival *arrival, uint32_t *input_len)
{
    half **at = half_of(c, event->stream), *each = *at;
    uint32_t counted, len, size;

    if (each == NULL)
        return -1;
    counted = each->counted + event->number;
    len = each->len + event->text.len;
    size = each->arrival.content_length > 0
               ? each->arrival.vars_len + (uint32_t)each->arrival.consumed +
                     (uint32_t)each->arrival.content_length
               : 2 * len;
    if ((uint32_t)each->arrival.consumed + counted > set->body_cap ||
        counted > set->max_body_len ||
        (len > each->size - sizeof *each && !grow_half(set, c, at, size)))
        return -1;
    each = *at;
    memcpy(each->octets + each->len, set->h2->found.text + event->text.off,
           event->text.len);
    if (event->flags & H2_END_STREAM) {
        if (!end_body(set, c, each, len, arrival, input_len))
            return -1;
        drop_half(set, c, at);
        return 1;
    }
    each->len = len;
    each->counted = counted;
    give_room(c, each);
    return 0;
}

/* Act on the events of a frame.  Returns how many the lane does not act on,
 * the last ones; they remain. */
static uint32_t act(lane *set, carrier *c, uint32_t *n, uint32_t *input_len)
{
    const h2_found *found = &set->h2->found;

    for (uint32_t i = 0; i < found->count; i++) {
        const h2_event *event = &found->events[i];
        lane_arrival *arrival = &set->arrivals[*n];
        int added = 0;

        /* The first stream has the place of its connection. */
        if (event->kind == H2_REQUEST && c->nrunning > 0 && has_no_place(set))
            h2_reset(&c->h2, event->stream, H2_REFUSED_STREAM);
        else if (event->kind == H2_REQUEST)
            added = add_request(set, c, event, arrival, input_len);
        else if (event->kind == H2_DATA)
            added = add_data(set, c, event, arrival, input_len);
        /* A worker finds out that its stream is reset; none waits for room. */
        else if ((event->kind != H2_RESET ||
                  *half_of(c, event->stream) != NULL) &&
                 event->kind != H2_ROOM && event->kind != H2_PRIORITY)
            added = -1;
        if (added < 0)
            return found->count - i;
        *n += (uint32_t)added;
    }
    return 0;
}

static int keep_remains(carrier *c, const h2_found *found, uint32_t count)
{
    lane_remains *remains = &c->remains;

    if (count == 0)
        return 1;
    c->text = malloc(found->text_len + 1);
    if (c->text == NULL)
        return 0;
    memcpy(c->text, found->text, found->text_len);
    remains->text_len = found->text_len;
    remains->count = count;
    memcpy(remains->events, &found->events[found->count - count],
           count * sizeof *remains->events);
    return 1;
}

static void pass_seconds(lane *set, carrier *c)
{
    uint32_t seconds = now(set) - c->second;

    c->second = now(set);
    for (uint32_t i = 0; i < seconds && i < QUIET_SECONDS; i++)
        h2_pass_second(&c->h2);
}

/* What is to become of a carrier that was read. */
enum { STAYS, LEAVES, ENDS };

/* Receive data[.. len), as long as there is room. */
static int receive_frames(lane *set, carrier *c, const char *data, size_t at,
                          size_t len, uint32_t *n, uint32_t *input_len)
{
    uint32_t remains = 0;

    pass_seconds(set, c);
    while (at < len && remains == 0 && has_batch_room(set, *n, *input_len)) {
        at = h2_receive(&c->h2, data, at, len, &set->h2->found);
        remains = act(set, c, n, input_len);
    }
    if (!keep_left(c, data, at, len) ||
        !keep_remains(c, &set->h2->found, remains))
        return ENDS;
    return remains > 0 ? LEAVES : STAYS;
}

/* Read from the socket, and receive. */
static int read_frames(lane *set, carrier *c, int *is_full, uint32_t *n,
                       uint32_t *input_len)
{
    const tls_session *session = session_of(set, c->fd);
    char *to = set->h2->octets;
    ssize_t got;

    do
        got = receive(set, c->fd, to, sizeof set->h2->octets, is_full);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        return receive_frames(set, c, to, 0, (size_t)got, n, input_len);
    /* Without input it waits for its client to take what is sent. */
    if (got < 0 &&
        (errno == EAGAIN || (session != NULL && !tls_has_input(session))))
        return STAYS;
    if (got == 0)
        return c->nrunning > 0 || c->is_behind ? LEAVES : ENDS;
    return errno == EPROTO || c->halves != NULL ? LEAVES : ENDS;
}

/* The caller goes on with a carrier. */
static void leave(lane *set, carrier *c, lane_arrival *arrival)
{
    memset(arrival, 0, sizeof *arrival);
    arrival->kind = LANE_LEFT;
    arrival->fd = c->fd;
    arrival->listener = set->conns[c->fd].listener;
    arrival->consumed = ASERVE_INCOMPLETE;
    arrival->carrier = (uint32_t)c->number;
    set_where(c, LEFT);
    end_bodies(set, c, PUMP_LATE);
    hold(c); /* for the arrival */
    __atomic_store_n(&set->conns[c->fd].carrier, 0, __ATOMIC_RELAXED);
    take_out(set, c->fd);
}

/* Read what has come; see read_carrier. */
static int read_once(lane *set, carrier *c, int *is_full, uint32_t *n,
                     uint32_t *input_len)
{
    uint32_t before = *n;
    int next;

    if (c->left != NULL) {
        *is_full = 1; /* the socket was not read, and has told its edge */
        next = receive_frames(set, c, c->left, c->left_at, c->left_len, n,
                              input_len);
    } else {
        next = read_frames(set, c, is_full, n, input_len);
    }
    if (next != STAYS)
        return next;
    if (c->is_behind) /* now: to read has perhaps flushed the session */
        send_frames(set, c);
    if (c->is_behind && count_unsent(set, c) > MOST_UNSENT)
        return LEAVES; /* it asks, and does not read */
    if (c->waiting != 0 && set->is_looking)
        c->has_more = 1;
    else if (c->waiting != 0)
        send_bodies(set, c, 0);
    set->is_body_due |= c->has_more;
    *is_full |= (int)c->has_more;
    if (c->h2.out_len > 0 && !c->is_behind)
        (*n == before ? send_frames : send_or_list)(set, c);
    return STAYS;
}

uint32_t read_carrier(lane *set, int fd, int is_at_end, uint32_t n,
                      uint32_t *input_len)
{
    carrier *c = carrier_of(set, carrier_at(set, fd));
    int is_full = 0, next = STAYS;

    pthread_mutex_lock(&c->lock);
    if (c->where != IN_LANE) { /* another thread waits to take it */
        set_state(&set->conns[fd], LANE_IDLE);
        pthread_mutex_unlock(&c->lock);
        return n;
    }
    if (c->is_leaving)
        next = LEAVES;
    else if (has_batch_room(set, n, *input_len))
        next = read_once(set, c, &is_full, &n, input_len);
    else
        is_full = 1;
    if (next == LEAVES && has_batch_room(set, n, *input_len)) {
        leave(set, c, &set->arrivals[n++]);
    } else if (next != ENDS) {
        c->is_leaving = next == LEAVES;
        is_full = is_full || is_at_end || c->left != NULL || c->is_leaving;
        if (!await_octets(set, fd, is_full) && !make_idle(set, fd))
            next = ENDS;
    }
    pthread_mutex_unlock(&c->lock);
    if (next == ENDS)
        close_conn(set, fd);
    return n;
}

#endif
