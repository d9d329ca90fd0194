/* fuzz_hpack.c -- the input is field blocks of one connection, each behind an
 * octet with its length, and then sizes of the encoder's table.
 *
 * Invariant: hpack_decode returns a number of fields whose octets follow one
 * another in `text`, and which are within the limit with 32 each, or an error;
 * it reads nothing past the block and writes nothing past `text`; the table is
 * within its size; and what hpack_encode makes of the fields within its room
 * is decoded to the same fields. */
#include "hpack.h"
#include "invariants.h"
#include <string.h>

enum { MAX_BYTES = 8192, MAX_FIELDS = MAX_BYTES / HPACK_OVERHEAD };

static guarded_area block_area, text_area, again_area, encoded_area;

typedef struct {
    hpack_table decoder; /* of the input */
    hpack_encoder encoder;
    hpack_table other; /* of what the encoder makes */
} connection;

static void check_table(const hpack_table *table)
{
    uint32_t bytes = 0;

    for (uint32_t age = 0; age < table->count; age++) {
        const hpack_entry *entry =
            &table->entries[(table->newest + HPACK_ENTRIES - age) %
                            HPACK_ENTRIES];

        require((uint32_t)(entry->at - table->base) + entry->name_len +
                        entry->value_len <=
                    HPACK_TABLE_BYTES,
                "an entry is in the table's text");
        bytes +=
            (uint32_t)(HPACK_OVERHEAD + entry->name_len + entry->value_len);
    }
    require(bytes == table->bytes, "the table's size is its entries'");
    require(bytes <= table->max_bytes && table->max_bytes <= HPACK_TABLE_BYTES,
            "the table is within its size");
}

static size_t check_fields(const hpack_field *fields, size_t count)
{
    size_t octets = 0;

    for (size_t i = 0; i < count; i++) {
        require(fields[i].name.off == octets,
                "a name behind the field before");
        octets += fields[i].name.len;
        require(fields[i].value.off == octets, "a value behind its name");
        octets += fields[i].value.len;
    }
    return octets;
}

static void check_again(connection *c, const char *text,
                        const hpack_field *fields, size_t count)
{
    static hpack_field again[MAX_FIELDS];
    size_t octets = check_fields(fields, count);
    size_t room = octets + count * HPACK_FIELD_ROOM + HPACK_UPDATES_ROOM;
    char *to = guarded_room(&encoded_area, room);
    size_t len = hpack_encode(&c->encoder, text, fields, count, to);
    char *same = guarded_room(&again_area, MAX_BYTES);

    require(len <= room, "within its room");
    require(hpack_decode(&c->other, to, len, again, same, MAX_BYTES) ==
                (long)count,
            "as many fields again");
    for (size_t i = 0; i < count; i++)
        require(again[i].name.len == fields[i].name.len &&
                    again[i].value.len == fields[i].value.len &&
                    again[i].is_sensitive == fields[i].is_sensitive,
                "the same field again");
    require(memcmp(same, text, octets) == 0, "the same octets again");
    check_table(&c->encoder.table);
    check_table(&c->other);
}

static void check(const char *data, size_t len, size_t max_bytes)
{
    static connection c;
    static hpack_field fields[MAX_FIELDS];
    char *text = guarded_room(&text_area, max_bytes);
    size_t at = 0;

    hpack_begin(&c.decoder);
    hpack_begin(&c.other);
    hpack_encoder_begin(&c.encoder);
    while (at < len) {
        size_t rest = len - at - 1, n = (uint8_t)data[at++];
        long count;

        if (n == UINT8_MAX) { /* no block: a size, by the next octet */
            if (at < len)
                hpack_encoder_resize(&c.encoder,
                                     (uint32_t)(uint8_t)data[at++] * 20);
            continue;
        }
        n = n < rest ? n : rest;
        memset(fields, 0, sizeof fields);
        count =
            hpack_decode(&c.decoder, guarded_copy(&block_area, data + at, n),
                         n, fields, text, max_bytes);
        check_table(&c.decoder);
        at += n;
        if (count < 0) {
            require(count == HPACK_BROKEN || count == HPACK_TOO_LARGE,
                    "an error of HPACK");
            return;
        }
        require(check_fields(fields, (size_t)count) +
                        (size_t)count * HPACK_OVERHEAD <=
                    max_bytes,
                "within the limit");
        check_again(&c, text, fields, (size_t)count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0 || len >= MAX_INPUT_LEN)
        return 0;
    check((const char *)data, len, MAX_BYTES);
    check((const char *)data, len, data[len / 2] % 64 * HPACK_OVERHEAD / 4);
    return 0;
}
