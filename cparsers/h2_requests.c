/* h2_requests.c -- HEADERS, CONTINUATION and DATA become requests (RFC 9113 6.1,
 * 6.2, 6.10, 8.1). */
#include "h2_parts.h"

#include <stdlib.h>
#include <string.h>

static const char unlike_length[] =
    "a body that is longer or shorter than its Content-Length";

/* A frame for a stream that is closed (RFC 9113 5.1).  A frame behind our reset
 * was on its way, and a second reset SHOULD NOT follow (5.4.2); DATA costs no
 * more there than in an open stream. */
static void on_late(const arrival *a)
{
    int how = how_closed(a->c, a->id);

    if (how == ENDED) {
        fail_connection(a, H2_STREAM_CLOSED,
                        BROKE "a frame for a stream that is closed");
        return;
    }
    if (how != RESET_BY_US)
        put_number(a->c, RST_STREAM, a->id, H2_STREAM_CLOSED);
    if (how != RESET_BY_US || a->kind != DATA)
        spend_frame(a);
}

/* RFC 9113 6.1, 6.2; returns whether it is so. */
static int take_padding(arrival *a)
{
    uint32_t padding;

    if (!(a->flags & PADDED))
        return 1;
    if (a->len == 0 || a->at[0] >= a->len)
        return 0;
    padding = a->at[0];
    a->at++;
    a->len -= 1 + padding;
    return 1;
}

/* DATA */

/* The event of a body: frames that follow one another are one. */
static h2_event *body_event(h2_found *found, uint32_t id)
{
    h2_event *last = &found->events[found->count > 0 ? found->count - 1 : 0];

    if (found->count > 0 && last->kind == H2_DATA && last->stream == id)
        return last;
    return add_event(found, H2_DATA, id, 0);
}

static void on_body(const arrival *a, h2_stream *stream, uint32_t counted)
{
    int is_last = (a->flags & END_STREAM) != 0;
    h2_event *event;

    if (stream->state == H2_HALF_CLOSED_LOCAL) { /* nobody wants it */
        if (is_last) {
            add_event(a->found, H2_RESET, a->id, H2_NO_ERROR);
            end_remote(a->c, stream);
        }
        return;
    }
    if (stream->has_length && (a->len > stream->promised ||
                               (is_last && a->len < stream->promised))) {
        refuse_request(a, NULL, unlike_length);
        return;
    }
    stream->promised -= stream->has_length ? a->len : 0;
    event = body_event(a->found, a->id);
    event->number += counted;
    event->flags = is_last ? H2_END_STREAM : 0;
    add_text(a->found, event, a->at, a->len);
    if (is_last)
        end_remote(a->c, stream);
}

void on_data(arrival *a)
{
    h2_connection *c = a->c;
    h2_stream *stream = stream_of(c, a->id);
    uint32_t counted = a->len;

    if (is_idle(c, a->id) || !take_padding(a)) {
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a DATA frame that may not be");
        return;
    }
    c->recv_window -= counted;
    if (c->recv_window < 0) {
        fail_connection(a, H2_FLOW_CONTROL_ERROR,
                        BROKE "more data than the window takes");
        return;
    }
    if (c->recv_window <= H2_CONNECTION_WINDOW / 2) {
        put_number(c, WINDOW_UPDATE, 0,
                   (uint32_t)(H2_CONNECTION_WINDOW - c->recv_window));
        c->recv_window = H2_CONNECTION_WINDOW;
    }
    if (a->len == 0 && !(a->flags & END_STREAM))
        spend_frame(a);
    if (c->state == H2_OVER || a->id > c->last_wanted)
        return;
    if (stream == NULL) {
        on_late(a);
    } else if (stream->state == H2_HALF_CLOSED_REMOTE) {
        reset_stream(a, stream, H2_STREAM_CLOSED);
    } else if (stream->recv_window < counted) {
        fail_connection(a, H2_FLOW_CONTROL_ERROR,
                        BROKE "more data than the window takes");
    } else {
        stream->recv_window -= counted;
        on_body(a, stream, counted);
    }
}

/* HEADERS, CONTINUATION */

static void on_trailers(const arrival *a, h2_stream *stream,
                        h2_section *section)
{
    arrival end = {a->c, a->found, DATA, END_STREAM, a->id, a->at, 0};

    read_trailers(section);
    if (stream->state == H2_HALF_CLOSED_REMOTE)
        reset_stream(a, stream, H2_STREAM_CLOSED);
    else if (stream->state == H2_OPEN && section->why != NULL)
        refuse_request(a, section, section->why);
    else if (stream->state == H2_OPEN && !(a->flags & END_STREAM))
        refuse_request(a, NULL, "trailers that are none");
    else
        on_body(&end, stream, 0);
}

static void on_request(const arrival *a, h2_section *section)
{
    h2_connection *c = a->c;
    h2_found *found = a->found;
    int is_end = (a->flags & END_STREAM) != 0;
    h2_stream *stream;
    h2_event *event;

    read_request(section, found->text + found->text_len);
    if (section->why == NULL && is_end && section->has_length &&
        section->length > 0)
        section->why = unlike_length;
    if (section->why != NULL) {
        refuse_request(a, section, section->why);
        return;
    }
    stream = new_stream(c, a->id);
    if (stream == NULL) {
        fail_connection(a, H2_INTERNAL_ERROR, NO_MEMORY);
        return;
    }
    c->last_served = a->id;
    stream->has_length = section->has_length;
    stream->promised = section->length;
    stream->urgency = (uint8_t)section->urgency;
    if (is_end)
        end_remote(c, stream);
    event = add_event(found, H2_REQUEST, a->id, 0);
    event->flags =
        (is_end ? H2_END_STREAM : 0u) | (section->is_head ? H2_IS_HEAD : 0u);
    event->text.len = section->head_len;
    found->text_len += section->head_len;
}

static void on_new_stream(const arrival *a, h2_section *section)
{
    h2_connection *c = a->c;

    if (a->id % 2 == 0) {
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a stream with an even number");
        return;
    }
    c->last_id = a->id;
    if (a->id > c->last_wanted) {
        spend_frame(a); /* RFC 9113 6.8: it may be sent again elsewhere */
    } else if (c->nstreams >= c->limits.max_streams) {
        put_number(c, RST_STREAM, a->id, H2_REFUSED_STREAM);
        note_closed(c, a->id, RESET_BY_US);
        spend_frame(a);
    } else {
        on_request(a, section);
    }
}

/* A whole field section. */
static void on_section(const arrival *a, const uint8_t *block, uint32_t len)
{
    h2_connection *c = a->c;
    h2_found *found = a->found;
    h2_stream *stream = stream_of(c, a->id);
    long count =
        hpack_decode(&c->decoder, (const char *)block, len, found->fields,
                     found->section, c->limits.max_section_bytes);
    h2_section section = {.text = found->section,
                          .fields = found->fields,
                          .count = (size_t)count,
                          .takes_websockets = c->limits.takes_websockets};

    if (count == HPACK_TOO_LARGE)
        fail_connection(a, H2_ENHANCE_YOUR_CALM,
                        BROKE "a field section that is too large");
    else if (count < 0)
        fail_connection(a, H2_COMPRESSION_ERROR,
                        BROKE "a field block that is none");
    else if (stream != NULL)
        on_trailers(a, stream, &section);
    else if (a->id > c->last_id)
        on_new_stream(a, &section);
    else if (a->id > c->last_wanted)
        spend_frame(a);
    else if (how_closed(c, a->id) == LONG_CLOSED)
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a stream with a number that is too low");
    else
        on_late(a);
}

/* Keep a part of a block.  Its length is bounded, as each field counts more
 * than it takes, and so is the number of frames. */
static void keep_block(const arrival *a)
{
    h2_connection *c = a->c;

    if (a->len > c->limits.max_section_bytes - c->block_len ||
        c->block_frames++ >= H2_CONTINUATIONS) {
        fail_connection(a, H2_ENHANCE_YOUR_CALM,
                        BROKE "a field section that is too large");
        return;
    }
    if (c->block_len + a->len > c->block_cap) {
        uint32_t cap = 2 * (c->block_len + a->len);
        uint8_t *grown = realloc(c->block, cap);

        if (grown == NULL) {
            fail_connection(a, H2_INTERNAL_ERROR, NO_MEMORY);
            return;
        }
        c->block = grown;
        c->block_cap = cap;
    }
    if (a->len > 0)
        memcpy(c->block + c->block_len, a->at, a->len);
    c->block_len += a->len;
}

void on_headers(arrival *a)
{
    h2_connection *c = a->c;

    if (a->id == 0 || !take_padding(a) ||
        (a->flags & WITH_PRIORITY && a->len < 5)) {
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a HEADERS frame that may not be");
        return;
    }
    if (a->flags & WITH_PRIORITY) {
        if ((get_u32(a->at) & H2_LAST_STREAM) == a->id) {
            fail_connection(a, H2_PROTOCOL_ERROR,
                            BROKE "a stream that depends on itself");
            return;
        }
        a->at += 5;
        a->len -= 5;
    }
    if (a->flags & END_HEADERS) {
        on_section(a, a->at, a->len);
        return;
    }
    c->block_id = a->id;
    c->block_flags = (uint8_t)a->flags;
    keep_block(a);
}

void on_continuation(arrival *a)
{
    h2_connection *c = a->c;
    int is_whole = (a->flags & END_HEADERS) != 0;

    if (c->block_id == 0 || a->id != c->block_id) {
        fail_connection(a, H2_PROTOCOL_ERROR,
                        BROKE "a CONTINUATION of nothing");
        return;
    }
    keep_block(a);
    if (!is_whole || c->state == H2_OVER)
        return;
    a->flags = c->block_flags;
    on_section(a, c->block_len > 0 ? c->block : a->at, c->block_len);
    free(c->block);
    c->block = NULL;
    c->block_len = c->block_cap = c->block_id = c->block_frames = 0;
}
