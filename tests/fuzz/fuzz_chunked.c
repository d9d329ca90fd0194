/* fuzz_chunked.c -- the input is a chunked body, and whatever follows.
 *
 * Invariant: http1_decode_chunked consumes all octets, or fewer and is done,
 * or returns an error of bodies; it reads nothing past len, never produces
 * more than it consumes, and writes nothing behind what it produces; dst may
 * be buf; and no split changes the content or the error. */
#include <stdlib.h>
#include <string.h>
#include "http1.h"
#include "invariants.h"

typedef struct {
    int code; /* octets consumed by all calls, or the error */
    size_t content_len;
    uint32_t done;
} answer;

static guarded_area input_area, dst_area;
static char whole_content[MAX_INPUT_LEN];
static char other_content[MAX_INPUT_LEN];

/* Feed one piece; append what it produced to `content`. */
static void feed(http1_chunked *body, const char *piece, size_t len,
                 answer *got, char *content)
{
    char *buf = guarded_copy(&input_area, piece, len);
    char *dst = guarded_room(&dst_area, len);
    int code = http1_decode_chunked(body, buf, len, dst);

    if (code < 0) {
        got->code = code;
        return;
    }
    require((size_t)code == len || body->done, "all, or done");
    require((size_t)code <= len, "consumed <= len");
    require(body->produced <= (uint32_t)code, "produced <= consumed");
    memcpy(content + got->content_len, dst, body->produced);
    got->content_len += body->produced;
    got->code += code;
    got->done = body->done;
}

/* Feed `data` in two pieces, or octet by octet if cut == len. */
static answer decode(const char *data, size_t len, size_t cut,
                     const http1_chunked *limits, char *content)
{
    http1_chunked body = *limits;
    answer got = {0, 0, 0};

    if (cut < len) {
        feed(&body, data, cut, &got, content);
        if (got.code >= 0)
            feed(&body, data + cut, len - cut, &got, content);
        return got;
    }
    for (size_t n = 0; n < len && got.code >= 0; n++)
        feed(&body, data + n, 1, &got, content);
    return got;
}

static int is_same(const answer *a, const answer *b)
{
    if (a->code != b->code)
        return 0;
    return a->code < 0 ||
           (a->done == b->done && a->content_len == b->content_len &&
            memcmp(whole_content, other_content, a->content_len) == 0);
}

static void check_in_place(const char *data, size_t len,
                           const http1_chunked *limits, const answer *whole)
{
    http1_chunked body = *limits;
    char *buf = guarded_copy(&input_area, data, len);
    int code = http1_decode_chunked(&body, buf, len, buf);

    require(code == whole->code, "in place, the same answer");
    require(code < 0 || memcmp(buf, whole_content, body.produced) == 0,
            "in place, the same content");
}

static void check_error(int code)
{
    require(code == ASERVE_BARE_LF || code == ASERVE_BARE_CR ||
                (code <= ASERVE_BAD_CHUNK_SIZE &&
                 code >= ASERVE_TRAILERS_TOO_LARGE),
            "an error of bodies");
}

static void check(const char *data, size_t len, const http1_chunked *limits)
{
    size_t step = len < 64 ? 1 : len / 16;
    answer whole = decode(data, len, 0, limits, whole_content);
    answer other = decode(data, len, len, limits, other_content);

    require(is_same(&whole, &other), "octet by octet is as the whole");
    for (size_t cut = 1; cut < len; cut += step) {
        other = decode(data, len, cut, limits, other_content);
        require(is_same(&whole, &other), "two pieces are as the whole");
    }
    check_in_place(data, len, limits, &whole);
    if (whole.code < 0)
        check_error(whole.code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    http1_chunked limits = {0};

    if (len == 0 || len > MAX_INPUT_LEN)
        return 0;
    limits.max_extension_len = 256;
    limits.max_trailer_len = 8192;
    check((const char *)data, len, &limits);
    /* Limits that the input itself comes close to. */
    limits.max_extension_len = data[len / 2] % 16;
    limits.max_trailer_len = data[len - 1] % 64;
    check((const char *)data, len, &limits);
    return 0;
}
