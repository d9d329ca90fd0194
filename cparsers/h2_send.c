/* h2_send.c -- calls become frames. */
#include "h2_parts.h"

#include <stdlib.h>
#include <string.h>
#include "chars.h"

uint8_t *out_room(h2_connection *c, size_t len)
{
    if (c->out_cap - c->out_len < len) {
        size_t cap = c->out_len + len;
        uint8_t *grown;

        cap = cap < 512 ? 512 : cap + cap / 2;
        grown = realloc(c->out, cap);
        if (grown == NULL) {
            c->is_failure_due = c->state != H2_OVER;
            c->state = H2_OVER;
            return NULL;
        }
        c->out = grown;
        c->out_cap = cap;
    }
    return c->out + c->out_len;
}

static void put_frame_head(uint8_t *to, int kind, int flags, uint32_t id,
                           size_t len)
{
    put_u32(to, (uint32_t)len << 8 | (uint32_t)kind);
    to[4] = (uint8_t)flags;
    put_u32(to + 5, id);
}

void put_frame(h2_connection *c, int kind, int flags, uint32_t id,
               const void *payload, uint32_t len)
{
    uint8_t *to = out_room(c, FRAME_HEAD + (size_t)len);

    if (to == NULL)
        return;
    put_frame_head(to, kind, flags, id, len);
    if (len > 0)
        memcpy(to + FRAME_HEAD, payload, len);
    c->out_len += FRAME_HEAD + (size_t)len;
}

void put_number(h2_connection *c, int kind, uint32_t id, uint32_t number)
{
    uint8_t octets[4];

    put_u32(octets, number);
    put_frame(c, kind, 0, id, octets, sizeof octets);
}

void put_goaway(h2_connection *c, uint32_t last_id, uint32_t code)
{
    uint8_t octets[8];

    put_u32(octets, last_id);
    put_u32(octets + 4, code);
    put_frame(c, GOAWAY, 0, 0, octets, sizeof octets);
}

void h2_goaway(h2_connection *c, uint32_t last_id, uint32_t code)
{
    if (last_id != H2_LAST_STREAM)
        c->last_wanted = last_id;
    put_goaway(c, last_id, code);
}

void h2_reset(h2_connection *c, uint32_t id, uint32_t code)
{
    h2_stream *stream = stream_of(c, id);

    if (stream == NULL || c->state == H2_OVER)
        return;
    if (code == H2_REFUSED_STREAM && c->frames_left > 0)
        c->frames_left--;
    put_number(c, RST_STREAM, id, code);
    close_stream(c, stream, RESET_BY_US);
}

void h2_give_room(h2_connection *c, uint32_t id, uint32_t count)
{
    h2_stream *stream = stream_of(c, id);

    if (stream == NULL || stream->state != H2_OPEN || count == 0 ||
        count > H2_STREAM_WINDOW - stream->recv_window)
        return;
    stream->recv_window += count;
    put_number(c, WINDOW_UPDATE, id, count);
}

void h2_sent(h2_connection *c)
{
    c->out_len = 0;
    if (c->out_cap > 4096) { /* an idle connection has no large one */
        free(c->out);
        c->out = NULL;
        c->out_cap = 0;
    }
}

/* Heads */

typedef struct {
    hpack_encoder *encoder; /* NULL: it is a trial, which sends nothing */
    const char *at;
    const char *end; /* of the head */
    char *text;      /* room for a name and a value */
    char *to;
    uint32_t flags;
} writer;

static int is_key(const char *name, size_t len)
{
    return (len == 17 && memcmp(name, "sec-websocket-key", 17) == 0) ||
           (len == 20 && memcmp(name, "sec-websocket-accept", 20) == 0);
}

static void put_field(writer *w, size_t name_len, size_t value_len)
{
    hpack_field field = {
        {0, (uint32_t)name_len}, {(uint32_t)name_len, (uint32_t)value_len}, 0};

    if (w->encoder != NULL)
        w->to += hpack_encode(w->encoder, w->text, &field, 1, w->to);
}

/* One line, without its end.  Returns whether it is a field. */
static int put_line(writer *w, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len), *value, *end = line + len;
    size_t name_len, value_len;

    if (colon == NULL && w->flags & H2_IS_UPGRADE)
        return 0;
    colon = colon == NULL ? end : colon; /* a name alone has no value */
    name_len = (size_t)(colon - line);
    for (size_t i = 0; i < name_len; i++)
        w->text[i] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] | 0x20
                                                             : line[i]);
    value = colon < end ? colon + 1 : end;
    while (value < end && (*value == SP || *value == HTAB))
        value++;
    while (end > value && (end[-1] == SP || end[-1] == HTAB))
        end--;
    value_len = (size_t)(end - value);
    memcpy(w->text + name_len, value, value_len);
    if (is_connection_field(w->text, name_len))
        return 1;
    if (w->flags & H2_IS_UPGRADE) {
        if (is_key(w->text, name_len))
            return 1;
        if (!is_sound_field(w->text, name_len, w->text + name_len, value_len))
            return 0;
    }
    put_field(w, name_len, value_len);
    return 1;
}

static const char *end_of_line(const char *at, const char *end)
{
    while (at < end) {
        const char *cr = memchr(at, CR, (size_t)(end - at));

        if (cr == NULL)
            break;
        if (cr + 1 < end && cr[1] == LF)
            return cr;
        at = cr + 1;
    }
    return end;
}

/* RFC 9112 4: HTTP-version SP status-code SP */
static int put_status(writer *w, const char *line, size_t len)
{
    static const char start[] = "HTTP/1.1 ";
    int is_upgraded;

    if (len < 13 || memcmp(line, start, 9) != 0 || line[12] != SP)
        return 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return 0;
    }
    is_upgraded =
        (w->flags & H2_IS_UPGRADE) && memcmp(line + 9, "101", 3) == 0;
    memcpy(w->text, ":status", 7);
    memcpy(w->text + 7, is_upgraded ? "200" : line + 9, 3);
    put_field(w, 7, 3);
    return 1;
}

static int put_section(writer *w)
{
    int is_first = 1;

    while (w->at < w->end) {
        const char *end = end_of_line(w->at, w->end);
        size_t len = (size_t)(end - w->at);

        if (len > 0 &&
            !(is_first ? put_status(w, w->at, len) : put_line(w, w->at, len)))
            return 0;
        is_first = 0;
        w->at = end < w->end ? end + 2 : end;
    }
    return !is_first;
}

/* Part a block at c->out_len into frames that the client takes. */
static void put_block(h2_connection *c, uint32_t id, size_t len, int flags)
{
    size_t count = len == 0 ? 1 : (len + c->max_frame - 1) / c->max_frame;
    uint8_t *begin = c->out + c->out_len;

    for (size_t i = count; i-- > 0;) {
        size_t at = i * c->max_frame;
        size_t n = len - at < c->max_frame ? len - at : c->max_frame;
        uint8_t *to = begin + at + i * FRAME_HEAD;

        memmove(to + FRAME_HEAD, begin + FRAME_HEAD + at, n);
        put_frame_head(
            to, i == 0 ? HEADERS : CONTINUATION,
            (i == 0 ? flags : 0) | (i == count - 1 ? END_HEADERS : 0), id, n);
    }
    c->out_len += len + count * FRAME_HEAD;
}

/* A field has three octets at least, and takes its octets and some more.  A
 * trial comes first where a line may be none: from the first field on, the
 * tables of both sides would differ if the block were not sent. */
static int put_head(h2_connection *c, uint32_t id, const char *head,
                    size_t len, uint32_t flags, int is_end)
{
    size_t most = len + (len / 3 + 2) * HPACK_FIELD_ROOM + HPACK_UPDATES_ROOM;
    size_t frames = most / H2_FRAME_BYTES + 1;
    uint8_t *to = out_room(c, most + frames * FRAME_HEAD + len + 16);
    writer w;

    if (to == NULL)
        return H2_GONE;
    w = (writer){flags & H2_IS_UPGRADE ? NULL : &c->encoder,
                 head,
                 head + len,
                 (char *)to + most + frames * FRAME_HEAD,
                 (char *)to + FRAME_HEAD,
                 flags};
    if (!put_section(&w))
        return H2_MALFORMED;
    if (w.encoder == NULL) {
        w.encoder = &c->encoder;
        w.at = head;
        put_section(&w);
    }
    put_block(c, id, (size_t)(w.to - (char *)to) - FRAME_HEAD,
              is_end ? END_STREAM : 0);
    return 0;
}

static size_t room_of(const h2_connection *c, const h2_stream *stream)
{
    int64_t window = c->send_window < stream->send_window
                         ? c->send_window
                         : stream->send_window;

    return window > 0 ? (size_t)window : 0;
}

static h2_stream *sendable(const h2_connection *c, uint32_t id)
{
    h2_stream *stream = stream_of(c, id);

    return stream == NULL || stream->state == H2_HALF_CLOSED_LOCAL ||
                   c->state == H2_OVER
               ? NULL
               : stream;
}

long h2_room(const h2_connection *c, uint32_t id)
{
    const h2_stream *stream = sendable(c, id);

    return stream == NULL ? H2_GONE : (long)room_of(c, stream);
}

/* Put so many octets of a body into frames. */
static void put_body(h2_connection *c, uint32_t id, const char *body,
                     size_t len, int flags)
{
    if (out_room(c, len + (len / c->max_frame + 1) * FRAME_HEAD) == NULL)
        return;
    do {
        size_t n = len < c->max_frame ? len : c->max_frame;

        len -= n;
        put_frame(c, DATA, len == 0 ? flags : 0, id, body, (uint32_t)n);
        body += n;
        c->sent_count++;
    } while (len > 0);
}

long h2_send(h2_connection *c, uint32_t id, const char *head, size_t head_len,
             const char *body, size_t body_len, uint32_t flags)
{
    h2_stream *stream = sendable(c, id);
    int is_end = (flags & H2_END_STREAM) != 0, fault = 0;
    size_t n;

    if (stream == NULL)
        return H2_GONE;
    if (head_len > 0)
        fault =
            put_head(c, id, head, head_len, flags, is_end && body_len == 0);
    if (fault != 0)
        return fault;
    n = room_of(c, stream);
    n = n < body_len ? n : body_len;
    is_end = is_end && n == body_len;
    if (n > 0 || (is_end && head_len == 0)) {
        put_body(c, id, body, n, is_end ? END_STREAM : 0);
        c->send_window -= (int64_t)n;
        stream->send_window -= (int64_t)n;
    }
    if (is_end)
        end_local(c, stream);
    return (long)n;
}
