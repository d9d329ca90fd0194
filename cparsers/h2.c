/* h2.c -- octets become frames, and frames events (RFC 9113 4 to 6). */
#include "h2_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_LEN = sizeof preface - 1 };

void h2_begin(h2_connection *c, const h2_limits *limits)
{
    uint8_t payload[30], *to = payload;
    const uint32_t settings[][2] = {
        {3, limits->max_streams},
        {4, H2_STREAM_WINDOW},
        {6, limits->max_section_bytes},
        {8, limits->takes_websockets}, /* RFC 8441 3 */
        {9, 1}, /* RFC 9218 2.1: no dependencies and weights */
    };

    memset(c, 0, sizeof *c);
    c->limits = *limits;
    c->last_wanted = H2_LAST_STREAM;
    c->send_window = c->initial_window = (1 << 16) - 1;
    c->recv_window = H2_CONNECTION_WINDOW;
    c->max_frame = H2_FRAME_BYTES;
    c->frames_left = H2_BURST;
    hpack_begin(&c->decoder);
    hpack_encoder_begin(&c->encoder);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        to[0] = 0;
        to[1] = (uint8_t)settings[i][0];
        put_u32(to + 2, settings[i][1]);
        to += 6;
    }
    put_frame(c, SETTINGS, 0, 0, payload, sizeof payload);
    put_number(c, WINDOW_UPDATE, 0,
               (uint32_t)(c->recv_window - c->send_window));
}

void h2_end(h2_connection *c)
{
    free(c->frame);
    free(c->block);
    free(c->out);
    free(c->streams);
    c->frame = c->block = c->out = NULL;
    c->streams = NULL;
    c->nstreams = c->streams_cap = 0;
    c->out_len = c->out_cap = 0;
    c->frame_len = c->frame_cap = c->block_len = c->block_cap = 0;
    c->state = H2_OVER;
}

/* RFC 9113 6.5.2; RFC 8441 3.  Returns whether the value may be. */
static int apply_setting(const arrival *a, uint32_t number, uint32_t value)
{
    h2_connection *c = a->c;

    switch (number) {
    case 1:
        hpack_encoder_resize(&c->encoder, value);
        break;
    case 2:
    case 8:
        if (value > 1)
            fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a bad setting");
        break;
    case 4:
        if (value > MAX_WINDOW ||
            !grow_windows(c, (int64_t)value - c->initial_window))
            fail_connection(a, H2_FLOW_CONTROL_ERROR,
                            BROKE "a window that is too large");
        c->initial_window = value;
        break;
    case 5:
        if (value < H2_FRAME_BYTES || value >= 1 << 24)
            fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a bad setting");
        else
            c->max_frame = value;
        break;
    default: /* ignored, and not kept */
        break;
    }
    return c->state != H2_OVER;
}

static void on_settings(arrival *a)
{
    int is_ack = (a->flags & ACK) != 0;
    uint32_t count = a->len / 6;
    char why[64];

    if (a->id != 0) {
        fail_connection(a, H2_PROTOCOL_ERROR, BROKE "settings of a stream");
    } else if (a->len % 6 != 0 || (is_ack && a->len > 0)) {
        fail_connection(a, H2_FRAME_SIZE_ERROR, BROKE "settings in pieces");
    } else if (count > H2_FRAME_SETTINGS) {
        snprintf(why, sizeof why, BROKE "a frame of %u settings",
                 (unsigned)count);
        fail_connection(a, H2_ENHANCE_YOUR_CALM, why);
    }
    for (uint32_t i = 0; i < count && a->c->state != H2_OVER; i++) {
        const uint8_t *at = a->at + 6 * (size_t)i;

        apply_setting(a, (uint32_t)at[0] << 8 | at[1], get_u32(at + 2));
    }
    if (a->c->state == H2_OVER)
        return;
    if (!is_ack) {
        put_frame(a->c, SETTINGS, ACK, 0, NULL, 0);
        add_event(a->found, H2_ROOM, 0, 0);
    }
    spend_frame(a);
}

static void on_ping(arrival *a)
{
    if (a->id != 0)
        fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a ping of a stream");
    else if (a->len != 8)
        fail_connection(a, H2_FRAME_SIZE_ERROR, BROKE "a ping of a bad size");
    else if (!(a->flags & ACK))
        put_frame(a->c, PING, ACK, 0, a->at, 8);
    spend_frame(a);
}

/* RFC 9113 6.9.  Updates that no DATA frame has asked for are a flood. */
static void on_window(arrival *a)
{
    h2_connection *c = a->c;
    h2_stream *stream = stream_of(c, a->id);
    int64_t *window = a->id == 0       ? &c->send_window
                      : stream != NULL ? &stream->send_window
                                       : NULL;
    uint32_t more = a->len == 4 ? get_u32(a->at) & MAX_WINDOW : 0;

    if (a->len != 4) {
        fail_connection(a, H2_FRAME_SIZE_ERROR,
                        BROKE "an update of a bad size");
    } else if (a->id != 0 && is_idle(c, a->id)) {
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a window of a stream that has not begun");
    } else if (window != NULL && (more == 0 || *window + more > MAX_WINDOW)) {
        uint32_t code = more == 0 ? H2_PROTOCOL_ERROR : H2_FLOW_CONTROL_ERROR;

        if (stream != NULL)
            reset_stream(a, stream, code);
        else
            fail_connection(a, code, BROKE "an update that may not be");
    } else if (window != NULL) {
        *window += more;
        if (stream == NULL || stream->state != H2_HALF_CLOSED_LOCAL)
            add_event(a->found, H2_ROOM, a->id, 0);
    }
    if (++c->updates > H2_UPDATES_PER_FRAME * c->sent_count)
        spend_frame(a);
}

static void on_reset(arrival *a)
{
    h2_stream *stream = stream_of(a->c, a->id);

    if (a->len != 4) {
        fail_connection(a, H2_FRAME_SIZE_ERROR, BROKE "a reset of a bad size");
    } else if (is_idle(a->c, a->id)) {
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a reset of a stream that has not begun");
    } else if (stream != NULL) {
        add_event(a->found, H2_RESET, a->id, get_u32(a->at));
        close_stream(a->c, stream, WAS_RESET);
    }
    spend_frame(a);
}

static void on_goaway(arrival *a)
{
    if (a->id != 0)
        fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a GOAWAY of a stream");
    else if (a->len < 8)
        fail_connection(a, H2_FRAME_SIZE_ERROR,
                        BROKE "a GOAWAY of a bad size");
    else
        add_event(a->found, H2_GOAWAY, 0, get_u32(a->at + 4));
    spend_frame(a);
}

static void on_priority(arrival *a)
{
    if (a->id == 0)
        fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a priority of nothing");
    else if (a->len != 5)
        fail_connection(a, H2_FRAME_SIZE_ERROR,
                        BROKE "a priority of a bad size");
    else if ((get_u32(a->at) & H2_LAST_STREAM) == a->id)
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a stream that depends on itself");
    spend_frame(a);
}

/* RFC 9218 7.1 */
static void on_priority_update(arrival *a)
{
    uint32_t id = a->len < 4 ? 0 : get_u32(a->at) & H2_LAST_STREAM;
    h2_stream *stream = stream_of(a->c, id);

    if (a->id != 0 || id == 0)
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a PRIORITY_UPDATE on a stream, or for none");
    else if (stream != NULL) {
        stream->urgency =
            (uint8_t)urgency_of((const char *)a->at + 4, a->len - 4);
        add_event(a->found, H2_PRIORITY, id, stream->urgency);
    }
    spend_frame(a);
}

static void on_push(arrival *a)
{
    fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a push");
}

static void (*const actions[PRIORITY_UPDATE + 1])(arrival *) = {
    [DATA] = on_data,
    [HEADERS] = on_headers,
    [PRIORITY] = on_priority,
    [RST_STREAM] = on_reset,
    [SETTINGS] = on_settings,
    [PUSH_PROMISE] = on_push,
    [PING] = on_ping,
    [GOAWAY] = on_goaway,
    [WINDOW_UPDATE] = on_window,
    [CONTINUATION] = on_continuation,
    [PRIORITY_UPDATE] = on_priority_update,
};

static void on_frame(arrival *a)
{
    h2_connection *c = a->c;

    if (c->state == H2_FIRST_SETTINGS &&
        (a->kind != SETTINGS || a->flags & ACK))
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a preface without settings");
    else if (c->block_id != 0 && a->kind != CONTINUATION)
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a frame within a field block");
    if (c->state == H2_OVER)
        return;
    c->state = H2_ACTIVE;
    if (a->kind <= PRIORITY_UPDATE && actions[a->kind] != NULL)
        actions[a->kind](a);
    else
        spend_frame(a); /* RFC 9113 5.5: unknown ones are ignored */
}

/* Receiving */

static uint32_t size_of(const uint8_t *frame)
{
    return get_u32(frame) >> 8;
}

/* RFC 9113 3.4 */
static size_t read_preface(const arrival *a, const char *data, size_t at,
                           size_t len)
{
    h2_connection *c = a->c;

    while (c->preface_len < PREFACE_LEN && at < len) {
        if (data[at++] != preface[c->preface_len++]) {
            fail_connection(a, H2_PROTOCOL_ERROR, BROKE "a bad preface");
            return len;
        }
    }
    if (c->preface_len == PREFACE_LEN)
        c->state = H2_FIRST_SETTINGS;
    return at;
}

/* Add octets to the frame that is kept, up to `len` of it; returns how many
 * were taken, or fails. */
static size_t keep_frame(const arrival *a, const char *data, size_t n,
                         uint32_t len)
{
    h2_connection *c = a->c;

    if (len > c->frame_cap) {
        uint8_t *grown = realloc(c->frame, len);

        if (grown == NULL) {
            fail_connection(a, H2_INTERNAL_ERROR, NO_MEMORY);
            return n;
        }
        c->frame = grown;
        c->frame_cap = len;
    }
    n = n < len - c->frame_len ? n : len - c->frame_len;
    memcpy(c->frame + c->frame_len, data, n);
    c->frame_len += (uint32_t)n;
    return n;
}

/* Find the next frame; a->at is NULL if it is not whole.  Returns where to go
 * on. */
static size_t next_frame(arrival *a, const char *data, size_t at, size_t len)
{
    h2_connection *c = a->c;
    const uint8_t *frame = (const uint8_t *)data + at;
    int is_kept = c->frame_len > 0;

    a->at = NULL;
    if (c->frame_len > 0 || len - at < FRAME_HEAD) {
        if (c->frame_len < FRAME_HEAD)
            at += keep_frame(a, data + at, len - at, FRAME_HEAD);
        if (c->state == H2_OVER || c->frame_len < FRAME_HEAD)
            return at;
        frame = c->frame;
        is_kept = 1;
    }
    if (size_of(frame) > H2_FRAME_BYTES) {
        fail_connection(a, H2_FRAME_SIZE_ERROR,
                        BROKE "a frame that is too large");
        return len;
    }
    if (is_kept || len - at < FRAME_HEAD + size_of(frame)) {
        uint32_t whole = FRAME_HEAD + size_of(frame);

        if (at < len)
            at += keep_frame(a, data + at, len - at, whole);
        if (c->state == H2_OVER || c->frame_len < whole)
            return at;
        frame = c->frame;
    } else {
        at += FRAME_HEAD + size_of(frame);
    }
    a->kind = frame[3];
    a->flags = frame[4];
    a->id = get_u32(frame + 5) & H2_LAST_STREAM;
    a->len = size_of(frame);
    a->at = frame + FRAME_HEAD;
    return at;
}

static void forget_frame(h2_connection *c)
{
    free(c->frame);
    c->frame = NULL;
    c->frame_len = c->frame_cap = 0;
}

size_t h2_receive(h2_connection *c, const char *data, size_t at, size_t len,
                  h2_found *found)
{
    uint32_t most = c->limits.max_section_bytes + H2_HEAD_ROOM;
    arrival a = {.c = c, .found = found};

    found->count = found->frames = found->text_len = 0;
    most = (most > H2_FRAME_BYTES ? most : H2_FRAME_BYTES) + 128;
    if (c->state == H2_PREFACE)
        at = read_preface(&a, data, at, len);
    while (at < len && c->state != H2_OVER &&
           found->frames < found->max_frames &&
           found->text_cap - found->text_len >= most) {
        at = next_frame(&a, data, at, len);
        if (a.at == NULL)
            break;
        found->frames++;
        on_frame(&a);
        if (c->frame_len > 0)
            forget_frame(c);
    }
    if (c->is_failure_due) {
        c->is_failure_due = 0;
        add_text(found, add_event(found, H2_FAILED, 0, H2_INTERNAL_ERROR),
                 NO_MEMORY, sizeof NO_MEMORY - 1);
    }
    return c->state == H2_OVER ? len : at;
}
