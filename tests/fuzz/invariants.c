/* invariants.c */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "invariants.h"

void require(int kept, const char *promise)
{
    if (kept)
        return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

__thread int refused_call;
void *__real_malloc(size_t len);
void *__real_calloc(size_t count, size_t len);
void *__real_realloc(void *block, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t count, size_t len);
void *__wrap_realloc(void *block, size_t len);

static int is_refused(void)
{
    return refused_call > 0 && --refused_call == 0;
}

void *__wrap_malloc(size_t len)
{
    return is_refused() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t count, size_t len)
{
    return is_refused() ? NULL : __real_calloc(count, len);
}

void *__wrap_realloc(void *block, size_t len)
{
    return is_refused() ? NULL : __real_realloc(block, len);
}

char *guarded_room(guarded_area *area, size_t len)
{
    if (area->end == NULL) {
        size_t page_len = (size_t)sysconf(_SC_PAGESIZE);
        size_t room = (AREA_LEN + page_len - 1) / page_len * page_len;
        char *map = mmap(NULL, room + page_len, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        require(map != MAP_FAILED, "memory for a guarded area");
        require(mprotect(map + room, page_len, PROT_NONE) == 0, "mprotect");
        area->end = map + room;
    }
    require(len <= AREA_LEN, "no more than the area holds");
    return area->end - len;
}

char *guarded_copy(guarded_area *area, const void *data, size_t len)
{
    char *room = guarded_room(area, len);

    if (len > 0)
        memcpy(room, data, len);
    return room;
}
