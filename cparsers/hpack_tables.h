/* hpack_tables.h -- the static table (RFC 7541, appendix A). */
#ifndef ASERVE_HPACK_TABLES_H
#define ASERVE_HPACK_TABLES_H
#include <stdint.h>

#define ROW(name, value)                                                      \
    {                                                                         \
        name, value, sizeof name - 1, sizeof value - 1                        \
    }
typedef struct {
    const char *name;
    const char *value;
    uint8_t name_len;
    uint8_t value_len;
} hpack_row;

enum { HPACK_STATIC = 61, HPACK_FIRST_STATUS = 8, HPACK_FIRST_REGULAR = 15 };

/* From index 1 on.  Names of fields are in order from HPACK_FIRST_REGULAR. */
static const hpack_row static_rows[HPACK_STATIC] = {
    ROW(":authority", ""),
    ROW(":method", "GET"),
    ROW(":method", "POST"),
    ROW(":path", "/"),
    ROW(":path", "/index.html"),
    ROW(":scheme", "http"),
    ROW(":scheme", "https"),
    ROW(":status", "200"),
    ROW(":status", "204"),
    ROW(":status", "206"),
    ROW(":status", "304"),
    ROW(":status", "400"),
    ROW(":status", "404"),
    ROW(":status", "500"),
    ROW("accept-charset", ""),
    ROW("accept-encoding", "gzip, deflate"),
    ROW("accept-language", ""),
    ROW("accept-ranges", ""),
    ROW("accept", ""),
    ROW("access-control-allow-origin", ""),
    ROW("age", ""),
    ROW("allow", ""),
    ROW("authorization", ""),
    ROW("cache-control", ""),
    ROW("content-disposition", ""),
    ROW("content-encoding", ""),
    ROW("content-language", ""),
    ROW("content-length", ""),
    ROW("content-location", ""),
    ROW("content-range", ""),
    ROW("content-type", ""),
    ROW("cookie", ""),
    ROW("date", ""),
    ROW("etag", ""),
    ROW("expect", ""),
    ROW("expires", ""),
    ROW("from", ""),
    ROW("host", ""),
    ROW("if-match", ""),
    ROW("if-modified-since", ""),
    ROW("if-none-match", ""),
    ROW("if-range", ""),
    ROW("if-unmodified-since", ""),
    ROW("last-modified", ""),
    ROW("link", ""),
    ROW("location", ""),
    ROW("max-forwards", ""),
    ROW("proxy-authenticate", ""),
    ROW("proxy-authorization", ""),
    ROW("range", ""),
    ROW("referer", ""),
    ROW("refresh", ""),
    ROW("retry-after", ""),
    ROW("server", ""),
    ROW("set-cookie", ""),
    ROW("strict-transport-security", ""),
    ROW("transfer-encoding", ""),
    ROW("user-agent", ""),
    ROW("vary", ""),
    ROW("via", ""),
    ROW("www-authenticate", ""),
};
#undef ROW

#endif
