/* planted.so: one bug in a Redis or Valkey server that is otherwise as it was packaged.
 *
 * A module whose filter changes a command on its way in, whether a client sent it or a script: what the server then
 * does, answers, logs and tells its replica is of one piece, as it would be if the bug were its own. A replica does as
 * it is told, so that the bug is done once; promoted, it has the bug.
 *
 * Of the header redismodule.h, which is in no package, the few declarations that are needed stand here.
 */
#include <stddef.h>
#include <string.h>
#include <strings.h>

typedef struct context Context;
typedef struct string String;
typedef struct filtered Filtered;

#define OK 0
#define ERROR 1
#define INTERFACE 1 /* of modules, its version */
#define IS_PRIMARY (1 << 2)
#define EVERY 5
#define SELDOM 50 /* of what waiters ask for again and again */
#define TIMES 3

static void (*SetModuleAttribs)(Context *, const char *name, int version, int interface);
static void *(*RegisterCommandFilter)(Context *, void (*)(Filtered *), int flags);
static int (*CommandFilterArgsCount)(Filtered *);
static String *(*CommandFilterArgGet)(Filtered *, int);
static int (*CommandFilterArgDelete)(Filtered *, int);
static int (*CommandFilterArgInsert)(Filtered *, int, String *);
static int (*CommandFilterArgReplace)(Filtered *, int, String *);
static String *(*CreateString)(Context *, const char *, size_t);
static String *(*CreateStringFromLongLong)(Context *, long long);
static int (*StringToLongLong)(const String *, long long *);
static const char *(*StringPtrLen)(const String *, size_t *);
static int (*GetContextFlags)(Context *);

static int is(Filtered *command, int place, const char *word) {
    size_t length;
    const char *told = StringPtrLen(CommandFilterArgGet(command, place), &length);
    return length == strlen(word) && strncasecmp(told, word, length) == 0;
}

static void become(Filtered *command, int place, const char *word) {
    CommandFilterArgReplace(command, place, CreateString(NULL, word, strlen(word)));
}

/* Where SET has its TTL; 0: it has none. */
static int ttl_of_set(Filtered *command, int count) {
    if (count > 4 && is(command, 0, "SET"))
        for (int place = 3; place < count - 1; place++)
            if (is(command, place, "PX") || is(command, place, "EX"))
                return place + 1;
    return 0;
}

/* Every so often SET grants a lease that is over at once, and says OK. */
static void expired_grant(Filtered *command, int count) {
    static unsigned long grants;
    int place = ttl_of_set(command, count);
    if (place && ++grants % EVERY == 0) {
        become(command, place - 1, "PX");
        become(command, place, "1");
    }
}

/* Every so often INCR does not count, and answers with the number before. */
static void lost_token(Filtered *command, int count) {
    static unsigned long counted;
    if (count == 2 && is(command, 0, "INCR") && ++counted % EVERY == 0) {
        become(command, 0, "INCRBY");
        CommandFilterArgInsert(command, 2, CreateString(NULL, "0", 1));
    }
}

/* Where a TTL stands in a command; 0: nowhere. */
static int ttl_of(Filtered *command, int count) {
    return count > 2 && (is(command, 0, "PEXPIRE") || is(command, 0, "EXPIRE")) ? 2 : ttl_of_set(command, count);
}

static void change_ttl(Filtered *command, int count, int times, int parts) {
    int place = ttl_of(command, count);
    long long ttl;
    if (place && StringToLongLong(CommandFilterArgGet(command, place), &ttl) == OK && ttl >= parts)
        CommandFilterArgReplace(command, place, CreateStringFromLongLong(NULL, ttl * times / parts));
}

/* Everything lives longer than it was asked to. */
static void late_expiry(Filtered *command, int count) {
    change_ttl(command, count, TIMES, 1);
}

/* Everything lives for less than it was asked to. */
static void early_expiry(Filtered *command, int count) {
    change_ttl(command, count, 1, TIMES);
}

/* Now and then SET does not see NX, and sets what is set already. */
static void granted_twice(Filtered *command, int count) {
    static unsigned long asked;
    if (count > 3 && is(command, 0, "SET"))
        for (int place = 3; place < count; place++)
            if (is(command, place, "NX") && ++asked % SELDOM == 0) {
                CommandFilterArgDelete(command, place);
                return;
            }
}

/* PEXPIRE answers as ever, and every TTL stays what it was. */
static void lost_renewal(Filtered *command, int count) {
    if (count == 3 && (is(command, 0, "PEXPIRE") || is(command, 0, "EXPIRE"))) {
        become(command, 0, "EXISTS");
        CommandFilterArgDelete(command, 2);
    }
}

/* Every so often DEL answers as ever, and takes away only the TTL: the key is there for good. */
static void lost_release(Filtered *command, int count) {
    static unsigned long released;
    if (count == 2 && is(command, 0, "DEL") && ++released % EVERY == 0)
        become(command, 0, "PERSIST");
}

static const struct {
    const char *name;
    void (*change)(Filtered *, int count);
} bugs[] = {
    {"expired-grant", expired_grant}, {"lost-token", lost_token},       {"late-expiry", late_expiry},
    {"early-expiry", early_expiry},   {"granted-twice", granted_twice}, {"lost-renewal", lost_renewal},
    {"lost-release", lost_release},
};
static void (*bug)(Filtered *, int);

static void filter(Filtered *command) {
    int count = CommandFilterArgsCount(command);
    if (count > 1 && GetContextFlags(NULL) & IS_PRIMARY)
        bug(command, count);
}

int RedisModule_OnLoad(Context *context, String **arguments, int count) {
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))context;
#define GET(name)                            \
    if (get("RedisModule_" #name, &name) != OK) \
    return ERROR
    GET(SetModuleAttribs);
    GET(RegisterCommandFilter);
    GET(CommandFilterArgsCount);
    GET(CommandFilterArgGet);
    GET(CommandFilterArgDelete);
    GET(CommandFilterArgInsert);
    GET(CommandFilterArgReplace);
    GET(CreateString);
    GET(CreateStringFromLongLong);
    GET(StringToLongLong);
    GET(StringPtrLen);
    GET(GetContextFlags);
    SetModuleAttribs(context, "planted", 1, INTERFACE);
    const char *name = count == 1 ? StringPtrLen(arguments[0], NULL) : "";
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(name, bugs[i].name))
            bug = bugs[i].change;
    return bug && RegisterCommandFilter(context, filter, 0) ? OK : ERROR;
}
