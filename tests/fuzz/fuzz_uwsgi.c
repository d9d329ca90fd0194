/* fuzz_uwsgi.c -- the input is a packet, and whatever follows; then the data
 * of a request's packet; then an array.
 *
 * Invariant: uwsgi_parse_packet returns 4 .. len octets consumed, INCOMPLETE,
 * or an error of packets; it reads nothing past len and writes nothing past
 * vars_cap; its pairs are nvars, each of two runs without NUL, the first not
 * empty; vars_len + 1 octets of room suffice and one less does not;
 * max_packet_len always do; and no split changes any of this.
 * uwsgi_parse_array returns at most cap items, not empty, in order and inside
 * the input, or one of its two errors; it writes nothing behind them. */
#include <stdlib.h>
#include <string.h>
#include "invariants.h"
#include "uwsgi.h"

enum { HEADER_LEN = 4, MAX_ITEMS = 64 };

typedef struct {
    int code;
    uwsgi_packet packet;
} answer;

static guarded_area input_area, whole_area, other_area, items_area;

/* One call, or two with a cut between, on memory of exactly the right size. */
static answer parse(const char *data, size_t len, size_t cut,
                    const uwsgi_packet *limits, uint32_t vars_cap,
                    guarded_area *vars_area)
{
    answer got = {ASERVE_INCOMPLETE, *limits};

    got.packet.vars = guarded_room(vars_area, vars_cap);
    got.packet.vars_cap = vars_cap;
    if (cut > 0)
        got.code = uwsgi_parse_packet(guarded_copy(&input_area, data, cut),
                                      cut, &got.packet);
    if (got.code == ASERVE_INCOMPLETE)
        got.code = uwsgi_parse_packet(guarded_copy(&input_area, data, len),
                                      len, &got.packet);
    return got;
}

static answer parse_octet_by_octet(const char *data, size_t len,
                                   const uwsgi_packet *limits)
{
    answer got = {ASERVE_INCOMPLETE, *limits};

    got.packet.vars_cap = limits->max_packet_len;
    got.packet.vars = guarded_room(&other_area, got.packet.vars_cap);
    for (size_t n = 0; n < len && got.code == ASERVE_INCOMPLETE; n++)
        got.code = uwsgi_parse_packet(data, n + 1, &got.packet);
    return got;
}

static int is_same(const answer *a, const answer *b)
{
    if (a->code != b->code)
        return 0;
    return a->code < 0 ||
           (a->packet.modifier1 == b->packet.modifier1 &&
            a->packet.modifier2 == b->packet.modifier2 &&
            a->packet.content_length == b->packet.content_length &&
            a->packet.nvars == b->packet.nvars &&
            a->packet.vars_len == b->packet.vars_len &&
            memcmp(a->packet.vars, b->packet.vars, a->packet.vars_len) == 0);
}

static void check_accepted(const answer *got, const char *data, size_t len)
{
    const uwsgi_packet *packet = &got->packet;
    uint32_t nuls = 0;

    require(got->code >= HEADER_LEN, "the header is consumed");
    require((size_t)got->code <= len, "consumed <= len");
    require(packet->modifier1 == (uint8_t)data[0] &&
                packet->modifier2 == (uint8_t)data[3],
            "the modifiers of the header");
    require(packet->content_length <= INT64_MAX, "a length below 2^63");
    require(packet->nvars <= packet->max_vars, "no more vars than the limit");
    if (packet->nvars == 0) {
        require(packet->vars_len == 0, "nothing written without vars");
        return;
    }
    require(packet->vars_len < packet->vars_cap, "room for the last NUL");
    for (uint32_t i = 0; i < packet->vars_len; i++) {
        require(packet->vars[i] != '\0' || nuls % 2 == 1 ||
                    (i > 0 && packet->vars[i - 1] != '\0'),
                "no empty name");
        require(nuls % 2 == 1 || (i > 0 && packet->vars[i - 1] != '\0') ||
                    packet->vars_len - i < 5 ||
                    memcmp(packet->vars + i, "wsgi.", 5) != 0,
                "no name of the server's");
        nuls += packet->vars[i] == '\0';
    }
    require(nuls == 2 * packet->nvars - 1, "NUL only between the runs");
}

static void check_refused(int code)
{
    require(code == ASERVE_INCOMPLETE || code == ASERVE_NOT_UWSGI ||
                code == ASERVE_BAD_CONTENT_LENGTH ||
                (code <= ASERVE_EMPTY_NAME && code >= ASERVE_PACKET_TOO_LARGE),
            "an error of packets");
    require(code == ASERVE_INCOMPLETE || aserve_status(code) >= 400,
            "an error's status");
}

static void check(const char *data, size_t len, const uwsgi_packet *limits)
{
    uint32_t cap = limits->max_packet_len;
    answer whole = parse(data, len, 0, limits, cap, &whole_area);
    answer other = parse_octet_by_octet(data, len, limits);
    size_t step = len < 64 ? 1 : len / 16;

    require(is_same(&whole, &other), "octet by octet is as the whole");
    for (size_t cut = 1; cut < len; cut += step) {
        other = parse(data, len, cut, limits, cap, &other_area);
        require(is_same(&whole, &other), "two pieces are as the whole");
    }
    require(whole.code != ASERVE_VARS_FULL, "max_packet_len octets suffice");
    if (whole.code < 0) {
        check_refused(whole.code);
        return;
    }
    check_accepted(&whole, data, len);
    if (whole.packet.nvars == 0)
        return;
    cap = whole.packet.vars_len + 1;
    other = parse(data, len, 0, limits, cap, &other_area);
    require(is_same(&whole, &other), "vars_len + 1 octets suffice");
    other = parse(data, len, 0, limits, cap - 1, &other_area);
    require(other.code == ASERVE_VARS_FULL, "vars_len octets do not");
}

static void check_array(const char *data, size_t len, uint32_t cap)
{
    char *buf = guarded_copy(&input_area, data, len);
    /* The area ends at a page, so the spans are aligned. */
    aserve_span *items =
        (void *)guarded_room(&items_area, sizeof(aserve_span) * cap);
    size_t behind = 0;
    int n = uwsgi_parse_array(buf, len, items, cap);
    require(n >= 0 || n == ASERVE_VAR_OVERRUN || n == ASERVE_TOO_MANY_VARS,
            "an error of arrays");
    require(n <= (int)cap, "no more items than there is room for");
    for (int i = 0; i < n; i++) {
        require(items[i].len > 0, "no empty item");
        require(items[i].off >= behind + 2, "items in order");
        behind = (size_t)items[i].off + items[i].len;
        require(behind <= len, "items inside the input");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char request[HEADER_LEN + MAX_INPUT_LEN];
    uwsgi_packet limits = {0};
    uint32_t n = (uint32_t)len;

    if (len == 0 || len >= MAX_INPUT_LEN)
        return 0;
    request[1] = (char)(n & 0xff);
    request[2] = (char)(n >> 8);
    memcpy(request + HEADER_LEN, data, len);
    limits.max_packet_len = 65535;
    limits.max_vars = 100;
    check((const char *)data, len, &limits);
    check(request, HEADER_LEN + len, &limits);
    /* Limits that the input itself comes close to. */
    limits.max_packet_len = n - data[n / 2] % 8 % n;
    limits.max_vars = data[n - 1] % 8;
    check((const char *)data, len, &limits);
    check(request, HEADER_LEN + len, &limits);
    check_array((const char *)data, len, MAX_ITEMS);
    check_array((const char *)data, len, data[n - 1] % 4);
    return 0;
}
