/* relay PORT TO DELAY [BUG]: hands on what comes in at PORT to the server at TO on this machine, each piece of it DELAY
 * microseconds after it came, and the server's answers at once. Who finds no server there is hung up on.
 *
 * With a BUG it changes single bytes of what clients ask, or of what the server tells them, as they pass: nothing else
 * moves. Of etcd's numbers those below 128 take one byte, as protobuf has it. TTLs, in seconds, stand in gRPC in
 *     LeaseGrantRequest        0 (not compressed), its length 2 (four bytes), 08 TTL
 *     LeaseGrantResponse, LeaseKeepAliveResponse        ... 10 and the lease's id (eight bytes or more), 18 TTL
 * and that is the end of an answer: in a ResponseHeader, which looks alike (member_id, revision), 20 follows.
 * In transactions stand, where n is the length of a key,
 *     Compare, whether the key was never created        ... 10 01, 1A n key, 28 0
 *     RequestOp, a deletion of the key                  12 n+4, 1A n+2, 0A n key
 *     PutRequest                                        0A n key, 12 and its value, if any, 18 and the lease's id
 * Of ZooKeeper a request has its length, its number (above 0) and its type before it, each of four bytes, the highest
 * first; that of a new node ends with its kind: 1 and 3 go with their session, 0 and 2 stay.
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
#define EVERY 5
#define TIMES 3
#define LONGEST 10 /* a larger number in the place of a TTL that is asked for is the revision of a HashKVRequest */

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
        if (at < end && *at <= LONGEST)
            *at = (byte)(*at * TIMES);
    }
}

/* What follows the id of a lease that begins at this byte of the piece; NULL: none does. */
static byte *after_id(byte *at, const byte *end) {
    byte *last = at;
    while (last < end && *last >= 128)
        last++;
    return last < end && last - at >= 7 ? last + 1 : NULL;
}

/* The TTL of the answer that may begin at this byte of the piece; NULL: none does. */
static byte *told_ttl(byte *at, const byte *end) {
    byte *ttl = *at == 0x10 ? after_id(at + 1, end) : NULL;
    if (!ttl || ++ttl >= end || ttl[-1] != 0x18 || *ttl >= 128 || (ttl + 1 < end && ttl[1] == 0x20))
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

/* Whether it is the turn of the bug, which is done every so often. */
static int turn(void) {
    static unsigned long asked;
    return __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) % EVERY == 0;
}

/* Make a key, of n bytes that follow this one, one that nobody has. */
static void misname(byte *n) {
    n[*n] = 0xFF;
}

/* Of a transaction that is done if a key was never created: it is done. */
static void never_created(byte *piece, size_t length) {
    static const byte compare[] = {0x10, 1, 0x1A};
    for (byte *end = piece + length, *n = piece; (n = memmem(n, (size_t)(end - n), compare, sizeof compare));) {
        n += sizeof compare;
        if (end - n > 2 && *n && end - n > *n + 2 && n[*n + 1] == 0x28 && n[*n + 2] == 0 && turn())
            misname(n);
    }
}

/* Of a transaction that deletes a key: all is done and answered, and the key is there. */
static void do_not_delete(byte *piece, size_t length) {
    for (byte *end = piece + length, *at = piece; end - at > 6; at++) {
        byte *n = at + 5;
        if (at[0] == 0x12 && at[1] == *n + 4 && at[2] == 0x1A && at[3] == *n + 2 && at[4] == 0x0A)
            if (*n && end - n > *n && turn())
                misname(n);
    }
}

/* Of a key that is put under a lease: the lease becomes a field that etcd does not know, and skips. */
static void put_without_lease(byte *piece, size_t length) {
    for (byte *at = piece; at < piece + length; at++)
        if (*at == 0x18 && after_id(at + 1, piece + length))
            *at = 0x78;
}

/* Of a node of ZooKeeper that should go with its session: it is made as one that stays. */
static void make_it_stay(byte *piece, size_t length) {
    enum { CREATE = 1, CREATE2 = 15 };
    int32_t ahead[3]; /* the length of what follows it, number, type */
    for (byte *end = piece + length, *at = piece; end - at >= (ssize_t)sizeof ahead; at += sizeof *ahead + ahead[0]) {
        memcpy(ahead, at, sizeof ahead);
        for (int i = 0; i < 3; i++)
            ahead[i] = (int32_t)ntohl((uint32_t)ahead[i]);
        if (ahead[0] < 8 || ahead[0] > end - at - (ssize_t)sizeof *ahead)
            return;
        byte *kind = at + sizeof *ahead + ahead[0] - 1;
        if (ahead[1] > 0 && (ahead[2] == CREATE || ahead[2] == CREATE2) && (*kind == 1 || *kind == 3))
            *kind -= 1;
    }
}

static const struct {
    const char *name;
    change *asked, *told;
} bugs[] = {
    {"expired-grant", NULL, tell_more},
    {"late-expiry", ask_for_more, tell_less},
    {"ignored-compare", never_created, NULL},
    {"lost-deletion", do_not_delete, NULL},
    {"leaked-lease", put_without_lease, NULL},
    {"leaked-node", make_it_stay, NULL},
};

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
    change *asked = NULL, *told = NULL;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(bug, bugs[i].name)) {
            asked = bugs[i].asked;
            told = bugs[i].told;
        }
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
        start(connection, 0, (useconds_t)atoi(arguments[3]), asked);
        start(connection, 1, 0, told);
    }
}
