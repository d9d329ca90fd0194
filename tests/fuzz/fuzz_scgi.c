/* fuzz_scgi.c -- the input is a request head, and whatever follows; then the
 * content of a netstring.
 *
 * Invariant: scgi_parse_head returns 1 .. len octets consumed, INCOMPLETE, or
 * an error of SCGI; it reads nothing past len and writes nothing past
 * vars_cap; its pairs are nvars, each of two runs without NUL, the first run
 * not empty and no "wsgi."; CONTENT_LENGTH comes first and only there, and SCGI once, with
 * the value 1; vars_len + 1 octets of room suffice and one less does not;
 * max_head_len always do; and no split changes any of this. */
#include "invariants.h"
#include "scgi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VARS = 100, SIZE_LEN = 8 };

typedef struct {
    int code;
    scgi_head head;
} answer;

static guarded_area input_area, whole_area, other_area;

/* One call, or two with a cut between, on memory of exactly the right size. */
static answer parse(const char *data, size_t len, size_t cut,
                    const scgi_head *limits, uint32_t vars_cap,
                    guarded_area *vars_area)
{
    answer got = {ASERVE_INCOMPLETE, *limits};

    got.head.vars = guarded_room(vars_area, vars_cap);
    got.head.vars_cap = vars_cap;
    if (cut > 0)
        got.code = scgi_parse_head(guarded_copy(&input_area, data, cut), cut,
                                   &got.head);
    if (got.code == ASERVE_INCOMPLETE)
        got.code = scgi_parse_head(guarded_copy(&input_area, data, len), len,
                                   &got.head);
    return got;
}

static answer parse_octet_by_octet(const char *data, size_t len,
                                   const scgi_head *limits)
{
    answer got = {ASERVE_INCOMPLETE, *limits};

    got.head.vars_cap = limits->max_head_len;
    got.head.vars = guarded_room(&other_area, got.head.vars_cap);
    for (size_t n = 0; n < len && got.code == ASERVE_INCOMPLETE; n++)
        got.code = scgi_parse_head(data, n + 1, &got.head);
    return got;
}

static int is_same(const answer *a, const answer *b)
{
    if (a->code != b->code)
        return 0;
    return a->code < 0 ||
           (a->head.content_length == b->head.content_length &&
            a->head.nvars == b->head.nvars &&
            a->head.vars_len == b->head.vars_len &&
            memcmp(a->head.vars, b->head.vars, a->head.vars_len) == 0);
}

/* The block is strings here: its last NUL is behind vars_len. */
static void check_pairs(const scgi_head *head)
{
    const char *p = head->vars;
    int nscgi = 0;

    for (uint32_t i = 0; i < head->nvars; i++) {
        const char *name = p;
        const char *value = p + strlen(p) + 1;

        require(*name != '\0', "no empty name");
        require(strncmp(name, "wsgi.", 5) != 0, "no name of the server's");
        require((strcmp(name, "CONTENT_LENGTH") == 0) == (i == 0),
                "CONTENT_LENGTH first, and only there");
        if (strcmp(name, "SCGI") == 0) {
            require(strcmp(value, "1") == 0, "no SCGI but 1");
            nscgi++;
        }
        p = value + strlen(value) + 1;
    }
    require(p == head->vars + head->vars_len + 1, "two runs for each pair");
    require(nscgi == 1, "SCGI=1, once");
}

static void check_accepted(const answer *got, size_t len)
{
    const scgi_head *head = &got->head;

    require((size_t)got->code <= len, "consumed <= len");
    require(head->content_length <= INT64_MAX, "a length below 2^63");
    require(head->vars_len < head->vars_cap, "room for the last NUL");
    require(head->nvars >= 2 && head->nvars <= head->max_vars,
            "two vars and no more than the limit");
    check_pairs(head);
}

static void check_refused(int code)
{
    require(code == ASERVE_INCOMPLETE || code == ASERVE_BAD_CONTENT_LENGTH ||
                code == ASERVE_VARS_FULL ||
                code == ASERVE_LENGTH_CONTRADICTED ||
                (code <= ASERVE_NOT_SCGI && code >= ASERVE_PACKET_TOO_LARGE &&
                 code != ASERVE_NUL_IN_VAR),
            "an error of SCGI");
    require(code == ASERVE_INCOMPLETE || aserve_status(code) >= 400,
            "an error's status");
}

static void check(const char *data, size_t len, const scgi_head *limits)
{
    uint32_t cap = limits->max_head_len;
    answer whole = parse(data, len, 0, limits, cap, &whole_area);
    answer other = parse_octet_by_octet(data, len, limits);
    size_t step = len < 64 ? 1 : len / 16;

    require(is_same(&whole, &other), "octet by octet is as the whole");
    for (size_t cut = 1; cut < len; cut += step) {
        other = parse(data, len, cut, limits, cap, &other_area);
        require(is_same(&whole, &other), "two pieces are as the whole");
    }
    require(whole.code != ASERVE_VARS_FULL, "max_head_len octets suffice");
    if (whole.code < 0) {
        check_refused(whole.code);
        return;
    }
    check_accepted(&whole, len);
    cap = whole.head.vars_len + 1;
    other = parse(data, len, 0, limits, cap, &other_area);
    require(is_same(&whole, &other), "vars_len + 1 octets suffice");
    other = parse(data, len, 0, limits, cap - 1, &other_area);
    require(other.code == ASERVE_VARS_FULL, "vars_len octets do not");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char netstring[SIZE_LEN + MAX_INPUT_LEN];
    scgi_head limits = {0};
    uint32_t n = (uint32_t)len;
    size_t size_len;

    if (len == 0 || len >= MAX_INPUT_LEN)
        return 0;
    size_len = (size_t)snprintf(netstring, SIZE_LEN, "%u:", (unsigned)n);
    memcpy(netstring + size_len, data, len);
    netstring[size_len + len] = ',';
    limits.max_head_len = MAX_INPUT_LEN;
    limits.max_vars = MAX_VARS;
    check((const char *)data, len, &limits);
    check(netstring, size_len + len + 1, &limits);
    /* Limits that the input itself comes close to. */
    limits.max_head_len = n - data[n / 2] % 8 % n;
    limits.max_vars = data[n - 1] % 8;
    check((const char *)data, len, &limits);
    check(netstring, size_len + len + 1, &limits);
    return 0;
}
