/* h2_parts.h -- what the sources of h2.h share. */
#ifndef ASERVE_H2_PARTS_H
#define ASERVE_H2_PARTS_H
#include "h2.h"

/* RFC 9113 6; RFC 9218 7.1 */
enum {
    DATA = 0,
    HEADERS = 1,
    PRIORITY = 2,
    RST_STREAM = 3,
    SETTINGS = 4,
    PUSH_PROMISE = 5,
    PING = 6,
    GOAWAY = 7,
    WINDOW_UPDATE = 8,
    CONTINUATION = 9,
    PRIORITY_UPDATE = 16
};
enum {
    END_STREAM = 1,
    ACK = 1,
    END_HEADERS = 4,
    PADDED = 8,
    WITH_PRIORITY = 32
};
enum { FRAME_HEAD = 9, MAX_WINDOW = 0x7fffffff };

static inline uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

static inline void put_u32(uint8_t *to, uint32_t number)
{
    to[0] = (uint8_t)(number >> 24);
    to[1] = (uint8_t)(number >> 16 & 0xff);
    to[2] = (uint8_t)(number >> 8 & 0xff);
    to[3] = (uint8_t)(number & 0xff);
}

/* One frame, whole. */
typedef struct {
    h2_connection *c;
    h2_found *found;
    int kind;
    int flags;
    uint32_t id;
    const uint8_t *at;
    uint32_t len;
} arrival;

#define BROKE     "the client broke HTTP/2: "
#define NO_MEMORY "there is no memory for it"

/* Whether the stream has not begun: few frames may name it (RFC 9113 5.1). */
static inline int is_idle(const h2_connection *c, uint32_t id)
{
    return id > c->last_id || id % 2 == 0;
}

/* A field section of a request, of which is known: */
typedef struct {
    const char *text;
    const hpack_field *fields;
    size_t count;
    uint8_t takes_websockets;
    /* read_request() sets these: */
    uint8_t is_head, has_length;
    uint32_t urgency;
    uint64_t length;
    uint32_t head_len;
    const char *why;  /* it is malformed; NULL: it is not */
    aserve_span what; /* the name of the field that is meant, or empty */
} h2_section;

/* h2_events.c */
h2_event *add_event(h2_found *found, uint32_t kind, uint32_t id,
                    uint32_t number);
void add_text(h2_found *found, h2_event *event, const void *text, size_t len);
/* RFC 9113 5.4.1: the connection is over. */
void fail_connection(const arrival *a, uint32_t code, const char *why);
/* Count a frame that brings no request further. */
void spend_frame(const arrival *a);
/* RFC 9113 5.4.2: the stream is over, and the connection is not. */
void reset_stream(const arrival *a, h2_stream *stream, uint32_t code);

/* RFC 9113 8.1.1: the request is malformed.  `section` NULL: not its fields. */
void refuse_request(const arrival *a, const h2_section *section,
                    const char *why);

/* h2_requests.c */
void on_data(arrival *a);
void on_headers(arrival *a);
void on_continuation(arrival *a);

/* h2_streams.c */
/* How a stream was closed: not known any more, by its end, by the client's reset,
 * by ours. */
enum { LONG_CLOSED, ENDED, WAS_RESET, RESET_BY_US };

h2_stream *stream_of(const h2_connection *c, uint32_t id);
/* NULL: no memory. */
h2_stream *new_stream(h2_connection *c, uint32_t id);
void close_stream(h2_connection *c, h2_stream *stream, int how);
void note_closed(h2_connection *c, uint32_t id, int how);
int how_closed(const h2_connection *c, uint32_t id);
/* One side has sent its end. */
void end_remote(h2_connection *c, h2_stream *stream);
void end_local(h2_connection *c, h2_stream *stream);
int grow_windows(h2_connection *c, int64_t by);

/* h2_send.c */
/* Room for `len` octets behind c->out_len; NULL: no memory, and it is over. */
uint8_t *out_room(h2_connection *c, size_t len);
void put_frame(h2_connection *c, int kind, int flags, uint32_t id,
               const void *payload, uint32_t len);
void put_number(h2_connection *c, int kind, uint32_t id, uint32_t number);
void put_goaway(h2_connection *c, uint32_t last_id, uint32_t code);

/* h2_fields.c */
/* Write the head of HTTP/1.1 that says the same to `to`. */
void read_request(h2_section *section, char *to);
/* Find out whether a section may end a request (RFC 9113 8.1). */
void read_trailers(h2_section *section);
uint32_t urgency_of(const char *value, size_t len);
/* Whether a field of a response is for connections of HTTP/1.1 alone. */
int is_connection_field(const char *name, size_t len);
int is_sound_field(const char *name, size_t name_len, const char *value,
                   size_t value_len);

#endif
