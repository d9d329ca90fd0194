/* replay.c -- run a fuzz target on the files given, without libFuzzer.
 * The target itself puts the octets against a guard page; this puts them into
 * memory of their exact size as well, for the address sanitizer. */
#include <stdio.h>
#include <stdlib.h>
#include "invariants.h"

static void replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MAX_INPUT_LEN);
    size_t len;

    require(file != NULL && data != NULL, path);
    len = fread(data, 1, MAX_INPUT_LEN, file);
    fclose(file);
    data = realloc(data, len > 0 ? len : 1);
    require(data != NULL, path);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d files kept every promise\n", argc - 1);
    return argc > 1 ? 0 : 1;
}
