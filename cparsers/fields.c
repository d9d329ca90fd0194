/* fields.c -- RFC 9112 section 5. */
#include <string.h>
#include "chars.h"
#include "fields.h"
#include "host.h"

/* RFC 9110 section 5.6.3: OWS = *( SP / HTAB ) */
static octets trim_ows(octets run)
{
    while (run.p < run.end && (*run.p == SP || *run.p == HTAB))
        run.p++;
    while (run.p < run.end && (run.end[-1] == SP || run.end[-1] == HTAB))
        run.end--;
    return run;
}

/* RFC 9110 section 5.6.1: #element = [ element ] *( OWS "," OWS [ element ] )
 * Take the next element of `list`, trimmed; list->p becomes NULL after the
 * last one.  No list read here has elements with a comma inside. */
static octets next_element(octets *list)
{
    const char *comma = memchr(list->p, ',', length(*list));
    octets element = {list->p, comma == NULL ? list->end : comma};

    list->p = comma == NULL ? NULL : comma + 1;
    return trim_ows(element);
}

/* RFC 9110 section 7.2: Host = uri-host [ ":" port ]; may be empty. */
static int on_host(fields *all, octets *value)
{
    if (all->nhosts++ > 0)
        return ASERVE_REPEATED_HOST;
    if (length(*value) > 0 && check_host(value->p, value->end) != 0)
        return ASERVE_BAD_HOST;
    /* RFC 9112 section 3.2.2: the target's authority takes its place. */
    if (all->authority.p != NULL)
        *value = all->authority;
    return 0;
}

/* RFC 9110 section 8.6: Content-Length = 1*DIGIT
 * Stricter than RFC 9112 6.3(5): a list of equal values is refused too. */
static int on_content_length(fields *all, octets value)
{
    if (all->nlengths++ > 0)
        return ASERVE_REPEATED_CONTENT_LENGTH;
    if (length(value) == 0 ||
        read_number(value.p, value.end, &all->content_length) != value.end)
        return ASERVE_BAD_CONTENT_LENGTH;
    return 0;
}

/* RFC 9110 section 8.3: Content-Type = media-type
 * Stricter than RFC 9110 8.3, which knows recipients that take the last: a
 * front server's rules may have read the first. */
static int on_content_type(fields *all, octets value)
{
    octets *first = &all->content_type;

    if (first->p == NULL)
        *first = value;
    else if (length(*first) != length(value) ||
             memcmp(first->p, value.p, length(value)) != 0)
        return ASERVE_REPEATED_CONTENT_TYPE;
    return 0;
}

/* RFC 9112 section 6.1: Transfer-Encoding = #transfer-coding
 * Stricter than RFC 9110 5.6.1.2: an empty list element is malformed here.
 * Stricter than RFC 9112 7: so is a coding with parameters. */
static void on_transfer_encoding(fields *all, octets value)
{
    all->nencodings++;
    while (value.p != NULL) {
        octets coding = next_element(&value);

        if (length(coding) == 0 ||
            skip_tchars(coding.p, coding.end) != coding.end)
            all->malformed_encoding = 1;
        all->last_is_chunked = is_text(coding, "chunked");
        all->nchunked += (uint32_t)all->last_is_chunked;
        all->ncodings++;
    }
}

/* RFC 9110 section 7.6.1: Connection = #connection-option
 * Lenient: elements that are no token are passed over like unknown ones. */
static void on_connection(fields *all, octets value)
{
    while (value.p != NULL) {
        octets option = next_element(&value);

        if (is_text(option, "close"))
            all->close = 1;
        else if (is_text(option, "keep-alive"))
            all->keep_alive = 1;
        else if (is_text(option, "upgrade"))
            all->upgrade = 1;
    }
}

/* RFC 9110 section 7.8: Upgrade = #protocol; one is known (RFC 6455). */
static void on_upgrade(fields *all, octets value)
{
    while (value.p != NULL) {
        if (is_text(next_element(&value), "websocket"))
            all->websocket = 1;
    }
}

/* RFC 9110 section 10.1.1: Expect = #expectation; one is known.
 * Stricter than RFC 9110 10.1.1: a list, even of that one, is unknown. */
static void on_expect(fields *all, octets value)
{
    if (is_text(value, "100-continue"))
        all->expect_continue = 1;
    else
        all->unknown_expectation = 1;
}

/* RFC 7239 section 4, and the older fields: they count from a trusted proxy
 * only (aserve/proxies/forwarded.py). */
static int tells_of_client(octets name)
{
    static const char x_forwarded[] = "x-forwarded";
    octets start = name;

    if (length(name) < 9 ||
        ((*name.p | 0x20) != 'f' && (*name.p | 0x20) != 'x'))
        return 0;
    if (length(name) >= sizeof x_forwarded - 1)
        start.end = start.p + sizeof x_forwarded - 1;
    return is_text(start, x_forwarded) || is_text(name, "forwarded") ||
           is_text(name, "x-real-ip");
}

/* Record the meaning of one field for the message; append its pair. */
static int take_field(fields *all, octets name, octets value)
{
    int code = 0;

    switch (length(name)) {
    case 4:
        if (is_text(name, "host"))
            code = on_host(all, &value);
        break;
    case 6:
        if (is_text(name, "expect"))
            on_expect(all, value);
        break;
    case 7:
        if (is_text(name, "upgrade"))
            on_upgrade(all, value);
        break;
    case 10:
        if (is_text(name, "connection"))
            on_connection(all, value);
        break;
    case 12:
        if (is_text(name, "content-type"))
            code = on_content_type(all, value);
        break;
    case 14:
        if (is_text(name, "content-length"))
            code = on_content_length(all, value);
        break;
    case 17:
        if (is_text(name, "transfer-encoding"))
            on_transfer_encoding(all, value);
        break;
    }
    if (code != 0)
        return code;
    if (tells_of_client(name))
        all->forwarded = 1;
    return vars_append_field(&all->vars, name.p, length(name), value.p,
                             length(value));
}

/* The error of a field name that ends at `p`, where no colon follows. */
static int name_fault(const char *line, const char *p, const char *end)
{
    const char *name_end = p;

    if (p == line && p < end && (*p == SP || *p == HTAB))
        return ASERVE_OBS_FOLD;
    while (p < end && (*p == SP || *p == HTAB))
        p++;
    if (p < end && *p == ':' && p > name_end)
        return ASERVE_SPACE_BEFORE_COLON;
    return ASERVE_BAD_FIELD_NAME;
}

/* RFC 9112 section 5: field-line = field-name ":" OWS field-value OWS
 * RFC 9112 section 5.2: obs-fold is refused, the first of its two choices. */
int parse_field_line(fields *all, const char *p, const char *end,
                     const char **next)
{
    octets name = {p, skip_tchars(p, end)};
    octets value;

    if (name.end == name.p || name.end == end || *name.end != ':')
        return name_fault(p, name.end, end);
    value.p = p = name.end + 1;
    while (p < end && field_octet[(uint8_t)*p])
        p++;
    value.end = p;
    if (end - p < 2 || p[0] != CR || p[1] != LF)
        return ASERVE_BAD_FIELD_VALUE;
    *next = p + 2;
    return take_field(all, name, trim_ows(value));
}

int check_framing(const fields *all, int minor)
{
    if (all->nencodings == 0)
        return 0;
    if (minor == 0)
        return ASERVE_ENCODING_IN_1_0;
    if (all->nlengths > 0)
        return ASERVE_LENGTH_AND_ENCODING;
    if (all->malformed_encoding || !all->last_is_chunked || all->nchunked > 1)
        return ASERVE_BAD_TRANSFER_ENCODING;
    if (all->ncodings > 1)
        return ASERVE_UNKNOWN_CODING;
    return 0;
}
