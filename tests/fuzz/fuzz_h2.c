/* fuzz_h2.c -- the input is what one client sends, and what the server does
 * meanwhile: steps of
 *     FRAME kind flags stream len payload    a frame whose length is right
 *     CALL what stream size                  a call of the server's
 *     n octets                               octets as they are, n below CALL
 * The preface and settings come first, unless the first octet is odd.
 *
 * Invariant: what h2_receive finds is within its room, and one head of
 * HTTP/1.1 for each request; it tells of a failure once, and of nothing behind
 * that; the streams are in order, no more than the limit, and their windows
 * are windows; what is to be sent is whole frames, whose field blocks can be
 * decoded; all of this is the same if the octets come one by one; and memory
 * that is refused ends the connection alone. */
#include "h2.h"
#include "invariants.h"
#include <string.h>

enum { CALL = 254, FRAME = 255, MAX_STREAMS = 5 };
enum { SECTION = 1024, FIELDS = SECTION / HPACK_OVERHEAD };
enum { TEXT = H2_FRAME_BYTES + 2 * H2_HEAD_ROOM + 200, SENT = 8192 };

static guarded_area data_area, text_area, section_area, sent_area, head_area;

typedef struct {
    h2_connection c;
    h2_found found;
    hpack_field fields[FIELDS];
    hpack_table decoder; /* of what is sent */
    int is_single;       /* octets come one by one */
    int has_failed;
    uint64_t story; /* of all that has happened */
} run;

static void note(run *r, const void *octets, size_t len)
{
    const uint8_t *at = octets;

    for (size_t i = 0; i < len; i++)
        r->story = (r->story ^ at[i]) * 0x100000001b3u % 0xfffffffffffffc5u;
}

static void note_number(run *r, uint32_t number)
{
    note(r, &number, sizeof number);
}

static void check_head(const char *head, size_t len)
{
    size_t ends = 0;

    require(len > 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0,
            "a head has an end");
    for (size_t i = 0; i + 4 <= len; i++)
        ends += memcmp(head + i, "\r\n\r\n", 4) == 0;
    require(ends == 1, "a head has one end");
    for (size_t i = 0; i < len; i++) {
        require(head[i] != '\0', "no NUL in a head");
        require((head[i] != '\n' || head[i - 1] == '\r') &&
                    (head[i] != '\r' || head[i + 1] == '\n'),
                "a head has whole line ends");
    }
}

static void check_found(run *r)
{
    const h2_found *found = &r->found;
    uint32_t at = 0;

    require(found->count <= H2_EVENTS && found->frames <= H2_FRAMES,
            "no more events than there is room for");
    for (uint32_t i = 0; i < found->count; i++) {
        const h2_event *event = &found->events[i];

        require(!r->has_failed, "nothing behind a failure");
        r->has_failed = event->kind == H2_FAILED;
        require(event->kind <= H2_FAILED, "a known event");
        require(event->text.off == at, "texts follow one another");
        at += event->text.len;
        require(at <= found->text_len, "a text is within the whole");
        if (event->kind == H2_REQUEST)
            check_head(found->text + event->text.off, event->text.len);
        note_number(r, event->kind);
        note_number(r, event->stream);
        note_number(r, event->flags);
        note_number(r, event->number);
        note(r, found->text + event->text.off, event->text.len);
    }
    require(at == found->text_len && at <= found->text_cap, "no other text");
}

static uint32_t u24(const uint8_t *at)
{
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/* Whole frames only; field blocks in one piece, as they are small. */
static void check_sent(run *r)
{
    static hpack_field fields[SENT / HPACK_OVERHEAD];
    const uint8_t *at = r->c.out, *end = at + r->c.out_len;

    note(r, at, r->c.out_len);
    while (at < end) {
        require(end - at >= 9 && (size_t)(end - at) >= 9 + u24(at),
                "whole frames");
        require(at[3] <= 9, "a known frame");
        if (at[3] == 1)
            require(hpack_decode(&r->decoder, (const char *)at + 9, u24(at),
                                 fields, guarded_room(&sent_area, SENT),
                                 SENT) > 0,
                    "a field block that can be decoded");
        at += 9 + u24(at);
    }
    h2_sent(&r->c);
}

static void check_streams(const run *r)
{
    const h2_connection *c = &r->c;

    require(c->nstreams <= MAX_STREAMS, "no more streams than the limit");
    require(c->block_len <= SECTION && c->frame_len < 9 + H2_FRAME_BYTES,
            "what is kept is bounded");
    for (uint32_t i = 0; i < c->nstreams; i++) {
        const h2_stream *stream = &c->streams[i];

        require(i == 0 || stream->id > stream[-1].id, "streams in order");
        require(stream->id % 2 == 1 && stream->id <= c->last_id,
                "a number of a stream");
        require(stream->state <= H2_HALF_CLOSED_LOCAL, "a known state");
        require(stream->send_window <= 0x7fffffff &&
                    stream->recv_window >= 0 &&
                    stream->recv_window <= H2_STREAM_WINDOW,
                "windows");
    }
}

static void receive(run *r, const void *octets, size_t len)
{
    const char *data = guarded_copy(&data_area, octets, len);
    size_t step = r->is_single && len > 0 ? 1 : len;

    for (size_t end = step; end <= len; end += step) {
        size_t at = end - step, before;

        do {
            before = at;
            at = h2_receive(&r->c, data, at, end, &r->found);
            require(at <= end, "no more than there is");
            require(at > before || at == end || r->found.frames == 0,
                    "it gets on");
            check_found(r);
            check_streams(r);
        } while (at < end);
        if (step == 0)
            break;
    }
}

static void call(run *r, const uint8_t *at)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nServer: a\r\nX-Long-Name: "
                               "bcdef\r\nConnection: close\r\nDate: today";
    static const char bad[] = "HTTP/1.1 101 X\r\na b: c";
    static const char body[256] = "body";
    h2_connection *c = &r->c;
    uint32_t id = at[1], size = at[2];
    const char *p = head;
    size_t len = sizeof head - 1;

    switch (at[0] % 12) {
    case 0: /* any octets make no head, or one */
        p = guarded_copy(&head_area, at, 3), len = 3;
        /* fall through */
    case 1:
    case 2:
    case 3:
        note_number(
            r, (uint32_t)h2_send(c, id, p, len, body, size, at[0] / 12 % 8));
        break;
    case 4:
        note_number(r, (uint32_t)h2_send(c, id, bad, sizeof bad - 1, body, 0,
                                         H2_IS_UPGRADE));
        break;
    case 5:
        note_number(r, (uint32_t)h2_room(c, id));
        note_number(
            r, (uint32_t)h2_send(c, id, NULL, 0, body, size, H2_END_STREAM));
        break;
    case 6:
        h2_give_room(c, id, size * 1000);
        break;
    case 7:
        h2_reset(c, id, size % 12);
        break;
    case 8:
        h2_goaway(c, size % 2 ? H2_LAST_STREAM : c->last_served, 0);
        break;
    case 9:
        h2_end_input(c);
        break;
    default:
        h2_pass_second(c);
        break;
    }
    check_streams(r);
    check_sent(r);
}

/* Returns where the next step begins. */
static size_t take_step(run *r, const uint8_t *data, size_t at, size_t len)
{
    uint8_t what = data[at++], frame[9 + 255] = {0};
    size_t n = what;

    if (what == CALL) {
        if (len - at < 3)
            return len;
        call(r, data + at);
        return at + 3;
    }
    if (what == FRAME) {
        if (len - at < 4)
            return len;
        n = data[at + 3] < len - at - 4 ? data[at + 3] : len - at - 4;
        frame[2] = (uint8_t)n;
        frame[3] = data[at];
        frame[4] = data[at + 1];
        frame[8] = data[at + 2];
        memcpy(frame + 9, data + at + 4, n);
        receive(r, frame, 9 + n);
        return at + 4 + n;
    }
    n = n < len - at ? n : len - at;
    receive(r, data + at, n);
    return at + n;
}

static uint64_t tell(const uint8_t *data, size_t len, int is_single)
{
    static run r;
    h2_limits limits = {MAX_STREAMS, SECTION, (data[0] >> 1) & 1};

    memset(&r, 0, sizeof r);
    r.is_single = is_single;
    r.found.text = guarded_room(&text_area, TEXT);
    r.found.text_cap = TEXT;
    r.found.max_frames = H2_FRAMES;
    r.found.section = guarded_room(&section_area, SECTION);
    r.found.fields = r.fields;
    hpack_begin(&r.decoder);
    h2_begin(&r.c, &limits);
    if (data[0] % 2 == 0)
        receive(&r, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
    for (size_t at = 1; at < len;)
        at = take_step(&r, data, at, len);
    check_sent(&r);
    h2_end(&r.c);
    return r.story;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0 || len >= MAX_INPUT_LEN)
        return 0;
    require(tell(data, len, 0) == tell(data, len, 1),
            "octets one by one tell the same story");
    refused_call = 1 + data[len / 2] % 16;
    tell(data, len, data[len - 1] % 2);
    refused_call = 0;
    return 0;
}
