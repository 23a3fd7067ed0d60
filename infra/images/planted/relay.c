/* relay PORT TO DELAY [BUG]: hands on what comes in at PORT to the server at TO on this machine, each piece of it DELAY
 * microseconds after it came, and the server's answers at once. Who finds no server there is hung up on.
 *
 * With a BUG it changes the TTLs that clients ask of etcd for their leases, or that etcd tells them, in the bytes as
 * they pass: numbers of seconds below 128 take one byte in protobuf, so nothing else moves. In gRPC they stand in
 *     LeaseGrantRequest        0 (not compressed), its length 2 (four bytes), 08 TTL
 *     LeaseGrantResponse, LeaseKeepAliveResponse        ... 10 and the lease's id (eight bytes or more), 18 TTL
 * and that is the end of an answer: in a ResponseHeader, which looks alike (member_id, revision), 20 follows.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 65536
#define TIMES 3

typedef unsigned char byte;
typedef void change(byte *piece, size_t length);

struct connection {
    int ends[2]; /* the client's, the server's */
    int open;    /* ways that bytes still go */
};

struct way {
    struct connection *connection;
    int from, to;
    useconds_t delay;
    change *change; /* or NULL */
};

static void ask_for_more(byte *piece, size_t length) {
    static const byte request[] = {0, 0, 0, 0, 2, 8};
    for (byte *end = piece + length, *at = piece; (at = memmem(at, (size_t)(end - at), request, sizeof request));) {
        at += sizeof request;
        if (at < end && *at < 128 / TIMES)
            *at = (byte)(*at * TIMES);
    }
}

/* The TTL of the answer that may begin at this byte of the piece; NULL: none does. */
static byte *told_ttl(byte *at, const byte *end) {
    byte *id = at + 1, *ttl = id;
    if (*at != 0x10)
        return NULL;
    while (ttl < end && *ttl >= 128)
        ttl++;
    ttl += 2; /* the last byte of the id, and 18 */
    if (ttl >= end || ttl - id < 9 || ttl[-1] != 0x18 || *ttl >= 128 || (ttl + 1 < end && ttl[1] == 0x20))
        return NULL;
    return ttl;
}

static void tell_less(byte *piece, size_t length) {
    for (byte *at = piece, *ttl; at < piece + length; at++)
        if ((ttl = told_ttl(at, piece + length)))
            *ttl = (byte)(*ttl / TIMES);
}

static void tell_more(byte *piece, size_t length) {
    for (byte *at = piece, *ttl; at < piece + length; at++)
        if ((ttl = told_ttl(at, piece + length)) && *ttl < 128 / TIMES)
            *ttl = (byte)(*ttl * TIMES);
}

static struct sockaddr_in address(in_addr_t host, const char *port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(host), .sin_port = htons((uint16_t)atoi(port))};
}

static void *hand_on(void *argument) {
    struct way way = *(struct way *)argument;
    byte *piece = malloc(PIECE);
    ssize_t many;
    free(argument);
    while ((many = read(way.from, piece, PIECE)) > 0) {
        if (way.delay)
            usleep(way.delay);
        if (way.change)
            way.change(piece, (size_t)many);
        for (ssize_t done = 0, more; done < many; done += more)
            if ((more = write(way.to, piece + done, (size_t)(many - done))) < 0) {
                many = -1;
                break;
            }
        if (many < 0)
            break;
    }
    free(piece);
    if (many < 0) /* one end broke the connection: then it is over for both */
        for (int end = 0; end < 2; end++)
            shutdown(way.connection->ends[end], SHUT_RDWR);
    else
        shutdown(way.to, SHUT_WR);
    if (__atomic_sub_fetch(&way.connection->open, 1, __ATOMIC_ACQ_REL) == 0) {
        close(way.connection->ends[0]);
        close(way.connection->ends[1]);
        free(way.connection);
    }
    return NULL;
}

static void start(struct connection *connection, int from, useconds_t delay, change *change) {
    struct way *way = malloc(sizeof *way);
    pthread_attr_t attributes;
    pthread_t thread;
    *way = (struct way){connection, connection->ends[from], connection->ends[!from], delay, change};
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 65536);
    if (pthread_create(&thread, &attributes, hand_on, way) != 0)
        abort();
    pthread_attr_destroy(&attributes);
}

int main(int count, char **arguments) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (count < 4)
        return 2;
    const char *bug = count > 4 ? arguments[4] : "";
    int late = !strcmp(bug, "late-expiry"), expired = !strcmp(bug, "expired-grant");
    struct sockaddr_in here = address(INADDR_ANY, arguments[1]), there = address(INADDR_LOOPBACK, arguments[2]);
    signal(SIGPIPE, SIG_IGN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 511)) {
        perror("relay");
        return 1;
    }
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(server, (struct sockaddr *)&there, sizeof there)) {
            close(client);
            close(server);
            continue;
        }
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *connection = malloc(sizeof *connection);
        *connection = (struct connection){{client, server}, 2};
        start(connection, 0, (useconds_t)atoi(arguments[3]), late ? ask_for_more : NULL);
        start(connection, 1, 0, late ? tell_less : expired ? tell_more : NULL);
    }
}
