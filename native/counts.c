/* counts.c -- counts of plain requests, until Python's counters take them. */
#include "counts.h"

#include <stddef.h>
#include <string.h>

counts *counts_new(PyObject *places)
{
    PyObject *by_class;
    counts *made = PyMem_Calloc(1, sizeof *made);

    if (made == NULL)
        return (counts *)PyErr_NoMemory();
    if (!PyArg_ParseTuple(places, "O!iiii", &PyTuple_Type, &by_class,
                          &made->octets, &made->waits, &made->runs,
                          &made->nbuckets))
        goto failed;
    if (PyTuple_GET_SIZE(by_class) != COUNTS_CLASSES || made->nbuckets < 0 ||
        made->nbuckets >= COUNTS_BUCKETS) {
        PyErr_BadArgument();
        goto failed;
    }
    for (int i = 0; i < COUNTS_CLASSES; i++)
        if (!PyArg_Parse(PyTuple_GET_ITEM(by_class, i), "i",
                         &made->by_class[i]))
            goto failed;
    return made;
failed:
    PyMem_Free(made);
    return NULL;
}

/* The first bucket whose bound a time does not exceed: 1 ms, 2 ms, 4 ms ... */
static int bucket_of(const counts *to, double seconds)
{
    long long micros = (long long)(seconds * 1e6) - 1;
    int bucket = 0;

    for (long long millis = micros / 1000; millis > 0; millis >>= 1)
        bucket++;
    return bucket < to->nbuckets ? bucket : to->nbuckets;
}

void counts_add(counts *to, int status, int is_cut, size_t size, int was_timed,
                double wait, double run)
{
    to->count++;
    to->size += size;
    to->ended[(unsigned)status / 100 % COUNTS_CLASSES][is_cut]++;
    if (!was_timed)
        return;
    to->waited[bucket_of(to, wait)]++;
    to->run[bucket_of(to, run)]++;
    to->waited_seconds += wait;
    to->run_seconds += run;
}

static int put(PyObject *list, int place, unsigned long long by)
{
    PyObject *pair;
    int result;

    if (by == 0)
        return 0;
    pair = Py_BuildValue("iK", place, by);
    result = pair == NULL ? -1 : PyList_Append(list, pair);
    Py_XDECREF(pair);
    return result;
}

static int put_times(PyObject *list, const counts *from, int place,
                     const unsigned long *buckets, double seconds)
{
    int result = 0;

    for (int i = 0; i <= from->nbuckets && result == 0; i++)
        result = put(list, place + i, buckets[i]);
    if (result == 0)
        result = put(list, place + from->nbuckets + 1,
                     (unsigned long long)(seconds * 1e6));
    return result;
}

static int put_all(PyObject *list, const counts *from)
{
    for (int i = 0; i < COUNTS_CLASSES; i++)
        for (int is_cut = 0; is_cut < 2; is_cut++)
            if (put(list, from->by_class[i] + is_cut, from->ended[i][is_cut]) <
                0)
                return -1;
    if (put(list, from->octets, from->size) < 0 ||
        put_times(list, from, from->waits, from->waited,
                  from->waited_seconds) < 0)
        return -1;
    return put_times(list, from, from->runs, from->run, from->run_seconds);
}

PyObject *counts_take(counts *from)
{
    counts taken = *from;
    PyObject *list;
    size_t facts = offsetof(counts, count);

    /* First: to make objects may run other threads. */
    memset((char *)from + facts, 0, sizeof *from - facts);
    list = PyList_New(0);
    if (list != NULL && taken.count > 0 && put_all(list, &taken) < 0)
        Py_CLEAR(list);
    return list == NULL ? NULL : Py_BuildValue("N,d", list, taken.run_seconds);
}
