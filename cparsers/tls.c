/* tls.c -- sessions.  One recv() and one send() for a request, however many
 * records there are: OpenSSL reads from the octets that have come, and writes
 * behind those that are to go.  Long: all functions share the two buffers. */
#define _GNU_SOURCE /* POSIX beside C99 */
#include "tls.h"

#ifdef __linux__
#include "tls_library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    WANT_READ = 2, /* SSL_ERROR_..., openssl/ssl.h */
    ZERO_RETURN = 6,
    BIO_SOURCE = 0x0400, /* BIO_TYPE_SOURCE_SINK; a number of its own */
    RETRY_FLAGS = 0x0f,  /* BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY */
    RETRY_READ = 0x09,   /* BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY */
    BIO_FLUSH = 11,      /* BIO_CTRL_FLUSH */
    RECORD = 1 << 14,    /* RFC 8446 5.1: the most that one record holds */
    RAW = RECORD + 1024, /* read at once: a whole record */
    MOST_READS = 8,      /* without an octet: others wait, too */
    /* Kept, or sent at once: within the kernel's largest segment, 64 KiB.
     * Measured 2026-11: with four records 5.2 MB cost 1.1 to 1.2 times. */
    MOST_OUT = 3 * RECORD,
    /* Kept of what OpenSSL answers by itself, to a client that asks for new
     * keys and does not read.  Guess: more than MOST_OUT and a record. */
    MOST_REPLIES = 1 << 17
};

struct tls_session {
    void *ssl;
    tls_context *context;
    const char *raw; /* received, lent for a call, not yet OpenSSL's */
    size_t raw_len;
    char *kept; /* the same, before those, and the session's own */
    size_t kept_at, kept_len;
    char *out; /* records that are not sent */
    size_t out_at, out_len, out_cap;
    unsigned long error; /* of OpenSSL, when it is broken */
    uint8_t is_broken;
    uint8_t is_at_end;   /* the client has announced its end */
    uint8_t is_greeted;  /* tls_greet has begun it */
    uint8_t is_answered; /* something was sent */
};

static void *method; /* of our BIOs; set by tls_open_bio, once */

/* The BIO */

static size_t take(char *to, size_t cap, const char *from, size_t len)
{
    size_t n = len < cap ? len : cap;

    if (n > 0)
        memcpy(to, from, n);
    return n;
}

static int bio_read(void *bio, char *to, int cap)
{
    tls_session *session = tls_lib.BIO_get_data(bio);
    size_t left = session->kept_len - session->kept_at, n;

    tls_lib.BIO_clear_flags(bio, RETRY_FLAGS);
    if (cap <= 0)
        return 0;
    if (left > 0) {
        n = take(to, (size_t)cap, session->kept + session->kept_at, left);
        session->kept_at += n;
        return (int)n;
    }
    if (session->raw_len > 0) {
        n = take(to, (size_t)cap, session->raw, session->raw_len);
        session->raw += n;
        session->raw_len -= n;
        return (int)n;
    }
    tls_lib.BIO_set_flags(bio, RETRY_READ);
    return -1;
}

static int bio_write(void *bio, const char *from, int len)
{
    tls_session *session = tls_lib.BIO_get_data(bio);
    size_t need = session->out_len + (size_t)len;

    tls_lib.BIO_clear_flags(bio, RETRY_FLAGS);
    if (len <= 0)
        return 0;
    if (need > session->out_cap) {
        /* A whole record: more will follow, see tls_send. */
        size_t cap = need < 1024     ? 1024
                     : need < RECORD ? need + need / 2
                                     : need + MOST_OUT;
        char *grown = realloc(session->out, cap);

        if (grown == NULL)
            return -1; /* no retry: the session is broken */
        session->out = grown;
        session->out_cap = cap;
    }
    memcpy(session->out + session->out_len, from, (size_t)len);
    session->out_len = need;
    return len;
}

static long bio_ctrl(void *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_FLUSH;
}

int tls_open_bio(void)
{
    if (method == NULL)
        method = tls_lib.BIO_meth_new(BIO_SOURCE, "aserve");
    if (method == NULL)
        return -1;
    tls_lib.BIO_meth_set_read(method, bio_read);
    tls_lib.BIO_meth_set_write(method, bio_write);
    tls_lib.BIO_meth_set_ctrl(method, bio_ctrl);
    return 0;
}

/* Beginning and end */

tls_session *tls_begin(tls_context *context)
{
    tls_session *session = calloc(1, sizeof *session);
    void *bio;

    if (session == NULL)
        return NULL;
    tls_lib.ERR_clear_error();
    session->ssl = tls_lib.SSL_new(context->ssl_ctx);
    bio = session->ssl != NULL ? tls_lib.BIO_new(method) : NULL;
    if (bio == NULL) {
        tls_lib.SSL_free(session->ssl);
        tls_lib.ERR_clear_error();
        free(session);
        return NULL;
    }
    tls_lib.BIO_set_data(bio, session);
    tls_lib.BIO_set_init(bio, 1);
    tls_lib.SSL_set_bio(session->ssl, bio, bio);
    tls_lib.SSL_set_accept_state(session->ssl);
    session->context = context;
    tls_context_share(context);
    return session;
}

void tls_end(tls_session *session)
{
    tls_lib.SSL_free(session->ssl);
    tls_context_free(session->context);
    free(session->kept);
    free(session->out);
    free(session);
}

/* Steps */

/* Returns what a call of OpenSSL's means that has not succeeded. */
static int judge(tls_session *session, int result)
{
    int error = tls_lib.SSL_get_error(session->ssl, result);

    if (error == WANT_READ)
        return TLS_WANT;
    if (error == ZERO_RETURN) {
        session->is_at_end = 1;
        return 0;
    }
    session->is_broken = 1;
    session->error = tls_lib.ERR_peek_last_error();
    tls_lib.ERR_clear_error(); /* another session of this thread looks there */
    return TLS_FAILED;
}

/* Whether octets that OpenSSL has taken are kept. */
static int keeps_hello(const tls_session *session)
{
    return session->is_greeted && !session->is_answered;
}

/* Keep `len` octets behind those that are kept. */
int tls_feed(tls_session *session, const char *octets, uint32_t len)
{
    size_t at = keeps_hello(session) ? session->kept_at : 0;
    size_t from = session->kept_at - at, left = session->kept_len - from;
    char *kept;

    if (len == 0)
        return 0;
    kept = malloc(left + len);
    if (kept == NULL)
        return -1;
    if (left > 0)
        memcpy(kept, session->kept + from, left);
    memcpy(kept + left, octets, len);
    free(session->kept);
    session->kept = kept;
    session->kept_at = at;
    session->kept_len = left + len;
    return 0;
}

/* Free what OpenSSL has taken. */
static void drop_kept(tls_session *session)
{
    if (session->kept == NULL || session->kept_at < session->kept_len ||
        keeps_hello(session))
        return;
    free(session->kept);
    session->kept = NULL;
    session->kept_at = session->kept_len = 0;
}

int tls_shake(tls_session *session)
{
    int result;

    if (session->is_broken)
        return TLS_FAILED;
    tls_lib.ERR_clear_error();
    result = tls_lib.SSL_do_handshake(session->ssl);
    drop_kept(session);
    if (result == 1)
        return 1;
    result = judge(session, result);
    return result == TLS_WANT ? TLS_WANT : TLS_FAILED;
}

/* Decrypt a record.  Returns as tls_read. */
static int read_record(tls_session *session, char *to, uint32_t cap)
{
    int n;

    if (session->is_broken)
        return TLS_FAILED;
    tls_lib.ERR_clear_error();
    n = tls_lib.SSL_read(session->ssl, to,
                         (int)(cap < INT32_MAX ? cap : INT32_MAX));
    drop_kept(session);
    return n > 0 ? n : judge(session, n);
}

/* Decrypt until there is no more, or no room.  Returns as tls_read. */
static int read_whole(tls_session *session, char *to, size_t cap,
                      size_t *total)
{
    int n = 1;

    while (n > 0 && *total < cap) {
        n = read_record(session, to + *total, (uint32_t)(cap - *total));
        if (n > 0)
            *total += (size_t)n;
    }
    return n;
}

int tls_read(tls_session *session, char *to, uint32_t cap)
{
    size_t total = 0;
    int code = read_whole(session, to, cap, &total);

    return total > 0 ? (int)total : code;
}

int tls_write(tls_session *session, const char *from, uint32_t len)
{
    uint32_t written = 0;

    while (written < len) {
        int n;

        if (session->is_broken)
            return TLS_FAILED;
        tls_lib.ERR_clear_error();
        n = tls_lib.SSL_write(session->ssl, from + written,
                              (int)(len - written));
        /* It wants nothing: renegotiation is refused. */
        if (n <= 0 && judge(session, n) <= 0)
            session->is_broken = 1;
        else
            written += (uint32_t)n;
    }
    return (int)written;
}

void tls_shut(tls_session *session)
{
    if (session->is_broken)
        return;
    tls_lib.ERR_clear_error();
    tls_lib.SSL_shutdown(session->ssl);
    tls_lib.ERR_clear_error();
}

/* What is known */

int tls_has_input(const tls_session *session)
{
    return session->kept_at < session->kept_len || session->is_at_end ||
           session->is_broken || tls_lib.SSL_pending(session->ssl) > 0;
}

const char *tls_hello(const tls_session *session)
{
    return session->kept;
}

uint32_t tls_hello_len(const tls_session *session)
{
    return keeps_hello(session) ? (uint32_t)session->kept_len : 0;
}

const char *tls_out(const tls_session *session)
{
    return session->out != NULL ? session->out + session->out_at : NULL;
}

uint32_t tls_out_len(const tls_session *session)
{
    return (uint32_t)(session->out_len - session->out_at);
}

void tls_clear_out(tls_session *session)
{
    session->is_answered |= session->out_len > 0;
    free(session->out);
    session->out = NULL;
    session->out_at = session->out_len = session->out_cap = 0;
}

const char *tls_why(const tls_session *session)
{
    const char *reason = session->error != 0
                             ? tls_lib.ERR_reason_error_string(session->error)
                             : NULL;

    return reason != NULL ? reason : "the session is broken";
}

const char *tls_version(const tls_session *session)
{
    return tls_lib.SSL_get_version(session->ssl);
}

const char *tls_cipher(const tls_session *session)
{
    const void *cipher = tls_lib.SSL_get_current_cipher(session->ssl);

    return cipher != NULL ? tls_lib.SSL_CIPHER_get_name(cipher) : "";
}

uint32_t tls_alpn(const tls_session *session, char *to, uint32_t cap)
{
    const unsigned char *name = NULL;
    unsigned len = 0;

    tls_lib.SSL_get0_alpn_selected(session->ssl, &name, &len);
    return (uint32_t)take(to, cap, (const char *)name, len);
}

/* Sockets */

/* As tls_flush; what is sent leaves its room behind. */
static int send_out(tls_session *session, int fd)
{
    while (session->out_at < session->out_len) {
        ssize_t n = send(fd, session->out + session->out_at,
                         session->out_len - session->out_at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            session->out_at += (size_t)n;
        else if (errno == EAGAIN)
            return 0;
        else if (errno != EINTR)
            return -1;
    }
    session->is_answered |= session->out_len > 0;
    session->out_at = session->out_len = 0;
    return 1;
}

int tls_flush(tls_session *session, int fd)
{
    int is_sent = send_out(session, fd);

    if (is_sent == 1)
        tls_clear_out(session);
    return is_sent;
}

int tls_greet(tls_session *session, int fd)
{
    char raw[RAW];
    ssize_t got;
    int code, is_sent;

    session->is_greeted = 1;
    while ((got = recv(fd, raw, RAW, MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    if (got <= 0)
        return got < 0 && errno == EAGAIN ? TLS_WANT : TLS_GONE;
    if (tls_feed(session, raw, (uint32_t)got) != 0)
        return TLS_GONE; /* as without memory for a connection */
    code = tls_shake(session);
    if (keeps_hello(session) &&
        (code == TLS_FAILED || session->kept_len > RAW))
        return TLS_FAILED;
    if (tls_out_len(session) == 0)
        return code;
    session->is_answered = 1;
    drop_kept(session);
    is_sent = tls_flush(session, fd);
    if (is_sent < 0)
        return TLS_GONE;
    return is_sent == 0 ? TLS_FAILED : code;
}

/* Read from the socket into `raw`, and decrypt.  Returns as tls_read, with the
 * end of the connection as that of the session; > 0: there is no more room. */
static int receive_whole(tls_session *session, int fd, char *raw, char *to,
                         size_t cap, size_t *total, int *is_drained)
{
    int code = TLS_WANT, nreads = 0;

    if (tls_has_input(session))
        code = read_whole(session, to, cap, total);
    while (code == TLS_WANT && !*is_drained &&
           (*total > 0 || nreads++ < MOST_READS)) {
        ssize_t got = recv(fd, raw, RAW, MSG_DONTWAIT);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN) {
            *is_drained = 1;
            break;
        }
        if (got <= 0) {
            session->is_at_end = 1;
            return 0;
        }
        session->raw = raw;
        session->raw_len = (size_t)got;
        code = read_whole(session, to, cap, total);
        /* Without an octet it is a part of a record: its rest, or the end,
         * may have come with the same edge. */
        *is_drained = got<RAW && * total> 0;
    }
    return code;
}

ssize_t tls_receive(tls_session *session, int fd, char *to, size_t cap,
                    int *is_full)
{
    char raw[RAW];
    size_t total = 0;
    int is_drained = 0, is_sent;
    int code = receive_whole(session, fd, raw, to, cap, &total, &is_drained);

    if (session->raw_len > 0 &&
        tls_feed(session, session->raw, (uint32_t)session->raw_len) != 0)
        session->is_broken = 1;
    session->raw = NULL;
    session->raw_len = 0;
    is_sent = tls_flush(session, fd);
    if (is_sent == 0 && tls_out_len(session) > MOST_REPLIES) {
        session->is_broken = 1;
        errno = EPROTO;
        return -1;
    }
    *is_full = !is_drained || is_sent != 1 || tls_has_input(session);
    if (total > 0)
        return (ssize_t)total;
    if (code == 0)
        return 0;
    errno = code == TLS_WANT && is_sent == 1 ? EAGAIN : EPROTO;
    return -1;
}

/* The octets of a record, from parts that begin `skipped` octets in: copied to
 * `record` where several parts share it.  Returns how many. */
static size_t gather(char *record, const struct iovec *parts, int count,
                     size_t skipped, const char **from)
{
    size_t n = 0;

    *from = record;
    for (int i = 0; i < count && n < RECORD; i++) {
        size_t len = parts[i].iov_len;
        size_t at = skipped < len ? skipped : len;
        const char *octets;

        skipped -= at;
        if (at == len)
            continue;
        octets = (const char *)parts[i].iov_base + at;
        if (n == 0 && len - at >= RECORD) {
            *from = octets;
            return RECORD;
        }
        n += take(record + n, RECORD - n, octets, len - at);
    }
    return n;
}

int64_t tls_push(tls_session *session, int fd, const char *from, uint32_t len)
{
    struct iovec part = {(void *)(uintptr_t)from, len};
    ssize_t taken = tls_send(session, fd, &part, 1, 0);

    if (taken < 0)
        return session->is_broken ? TLS_FAILED : TLS_GONE;
    return taken;
}

ssize_t tls_send(tls_session *session, int fd, const struct iovec *parts,
                 int count, int is_last)
{
    char record[RECORD];
    const char *from;
    size_t whole = 0, taken = 0, n;
    int is_sent = send_out(session, fd);

    for (int i = 0; i < count; i++)
        whole += parts[i].iov_len;
    while (is_sent == 1 &&
           (n = gather(record, parts, count, taken, &from)) > 0) {
        if (tls_write(session, from, (uint32_t)n) < 0) {
            errno = EPIPE;
            return -1;
        }
        taken += n;
        if (is_last && taken == whole) /* the same send has the alert */
            tls_shut(session);
        /* A short last record goes with those before. */
        if (taken == whole ||
            (tls_out_len(session) >= MOST_OUT && whole - taken >= RECORD))
            is_sent = send_out(session, fd);
    }
    if (is_sent == 1)
        is_sent = tls_flush(session, fd);
    return is_sent < 0 ? -1 : (ssize_t)taken;
}

#endif
