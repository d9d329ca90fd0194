/* shown.c -- text that grows, as a log may hold it. */
#include "shown.h"

#include <stdint.h>
#include <string.h>

/* Make room for `more` octets.  Returns 0: there is no memory. */
static int reserve(shown *self, size_t more)
{
    size_t cap = self->size + more;
    char *made;

    if (cap <= self->cap)
        return 1;
    made = PyMem_Realloc(self->at, cap * 2);
    if (made == NULL)
        return 0;
    self->at = made;
    self->cap = cap * 2;
    return 1;
}

int shown_put(shown *self, octets of)
{
    if (!reserve(self, of.size))
        return 0;
    if (of.size > 0) /* else there may be no memory yet */
        memcpy(self->at + self->size, of.at, of.size);
    self->size += of.size;
    return 1;
}

static int is_printable(unsigned char octet)
{
    return octet >= ' ' && octet <= '~' && octet != '"' && octet != '\\';
}

/* The high bit of each octet that is 0, and perhaps of more. */
static uint64_t zeros(uint64_t word)
{
    return (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
}

/* Whether eight octets need no escape; 0: look at each. */
static int are_printable(const char *at)
{
    const uint64_t ones = 0x0101010101010101u, highs = ones * 0x80;
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return ((word | ((word - ones * ' ') & ~word) | (word + ones)) & highs) ==
               0 &&
           zeros(word ^ ones * '"') == 0 && zeros(word ^ ones * '\\') == 0;
}

static char *put_escape(char *to, unsigned char octet, int is_json)
{
    static const char digits[] = "0123456789abcdef",
                      names[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    const char *found = is_json ? memchr(names, octet, 7) : NULL;

    *to++ = '\\';
    if (found != NULL) {
        *to++ = letters[found - names];
        return to;
    }
    to = text_put(to, is_json ? OCTETS("u00") : OCTETS("x"));
    *to++ = digits[octet >> 4];
    *to++ = digits[octet & 15];
    return to;
}

int shown_put_escaped(shown *self, octets from)
{
    size_t done = 0;
    char *to;

    if (from.size == 0) /* there may be no memory to point to */
        return 1;
    if (!reserve(self, 6 * from.size))
        return 0;
    to = self->at + self->size;
    while (done < from.size) {
        unsigned char octet = (unsigned char)from.at[done];

        if (done + 8 <= from.size && are_printable(from.at + done)) {
            memcpy(to, from.at + done, 8);
            to += 8;
            done += 8;
            continue;
        }
        if (octet > 127 && self->is_json)
            return 0;
        if (is_printable(octet))
            *to++ = (char)octet;
        else
            to = put_escape(to, octet, self->is_json);
        done++;
    }
    self->size = (size_t)(to - self->at);
    return 1;
}

int shown_put_number(shown *self, size_t of)
{
    if (!reserve(self, 20))
        return 0;
    self->size =
        (size_t)(text_put_number(self->at + self->size, of, 10) - self->at);
    return 1;
}

int shown_put_seconds(shown *self, double of, int is_exact)
{
    char *digits =
        is_exact ? PyOS_double_to_string(of, 'r', 0, Py_DTSF_ADD_DOT_0, NULL)
                 : PyOS_double_to_string(of, 'f', 6, 0, NULL);
    int result;

    if (digits == NULL) {
        PyErr_Clear();
        return 0;
    }
    result = shown_put(self, (octets){digits, strlen(digits)});
    PyMem_Free(digits);
    return result;
}

int shown_put_millis(shown *self, double part)
{
    unsigned millis = part < 0.0   ? 0
                      : part < 1.0 ? (unsigned)(part * 1000.0)
                                   : 999;
    char digits[3];

    for (int i = 2; i >= 0; i--, millis /= 10)
        digits[i] = (char)('0' + millis % 10);
    return shown_put(self, (octets){digits, 3});
}
