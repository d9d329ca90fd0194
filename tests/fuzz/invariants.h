/* invariants.h -- what the fuzz targets share: memory that ends at a page
 * without access, and a check that stops the program. */
#ifndef INVARIANTS_H
#define INVARIANTS_H
#include <stddef.h>
#include <stdint.h>

/* The longest input of the targets, and the room in a guarded area. */
enum { MAX_INPUT_LEN = 1 << 16, AREA_LEN = 4 * MAX_INPUT_LEN };

typedef struct {
    char *end; /* where the page without access begins; NULL: not mapped yet */
} guarded_area;

/* The last `len` octets of the area. */
char *guarded_room(guarded_area *area, size_t len);

/* `data`, copied to the end of the area. */
char *guarded_copy(guarded_area *area, const void *data, size_t len);

/* Abort, saying which promise was broken, unless it was kept. */
void require(int kept, const char *promise);

/* The allocation of this thread that gets no memory, counted down; 0: none.  The linker gives
 * all sources this malloc(), calloc() and realloc(). */
extern __thread int refused_call;

/* Called by libFuzzer, or by replay.c for each file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
