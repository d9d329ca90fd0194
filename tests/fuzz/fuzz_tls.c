/* fuzz_tls.c -- the input is what a client of OpenSSL's and the server do with
 * one session, in turn, and what becomes of the client's records on their way:
 *     what size at    a step, see STEPS
 * The first octet chooses: bit 0 TLS 1.2, bit 1 little room in the socket, bit 2
 * a context of its own, so that memory is refused to that, too.
 *
 * Invariant: what is decrypted on either side is what the other side has
 * written, from the beginning and without a gap, whatever has become of the
 * records; a session that is broken stays so; the octets of a hello that is not
 * answered are kept as they came; what is kept to be sent is bounded; a session
 * whose records arrive, and to which no memory is refused, serves to its end;
 * and memory that is refused, to aserve or to OpenSSL, breaks the session
 * alone, and is no leak. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "invariants.h"
#include "tls_client.h"

enum {
    CLIENT_STEP,  /* take what has come, shake hands, read */
    CLIENT_WRITE, /* `size` octets */
    DELIVER,      /* `size` octets of the client's, or all */
    CHANGE,       /* an octet of these */
    DROP,         /* `size` of these, from `at` on */
    INSERT,       /* `size` times the octet `at`, before these */
    SERVER_STEP,  /* greet or receive, at most 64 * `size` octets */
    SERVER_SEND,  /* 64 * `size` octets, the last ones if `at` is 255 */
    FLUSH,
    SHUT,   /* the server, or the client */
    REFUSE, /* the next allocation but `size` */
    LOOP,   /* as an event loop, without the socket */
    END_INPUT,
    STEPS
};
enum {
    WIRE = 1 << 17,
    MOST_KEPT = 6 << 14,
    ROUNDS = 64,
    MOST_VERSION = 124 /* SSL_CTRL_SET_MAX_PROTO_VERSION */
};

typedef struct {
    tls_session *session;
    void *ssl, *in, *out; /* the client */
    int fds[2];           /* the server's, the client's */
    int is_shaken, is_failed, is_left;
    int is_loops;  /* the event loop has it */
    int is_harmed; /* records have been changed, or memory is refused */
    size_t written[2], read[2]; /* by the client; by the server */
    size_t wire_len, delivered_len;
    char wire[WIRE], delivered[WIRE];
} run;

static tls_context *shared;
static void *client_ctx;
static unsigned chance;

/* OpenSSL's memory, and its chance: the same input does the same. */

static void *allocate(size_t len, const char *file, int line)
{
    (void)file, (void)line;
    return malloc(len);
}

static void *reallocate(void *block, size_t len, const char *file, int line)
{
    (void)file, (void)line;
    return realloc(block, len);
}

static void release(void *block, const char *file, int line)
{
    (void)file, (void)line;
    free(block);
}

static int give_chance(unsigned char *to, int len)
{
    for (int i = 0; i < len; i++)
        to[i] = (unsigned char)((chance = chance * 1103515245u % 0x7fffffffu +
                                          12345u) >>
                                16);
    return 1;
}

static int status(void)
{
    return 1;
}

/* Returns 0 where there is no OpenSSL. */
static int open_library(void)
{
    static const struct {
        int (*seed)(const void *, int);
        int (*bytes)(unsigned char *, int);
        void (*cleanup)(void);
        int (*add)(const void *, int, double);
        int (*pseudo)(unsigned char *, int);
        int (*status)(void);
    } method = {NULL, give_chance, NULL, NULL, give_chance, status};

    signal(SIGPIPE, SIG_IGN);
    if (!open_openssl())
        return 0;
    require(client_lib.CRYPTO_set_mem_functions(allocate, reallocate, release),
            "OpenSSL has no memory yet");
    open_server();
    require(client_lib.RAND_set_rand_method(&method) == 1, "a method");
    shared = new_server(0x303, "\x02h2\x08http/1.1", 12);
    client_ctx = tls_lib.SSL_CTX_new(client_lib.TLS_client_method());
    require(client_ctx != NULL, "there is memory");
    return 1;
}

/* What each side writes: the octets of a sequence. */

static char octet_at(size_t at)
{
    return (char)((at * 31 + at / 251) & 0x7f);
}

static void fill(char *to, size_t len, size_t from)
{
    for (size_t i = 0; i < len; i++)
        to[i] = octet_at(from + i);
}

static void check(run *r, int of_server, const char *got, size_t len)
{
    for (size_t i = 0; i < len; i++)
        require(got[i] == octet_at(r->read[of_server] + i),
                "octets are as they were written");
    r->read[of_server] += len;
    require(r->read[of_server] <= r->written[!of_server],
            "no more octets than were written");
}

/* The client */

static void take_from_client(run *r)
{
    int n = client_lib.BIO_read(r->out, r->wire + r->wire_len,
                                (int)(WIRE - r->wire_len));

    if (n > 0)
        r->wire_len += (size_t)n;
}

static void client_step(run *r)
{
    char octets[1 << 14];
    ssize_t got;
    int n;

    while ((got = recv(r->fds[1], octets, sizeof octets, MSG_DONTWAIT)) > 0)
        client_lib.BIO_write(r->in, octets, (int)got);
    tls_lib.ERR_clear_error();
    if (tls_lib.SSL_do_handshake(r->ssl) == 1)
        while ((n = tls_lib.SSL_read(r->ssl, octets, sizeof octets)) > 0)
            check(r, 0, octets, (size_t)n);
    take_from_client(r);
}

static void client_write(run *r, size_t len)
{
    char octets[255 * 64];

    fill(octets, len, r->written[0]);
    tls_lib.ERR_clear_error();
    if (len > 0 && WIRE - r->wire_len > 2 * sizeof octets &&
        tls_lib.SSL_write(r->ssl, octets, (int)len) == (int)len)
        r->written[0] += len;
    take_from_client(r);
}

static void deliver(run *r, size_t len)
{
    ssize_t n;

    if (len == 0 || len > r->wire_len)
        len = r->wire_len;
    n = len > 0 ? send(r->fds[1], r->wire, len, MSG_DONTWAIT) : 0;
    if (n <= 0)
        return;
    len = (size_t)n;
    if (r->delivered_len + len <= WIRE)
        memcpy(r->delivered + r->delivered_len, r->wire, len);
    r->delivered_len += len;
    r->wire_len -= len;
    memmove(r->wire, r->wire + len, r->wire_len);
}

static void harm(run *r, uint8_t what, size_t size, size_t at)
{
    r->is_harmed = 1;
    if (what == INSERT && WIRE - r->wire_len > 2 * 255) {
        memmove(r->wire + size, r->wire, r->wire_len);
        memset(r->wire, (int)at, size);
        r->wire_len += size;
    } else if (r->wire_len > 0 && what == CHANGE) {
        r->wire[(at * 7 + size * 131) % r->wire_len] ^= (char)(1 + at % 255);
    } else if (r->wire_len > 0 && what == DROP) {
        at %= r->wire_len;
        size = size < r->wire_len - at ? size : r->wire_len - at;
        memmove(r->wire + at, r->wire + at + size, r->wire_len - at - size);
        r->wire_len -= size;
    }
}

/* The server */

static void check_session(run *r)
{
    require(tls_out_len(r->session) <= MOST_KEPT, "what is kept is bounded");
    require(tls_hello_len(r->session) == 0 ||
                (tls_hello_len(r->session) <= r->delivered_len &&
                 (r->delivered_len > WIRE ||
                  memcmp(tls_hello(r->session), r->delivered,
                         tls_hello_len(r->session)) == 0)),
            "a hello is kept as it came");
}

static void fail(run *r, int code)
{
    r->is_failed |= code == TLS_FAILED || code == TLS_GONE;
    require(tls_why(r->session)[0] != '\0', "there is a reason");
}

/* As an event loop has it: records come and go by calls. */
static void loop_step(run *r, size_t len)
{
    static char octets[1 << 14];
    ssize_t got = recv(r->fds[0], octets, sizeof octets, MSG_DONTWAIT);
    int n;

    if (r->is_failed)
        return;
    if (got > 0 && tls_feed(r->session, octets, (uint32_t)got) != 0)
        r->is_failed = 1;
    if (!r->is_shaken) {
        n = tls_shake(r->session);
        r->is_shaken = n == 1;
    } else {
        while ((n = tls_read(r->session, octets, (uint32_t)len + 1)) > 0)
            check(r, 1, octets, (size_t)n);
    }
    if (n == TLS_FAILED) {
        fail(r, n);
        require(tls_read(r->session, octets, 1) == TLS_FAILED &&
                    tls_shake(r->session) == TLS_FAILED &&
                    tls_write(r->session, "a", 1) == TLS_FAILED,
                "a session that is broken stays so");
    }
    if (tls_flush(r->session, r->fds[0]) < 0)
        r->is_failed = 1;
    /* With nothing to be sent it may be in the lane again. */
    r->is_loops = !r->is_shaken || tls_out_len(r->session) > 0;
    check_session(r);
}

static void server_step(run *r, size_t cap)
{
    static char room[64 * 255];
    ssize_t got;
    int code, is_full;

    if (r->is_loops || r->is_failed) {
        loop_step(r, (1 << 14) - 1);
        return;
    }
    if (!r->is_shaken) {
        code = tls_greet(r->session, r->fds[0]);
        r->is_shaken = code == 1;
        r->is_failed |= code == TLS_GONE;
        r->is_loops = code == TLS_FAILED; /* who knows whether it is broken */
        check_session(r);
        return;
    }
    if (cap == 0)
        cap = 1;
    got = tls_receive(r->session, r->fds[0], room, cap, &is_full);
    require(got <= (ssize_t)cap, "no more octets than there is room for");
    if (got > 0)
        check(r, 1, room, (size_t)got);
    r->is_loops |= got < 0 && errno == EPROTO;
}

static void server_send(run *r, size_t len, int is_last)
{
    static char octets[64 * 255];
    struct iovec parts[2] = {{octets, len / 3},
                             {octets + len / 3, len - len / 3}};
    ssize_t took;

    if (r->is_failed || !r->is_shaken || r->is_left)
        return;
    fill(octets, len, r->written[1]);
    took = tls_send(r->session, r->fds[0], parts, 2, is_last);
    require(took <= (ssize_t)len, "no more octets than there are");
    if (took >= 0)
        r->written[1] += (size_t)took;
    else if (errno != EAGAIN)
        fail(r, TLS_FAILED);
    r->is_left |= is_last;
}

static void step(run *r, const uint8_t *at)
{
    uint8_t what = at[0] % STEPS;
    size_t size = at[1];
    int refused = refused_call;

    if (what < SERVER_STEP)
        refused_call = 0; /* the client has memory */
    switch (what) {
    case CLIENT_STEP:
        client_step(r);
        break;
    case CLIENT_WRITE:
        client_write(r, size * (at[2] % 64));
        break;
    case DELIVER:
        deliver(r, size * at[2]);
        break;
    case CHANGE:
    case DROP:
    case INSERT:
        harm(r, what, size, at[2]);
        break;
    case SERVER_STEP:
        server_step(r, 64 * size);
        break;
    case SERVER_SEND:
        server_send(r, 64 * size, at[2] == 255);
        break;
    case FLUSH:
        if (!r->is_failed && tls_flush(r->session, r->fds[0]) < 0)
            r->is_failed = 1;
        break;
    case SHUT:
        if (size % 2) {
            tls_shut(r->session);
            r->is_left = 1;
        } else {
            tls_lib.SSL_shutdown(r->ssl);
            take_from_client(r);
        }
        break;
    case REFUSE:
        r->is_harmed = 1;
        refused_call = 1 + (int)size;
        break;
    case LOOP:
        loop_step(r, 64 * size);
        break;
    default:
        r->is_harmed = 1;
        shutdown(r->fds[1], SHUT_WR);
    }
    if (what < SERVER_STEP)
        refused_call = refused;
    require(strlen(tls_version(r->session)) > 0 && tls_cipher(r->session),
            "a session can be described");
}

/* All that was written arrives, if nothing has gone wrong. */
static void finish(run *r)
{
    int nquiet = 0;

    refused_call = 0;
    for (int i = 0; i < ROUNDS && nquiet < 4; i++) {
        size_t before = r->read[0] + r->read[1] + r->delivered_len;

        client_step(r);
        deliver(r, 0);
        server_step(r, 255 * 64);
        if (!r->is_failed)
            tls_flush(r->session, r->fds[0]);
        nquiet += before == r->read[0] + r->read[1] + r->delivered_len;
    }
    if (r->is_harmed || r->is_left)
        return;
    require(r->is_shaken && !r->is_failed, "a session that is well is served");
    require(r->read[1] == r->written[0] && r->read[0] == r->written[1],
            "all that was written arrives");
}

/* The server's session; memory may be refused. */
static tls_session *begin(uint8_t options)
{
    tls_context *own = shared;
    tls_session *session;

    if (options & 4)
        own = tls_context_new("server.pem", "server.pem", "DEFAULT", 0x303, 0,
                              "\x02h2", 3);
    session = own != NULL ? tls_begin(own) : NULL;
    if (own != NULL && own != shared)
        tls_context_free(own);
    return session;
}

static void begin_client(run *r, uint8_t options)
{
    const int little = 4096;

    r->ssl = tls_lib.SSL_new(client_ctx);
    r->in = tls_lib.BIO_new(client_lib.BIO_s_mem());
    r->out = tls_lib.BIO_new(client_lib.BIO_s_mem());
    require(r->ssl != NULL && r->in != NULL && r->out != NULL &&
                socketpair(AF_UNIX, SOCK_STREAM, 0, r->fds) == 0,
            "a client has what it needs");
    if (options & 2)
        setsockopt(r->fds[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    tls_lib.SSL_set_bio(r->ssl, r->in, r->out);
    client_lib.SSL_set_connect_state(r->ssl);
    client_lib.SSL_set_alpn_protos(r->ssl, (const unsigned char *)"\x02h2", 3);
    if (options & 1)
        client_lib.SSL_ctrl(r->ssl, MOST_VERSION, 0x303, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static run r;
    int refused;

    if (shared == NULL && !open_library())
        return 0;
    if (len < 2)
        return 0;
    memset(&r, 0, offsetof(run, wire));
    chance = 1;
    refused_call = data[1];
    r.is_harmed = data[1] > 0;
    r.session = begin(data[0]);
    if (r.session == NULL) {
        refused_call = 0;
        return 0;
    }
    refused = refused_call;
    refused_call = 0;
    begin_client(&r, data[0]);
    refused_call = refused;
    for (size_t at = 2; len - at >= 3; at += 3)
        step(&r, data + at);
    finish(&r);
    tls_end(r.session);
    tls_lib.SSL_free(r.ssl);
    close(r.fds[0]);
    close(r.fds[1]);
    tls_lib.ERR_clear_error();
    return 0;
}
