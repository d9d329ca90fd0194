/* in_flight.c -- the method and target of a request, from its vars. */
#include "in_flight.h"
#include "octets.h"

static octets text_of(const char *text)
{
    octets run = {text, text + strlen(text)};

    return run;
}

/* Append as much of a run as there is room for; return where it ends. */
static char *append(char *to, const char *end, octets run)
{
    size_t room = (size_t)(end - to);
    size_t len = length(run) < room ? length(run) : room;

    memcpy(to, run.p, len);
    return to + len;
}

/* The next of NAME NUL VALUE NUL ...; its NUL may be missing at the end. */
static octets next_part(const char **p, const char *end)
{
    octets part = {*p, memchr(*p, '\0', (size_t)(end - *p))};

    if (part.end == NULL)
        part.end = end;
    *p = part.end < end ? part.end + 1 : end;
    return part;
}

void in_flight_describe(in_flight_entry *entry, const char *vars,
                        uint32_t vars_len)
{
    const char *p = vars, *end = vars + vars_len;
    octets method = text_of("-"), target = method;
    int has_method = 0, has_target = 0;
    char *to = entry->text;

    /* An HTTP request's come first; a front server has its own order. */
    while (p < end && !(has_method && has_target)) {
        octets name = next_part(&p, end);
        octets value = next_part(&p, end);

        if (is_exactly(name, "REQUEST_METHOD")) {
            method = value;
            has_method = 1;
        } else if (is_exactly(name, "REQUEST_URI")) {
            target = value;
            has_target = 1;
        } else if (!has_target && is_exactly(name, "PATH_INFO")) {
            target = value; /* unless the other is there, too */
        }
    }
    end = to + IN_FLIGHT_TEXT_CAP;
    to = append(to, end, method);
    to = append(to, end, text_of(" "));
    to = append(to, end, target);
    if (to < end)
        *to = '\0';
}

void in_flight_set(in_flight_entry *entry, uint64_t since)
{
    __atomic_store_n(&entry->since, since, __ATOMIC_RELEASE);
}
