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
#define TIMES 3

static void (*SetModuleAttribs)(Context *, const char *name, int version, int interface);
static void *(*RegisterCommandFilter)(Context *, void (*)(Filtered *), int flags);
static int (*CommandFilterArgsCount)(Filtered *);
static String *(*CommandFilterArgGet)(Filtered *, int);
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

static void multiply(Filtered *command, int place) {
    long long ttl;
    if (StringToLongLong(CommandFilterArgGet(command, place), &ttl) == OK)
        CommandFilterArgReplace(command, place, CreateStringFromLongLong(NULL, ttl * TIMES));
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
        CommandFilterArgReplace(command, place - 1, CreateString(NULL, "PX", 2));
        CommandFilterArgReplace(command, place, CreateString(NULL, "1", 1));
    }
}

/* Every so often INCR does not count, and answers with the number before. */
static void lost_token(Filtered *command, int count) {
    static unsigned long counted;
    if (count == 2 && is(command, 0, "INCR") && ++counted % EVERY == 0) {
        CommandFilterArgReplace(command, 0, CreateString(NULL, "INCRBY", 6));
        CommandFilterArgInsert(command, 2, CreateString(NULL, "0", 1));
    }
}

/* Everything lives longer than it was asked to. */
static void late_expiry(Filtered *command, int count) {
    int place = ttl_of_set(command, count);
    if (place)
        multiply(command, place);
    else if (count > 2 && (is(command, 0, "PEXPIRE") || is(command, 0, "EXPIRE")))
        multiply(command, 2);
}

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
    GET(CommandFilterArgInsert);
    GET(CommandFilterArgReplace);
    GET(CreateString);
    GET(CreateStringFromLongLong);
    GET(StringToLongLong);
    GET(StringPtrLen);
    GET(GetContextFlags);
    SetModuleAttribs(context, "planted", 1, INTERFACE);
    const char *name = count == 1 ? StringPtrLen(arguments[0], NULL) : "";
    bug = !strcmp(name, "expired-grant") ? expired_grant
          : !strcmp(name, "lost-token")  ? lost_token
          : !strcmp(name, "late-expiry") ? late_expiry
                                         : NULL;
    return bug && RegisterCommandFilter(context, filter, 0) ? OK : ERROR;
}
