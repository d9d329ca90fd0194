/* hpack.c -- RFC 7541.  A table keeps its entries' octets in one run, the
 * oldest first; the run moves to the front of `text` when its end is reached.
 * Long: decoding and encoding change the same table. */
#include "hpack.h"

#include <string.h>
#include "hpack_huffman.h"
#include "hpack_tables.h"

/* The first octet of a representation (RFC 7541 6): a pattern above a number
 * of so many bits. */
enum {
    INDEXED = 0x80,
    INDEXED_BITS = 7,
    KEPT = 0x40,
    KEPT_BITS = 6,
    UPDATE = 0x20,
    UPDATE_BITS = 5,
    SENSITIVE = 0x10,
    LITERAL_BITS = 4,
    HUFFMAN = 0x80,
    STRING_BITS = 7
};

enum {
    MOST_VALUES = 8, /* of a name, that are compared with a field's.  Guess */
    TRIED_AFTER = 8  /* further values, and twice as many with each.  Guess */
};

typedef struct {
    const char *p;
    size_t len;
} run;

/* The dynamic table */

void hpack_begin(hpack_table *table)
{
    *table = (hpack_table){.max_bytes = HPACK_TABLE_BYTES};
}

/* The entry of an age: 0 is the newest. */
static const hpack_entry *entry_of(const hpack_table *table, size_t age)
{
    return &table->entries[(table->newest + HPACK_ENTRIES - age) %
                           HPACK_ENTRIES];
}

static const char *name_of(const hpack_table *table, const hpack_entry *entry)
{
    return table->text + (uint32_t)(entry->at - table->base);
}

static void evict(hpack_table *table, size_t max_bytes)
{
    while (table->bytes > max_bytes) {
        const hpack_entry *oldest = entry_of(table, table->count - 1);

        table->bytes -=
            (uint32_t)(HPACK_OVERHEAD + oldest->name_len + oldest->value_len);
        table->count--;
    }
}

static void resize(hpack_table *table, uint32_t max_bytes)
{
    table->max_bytes = max_bytes;
    evict(table, max_bytes);
}

/* Name and value are outside of the table's text: they may be an entry's that
 * has to make room (RFC 7541 4.4). */
static void add(hpack_table *table, run name, run value)
{
    size_t octets = name.len + value.len, bytes = octets + HPACK_OVERHEAD;
    hpack_entry *entry;
    char *to;

    evict(table, bytes < table->max_bytes ? table->max_bytes - bytes : 0);
    if (bytes > table->max_bytes)
        return;
    if ((uint32_t)(table->end - table->base) + octets > HPACK_TABLE_BYTES) {
        uint32_t begin = table->count > 0
                             ? entry_of(table, table->count - 1)->at
                             : table->end;

        memmove(table->text, table->text + (uint32_t)(begin - table->base),
                (uint32_t)(table->end - begin));
        table->base = begin;
    }
    table->newest = (table->newest + 1) % HPACK_ENTRIES;
    table->count++;
    table->bytes += (uint32_t)bytes;
    entry = &table->entries[table->newest];
    *entry =
        (hpack_entry){table->end, (uint16_t)name.len, (uint16_t)value.len};
    to = table->text + (uint32_t)(table->end - table->base);
    memcpy(to, name.p, name.len);
    memcpy(to + name.len, value.p, value.len);
    table->end += (uint32_t)octets;
}

/* Find the field of an index (RFC 7541 2.3.3); return whether there is one. */
static int find(const hpack_table *table, size_t index, run *name, run *value)
{
    if (index == 0 || index > HPACK_STATIC + table->count)
        return 0;
    if (index <= HPACK_STATIC) {
        const hpack_row *row = &static_rows[index - 1];

        *name = (run){row->name, row->name_len};
        *value = (run){row->value, row->value_len};
    } else {
        const hpack_entry *entry = entry_of(table, index - HPACK_STATIC - 1);

        *name = (run){name_of(table, entry), entry->name_len};
        *value = (run){name->p + name->len, entry->value_len};
    }
    return 1;
}

/* Decoding */

typedef struct {
    const char *at;
    const char *end; /* of the block */
    char *to;
    char *to_end;
} decoder;

/* RFC 7541 5.1; returns 0 for a number that is cut, or above 2^28: no length
 * or index is so large here. */
static int read_number(decoder *d, int bits, size_t *number)
{
    uint32_t most = (1u << bits) - 1;
    int shift = 0;
    uint8_t octet;

    if (d->at == d->end)
        return 0;
    *number = (uint8_t)*d->at++ & most;
    if (*number < most)
        return 1;
    do {
        if (d->at == d->end || shift > 21)
            return 0;
        octet = (uint8_t)*d->at++;
        *number += (size_t)(octet & 0x7f) << shift;
        shift += 7;
    } while (octet & 0x80);
    return 1;
}

static int put(decoder *d, run text)
{
    if (text.len > (size_t)(d->to_end - d->to))
        return HPACK_TOO_LARGE;
    memcpy(d->to, text.p, text.len);
    d->to += text.len;
    return 0;
}

/* RFC 7541 5.2; the text goes to d->to. */
static int read_string(decoder *d)
{
    int is_huffman = d->at < d->end && ((uint8_t)*d->at & HUFFMAN) != 0;
    const char *from;
    char *end;
    size_t len;

    if (!read_number(d, STRING_BITS, &len) || len > (size_t)(d->end - d->at))
        return HPACK_BROKEN;
    from = d->at;
    d->at += len;
    if (!is_huffman)
        return put(d, (run){from, len});
    end = huffman_decode(from, len, d->to, d->to_end);
    if (end == NULL) /* a code has 5 bits at least */
        return len * 8 / 5 > (size_t)(d->to_end - d->to) ? HPACK_TOO_LARGE
                                                         : HPACK_BROKEN;
    d->to = end;
    return 0;
}

/* RFC 7541 4.2, 6.3 */
static int read_update(hpack_table *table, decoder *d)
{
    size_t max_bytes;

    if (!read_number(d, UPDATE_BITS, &max_bytes) ||
        max_bytes > HPACK_TABLE_BYTES)
        return HPACK_BROKEN;
    resize(table, (uint32_t)max_bytes);
    return 0;
}

/* Read a field (RFC 7541 6.1, 6.2); its octets go to d->to. */
static int read_field(hpack_table *table, decoder *d, const char *text,
                      hpack_field *field)
{
    uint8_t first = (uint8_t)*d->at;
    int is_indexed = (first & INDEXED) != 0, is_kept = (first & KEPT) != 0;
    const char *begin = d->to, *middle;
    run name = {NULL, 0}, value = {NULL, 0};
    size_t index;
    int fault;

    if (!read_number(d,
                     is_indexed ? INDEXED_BITS
                     : is_kept  ? KEPT_BITS
                                : LITERAL_BITS,
                     &index))
        return HPACK_BROKEN;
    if ((index > 0 || is_indexed) && !find(table, index, &name, &value))
        return HPACK_BROKEN;
    fault = index > 0 ? put(d, name) : read_string(d);
    middle = d->to;
    if (fault == 0)
        fault = is_indexed ? put(d, value) : read_string(d);
    if (fault != 0)
        return fault;
    *field =
        (hpack_field){{(uint32_t)(begin - text), (uint32_t)(middle - begin)},
                      {(uint32_t)(middle - text), (uint32_t)(d->to - middle)},
                      !is_indexed && !is_kept && (first & SENSITIVE) != 0};
    if (!is_indexed && is_kept)
        add(table, (run){begin, field->name.len},
            (run){middle, field->value.len});
    return 0;
}

long hpack_decode(hpack_table *table, const char *block, size_t len,
                  hpack_field *fields, char *text, size_t max_bytes)
{
    decoder d = {block, block + len, text, text + max_bytes};
    long count = 0;

    while (d.at < d.end) {
        int is_update = ((uint8_t)*d.at & (INDEXED | KEPT | UPDATE)) == UPDATE;
        int fault;

        if (is_update && count > 0)
            return HPACK_BROKEN; /* RFC 7541 4.2: at the beginning only */
        if (!is_update) {
            if (d.to_end - d.to < HPACK_OVERHEAD)
                return HPACK_TOO_LARGE;
            d.to_end -= HPACK_OVERHEAD;
        }
        fault = is_update ? read_update(table, &d)
                          : read_field(table, &d, text, &fields[count++]);
        if (fault != 0)
            return fault;
    }
    return count;
}

/* Encoding */

void hpack_encoder_begin(hpack_encoder *encoder)
{
    hpack_begin(&encoder->table);
    encoder->least = encoder->wanted = HPACK_TABLE_BYTES;
}

void hpack_encoder_resize(hpack_encoder *encoder, uint32_t max_bytes)
{
    encoder->wanted =
        max_bytes < HPACK_TABLE_BYTES ? max_bytes : HPACK_TABLE_BYTES;
    if (encoder->wanted < encoder->least)
        encoder->least = encoder->wanted;
}

static char *write_number(char *to, int pattern, int bits, size_t number)
{
    size_t most = (1u << bits) - 1;

    if (number < most) {
        *to++ = (char)(pattern | (int)number);
        return to;
    }
    *to++ = (char)(pattern | (int)most);
    for (number -= most; number > 0x7f; number >>= 7)
        *to++ = (char)(0x80 | (number & 0x7f));
    *to++ = (char)number;
    return to;
}

static char *write_string(char *to, run text)
{
    size_t size = huffman_size(text.p, text.len);

    if (size < text.len) {
        to = write_number(to, HUFFMAN, STRING_BITS, size);
        return huffman_encode(text.p, text.len, to);
    }
    to = write_number(to, 0, STRING_BITS, text.len);
    memcpy(to, text.p, text.len);
    return to + text.len;
}

static int is_same(run one, const char *p, size_t len)
{
    return one.len == len && memcmp(one.p, p, len) == 0;
}

/* Compare as the static table is in order: shorter ones first. */
static int compare(run name, const hpack_row *row)
{
    size_t len = name.len < row->name_len ? name.len : row->name_len;
    int order = memcmp(name.p, row->name, len);

    return order != 0 ? order : (int)name.len - (int)row->name_len;
}

/* Find a row of the static table with this name, one with this value if there
 * is one; return its index, or 0.  Of pseudo-header fields, a response has
 * :status alone. */
static size_t find_static(run name, run value, int *has_value)
{
    size_t low = HPACK_FIRST_REGULAR - 1, high = HPACK_STATIC;

    if (is_same(name, ":status", 7)) {
        for (low = HPACK_FIRST_STATUS; low < HPACK_FIRST_REGULAR; low++) {
            *has_value = is_same(value, static_rows[low - 1].value, 3);
            if (*has_value)
                return low;
        }
        return HPACK_FIRST_STATUS;
    }
    while (low < high) {
        size_t middle = (low + high) / 2;
        const hpack_row *row = &static_rows[middle];
        int order = compare(name, row);

        if (order == 0) {
            *has_value = is_same(value, row->value, row->value_len);
            return middle + 1;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return 0;
}

/* Find an entry with this name and value; return its index, or 0.  *named: the
 * index of the newest of this name, or 0; *count: how many there are. */
static size_t find_entry(hpack_encoder *encoder, run name, run value,
                         size_t *named, unsigned *count)
{
    const hpack_table *table = &encoder->table;

    *named = *count = 0;
    for (size_t age = 0; age < table->count && *count < MOST_VALUES; age++) {
        const hpack_entry *entry = entry_of(table, age);
        const char *p = name_of(table, entry);

        if (!is_same(name, p, entry->name_len))
            continue;
        if (is_same(value, p + entry->name_len, entry->value_len)) {
            encoder->unused[entry - table->entries] = 0;
            return HPACK_STATIC + age + 1;
        }
        if ((*count)++ == 0)
            *named = HPACK_STATIC + age + 1;
    }
    return 0;
}

/* Whether to make an entry of a further value: the last one was of use, or it
 * is time to try again.  A value like a request's id never comes again. */
static int is_worth_entry(hpack_encoder *encoder, size_t named, unsigned count)
{
    const hpack_table *table = &encoder->table;
    uint16_t *unused;

    if (named == 0)
        return 1;
    unused = &encoder->unused[entry_of(table, named - HPACK_STATIC - 1) -
                              table->entries];
    return *unused == 0 || ++*unused > TRIED_AFTER << count;
}

/* The values of these differ from response to response: entries of them would
 * be for nothing, and take the room of others. */
static int differs(run name)
{
    static const char *const names[] = {
        "age",           "content-length", "content-range", "etag",
        "last-modified", "location",       "set-cookie"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_same(name, names[i], strlen(names[i])))
            return 1;
    }
    return 0;
}

static char *write_field(hpack_encoder *encoder, run name, run value,
                         int is_sensitive, char *to)
{
    hpack_table *table = &encoder->table;
    int has_value = 0, is_kept;
    unsigned count;
    size_t named, row = 0;
    size_t index = find_entry(encoder, name, value, &named, &count);

    if (index == 0 || is_sensitive) { /* what is sent often is an entry */
        row = find_static(name, value, &has_value);
        index = has_value ? row : index;
    }
    if (index > 0 && !is_sensitive)
        return write_number(to, INDEXED, INDEXED_BITS, index);
    is_kept = !is_sensitive && !differs(name) &&
              name.len + value.len + HPACK_OVERHEAD <= table->max_bytes / 4 &&
              is_worth_entry(encoder, named, count);
    row = row == 0 ? named : row;
    if (is_kept)
        to = write_number(to, KEPT, KEPT_BITS, row);
    else
        to = write_number(to, is_sensitive ? SENSITIVE : 0, LITERAL_BITS, row);
    if (row == 0)
        to = write_string(to, name);
    to = write_string(to, value);
    if (is_kept) {
        add(table, name, value);
        encoder->unused[table->newest] = 1;
    }
    return to;
}

size_t hpack_encode(hpack_encoder *encoder, const char *text,
                    const hpack_field *fields, size_t count, char *to)
{
    const char *begin = to;

    if (encoder->least < encoder->table.max_bytes) {
        to = write_number(to, UPDATE, UPDATE_BITS, encoder->least);
        resize(&encoder->table, encoder->least);
    }
    if (encoder->wanted != encoder->table.max_bytes) {
        to = write_number(to, UPDATE, UPDATE_BITS, encoder->wanted);
        resize(&encoder->table, encoder->wanted);
    }
    encoder->least = encoder->wanted;
    for (size_t i = 0; i < count; i++) {
        run name = {text + fields[i].name.off, fields[i].name.len};
        run value = {text + fields[i].value.off, fields[i].value.len};

        to = write_field(encoder, name, value, fields[i].is_sensitive, to);
    }
    return (size_t)(to - begin);
}
