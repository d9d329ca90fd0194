/* aserve.c -- the status and the text of every result code. */
#include "aserve.h"

typedef struct {
    int status;
    const char *text;
} explanation;

/* Indexed by -code; the sections are those of the comments in aserve.h. */
static const explanation explanations[] = {
    [-ASERVE_INCOMPLETE] = {0, "more octets are needed"},
    [-ASERVE_BAD_METHOD] = {400, "method is not a token "
                                 "(RFC 9110 section 9.1)"},
    [-ASERVE_BAD_TARGET] = {400, "request target has no valid form "
                                 "(RFC 9112 section 3.2)"},
    [-ASERVE_BAD_PERCENT] = {400, "bad percent-encoding in the path "
                                  "(RFC 3986 section 2.1)"},
    [-ASERVE_BAD_REQUEST_LINE] = {400, "request line is not method, target "
                                       "and version with single spaces "
                                       "(RFC 9112 section 3)"},
    [-ASERVE_BAD_VERSION] = {400, "version is not HTTP/digit.digit "
                                  "(RFC 9112 section 2.3)"},
    [-ASERVE_UNSUPPORTED_VERSION] = {505, "major version is not 1 "
                                          "(RFC 9110 section 15.6.6)"},
    [-ASERVE_UNSUPPORTED_METHOD] = {501, "method is CONNECT or too long "
                                         "(RFC 9112 section 3)"},
    [-ASERVE_BARE_LF] = {400, "line feed without carriage return "
                              "(RFC 9112 section 2.2)"},
    [-ASERVE_BARE_CR] = {400, "carriage return without line feed "
                              "(RFC 9112 section 2.2)"},
    [-ASERVE_OBS_FOLD] = {400, "line begins with white space "
                               "(RFC 9112 section 5.2)"},
    [-ASERVE_BAD_FIELD_NAME] = {400, "field name is not a token "
                                     "(RFC 9112 section 5)"},
    [-ASERVE_SPACE_BEFORE_COLON] = {400, "white space between field name and "
                                         "colon (RFC 9112 section 5.1)"},
    [-ASERVE_BAD_FIELD_VALUE] = {400, "control octet in a field value "
                                      "(RFC 9110 section 5.5)"},
    [-ASERVE_MISSING_HOST] = {400, "no Host field "
                                   "(RFC 9112 section 3.2)"},
    [-ASERVE_REPEATED_HOST] = {400, "more than one Host field "
                                    "(RFC 9112 section 3.2)"},
    [-ASERVE_BAD_HOST] = {400, "host is not a name or address with an "
                               "optional port (RFC 9112 section 3.2)"},
    [-ASERVE_BAD_CONTENT_LENGTH] = {400, "Content-Length is not a number "
                                         "below 2^63 "
                                         "(RFC 9112 section 6.3)"},
    [-ASERVE_REPEATED_CONTENT_LENGTH] = {400, "more than one Content-Length "
                                              "field "
                                              "(RFC 9112 section 6.3)"},
    [-ASERVE_LENGTH_AND_ENCODING] = {400, "both Content-Length and "
                                          "Transfer-Encoding "
                                          "(RFC 9112 section 6.1)"},
    [-ASERVE_BAD_TRANSFER_ENCODING] = {400, "transfer coding is not a final, "
                                            "single chunked "
                                            "(RFC 9112 section 6.3)"},
    [-ASERVE_UNKNOWN_CODING] = {501, "transfer coding other than chunked "
                                     "(RFC 9112 section 6.1)"},
    [-ASERVE_ENCODING_IN_1_0] = {400, "Transfer-Encoding in HTTP/1.0 "
                                      "(RFC 9112 section 6.1)"},
    [-ASERVE_UNKNOWN_EXPECTATION] = {417, "expectation other than "
                                          "100-continue "
                                          "(RFC 9110 section 10.1.1)"},
    [-ASERVE_TARGET_TOO_LONG] = {414, "request line over the limit; "
                                      "--max-request-line raises it "
                                      "(RFC 9110 section 15.5.15)"},
    [-ASERVE_HEAD_TOO_LARGE] = {431, "head over the limit; --max-head "
                                     "raises it (RFC 6585 section 5)"},
    [-ASERVE_TOO_MANY_FIELDS] = {431, "more field lines than the limit; "
                                      "--max-fields raises it "
                                      "(RFC 6585 section 5)"},
    [-ASERVE_BAD_CHUNK_SIZE] = {400, "chunk size is not a hexadecimal number "
                                     "below 2^63 (RFC 9112 section 7.1)"},
    [-ASERVE_BAD_CHUNK_EXTENSION] = {400, "control octet in a chunk extension "
                                          "(RFC 9112 section 7.1.1)"},
    [-ASERVE_LONG_CHUNK_EXTENSION] = {400, "chunk extension over the limit "
                                           "(RFC 9112 section 7.1.1)"},
    [-ASERVE_BAD_CHUNK_END] = {400, "chunk data not followed by CRLF "
                                    "(RFC 9112 section 7.1)"},
    [-ASERVE_BAD_TRAILER] = {400, "trailer field is no field line "
                                  "(RFC 9112 section 7.1.2)"},
    [-ASERVE_TRAILERS_TOO_LARGE] = {431, "trailer section over the limit "
                                         "(RFC 6585 section 5)"},
    [-ASERVE_VARS_FULL] = {500, "vars buffer is too small"},
    [-ASERVE_NOT_UWSGI] = {400, "HTTP or TLS spoken to a uwsgi socket; let "
                                "the front server use uwsgi_pass, or bind "
                                "this socket for HTTP (uwsgi Protocol.rst)"},
    [-ASERVE_NOT_SCGI] = {400, "something other than SCGI spoken to an SCGI "
                               "socket; let the front server use scgi_pass, "
                               "or bind this socket for what it speaks "
                               "(SCGI section 2)"},
    [-ASERVE_BAD_NETSTRING] = {400, "head is not a netstring: decimal length "
                                    "without leading zeros, colon, that "
                                    "many octets, comma (SCGI section 2)"},
    [-ASERVE_LENGTH_NOT_FIRST] = {400, "first var is not CONTENT_LENGTH "
                                       "(SCGI section 3)"},
    [-ASERVE_NO_SCGI_1] = {400, "no var SCGI with the value 1; let the front "
                                "server send it (SCGI section 3)"},
    [-ASERVE_REPEATED_VAR] =
        {400, "two CONTENT_LENGTHs, and the second is less than the first "
              "(SCGI section 3)"},
    [-ASERVE_LENGTH_CONTRADICTED] =
        {400, "CONTENT_LENGTH is less than the client's own "
              "(HTTP_CONTENT_LENGTH); with scgi_request_buffering off nginx "
              "needs scgi_param CONTENT_LENGTH $content_length "
              "(SCGI section 3)"},
    [-ASERVE_EMPTY_NAME] = {400, "var without a name "
                                 "(uwsgi Protocol.rst; SCGI section 3)"},
    [-ASERVE_VAR_OVERRUN] = {400, "var or item reaches past its packet "
                                  "(uwsgi Protocol.rst; SCGI section 3)"},
    [-ASERVE_NUL_IN_VAR] = {400, "NUL in the name or value of a var "
                                 "(uwsgi Protocol.rst)"},
    [-ASERVE_TOO_MANY_VARS] = {431, "more vars than the limit; --max-fields "
                                    "raises it (RFC 6585 section 5)"},
    [-ASERVE_PACKET_TOO_LARGE] = {431, "packet over the limit; --max-head "
                                       "raises it (RFC 6585 section 5)"},
    [-ASERVE_REPEATED_CONTENT_TYPE] = {400, "two Content-Type fields that "
                                            "differ (RFC 9110 section 8.3)"},
};

static const explanation unknown = {0, "unknown result code"};

static const explanation *explain(int code)
{
    if (code >= 0 || code < ASERVE_LAST_ERROR)
        return &unknown;
    return &explanations[-code];
}

int aserve_status(int code)
{
    return explain(code)->status;
}

const char *aserve_strerror(int code)
{
    return explain(code)->text;
}
