/* hpack.h -- field sections of HTTP/2 (RFC 7541), both ways.
 * No heap, no I/O; a table belongs to one connection, and to one thread at a
 * time. */
#ifndef ASERVE_HPACK_H
#define ASERVE_HPACK_H
#include <stddef.h>
#include <stdint.h>
#include "aserve.h"
/* cdef:begin */

enum {
    HPACK_BROKEN = -1,    /* RFC 7541 2.3.3, 4.2, 5: the connection ends */
    HPACK_TOO_LARGE = -2, /* RFC 9113 10.5.1: the table is out of step, too */
    HPACK_OVERHEAD =
        32, /* RFC 7541 4.1: an entry counts this besides its octets */
    HPACK_TABLE_BYTES = 4096, /* RFC 9113 6.5.2: the initial size; our most */
    HPACK_ENTRIES = HPACK_TABLE_BYTES / HPACK_OVERHEAD,
    HPACK_FIELD_ROOM = 12, /* an encoded field has at most so much more */
    HPACK_UPDATES_ROOM = 6 /* before the first field of a section */
};

/* One field of a section. */
typedef struct {
    aserve_span name;
    aserve_span value;
    uint8_t is_sensitive; /* RFC 7541 7.1.3: no proxy may index the value */
} hpack_field;

typedef struct {
    uint32_t at; /* of its name, which its value follows; counted from the
                    first octet that was ever added, modulo 2^32 */
    uint16_t name_len;
    uint16_t value_len;
} hpack_entry;

/* A dynamic table (RFC 7541 2.3.2).  hpack_begin() makes one. */
typedef struct {
    uint32_t max_bytes; /* RFC 7541 4.2 */
    uint32_t bytes;     /* RFC 7541 4.1 */
    uint32_t count;     /* of entries */
    uint32_t newest;    /* its place in `entries`, a ring */
    uint32_t base;      /* `at` of text[0] */
    uint32_t end;       /* `at` behind the newest value */
    hpack_entry entries[HPACK_ENTRIES];
    char text[HPACK_TABLE_BYTES];
} hpack_table;

/* The table of our encoder, and the sizes that the decoder waits to hear. */
typedef struct {
    hpack_table table;
    uint32_t least;  /* the smallest size since the last section */
    uint32_t wanted; /* the size from the next section on */
    /* of entries, by their places: 0: sent again since it was added; else how
     * often another value came instead, and 1 */
    uint16_t unused[HPACK_ENTRIES];
} hpack_encoder;

void hpack_begin(hpack_table *table);
void hpack_encoder_begin(hpack_encoder *encoder);

/* The client's SETTINGS_HEADER_TABLE_SIZE; more than HPACK_TABLE_BYTES counts
 * as that.  The next section tells the client (RFC 7541 4.2). */
void hpack_encoder_resize(hpack_encoder *encoder, uint32_t max_bytes);

/* Decode the whole field block of a section.  Names and values go to `text`,
 * fields to `fields`.  The field section may have `max_bytes` (RFC 9113
 * 6.5.2): `text` has room for max_bytes octets, `fields` for
 * max_bytes / HPACK_OVERHEAD fields.
 * Returns the number of fields; HPACK_BROKEN; HPACK_TOO_LARGE. */
long hpack_decode(hpack_table *table, const char *block, size_t len,
                  hpack_field *fields, char *text, size_t max_bytes);

/* Encode `count` fields, whose spans are of `text`, into `to`, which has room
 * for HPACK_UPDATES_ROOM, and for each field for its octets and
 * HPACK_FIELD_ROOM.  Names are in lower case.
 * Returns the number of octets. */
size_t hpack_encode(hpack_encoder *encoder, const char *text,
                    const hpack_field *fields, size_t count, char *to);

/* cdef:end */
#endif
