/* lane_h2.c -- connections of HTTP/2 in the lane: their numbers, coming and
 * leaving.  Reading is in lane_h2_read.c, replies are in lane_h2_streams.c, and
 * those that wait for room in lane_h2_bodies.c. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "lane_h2.h"
#include "pump.h"

#ifdef __linux__
#include "lane_states.h"

#include <stdlib.h>
#include <string.h>

/* Numbers */

lane_h2 *lane_h2_new(uint32_t max_section_bytes)
{
    uint32_t most = max_section_bytes + H2_HEAD_ROOM;
    size_t fields = max_section_bytes / HPACK_OVERHEAD + 1;
    lane_h2 *h2;

    most = (most > H2_FRAME_BYTES ? most : H2_FRAME_BYTES) + 256;
    h2 = calloc(1, sizeof *h2 + fields * sizeof(hpack_field) + most +
                       max_section_bytes);
    if (h2 == NULL)
        return NULL;
    pthread_mutex_init(&h2->lock, NULL);
    h2->first_free = -1;
    h2->found.max_frames = 1; /* a batch has room for one more each time */
    h2->found.fields = (hpack_field *)(void *)h2->memory;
    h2->found.text = h2->memory + fields * sizeof(hpack_field);
    h2->found.text_cap = most;
    h2->found.section = h2->found.text + most;
    return h2;
}

void lane_h2_free(lane_h2 *h2)
{
    pthread_mutex_destroy(&h2->lock);
    free(h2);
}

int new_number(lane *set, carrier *of, uint32_t stream)
{
    lane_h2 *h2 = set->h2;
    int32_t at;

    pthread_mutex_lock(&h2->lock);
    at = h2->first_free;
    if (stream == 0 && h2->ncarriers == LANE_CARRIERS)
        at = -1;
    else if (at >= 0)
        h2->first_free = h2->places[at].next;
    else if (h2->nused < LANE_STREAMS)
        at = h2->nused++;
    if (at >= 0) {
        h2->places[at].carrier = of;
        h2->places[at].stream = stream;
        h2->places[at].taken = -1;
        h2->ncarriers += stream == 0;
        hold(of);
    }
    pthread_mutex_unlock(&h2->lock);
    return at < 0 ? -1 : (int)set->first_stream + at;
}

static void push_number(lane *set, int number)
{
    lane_h2 *h2 = set->h2;
    place *freed = place_at(set, number);

    pthread_mutex_lock(&h2->lock);
    freed->carrier = NULL;
    h2->ncarriers -= freed->stream == 0;
    freed->next = h2->first_free;
    h2->first_free = (int32_t)(freed - h2->places);
    pthread_mutex_unlock(&h2->lock);
}

void free_number(lane *set, int number)
{
    carrier *of = place_at(set, number)->carrier;

    push_number(set, number);
    let_go(set, of);
}

void hold(carrier *c)
{
    __atomic_add_fetch(&c->nusers, 1, __ATOMIC_RELAXED);
}

carrier *held_carrier(lane *set, int number)
{
    carrier *c;
    uint32_t nusers = 0;

    pthread_mutex_lock(&set->h2->lock);
    c = place_at(set, number)->carrier;
    if (c != NULL)
        nusers = __atomic_load_n(&c->nusers, __ATOMIC_RELAXED);
    while (nusers > 0 &&
           !__atomic_compare_exchange_n(&c->nusers, &nusers, nusers + 1, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    pthread_mutex_unlock(&set->h2->lock);
    return nusers > 0 ? c : NULL;
}

void drop_half(lane *set, carrier *c, half **at)
{
    half *dropped = *at;

    *at = dropped->next;
    c->kept -= dropped->size;
    __atomic_sub_fetch(&set->h2->kept, dropped->size, __ATOMIC_RELAXED);
    free(dropped);
}

/* The connection is over, and so are requests that are not whole. */
static void drop_halves(lane *set, carrier *c)
{
    while (c->halves != NULL) {
        drop_half(set, c, &c->halves);
        uncount_stream(set, c);
    }
}

void let_go(lane *set, carrier *c)
{
    if (__atomic_sub_fetch(&c->nusers, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    /* Last: a stream is known by its carrier's number. */
    if (c->number >= 0)
        push_number(set, c->number);
    if (c->given != NULL)
        drop_half(set, c, &c->given);
    drop_halves(set, c);
    h2_end(&c->h2);
    free(c->left);
    free(c->text);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Carriers */

int lane_new_carrier(lane *set)
{
    carrier *made = calloc(1, sizeof *made);

    if (made == NULL)
        return -1;
    pthread_mutex_init(&made->lock, NULL);
    made->where = CLOSED;
    made->number = new_number(set, made, 0);
    if (made->number >= 0)
        return made->number;
    hold(made);
    let_go(set, made);
    return -1;
}

void lane_drop_carrier(lane *set, int number)
{
    carrier *c = carrier_of(set, number);

    pthread_mutex_lock(&c->lock);
    set_where(c, CLOSED);
    pthread_mutex_unlock(&c->lock);
    let_go(set, c);
}

void lane_let_go(lane *set, int number)
{
    let_go(set, carrier_of(set, number));
}

int lane_feed_carrier(lane *set, int number, const char *octets, uint32_t len)
{
    carrier *c = carrier_of(set, number);

    c->left = malloc(len);
    if (c->left == NULL)
        return 0;
    memcpy(c->left, octets, len);
    c->left_len = len;
    return 1;
}

int lane_adopt_carrier(lane *set, int number, int fd, uint32_t i,
                       tls_session *session, int is_used, h2_connection *h2)
{
    carrier *c = carrier_of(set, number);
    int is_taken;

    pthread_mutex_lock(&c->lock); /* the leader waits for it */
    c->h2 = *h2;
    c->fd = fd;
    set_where(c, IN_LANE);
    c->second = now(set);
    is_taken = adopt(set, fd, i, session, is_used, number);
    if (is_taken) {
        memset(h2, 0, sizeof *h2);
        h2->state = H2_OVER;
        if (c->h2.out_len > 0)
            send_frames(set, c);
    } else {
        memset(&c->h2, 0, sizeof c->h2);
        set_where(c, CLOSED);
    }
    pthread_mutex_unlock(&c->lock);
    return is_taken;
}

int lane_carrier_of(lane *set, int number)
{
    return carrier_at(set, number);
}

uint32_t lane_running(lane *set, int number)
{
    return __atomic_load_n(&carrier_of(set, number)->nrunning,
                           __ATOMIC_RELAXED);
}

static int is_due(lane *set, carrier *c, int used_seconds, int new_seconds)
{
    lane_conn *conn;
    int seconds;

    if (c->where != IN_LANE)
        return 0;
    conn = &set->conns[c->fd];
    seconds = conn->used ? used_seconds : new_seconds;
    return seconds < 0 || (c->is_behind && now(set) - c->behind_at > 1) ||
           (c->halves != NULL && now(set) - c->halves->since > 1) ||
           has_late_body(set, c) ||
           (c->nrunning == 0 && seconds_since(set, conn) > (uint32_t)seconds);
}

int lane_due_carriers(lane *set, int used_seconds, int new_seconds,
                      int32_t *numbers, uint32_t cap)
{
    uint32_t n = 0;
    int32_t nused;

    pthread_mutex_lock(&set->h2->lock);
    nused = set->h2->nused;
    pthread_mutex_unlock(&set->h2->lock);
    for (int32_t at = 0; at < nused && n < cap; at++) {
        int number = (int)set->first_stream + at, is_it;
        carrier *c = held_carrier(set, number);

        if (c == NULL)
            continue;
        pthread_mutex_lock(&c->lock);
        is_it =
            c->number == number && is_due(set, c, used_seconds, new_seconds);
        if (is_it)
            c->remains.is_idle = c->nrunning == 0 && !c->is_behind &&
                                 seconds_since(set, &set->conns[c->fd]) > 1;
        pthread_mutex_unlock(&c->lock);
        if (is_it)
            numbers[n++] = number;
        else
            let_go(set, c);
    }
    return (int)n;
}

/* Leaving */

int lane_release_carrier(lane *set, int number)
{
    carrier *c = carrier_of(set, number);
    uint32_t where;

    pthread_mutex_lock(&c->lock);
    where = c->where;
    if (where == IN_LANE) {
        set_where(c, LEFT);
        end_bodies(set, c, PUMP_LATE);
        if (has_ended(set))
            lane_wake(set); /* lane_poll tells of these */
    }
    pthread_mutex_unlock(&c->lock);
    if (where == CLOSED)
        return -1;
    if (where == IN_LANE) { /* the leader reads no more */
        while (!change_state(&set->conns[c->fd], LANE_IDLE, LANE_BUSY)) {
            if (__atomic_load_n(&c->where, __ATOMIC_ACQUIRE) == CLOSED)
                return -1;
            sched_yield();
        }
        if (carrier_at(set, c->fd) != number) { /* another's by now */
            close_idle(set, c->fd, 0);
            return -1;
        }
        __atomic_store_n(&set->conns[c->fd].carrier, 0, __ATOMIC_RELAXED);
        take_out(set, c->fd);
    }
    return c->fd;
}

void lane_take_carrier(lane *set, int number, h2_connection *to)
{
    carrier *c = carrier_of(set, number);

    pthread_mutex_lock(&c->lock);
    *to = c->h2;
    memset(&c->h2, 0, sizeof c->h2);
    pthread_mutex_unlock(&c->lock);
}

/* The frames that have brought a half so far. */
static void tell_half(const half *each, lane_remains *remains)
{
    uint32_t head = each->arrival.vars_len;
    uint32_t body = head + (uint32_t)each->arrival.consumed;
    uint32_t due = each->counted - each->given; /* of the window */

    remains->count = 2;
    remains->text_len = each->len;
    remains->text = each->octets;
    remains->events[0] = (h2_event){
        H2_REQUEST, each->stream, each->flags, 1, {head, body - head}};
    remains->events[1] =
        (h2_event){H2_DATA, each->stream, 0, due, {body, each->len - body}};
}

int lane_next_remains(lane *set, int number, lane_remains *remains)
{
    carrier *c = carrier_of(set, number);
    half *each;

    pthread_mutex_lock(&c->lock);
    if (c->given != NULL)
        drop_half(set, c, &c->given);
    each = c->given = c->halves;
    *remains = c->remains;
    if (each != NULL) {
        c->halves = each->next;
        each->next = NULL;
        uncount_stream(set, c); /* it is the caller's to count */
        tell_half(each, remains);
    } else {
        remains->text = c->text;
        remains->left = c->left != NULL ? c->left + c->left_at : NULL;
        remains->left_len = (uint32_t)(c->left_len - c->left_at);
    }
    pthread_mutex_unlock(&c->lock);
    return each != NULL;
}

void end_carrier(lane *set, int fd)
{
    carrier *c = carrier_of(set, carrier_at(set, fd));

    __atomic_store_n(&set->conns[fd].carrier, 0, __ATOMIC_RELAXED);
    pthread_mutex_lock(&c->lock);
    if (c->h2.state != H2_OVER)
        h2_goaway(&c->h2, c->h2.last_served, H2_NO_ERROR);
    send_frames(set, c);
    set_where(c, CLOSED);
    drop_halves(set, c);
    end_bodies(set, c, PUMP_GONE);
    pthread_mutex_unlock(&c->lock);
    let_go(set, c);
}

int close_idle_carrier(lane *set, int fd, int is_due)
{
    carrier *c = carrier_of(set, carrier_at(set, fd));

    pthread_mutex_lock(&c->lock); /* a reply may be on its way */
    is_due = is_due && c->where == IN_LANE && c->nrunning == 0 &&
             !has_octets(set, fd);
    if (!is_due) {
        rearm(set, fd);
        make_idle(set, fd);
    }
    pthread_mutex_unlock(&c->lock);
    if (is_due)
        close_conn(set, fd);
    return is_due;
}

int has_carrier_left(const lane *set, int fd)
{
    int number = carrier_at(set, fd);
    const carrier *c;

    if (number == 0)
        return 0;
    c = set->h2->places[(uint32_t)number - set->first_stream].carrier;
    return c->left != NULL || c->is_leaving || c->has_more || c->is_behind;
}

#endif
