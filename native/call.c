/* call.c -- one RPC call: its items, the function, the reply. */
#include "call.h"

#include "ends.h"

enum {
    HEADER_LEN = 4, /* Protocol.rst: modifier1, datasize, modifier2 */
    FRAMED = 0,     /* modifier2: the reply is a packet */
    ITEMS_MAX = 255 /* as MAX_RPC_ITEMS of protocols/uwsgi.py */
};

/* Returns as uwsgi_parse_array; the spans are relative to the data. */
static int find_items(const engine *self, const char *packet, size_t size,
                      aserve_span *items)
{
    return self->parse_array(packet + HEADER_LEN, size - HEADER_LEN, items,
                             ITEMS_MAX);
}

int call_is_plain(const engine *self, const lane_arrival *arrival)
{
    const char *packet = self->set->input + arrival->input_off;
    aserve_span items[ITEMS_MAX];

    /* A name that the request gets is in its vars, which a call has not. */
    return self->services[arrival->listener].id_field == NULL &&
           packet[3] == FRAMED &&
           find_items(self, packet, (size_t)arrival->consumed, items) > 0;
}

/* Name and arguments: a tuple of bytes. */
static PyObject *items_of(const engine *self, PyObject *body)
{
    const char *packet = PyBytes_AS_STRING(body);
    aserve_span items[ITEMS_MAX];
    int count =
        find_items(self, packet, (size_t)PyBytes_GET_SIZE(body), items);
    PyObject *made = PyTuple_New(count), *item;

    for (int i = 0; made != NULL && i < count; i++) {
        item = PyBytes_FromStringAndSize(packet + HEADER_LEN + items[i].off,
                                         (Py_ssize_t)items[i].len);
        if (item == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    return made;
}

int call_serve(engine *self, plain_request *served)
{
    PyObject *items = items_of(self, served->body), *reply = NULL;
    int result;

    served->state = REQUEST_RUNNING;
    served->facts.code = 0; /* it is no response of HTTP's */
    served->facts.size = 0;
    if (items != NULL)
        reply = PyObject_Call(self->respond, items, NULL);
    Py_XDECREF(items);
    if (reply == NULL)
        return -1;
    if (!request_is_plain(self, served) || ends_is_slow(self, served) ||
        PyBytes_GET_SIZE(reply) > BODY_MAX)
        result = serve_go_on(self, served, "answer", reply);
    else
        result = serve_send(self, served,
                            (octets){PyBytes_AS_STRING(reply),
                                     (size_t)PyBytes_GET_SIZE(reply)},
                            (octets){NULL, 0}, 0);
    Py_DECREF(reply);
    return result;
}
