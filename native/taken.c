/* taken.c -- the pairs of the vars that C takes out. */
#include "taken.h"

/* RFC 7239, and fields named X-Forwarded..., which have no specification. */
static int is_forwarded(octets name)
{
    return begins_with(name, OCTETS("HTTP_X_FORWARDED")) ||
           is_equal(name, OCTETS("HTTP_FORWARDED")) ||
           is_equal(name, OCTETS("HTTP_X_REAL_IP"));
}

/* The kind of a taken field; 0: it is not taken. */
static int kind_of(octets name)
{
    if (!begins_with(name, OCTETS("HTTP_")))
        return 0;
    if (is_equal(name, OCTETS("HTTP_X_REQUEST_ID")))
        return TAKEN_ID;
    return is_forwarded(name) ? TAKEN_FORWARDED : 0;
}

static void keep(taken_vars *to, const char *from, const char *end)
{
    memcpy(to->rest + to->size, from, (size_t)(end - from));
    to->size += (size_t)(end - from);
}

static void add_word(taken_vars *to, octets word)
{
    if (to->words_size + word.size < TAKEN_WORDS_MAX) {
        memcpy(to->words + to->words_size, word.at, word.size);
        to->words[to->words_size + word.size] = '\0';
    }
    to->words_size += word.size + 1;
}

static void add_words(taken_vars *to, octets name, octets value)
{
    add_word(to, name);
    add_word(to, value);
}

/* Returns 0: the twin joins them. */
static int set_id(taken_vars *to, octets value)
{
    if (to->id.at != NULL)
        return 0;
    to->id = value;
    return 1;
}

int taken_out(octets vars, uint32_t nfirst, int what, taken_vars *to)
{
    const char *at = vars.at, *end = at + vars.size, *kept = at, *pair;
    octets name, value;

    to->id = (octets){NULL, 0};
    to->size = to->words_size = 0;
    if (vars.size > TAKEN_VARS_MAX)
        return 0;
    for (uint32_t i = 0; at < end; i++) {
        int kind;

        pair = at;
        if (!text_pair(&at, end, &name, &value))
            return 0;
        kind = i < nfirst ? 0 : kind_of(name) & what;
        if (kind == TAKEN_FORWARDED || is_equal(name, OCTETS("HTTP_HOST")))
            add_words(to, name, value);
        if (kind == TAKEN_ID && !set_id(to, value))
            return 0;
        if (kind != 0) {
            keep(to, kept, pair);
            kept = at;
        }
    }
    keep(to, kept, end);
    if (kept == end && to->size > 0)
        to->size--; /* the NUL before the pair that was the last */
    return 1;
}
