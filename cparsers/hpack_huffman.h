/* hpack_huffman.h -- the Huffman code of RFC 7541, section 5.2. */
#ifndef ASERVE_HPACK_HUFFMAN_H
#define ASERVE_HPACK_HUFFMAN_H
#include <stddef.h>

/* Decode `len` octets at `from` into `to`, which ends at `to_end`.
 * Returns the end of the text; NULL if it is none, or is too long. */
char *huffman_decode(const char *from, size_t len, char *to,
                     const char *to_end);

/* Return how many octets a text takes. */
size_t huffman_size(const char *text, size_t len);

/* Encode a text into `to`; return where it ends. */
char *huffman_encode(const char *text, size_t len, char *to);

#endif
