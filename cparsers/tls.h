/* tls.h -- TLS sessions whose records come from a buffer, and go to one.
 * The functions are those of the libssl that the interpreter's own ssl module
 * uses, found by name (tls_open): nothing of OpenSSL is linked, or needed when
 * this is built.  Contexts and sessions are made by OpenSSL's public functions
 * alone.  A session is the same on the event loop and in the lane, and goes
 * from one to the other as a pointer.
 * A session belongs to one thread at a time; contexts: any thread.
 * Linux only; elsewhere tls_open finds nothing.
 * Spec: RFC 8446 sections 5.1 (records) and 6.1 (closure). */
#ifndef ASERVE_TLS_H
#define ASERVE_TLS_H
#include <stdint.h>
/* cdef:begin */

/* Results of tls_read, tls_write, tls_shake and tls_greet. */
enum {
    TLS_WANT = -1,   /* more of the client's records are needed */
    TLS_FAILED = -2, /* the session is broken: see tls_why */
    TLS_GONE = -3    /* the client is gone */
};

typedef struct tls_context tls_context;
typedef struct tls_session tls_session;

/* Find the functions in the shared object at `path`, or in those that it
 * depends on.  Returns NULL, or the name of the first that is missing.  Call
 * it before all others, and in one thread. */
const char *tls_open(const char *path);

/* Make a context of PEM files.  `minimum`: a version as records have it,
 * `options`: SSL_OP_..., `protocols`: for ALPN, the preferred one first, each
 * behind its length (RFC 7301 3.1), 255 octets at most.  Returns NULL when
 * OpenSSL takes one of them not. */
tls_context *tls_context_new(const char *chain, const char *key,
                             const char *ciphers, uint32_t minimum,
                             uint64_t options, const char *protocols,
                             uint32_t protocols_len);

/* Give a context up; its sessions keep what they need. */
void tls_context_free(tls_context *context);

/* Have one more owner of a context, who gives it up, too. */
void tls_context_share(tls_context *context);

/* Begin a session, as its server.  NULL: no memory. */
tls_session *tls_begin(tls_context *context);

/* Free a session; nothing is sent. */
void tls_end(tls_session *session);

/* Take octets that the client has sent.  Returns 0; -1: no memory. */
int tls_feed(tls_session *session, const char *octets, uint32_t len);

/* Go on with the handshake.  Returns 1 when it is done. */
int tls_shake(tls_session *session);

/* The client's octets while nothing is answered, for tls_greet alone: another
 * session may begin with them. */
const char *tls_hello(const tls_session *session);
uint32_t tls_hello_len(const tls_session *session);

/* Decrypt until there is no more, or no room.  Returns octets; 0: the client's
 * closure alert. */
int tls_read(tls_session *session, char *to, uint32_t cap);

/* Encrypt all of it.  Returns len. */
int tls_write(tls_session *session, const char *from, uint32_t len);

/* Encrypt and send as much of it as the socket takes; up to 4 records more are
 * kept in the session.  Returns how many octets were taken; TLS_GONE;
 * TLS_FAILED. */
int64_t tls_push(tls_session *session, int fd, const char *from, uint32_t len);

/* Announce the end of our octets. */
void tls_shut(tls_session *session);

/* Whether there is something to read without a further octet of the client's:
 * octets, a record that has come and is not decrypted, the end. */
int tls_has_input(const tls_session *session);

/* The records that are still to be sent, and how many octets that is. */
const char *tls_out(const tls_session *session);
uint32_t tls_out_len(const tls_session *session);

/* These have been sent. */
void tls_clear_out(tls_session *session);

/* What is known of a session.  tls_why: why it is broken, in OpenSSL's words;
 * tls_alpn: the length of the name that ALPN has chosen, which `to` gets. */
const char *tls_why(const tls_session *session);
const char *tls_version(const tls_session *session);
const char *tls_cipher(const tls_session *session);
uint32_t tls_alpn(const tls_session *session, char *to, uint32_t cap);

/* cdef:end */

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Read once, go on with the handshake, and send.  Returns as tls_shake.  What
 * fails before anything is sent, is not sent.  TLS_FAILED of a session that is
 * not broken: the event loop must go on. */
int tls_greet(tls_session *session, int fd);

/* As recv(), with decrypted octets; errno EPROTO: the session is broken, or its
 * own records wait for the client, and the event loop must go on.  *is_full:
 * octets may be left behind. */
ssize_t tls_receive(tls_session *session, int fd, char *to, size_t cap,
                    int *is_full);

/* Encrypt and send as much as the socket takes; up to 4 records more are kept
 * in the session.  is_last: announce the end behind them.  Returns how many
 * octets were taken of the parts; -1 with errno: the client is gone. */
ssize_t tls_send(tls_session *session, int fd, const struct iovec *parts,
                 int count, int is_last);

/* Send what is kept.  Returns 1: all is sent; 0: not all; -1: with errno. */
int tls_flush(tls_session *session, int fd);

#endif
