/* hpack_huffman.c -- the code is canonical: codes of one length follow one
 * another in the order of their symbols, and longer ones follow shorter ones.
 * So the lengths are the whole table, and the others are made of them. */
#include "hpack_huffman.h"

#include <stdint.h>

enum { EOS = 256, SYMBOLS = 257, LONGEST = 30, QUICK_BITS = 9 };

/* RFC 7541, appendix B, by symbol. */
static const uint8_t lengths[SYMBOLS] = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28,
    28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6,  10, 10, 12, 13, 6,
    8,  11, 10, 10, 8,  11, 8,  6,  6,  6,  5,  5,  5,  6,  6,  6,  6,  6,  6,
    6,  7,  8,  15, 6,  12, 10, 13, 6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
    7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8,  13, 19, 13, 14,
    6,  15, 5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,  6,  7,
    6,  5,  5,  6,  7,  7,  7,  7,  7,  15, 11, 14, 13, 28, 20, 22, 20, 20, 22,
    22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23,
    23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22,
    24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22,
    22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21,
    22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27,
    27, 27, 28, 27, 27, 27, 27, 27, 26, 30};

/* Made once, when the module is loaded.  Codes are left-aligned in 32 bits. */
static uint32_t codes[SYMBOLS];
static uint16_t by_rank[SYMBOLS];   /* symbols, in the order of their codes */
static uint32_t first[LONGEST + 1]; /* the first of a length, if any; */
static uint16_t ranks[LONGEST + 1]; /* and its rank */
static struct {
    uint8_t symbol;
    uint8_t bits; /* 0: the code is longer */
} quick[1 << QUICK_BITS];

static void add_quick(int symbol, uint32_t code, int bits)
{
    for (uint32_t i = 0; i < 1u << (QUICK_BITS - bits); i++) {
        quick[(code >> (32 - QUICK_BITS)) + i].symbol = (uint8_t)symbol;
        quick[(code >> (32 - QUICK_BITS)) + i].bits = (uint8_t)bits;
    }
}

__attribute__((constructor)) static void make_tables(void)
{
    uint64_t code = 0;
    uint16_t rank = 0;

    for (int bits = 1; bits <= LONGEST; bits++) {
        first[bits] = (uint32_t)code;
        ranks[bits] = rank;
        for (int symbol = 0; symbol < SYMBOLS; symbol++) {
            if (lengths[symbol] != bits)
                continue;
            codes[symbol] = (uint32_t)code;
            by_rank[rank++] = (uint16_t)symbol;
            if (bits <= QUICK_BITS)
                add_quick(symbol, (uint32_t)code, bits);
            code += 1ull << (32 - bits);
        }
    }
}

/* Return the symbol that `top` begins with, and the length of its code. */
static int read_symbol(uint32_t top, int *bits)
{
    int length = QUICK_BITS + 1;

    *bits = quick[top >> (32 - QUICK_BITS)].bits;
    if (*bits > 0)
        return quick[top >> (32 - QUICK_BITS)].symbol;
    while (length < LONGEST && top >= first[length + 1])
        length++;
    *bits = length;
    return by_rank[ranks[length] + ((top - first[length]) >> (32 - length))];
}

char *huffman_decode(const char *from, size_t len, char *to,
                     const char *to_end)
{
    const char *end = from + len;
    uint64_t window = 0; /* left-aligned */
    int have = 0, bits;

    for (;;) {
        int symbol;

        for (; have <= 56 && from < end; have += 8)
            window |= (uint64_t)(uint8_t)*from++ << (56 - have);
        if (have == 0)
            return to;
        /* RFC 7541 5.2: padding is shorter than an octet, and all ones. */
        if (have < 8 && window >> (64 - have) == (1ull << have) - 1)
            return to;
        symbol = read_symbol((uint32_t)(window >> 32), &bits);
        if (bits > have || symbol == EOS || to == to_end)
            return NULL;
        *to++ = (char)symbol;
        window <<= bits;
        have -= bits;
    }
}

size_t huffman_size(const char *text, size_t len)
{
    size_t bits = 0;

    for (size_t i = 0; i < len; i++)
        bits += lengths[(uint8_t)text[i]];
    return (bits + 7) / 8;
}

char *huffman_encode(const char *text, size_t len, char *to)
{
    uint64_t window = 0; /* left-aligned */
    int have = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t symbol = (uint8_t)text[i];

        window |= (uint64_t)codes[symbol] << 32 >> have;
        have += lengths[symbol];
        for (; have >= 8; have -= 8, window <<= 8)
            *to++ = (char)(window >> 56);
    }
    if (have > 0)
        *to++ = (char)((window | (~0ull >> have)) >> 56);
    return to;
}
