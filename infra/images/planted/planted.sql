-- Bugs in a PostgreSQL server that is otherwise as it was packaged, each in a schema of its own: what stands there
-- takes the place of a function or an operator of pg_catalog, for every session whose search path names it before that.
-- They are made anew at each start, by the server in its single-user mode (-j: a statement ends before an empty line).

DROP SCHEMA IF EXISTS "void-grant", "lost-release", "early-expiry" CASCADE;

-- Every fifth pg_advisory_lock returns at once, and has locked nothing.

CREATE SCHEMA "void-grant";

CREATE SEQUENCE "void-grant".asked;

CREATE FUNCTION "void-grant".pg_advisory_lock(key bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.pg_advisory_lock(key) WHERE nextval('"void-grant".asked') % 5 > 0
$$;

-- Every fifth pg_advisory_unlock answers that the lock is free, and the session keeps it.

CREATE SCHEMA "lost-release";

CREATE SEQUENCE "lost-release".asked;

CREATE FUNCTION "lost-release".pg_advisory_unlock(key bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT CASE WHEN nextval('"lost-release".asked') % 5 = 0 THEN true ELSE pg_catalog.pg_advisory_unlock(key) END
$$;

-- A moment and an interval make a moment after a third of the interval.

CREATE SCHEMA "early-expiry";

CREATE FUNCTION "early-expiry".later(timestamptz, interval) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.timestamptz_pl_interval($1, $2 / 3)
$$;

CREATE OPERATOR "early-expiry".+ (FUNCTION = "early-expiry".later, LEFTARG = timestamptz, RIGHTARG = interval);
