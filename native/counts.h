/* counts.h -- what is counted of plain requests, until the counters are told.
 *
 * The twin is Counters.write of aserve/features/metrics/counting.py, which keeps the
 * words; here is what has been added to them lately. */
#ifndef NATIVE_COUNTS_H
#define NATIVE_COUNTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum {
    COUNTS_CLASSES = 10, /* hundreds of a status */
    COUNTS_BUCKETS = 32  /* at most, that for longer times among them */
};

typedef struct {
    /* places of the counters' words */
    int by_class[COUNTS_CLASSES]; /* answered; the next one: not so */
    int octets;
    int waits; /* the first bucket */
    int runs;
    int nbuckets; /* without that for longer times; behind it is the sum */
    /* since the last counts_take */
    Py_ssize_t count; /* of requests */
    unsigned long long size;
    unsigned long ended[COUNTS_CLASSES][2];
    unsigned long waited[COUNTS_BUCKETS];
    unsigned long run[COUNTS_BUCKETS];
    double waited_seconds;
    double run_seconds;
} counts;

/* places: (by class: a tuple, octets, waits, runs, buckets), or None.  NULL:
 * nobody counts, or with an exception. */
counts *counts_new(PyObject *places);

/* Count a request of `size` octets that waited and ran for so many seconds;
 * `was_timed`: 0: it is not known for how long. */
void counts_add(counts *to, int status, int is_cut, size_t size, int was_timed,
                double wait, double run);

/* Return what was added, (a list of (place, by), seconds that threads have
 * been with requests), and forget it. */
PyObject *counts_take(counts *from);

#endif
