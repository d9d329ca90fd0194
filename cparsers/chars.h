/* chars.h -- octets by name, and one table for each production that is a
 * class of octets.  Indexed by uint8_t; 0 means "no member". */
#ifndef ASERVE_CHARS_H
#define ASERVE_CHARS_H
#include <stdint.h>

enum { HTAB = 0x09, LF = 0x0a, CR = 0x0d, SP = 0x20 };

/* clang-format off */

/* Runs of designated initialisers. */
#define FIVE_FROM(first)                                                      \
    [(first) + 0] = 1, [(first) + 1] = 1, [(first) + 2] = 1,                  \
    [(first) + 3] = 1, [(first) + 4] = 1
#define FIFTEEN_FROM(first)                                                   \
    FIVE_FROM(first), FIVE_FROM((first) + 5), FIVE_FROM((first) + 10)
#define SIXTEEN_FROM(first) FIFTEEN_FROM(first), [(first) + 15] = 1

/* RFC 5234 B.1 */
#define DIGITS FIVE_FROM('0'), FIVE_FROM('5')
#define ALPHAS                                                                \
    SIXTEEN_FROM('A'), FIVE_FROM('Q'), FIVE_FROM('V'),                        \
    SIXTEEN_FROM('a'), FIVE_FROM('q'), FIVE_FROM('v')

/* RFC 9110 section 5.5: obs-text = %x80-FF */
#define OBS_TEXT                                                              \
    SIXTEEN_FROM(0x80), SIXTEEN_FROM(0x90), SIXTEEN_FROM(0xa0),               \
    SIXTEEN_FROM(0xb0), SIXTEEN_FROM(0xc0), SIXTEEN_FROM(0xd0),               \
    SIXTEEN_FROM(0xe0), SIXTEEN_FROM(0xf0)

/* RFC 9110 section 5.6.2: tchar */
static const uint8_t tchar[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1,
    ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1,
    ['`'] = 1, ['|'] = 1, ['~'] = 1, DIGITS, ALPHAS
};

/* RFC 9110 section 5.5: field-vchar / SP / HTAB */
static const uint8_t field_octet[256] = {
    [HTAB] = 1, SIXTEEN_FROM(0x20), SIXTEEN_FROM(0x30), SIXTEEN_FROM(0x40),
    SIXTEEN_FROM(0x50), SIXTEEN_FROM(0x60), FIFTEEN_FROM(0x70), OBS_TEXT
};

/* RFC 5234 B.1: HEXDIG, either case; the low four bits are the value. */
static const uint8_t hexdig[256] = {
    ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14,
    ['5'] = 0x15, ['6'] = 0x16, ['7'] = 0x17, ['8'] = 0x18, ['9'] = 0x19,
    ['A'] = 0x1a, ['B'] = 0x1b, ['C'] = 0x1c,
    ['D'] = 0x1d, ['E'] = 0x1e, ['F'] = 0x1f,
    ['a'] = 0x1a, ['b'] = 0x1b, ['c'] = 0x1c,
    ['d'] = 0x1d, ['e'] = 0x1e, ['f'] = 0x1f
};

/* clang-format on */

#endif
