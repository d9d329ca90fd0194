/* vars.h -- the vars block: NAME NUL VALUE NUL ... in the caller's buffer.
 * The one place that knows how a field name becomes a CGI variable
 * (RFC 3875 section 4.1.18, PEP 3333 "environ Variables"). */
#ifndef ASERVE_VARS_H
#define ASERVE_VARS_H
#include "aserve.h"

typedef struct {
    char *buf;
    uint32_t cap;
    uint32_t len; /* octets written; each pair ends in NUL while writing */
    uint32_t n;   /* pairs written */
} aserve_vars;

/* Append one pair as it is.
 * Returns 0 or ASERVE_VARS_FULL. */
int vars_append(aserve_vars *vars, const char *name, size_t name_len,
                const char *value, size_t value_len);

/* Append one field under its CGI name: upper-case, '-' to '_', prefixed
 * HTTP_ but for CONTENT_TYPE and CONTENT_LENGTH.  Dropped, n stays: names
 * that contain '_' (they would alias those with '-') and "Proxy" (httpoxy:
 * HTTP_PROXY configures HTTP clients).  The name is a valid token.
 * Returns 0 or ASERVE_VARS_FULL. */
int vars_append_field(aserve_vars *vars, const char *name, size_t name_len,
                      const char *value, size_t value_len);

/* Append one pair that a web server sent under its CGI name, as it is.
 * Silently dropped: HTTP_CONTENT_LENGTH and HTTP_CONTENT_TYPE, which nginx
 * sends beside the real ones and no app obeys, HTTP_PROXY (httpoxy), and
 * names that begin with "wsgi.": PEP 3333 has them from the server alone.
 * Returns 0 or ASERVE_VARS_FULL. */
int vars_append_cgi(aserve_vars *vars, const char *name, size_t name_len,
                    const char *value, size_t value_len);

/* Whether a var under its CGI name is the request's own: its value differs
 * from request to request, such as REQUEST_URI or REMOTE_PORT.  They stand
 * first in the block, so that all others are one run, which a front server
 * sends again and again for the same client. */
int vars_is_own(const char *name, size_t name_len);

#endif
