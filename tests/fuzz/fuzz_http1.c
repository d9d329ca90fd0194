/* fuzz_http1.c -- the input is a request head, and whatever follows.
 *
 * Invariant: http1_parse_head returns 1 .. len octets consumed, INCOMPLETE,
 * or an error of heads; it reads nothing past len and writes nothing past
 * vars_cap; its pairs are nvars, each of two runs without NUL; vars_len + 1
 * octets of room suffice and one less does not; 2 * max_head_len + 256 always
 * do; and no split changes any of this.  A field section that was kept says of
 * this head, and of one with another octet, what http1_parse_head says, or
 * nothing. */
#include <stdlib.h>
#include <string.h>
#include "http1.h"
#include "invariants.h"
#include "known.h"

typedef struct {
    int code;
    http1_head head;
    const char *vars;
} answer;

static guarded_area input_area, whole_area, other_area;

/* One call, or two with a cut between, on memory of exactly the right size. */
static answer parse(const char *data, size_t len, size_t cut,
                    const http1_head *limits, uint32_t vars_cap,
                    guarded_area *vars_area)
{
    answer got = {ASERVE_INCOMPLETE, *limits, NULL};

    got.head.vars = guarded_room(vars_area, vars_cap);
    got.head.vars_cap = vars_cap;
    got.vars = got.head.vars;
    if (cut > 0)
        got.code = http1_parse_head(guarded_copy(&input_area, data, cut), cut,
                                    0, &got.head);
    if (got.code == ASERVE_INCOMPLETE)
        got.code = http1_parse_head(guarded_copy(&input_area, data, len), len,
                                    cut, &got.head);
    return got;
}

static answer parse_octet_by_octet(const char *data, size_t len,
                                   const http1_head *limits)
{
    answer got = {ASERVE_INCOMPLETE, *limits, NULL};

    got.head.vars_cap = 2 * limits->max_head_len + 256;
    got.head.vars = guarded_room(&other_area, got.head.vars_cap);
    got.vars = got.head.vars;
    for (size_t n = 0; n < len && got.code == ASERVE_INCOMPLETE; n++)
        got.code = http1_parse_head(data, n + 1, n, &got.head);
    return got;
}

static int is_same(const answer *a, const answer *b)
{
    if (a->code != b->code)
        return 0;
    return a->code < 0 || (a->head.flags == b->head.flags &&
                           a->head.content_length == b->head.content_length &&
                           a->head.nvars == b->head.nvars &&
                           a->head.vars_len == b->head.vars_len &&
                           memcmp(a->vars, b->vars, a->head.vars_len) == 0);
}

static void check_accepted(const answer *got, size_t len)
{
    uint32_t nuls = 0;

    require((size_t)got->code <= len, "consumed <= len");
    require((uint32_t)got->code <= got->head.max_head_len, "the head's limit");
    require(got->head.vars_len < got->head.vars_cap, "room for the last NUL");
    for (uint32_t i = 0; i < got->head.vars_len; i++)
        nuls += got->vars[i] == '\0';
    require(nuls == 2 * got->head.nvars - 1, "NUL only between the runs");
    require(got->head.flags < 2 * HTTP1_DROPPED, "known flags");
    require((got->head.content_length > 0) ==
                ((got->head.flags & HTTP1_LENGTH) != 0),
            "HTTP1_LENGTH for a length above 0");
    require((got->head.flags & (HTTP1_LENGTH | HTTP1_CHUNKED)) !=
                (HTTP1_LENGTH | HTTP1_CHUNKED),
            "one framing");
}

static void check_refused(const answer *got)
{
    require(got->code >= ASERVE_LAST_ERROR, "a listed error");
    require(got->code > ASERVE_BAD_CHUNK_SIZE ||
                got->code == ASERVE_REPEATED_CONTENT_TYPE,
            "an error of heads");
    require(got->code == ASERVE_INCOMPLETE || aserve_status(got->code) >= 400,
            "an error's status");
}

/* What `known` says of data[0 .. len) is what http1_parse_head says. */
static void check_known(const known_section *known, const char *data,
                        size_t len, const http1_head *limits)
{
    uint32_t cap = 2 * limits->max_head_len + 256;
    answer whole, got = {0, *limits, NULL};

    got.head.vars = guarded_room(&other_area, cap);
    got.head.vars_cap = cap;
    got.vars = got.head.vars;
    got.code = known_parse_head(known, guarded_copy(&input_area, data, len),
                                len, &got.head);
    if (got.code == 0)
        return;
    whole = parse(data, len, 0, limits, cap, &whole_area);
    require(is_same(&whole, &got), "a known section is as a new one");
    require(whole.head.fields_off == got.head.fields_off, "so its pairs are");
}

/* Keep the section of an accepted head; ask it about this head, and about
 * others that differ in one octet. */
static void check_section(const char *data, size_t len, const answer *whole,
                          const http1_head *limits)
{
    static char other[MAX_INPUT_LEN];
    known_section known = {0};
    size_t step = len < 64 ? 1 : len / 16;

    if (!known_keep(&known, data, (size_t)whole->code, &whole->head))
        return;
    check_known(&known, data, len, limits);
    memcpy(other, data, len);
    for (size_t at = 0; at < len; at += step) {
        other[at] ^= (char)(1 + at % 64);
        check_known(&known, other, len, limits);
        other[at] = data[at];
    }
}

static void check(const char *data, size_t len, const http1_head *limits)
{
    uint32_t cap = 2 * limits->max_head_len + 256;
    answer whole = parse(data, len, 0, limits, cap, &whole_area);
    answer other = parse_octet_by_octet(data, len, limits);
    size_t step = len < 64 ? 1 : len / 16;

    require(is_same(&whole, &other), "octet by octet is as the whole");
    for (size_t cut = 1; cut < len; cut += step) {
        other = parse(data, len, cut, limits, cap, &other_area);
        require(is_same(&whole, &other), "two pieces are as the whole");
    }
    if (whole.code < 0) {
        check_refused(&whole);
        return;
    }
    check_accepted(&whole, len);
    check_section(data, len, &whole, limits);
    whole = parse(data, len, 0, limits, cap, &whole_area);
    cap = whole.head.vars_len + 1;
    other = parse(data, len, 0, limits, cap, &other_area);
    require(is_same(&whole, &other), "vars_len + 1 octets suffice");
    other = parse(data, len, 0, limits, cap - 1, &other_area);
    require(other.code == ASERVE_VARS_FULL, "vars_len octets do not");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    http1_head limits = {0};
    uint32_t n = (uint32_t)len;

    if (len > MAX_INPUT_LEN)
        return 0;
    limits.max_line_len = 8190;
    limits.max_head_len = MAX_INPUT_LEN;
    limits.max_fields = 100;
    check((const char *)data, len, &limits);
    /* Limits that the input itself comes close to. */
    limits.max_line_len = n > 0 ? data[n / 2] % 64 : 0;
    limits.max_head_len = n > 0 ? 1 + n - data[n - 1] % n : 1;
    limits.max_fields = n % 8;
    check((const char *)data, len, &limits);
    return 0;
}
