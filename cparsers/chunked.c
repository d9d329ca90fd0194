/* chunked.c -- the decoder of http1.h's http1_chunked.
 *
 * One octet moves one state, but for the data, which moves in one piece; so
 * the answer cannot depend on how the octets were split. */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include "chars.h"
#include "http1.h"

/* RFC 9112 section 7.1: chunked-body = *chunk last-chunk trailer-section CRLF
 * The name says which octet is expected next. */
enum {
    CHUNK_SIZE, /* zero: a zero-filled decoder begins here */
    CHUNK_EXT,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER, /* a field line, or the final CR */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    FINAL_LF,
    DONE
};

/* 2^63 - 1 has 16 digits. */
enum { MAX_SIZE_DIGITS = 16 };

/* RFC 9112 section 7.1: chunk-size = 1*HEXDIG
 * `used` counts the digits.
 * Stricter than RFC 9112 7.1: the number of leading zeros is limited.
 * Stricter than RFC 9112 7.1.1: white space (BWS) before ";" is refused; no
 * client sends it, and parsers differ on it. */
static int step_size(http1_chunked *body, uint8_t octet)
{
    if (hexdig[octet]) {
        if (body->used++ == MAX_SIZE_DIGITS)
            return ASERVE_BAD_CHUNK_SIZE;
        body->size = body->size << 4 | (hexdig[octet] & 15);
        return body->size > INT64_MAX ? ASERVE_BAD_CHUNK_SIZE : 0;
    }
    if (octet == LF)
        return ASERVE_BARE_LF;
    if (body->used == 0 || (octet != CR && octet != ';'))
        return ASERVE_BAD_CHUNK_SIZE;
    body->state = octet == CR ? CHUNK_SIZE_LF : CHUNK_EXT;
    body->used = octet == CR ? 0 : 1;
    if (body->used > body->max_extension_len)
        return ASERVE_LONG_CHUNK_EXTENSION;
    return 0;
}

/* RFC 9112 section 7.1.1: chunk-ext = *( BWS ";" BWS chunk-ext-name
 *                                     [ BWS "=" BWS chunk-ext-val ] )
 * Lenient: names and values are not parsed; none has a meaning here, and
 * not even a quoted value may hold CR or LF. */
static int step_extension(http1_chunked *body, uint8_t octet)
{
    if (octet == CR) {
        body->state = CHUNK_SIZE_LF;
        return 0;
    }
    if (octet == LF)
        return ASERVE_BARE_LF;
    if (!field_octet[octet])
        return ASERVE_BAD_CHUNK_EXTENSION;
    if (body->used++ == body->max_extension_len)
        return ASERVE_LONG_CHUNK_EXTENSION;
    return 0;
}

/* The LF of a chunk size, or the CRLF after the data. */
static int step_line_end(http1_chunked *body, uint8_t octet)
{
    switch (body->state) {
    case CHUNK_SIZE_LF:
        if (octet != LF)
            return ASERVE_BARE_CR;
        body->used = 0;
        body->state = body->size == 0 ? TRAILER : CHUNK_DATA;
        return 0;
    case CHUNK_DATA_CR:
        body->state = CHUNK_DATA_LF;
        return octet == CR ? 0 : ASERVE_BAD_CHUNK_END;
    default: /* CHUNK_DATA_LF */
        body->state = CHUNK_SIZE;
        return octet == LF ? 0 : ASERVE_BAD_CHUNK_END;
    }
}

/* RFC 9112 section 7.1.2: trailer-section = *( field-line CRLF )
 * The field lines are checked and dropped, so nothing can be smuggled into
 * the environ behind the body's back (RFC 9110 section 6.5.1). */
static int step_trailer(http1_chunked *body, uint8_t octet)
{
    if (body->state == TRAILER && octet == CR) {
        body->state = FINAL_LF;
        return 0;
    }
    if (body->state == FINAL_LF) {
        body->state = DONE;
        return octet == LF ? 0 : ASERVE_BARE_CR;
    }
    if (body->used++ == body->max_trailer_len)
        return ASERVE_TRAILERS_TOO_LARGE;
    if (body->state == TRAILER_LF) {
        body->state = TRAILER;
        return octet == LF ? 0 : ASERVE_BARE_CR;
    }
    if (octet == LF)
        return ASERVE_BARE_LF;
    if (body->state == TRAILER_VALUE) {
        if (octet == CR)
            body->state = TRAILER_LF;
        return octet == CR || field_octet[octet] ? 0 : ASERVE_BAD_TRAILER;
    }
    if (body->state == TRAILER_NAME && octet == ':')
        body->state = TRAILER_VALUE;
    else if (tchar[octet])
        body->state = TRAILER_NAME;
    else
        return ASERVE_BAD_TRAILER;
    return 0;
}

/* Take one octet that is no data. */
static int step(http1_chunked *body, uint8_t octet)
{
    if (body->state == CHUNK_SIZE)
        return step_size(body, octet);
    if (body->state == CHUNK_EXT)
        return step_extension(body, octet);
    if (body->state < TRAILER)
        return step_line_end(body, octet);
    return step_trailer(body, octet);
}

/* Move the data of this chunk that is there; returns its length. */
static size_t move_data(http1_chunked *body, const char *p, const char *end,
                        char *dst)
{
    size_t n = (size_t)(end - p);

    if (n > body->size)
        n = (size_t)body->size;
    memmove(dst, p, n);
    body->size -= n;
    if (body->size == 0)
        body->state = CHUNK_DATA_CR;
    return n;
}

int http1_decode_chunked(http1_chunked *body, const char *buf, size_t len,
                         char *dst)
{
    const char *p = buf;
    const char *end = buf + len;
    size_t produced = 0;

    assert(len <= INT_MAX);
    while (p < end && body->state != DONE) {
        if (body->state == CHUNK_DATA) {
            size_t n = move_data(body, p, end, dst + produced);

            produced += n;
            p += n;
        } else {
            int code = step(body, (uint8_t)*p++);

            if (code != 0)
                return code;
        }
    }
    body->produced = (uint32_t)produced;
    body->done = body->state == DONE;
    return (int)(p - buf);
}

int http1_decode_chunked_at(http1_chunked *body, const char *buf, size_t at,
                            size_t len, char *dst)
{
    return http1_decode_chunked(body, buf + at, len, dst);
}
