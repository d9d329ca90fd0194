/* request_line.h -- method, request target and version of a request. */
#ifndef ASERVE_REQUEST_LINE_H
#define ASERVE_REQUEST_LINE_H
#include "octets.h"
#include "vars.h"

/* A request line taken apart; the runs lie in the caller's buffer. */
typedef struct {
    octets method;
    octets target;
    octets authority; /* of an absolute-form; p == NULL without */
    octets path;
    octets query;
    int minor;
} request_line;

/* Parse one request line, [p, end), its CRLF excluded.
 * Returns 0, ASERVE_BAD_METHOD, BAD_TARGET, BAD_REQUEST_LINE, BAD_VERSION,
 * UNSUPPORTED_VERSION, UNSUPPORTED_METHOD or BAD_HOST (of absolute-form). */
int parse_request_line(const char *p, const char *end, request_line *line);

/* Append the five pairs that stand for the request line.
 * Returns 0, ASERVE_BAD_PERCENT or ASERVE_VARS_FULL. */
int append_request_line(aserve_vars *vars, const request_line *line);

#endif
