/* vars.c -- writes the vars block. */
#include <string.h>
#include "vars.h"

/* RFC 3875 section 4.1.18: "converted to upper case, has all occurrences of
 * "-" replaced with "_"".  Zero for octets outside of a token, and for '_'. */
/* clang-format off */
static const char cgi_octet[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&',
    ['\''] = '\'', ['*'] = '*', ['+'] = '+', ['-'] = '_', ['.'] = '.',
    ['^'] = '^', ['`'] = '`', ['|'] = '|', ['~'] = '~',
    ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4',
    ['5'] = '5', ['6'] = '6', ['7'] = '7', ['8'] = '8', ['9'] = '9',
    ['A'] = 'A', ['B'] = 'B', ['C'] = 'C', ['D'] = 'D', ['E'] = 'E',
    ['F'] = 'F', ['G'] = 'G', ['H'] = 'H', ['I'] = 'I', ['J'] = 'J',
    ['K'] = 'K', ['L'] = 'L', ['M'] = 'M', ['N'] = 'N', ['O'] = 'O',
    ['P'] = 'P', ['Q'] = 'Q', ['R'] = 'R', ['S'] = 'S', ['T'] = 'T',
    ['U'] = 'U', ['V'] = 'V', ['W'] = 'W', ['X'] = 'X', ['Y'] = 'Y',
    ['Z'] = 'Z',
    ['a'] = 'A', ['b'] = 'B', ['c'] = 'C', ['d'] = 'D', ['e'] = 'E',
    ['f'] = 'F', ['g'] = 'G', ['h'] = 'H', ['i'] = 'I', ['j'] = 'J',
    ['k'] = 'K', ['l'] = 'L', ['m'] = 'M', ['n'] = 'N', ['o'] = 'O',
    ['p'] = 'P', ['q'] = 'Q', ['r'] = 'R', ['s'] = 'S', ['t'] = 'T',
    ['u'] = 'U', ['v'] = 'V', ['w'] = 'W', ['x'] = 'X', ['y'] = 'Y',
    ['z'] = 'Z'
};
/* clang-format on */

static const char prefix[] = {'H', 'T', 'T', 'P', '_'};

/* True when the token `name` becomes the CGI name `cgi`. */
static int becomes(const char *name, size_t name_len, const char *cgi)
{
    for (size_t i = 0; i < name_len; i++)
        if (cgi_octet[(uint8_t)name[i]] != cgi[i])
            return 0;
    return cgi[name_len] == '\0';
}

/* RFC 3875 sections 4.1.2 and 4.1.3: these two have names of their own. */
static int is_content_field(const char *name, size_t name_len)
{
    return (name_len == 12 && becomes(name, name_len, "CONTENT_TYPE")) ||
           (name_len == 14 && becomes(name, name_len, "CONTENT_LENGTH"));
}

static int is_dropped(const char *name, size_t name_len)
{
    return (name_len == 5 && becomes(name, name_len, "PROXY")) ||
           memchr(name, '_', name_len) != NULL;
}

/* The same for a name that has its CGI form already. */
static int is_dropped_cgi(const char *name, size_t name_len)
{
    if (name_len >= 5 && memcmp(name, "wsgi.", 5) == 0)
        return 1;
    switch (name_len) {
    case 10:
        return memcmp(name, "HTTP_PROXY", 10) == 0;
    case 17:
        return memcmp(name, "HTTP_CONTENT_TYPE", 17) == 0;
    case 19:
        return memcmp(name, "HTTP_CONTENT_LENGTH", 19) == 0;
    default:
        return 0;
    }
}

int vars_is_own(const char *name, size_t name_len)
{
    switch (name_len) {
    case 9:
        return memcmp(name, "PATH_INFO", 9) == 0;
    case 11:
        return memcmp(name, "REQUEST_URI", 11) == 0 ||
               memcmp(name, "REMOTE_ADDR", 11) == 0 ||
               memcmp(name, "REMOTE_PORT", 11) == 0 ||
               memcmp(name, "SCRIPT_NAME", 11) == 0;
    case 12:
        return memcmp(name, "QUERY_STRING", 12) == 0 ||
               memcmp(name, "DOCUMENT_URI", 12) == 0;
    case 14:
        return memcmp(name, "CONTENT_LENGTH", 14) == 0;
    case 15:
        return memcmp(name, "SCRIPT_FILENAME", 15) == 0 ||
               memcmp(name, "PATH_TRANSLATED", 15) == 0;
    default:
        return 0;
    }
}

static int has_room(const aserve_vars *vars, size_t name_len, size_t value_len)
{
    size_t room = vars->cap - vars->len;

    return value_len <= room && name_len + 2 <= room - value_len;
}

/* Append VALUE NUL after the name that ends at `dst`. */
static void append_value(aserve_vars *vars, char *dst, const char *value,
                         size_t value_len)
{
    *dst++ = '\0';
    memcpy(dst, value, value_len);
    dst += value_len;
    *dst++ = '\0';
    vars->len = (uint32_t)(dst - vars->buf);
    vars->n++;
}

int vars_append(aserve_vars *vars, const char *name, size_t name_len,
                const char *value, size_t value_len)
{
    char *dst = vars->buf + vars->len;

    if (!has_room(vars, name_len, value_len))
        return ASERVE_VARS_FULL;
    memcpy(dst, name, name_len);
    append_value(vars, dst + name_len, value, value_len);
    return 0;
}

int vars_append_field(aserve_vars *vars, const char *name, size_t name_len,
                      const char *value, size_t value_len)
{
    char *dst = vars->buf + vars->len;
    size_t prefix_len = sizeof prefix;

    if (is_dropped(name, name_len))
        return 0;
    if (is_content_field(name, name_len))
        prefix_len = 0;
    if (!has_room(vars, prefix_len + name_len, value_len))
        return ASERVE_VARS_FULL;
    memcpy(dst, prefix, prefix_len);
    dst += prefix_len;
    for (size_t i = 0; i < name_len; i++)
        *dst++ = cgi_octet[(uint8_t)name[i]];
    append_value(vars, dst, value, value_len);
    return 0;
}

int vars_append_cgi(aserve_vars *vars, const char *name, size_t name_len,
                    const char *value, size_t value_len)
{
    if (is_dropped_cgi(name, name_len))
        return 0;
    return vars_append(vars, name, name_len, value, value_len);
}
